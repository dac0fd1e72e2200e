"""One process looks at hosts and copies to them, over the same connections while they last."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from components.hosts import inspect, reach, visit
from components.hosts.script import step
from components.hosts.visit import Visit
from tests.hosts.conftest import start
from tests.hosts.machine import STEPS, Declared, Running

pytestmark = pytest.mark.slow

SWAP = step("swap")
LIMITS = {"dials": 1, "dial": 20, "copying": 20}


def document(host: Declared) -> dict[str, Any]:
    """A host as the program declares it to its process."""
    endpoint = {name: getattr(host, name) for name in ("address", "port", "user", "host_key")}
    bastion = document(host.bastion) if host.bastion else None
    named = {"name": host.name, "node": host.name, "role": "gpu-worker"}
    return {**endpoint, **named, "bastion": bastion}


async def look(made: Visit, key: str, *hosts: Declared) -> list[str]:
    """Looks at hosts; the errors."""
    question = {"hosts": [document(host) for host in hosts], "privateKey": key}
    found = await made.answer({"look": question})
    return [found["facts"][host.name]["error"] for host in hosts]


async def copy(made: Visit, key: str, host: Declared, **limits: float) -> str | None:
    """Copies a step to a host; the fault."""
    question = {
        "host": document(host),
        "privateKey": key,
        "files": {SWAP.file: SWAP.text},
        "limits": LIMITS | limits,
    }
    answer: dict[str, str | None] = await made.answer({"copy": question})
    return answer["fault"]


def has_it(host: Running) -> bool:
    return host.exists(str(STEPS / SWAP.file))


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hosts and bastions that were dialled."""
    seen: list[str] = []
    connect = reach.connect

    def dial(to: reach.Endpoint, *rest: Any) -> Any:
        seen.append(getattr(to, "name", "bastion"))
        return connect(to, *rest)

    for module in (reach, inspect):
        monkeypatch.setattr(module, "connect", dial)
    return seen


def test_a_copy_goes_over_the_connection_of_the_look(
    plain_host: Running, dialled: list[str]
) -> None:
    async def both() -> None:
        made, (key, host) = Visit(), (plain_host.key, plain_host.declared)
        assert await look(made, key, host) == [""]
        assert await copy(made, key, host) is None

    asyncio.run(both())
    assert has_it(plain_host)
    assert dialled == ["gpu-1"]


def test_a_copy_without_a_look_dials(plain_host: Running, dialled: list[str]) -> None:
    assert asyncio.run(copy(Visit(), plain_host.key, plain_host.declared)) is None
    assert has_it(plain_host)
    assert dialled == ["gpu-1"]


def test_a_host_that_is_declared_otherwise_is_dialled(
    plain_host: Running, dialled: list[str]
) -> None:
    """What was checked for one address, user and key holds for no other."""
    other = dataclasses.replace(plain_host.declared, user="somebody")

    async def both() -> None:
        made = Visit()
        await look(made, plain_host.key, plain_host.declared)
        await copy(made, plain_host.key, other)

    asyncio.run(both())
    assert dialled == ["gpu-1", "gpu-1"]


def test_the_way_through_a_bastion_lasts_as_long(cluster: str, namespaces: None) -> None:
    bastion, target = start(cluster, "bastion", "gpu-1", mode="namespaces")
    host = dataclasses.replace(target.declared, bastion=bastion.declared)

    async def both() -> None:
        made = Visit()
        assert await look(made, target.key, host) == [""]
        assert await copy(made, target.key, host) is None

    asyncio.run(both())
    assert has_it(target)
    assert (bastion.log_ins, target.log_ins) == (1, 1)


@pytest.mark.parametrize("how", ["closed", "lost"])
def test_a_connection_that_is_gone_is_made_anew(
    plain_host: Running, dialled: list[str], how: str
) -> None:
    """A reboot, a rollout that took long, a firewall that forgets."""

    async def both() -> None:
        made, (key, host) = Visit(), (plain_host.key, plain_host.declared)
        await look(made, key, host)
        kept = made._kept.to(reach.declared(document(host)))
        assert kept is not None
        if how == "closed":
            kept.abort()
            await kept.wait_closed()
        else:
            asyncio.get_running_loop().call_later(0.1, kept.abort)
        assert await copy(made, key, host) is None

    asyncio.run(both())
    assert has_it(plain_host)
    if how == "closed":
        assert dialled == ["gpu-1", "gpu-1"]


