"""Each failed login names its stage, who refused, the host's words and a cure of that stage."""

from __future__ import annotations

import asyncio
import re

import pytest

from gpu_cluster.desired.host import Target
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.observed.inspect import observe_hosts
from gpu_cluster.ssh.upload import UploadLimits, upload
from tests.proofs.logins import rig as rigs
from tests.proofs.logins.rig import Rig
from tests.proofs.logins.situations import HEALED, SITUATIONS, Situation

pytestmark = pytest.mark.slow
ONE_TRY = UploadLimits(dials=1, copying=60)
PROBING = 60
"""Seconds for the probe on a busy machine."""


def facts_of(rig: Rig, target: Target) -> HostFacts:
    """Return what the inspection finds out about a host."""
    return asyncio.run(observe_hosts([target], rig.host.key, PROBING))[target.name]


@pytest.mark.promise(
    "A login that fails names its stage, the host or bastion that refused, the host's own words, "
    "and a cure of that stage."
)
@pytest.mark.parametrize(
    "expected",
    [
        pytest.param(each, id=each.name, marks=pytest.mark.logins("situation", each.name))
        for each in SITUATIONS
    ],
)
def test_a_failed_login_names_its_stage(expected: Situation, rig: Rig) -> None:
    target = getattr(rigs, expected.name)(rig)
    facts = facts_of(rig, target)
    server = target.bastion if expected.at == "bastion" else target
    assert server is not None
    place = f"as {server.user} at {expected.at} {server.address}:{server.port}"
    assert facts.error.startswith(f"no login {place}, stage {expected.stage}: ")
    if expected.words:
        assert re.search(rf"; it printed: .*({expected.words})", facts.error), facts.error
    assert re.search(expected.cure, facts.cure), facts.cure
    assert facts.error.isprintable()
    # The upload before a run's change names the same stage and cure.
    fault = asyncio.run(upload(target, rig.host.key, {}, ONE_TRY, asyncio.Semaphore(1)))
    assert fault is not None
    assert f"stage {expected.stage}: " in fault.found
    assert fault.cure == facts.cure


@pytest.mark.promise("A login that a second try heals is tried again.")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.logins("healed", name)) for name in HEALED]
)
def test_a_second_try_heals(name: str, rig: Rig) -> None:
    target = getattr(rigs, name)(rig)
    facts = facts_of(rig, target)
    assert (facts.error, facts.os) == ("", "debian")


@pytest.mark.promise("A host whose logins take long is managed if `perDialTimeoutSeconds` allows.")
@pytest.mark.parametrize("seconds", [pytest.param(12, id="slow")])
def test_a_slow_host_is_managed(seconds: int, rig: Rig) -> None:
    pam = f"account required pam_exec.so /bin/sleep {seconds}\n{rigs.PAM}"
    port = rig.sshd("patient", pam=pam)
    target = rig.target(port, rig.user("patient"), ssh=rigs.limits(5 * seconds))
    assert facts_of(rig, target).error == ""
