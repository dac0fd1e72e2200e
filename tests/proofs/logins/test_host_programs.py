"""Cures of programs that run scripts on a host are followed on a real sshd."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from gpu_cluster.desired.host import Target
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.rollout import Phase, RolledHost, RolloutRequest
from gpu_cluster.hosts.reboot import reboot
from gpu_cluster.kubernetes.api import Client
from gpu_cluster.loading.loader import load
from gpu_cluster.rollout.rollout import RolloutRun
from gpu_rules.faults import Fault
from tests.fixtures.api import client
from tests.fixtures.documents import KEYS, stack_document
from tests.proofs.advice.api import Objects, node
from tests.proofs.advice.following import follow_cure
from tests.proofs.advice.rows import Record
from tests.proofs.hosts.machine import Running
from tests.proofs.logins.rig import NAME, Rig, situation

pytestmark = [pytest.mark.slow, pytest.mark.advice("several")]
HOST = {"name": NAME, "address": "192.0.2.1", "hostKey": KEYS[0]}


@pytest.fixture
def place(debian: Running) -> Iterator[tuple[Rig, Target]]:
    """Return a host with an sshd, and the target of a login to it."""
    with situation(debian) as rig:
        yield rig, rig.target(rig.sshd("programs"))


def _done(rig: Rig, command: str, check: Callable[[], list[Fault]]) -> Callable[[], list[Fault]]:
    """Return a check that runs after a command on the host."""

    def cured() -> list[Fault]:
        rig.run(command)
        return check()

    return cured


def _rolled(rig: Rig, target: Target, script: str) -> list[Fault]:
    """Run a script of a rollout."""
    document = stack_document(hosts=[HOST])
    desired = resolve(load(document), "dev")
    prepare = Phase(name="prepare", script=script, lines={"apply": "sh -s"})
    host = RolledHost(
        target=target,
        prepare=prepare,
        runtime=None,
        has_gpus=False,
        upgrade=desired.hosts[0].upgrade,
    )
    request = RolloutRequest(
        rollout=desired.rollout,
        hosts=(host,),
        operands=desired.operands,
        pools={},
        private_key=rig.host.key,
    )
    asyncio.run(RolloutRun(client(Objects()), request).script(host, prepare, "apply"))
    return []


def test_what_a_script_names_is_corrected(
    place: tuple[Rig, Target], record_property: Record
) -> None:
    rig, target = place
    script = "[ -e /run/mended ] || { echo 'error: no file /run/mended' >&2; exit 3; }\n"

    def check() -> list[Fault]:
        return _rolled(rig, target, script)

    cured = _done(rig, "touch /run/mended", check)
    follow_cure("correct what the output names", check, cured, record_property)


def test_a_host_of_a_rollout_is_reached(place: tuple[Rig, Target], record_property: Record) -> None:
    rig, target = place
    away = replace(target, port=rig.sshd("away"))
    rig.stop("away")

    def cured() -> list[Fault]:
        rig.start("away", away.port)
        return _rolled(rig, away, ":\n")

    follow_cure(
        "start the host or its sshd", lambda: _rolled(rig, away, ":\n"), cured, record_property
    )


def _node(rig: Rig, target: Target, of_cluster: Client | None = None) -> list[Fault]:
    asyncio.run(reboot.node_of(of_cluster, target, rig.host.key))
    return []


def test_a_node_is_drained_by_a_context_of_its_cluster(
    place: tuple[Rig, Target], record_property: Record
) -> None:
    rig, target = place
    rig.run(f"mkdir -p /etc/kubernetes; touch {reboot.KUBELET}")
    rig.cleanup.callback(rig.run, f"rm {reboot.KUBELET}")
    objects = Objects({f"/api/v1/nodes/{NAME}": node(NAME)})
    follow_cure(
        "pulumi stack output --show-secrets kubeconfig",
        lambda: _node(rig, target),
        lambda: _node(rig, target, client(objects)),
        record_property,
    )


def test_a_host_with_a_boot_id_is_rebooted(
    place: tuple[Rig, Target], record_property: Record
) -> None:
    rig, target = place

    def check(before: str) -> list[Fault]:
        # Nothing reboots: the host has another boot id than the earlier one.
        asyncio.run(reboot.restart(target, rig.host.key, before, 5))
        return []

    follow_cure(
        "check /proc on the host's console",
        lambda: check(""),
        lambda: check("an-earlier-boot"),
        record_property,
    )