def test_a_connection_that_says_nothing_is_given_up_for_a_new_one(
    monkeypatch: pytest.MonkeyPatch, plain_host: Running, dialled: list[str]
) -> None:
    async def never(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    async def both() -> None:
        made, (key, host) = Visit(), (plain_host.key, plain_host.declared)
        await look(made, key, host)
        kept = made._kept.to(reach.declared(document(host)))
        assert kept is not None
        monkeypatch.setattr(kept, "create_process", never)
        assert await copy(made, key, host, dial=2) is None
        await kept.wait_closed()

    asyncio.run(both())
    assert has_it(plain_host)
    assert len(dialled) == 2


def test_a_host_that_takes_its_time_for_a_copy_is_waited_for(
    plain_host: Running, dialled: list[str]
) -> None:
    """Another run has the lock there; a second copy beside the first would wait for both."""
    held = "steps=$GPU_CLUSTER_ROOT/var/lib/gpu-cluster/steps; mkdir -p $steps; exec 9<$steps"
    plain_host.run(f"{held}; flock 9; (sleep 4) >/dev/null 2>&1 </dev/null &")

    async def both() -> None:
        made, (key, host) = Visit(), (plain_host.key, plain_host.declared)
        await look(made, key, host)
        assert await copy(made, key, host, dial=2) is None

    asyncio.run(both())
    assert has_it(plain_host)
    assert dialled == ["gpu-1"]


def test_a_fault_on_the_host_is_told_and_not_tried_again(
    plain_host: Running, dialled: list[str]
) -> None:
    plain_host.run(
        "mkdir -p $GPU_CLUSTER_ROOT/var/lib && touch $GPU_CLUSTER_ROOT/var/lib/gpu-cluster"
    )

    async def both() -> str | None:
        made, (key, host) = Visit(), (plain_host.key, plain_host.declared)
        await look(made, key, host)
        return await copy(made, key, host)

    fault = asyncio.run(both())
    assert "host gpu-1: found /var/lib/gpu-cluster/steps can't be written: " in str(fault)
    assert dialled == ["gpu-1"]


def test_a_connection_that_a_probe_key_opened_copies_nothing(
    monkeypatch: pytest.MonkeyPatch, plain_host: Running, dialled: list[str], tmp_path: Path
) -> None:
    """Such a key runs the host's own probe whatever it is given, and would call that a copy."""
    key = tmp_path / "key"
    key.write_text(plain_host.key)
    monkeypatch.setenv(inspect.PROBE_KEY_FILE, str(key))

    async def both() -> None:
        made = Visit()
        assert await look(made, "not read", plain_host.declared) == [""]
        assert await copy(made, plain_host.key, plain_host.declared) is None

    asyncio.run(both())
    assert has_it(plain_host)
    assert dialled == ["gpu-1", "gpu-1"]


def test_connections_end_some_time_after_the_look(
    monkeypatch: pytest.MonkeyPatch, plain_host: Running
) -> None:
    monkeypatch.setattr(visit, "KEPT_FOR", 0.1)

    async def both() -> None:
        made, host = Visit(), plain_host.declared
        await look(made, plain_host.key, host)
        kept = made._kept.to(reach.declared(document(host)))
        assert kept is not None
        await kept.wait_closed()
        assert made._kept.to(reach.declared(document(host))) is None

    asyncio.run(asyncio.wait_for(both(), 30))


def test_of_many_connections_some_are_kept(
    monkeypatch: pytest.MonkeyPatch, cluster: str, dialled: list[str]
) -> None:
    """A file descriptor each; the others end with the look."""
    monkeypatch.setattr(reach, "KEPT", 1)
    hosts = start(cluster, "gpu-1", "gpu-2", mode="plain")
    key, declared = hosts[0].key, [host.declared for host in hosts]
    opened: list[asyncssh.SSHClientConnection] = []
    run = inspect.run

    async def note(connection: asyncssh.SSHClientConnection, *rest: str) -> Any:
        opened.append(connection)
        return await run(connection, *rest)

    monkeypatch.setattr(inspect, "run", note)

    async def both() -> None:
        made = Visit()
        await look(made, key, *declared)
        assert sum(not connection.is_closed() for connection in opened) == 1
        for host in declared:
            assert await copy(made, key, host) is None

    asyncio.run(both())
    assert all(map(has_it, hosts))
    assert len(dialled) == 3
