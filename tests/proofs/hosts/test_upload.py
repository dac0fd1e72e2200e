"""The Pulumi hook that uploads step files to a real SSH server."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pulumi
import pytest

from gpu_cluster.hosts import copies
from gpu_cluster.settings.hosts.ssh import SshSettings
from gpu_cluster.ssh import client
from gpu_cluster.ssh.key_files import PROBE_KEY_FILE
from gpu_cluster.ssh.login import Endpoint
from tests.proofs.hosts.declared import step
from tests.proofs.hosts.machine import STEPS, Declared, Running, start

pytestmark = pytest.mark.slow

SWAP = step("swap")
LIMITS = {"dialErrorLimit": 1, "perDialTimeoutSeconds": 20, "commandTimeoutSeconds": 20}


def limited(host: Declared, **limits: int) -> Any:
    """Return a host with the given limits for its SSH connections."""
    keys = ("name", "node", "role", "address", "port", "user", "host_key", "bastion")
    ssh = SshSettings.model_validate({**LIMITS, **limits})
    fields = {key: getattr(host, key) for key in keys}
    return SimpleNamespace(**fields, ssh=ssh, login_seconds=ssh.per_dial_timeout_seconds)


@pytest.fixture(autouse=True)
def _in_an_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "before_changes", lambda *_: pulumi.ResourceHookBinding())
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)


def copy(key: str, *hosts: Declared, **limits: int) -> str:
    """Upload a step file to hosts, as Pulumi's hook does before a Command.

    Return the error text.
    """
    made = copies.Copies("steps", key)
    for host in hosts:
        made.want(limited(host, **limits), [SWAP])
    made.before("hosts", [host.name for host in hosts])
    args: Any = SimpleNamespace(name="hosts", old_inputs=None)
    try:
        asyncio.run(made._before(args))
    except pulumi.RunError as error:
        return str(error)
    return ""


def has_it(host: Running) -> bool:
    return host.exists(str(STEPS / SWAP.file))


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that records each host or bastion to which a connection is opened."""
    seen: list[str] = []
    connect = client.connect

    def dial(to: Endpoint, *rest: Any, **named: Any) -> Any:
        seen.append(getattr(to, "name", "bastion"))
        return connect(to, *rest, **named)

    monkeypatch.setattr(client, "connect", dial)
    return seen


def test_each_host_of_a_command_gets_the_files(cluster: str, dialled: list[str]) -> None:
    hosts = start(cluster, "gpu-1", "gpu-2", mode="plain")
    assert copy(hosts[0].key, *(host.declared for host in hosts)) == ""
    assert all(map(has_it, hosts))
    assert sorted(dialled) == ["gpu-1", "gpu-2"]


def test_a_copy_goes_through_the_bastion(cluster: str, namespaces: None) -> None:
    bastion, target = start(cluster, "bastion", "gpu-1", mode="namespaces")
    host = dataclasses.replace(target.declared, bastion=bastion.declared)
    assert copy(target.key, host) == ""
    assert has_it(target)
    assert (bastion.log_ins, target.log_ins) == (1, 1)


def test_a_host_that_takes_its_time_for_a_copy_is_waited_for(
    plain_host: Running, dialled: list[str]
) -> None:
    """An upload waits for the lock that another run holds on the host.

    A second upload must not start meanwhile, because it would wait for both.
    """
    held = "steps=$GPU_CLUSTER_ROOT/var/lib/gpu-cluster/steps; mkdir -p $steps; exec 9<$steps"
    plain_host.run(f"{held}; flock 9; (sleep 8) >/dev/null 2>&1 </dev/null &")
    assert copy(plain_host.key, plain_host.declared, perDialTimeoutSeconds=4) == ""
    assert has_it(plain_host)
    assert dialled == ["gpu-1"]


def test_a_fault_on_the_host_is_told_and_not_tried_again(
    plain_host: Running, dialled: list[str]
) -> None:
    plain_host.run(
        "mkdir -p $GPU_CLUSTER_ROOT/var/lib && touch $GPU_CLUSTER_ROOT/var/lib/gpu-cluster"
    )
    fault = copy(plain_host.key, plain_host.declared, dialErrorLimit=3)
    assert "host gpu-1: found /var/lib/gpu-cluster/steps can't be written: " in fault
    assert dialled == ["gpu-1"]


def test_a_private_key_that_cannot_be_read_is_told_without_it(plain_host: Running) -> None:
    fault = copy("canary-not-a-key", plain_host.declared, dialErrorLimit=3)
    assert "host gpu-1: found no login as root at host 127.0.0.1:" in fault
    assert "canary" not in fault


def test_a_copy_logs_in_with_the_stacks_key_where_a_probe_key_inspects(
    monkeypatch: pytest.MonkeyPatch, plain_host: Running, tmp_path: Path
) -> None:
    """Uploads log in with the stack's SSH key, even if a probe key is set for the inspection.

    With a probe key the host runs only the inspection, so a failed upload would look successful.
    """
    file = tmp_path / "key"
    file.write_text("a probe key")
    monkeypatch.setenv(PROBE_KEY_FILE, str(file))
    assert copy(plain_host.key, plain_host.declared) == ""
    assert has_it(plain_host)
