"""The inspection runs in parallel with the event loop of Pulumi's SDK, within time limits."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncssh
import pytest
import yaml

from gpu_cluster.change.document import Outcome
from gpu_cluster.change.lines import StackFile
from gpu_cluster.desired.kubeadm_cluster import DesiredKubeadmCluster
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.hosts import difference
from gpu_cluster.hosts.observed import inspect
from gpu_cluster.hosts.observed.inspect import observe_hosts
from gpu_cluster.inspection import bounds, observe
from gpu_cluster.inspection.bounds import bounded, completed
from gpu_cluster.inspection.extent import EXTENT, Extent
from gpu_cluster.inspection.judgement import Seen
from gpu_cluster.inspection.observed_cluster import ClusterSeen
from gpu_cluster.kubernetes.progress import made_progress, renewed_by_progress
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.hosts.kubeadm_init import Init
from gpu_rules.faults import FaultError
from tests.fixtures.documents import document
from tests.fixtures.kubeconfigs import kubeconfig

LIMIT = 60
"""Seconds after which an expected result counts as missing."""
KEY = asyncssh.generate_private_key("ssh-ed25519")


def looked(declared: Cluster, key: str, extent: Extent, *, there: bool = True) -> Seen:
    desired = resolve(declared, "test")
    question = desired.question if there else None
    return observe.observe(desired.hosts, desired.registries, question, key, extent)


async def answer(value: str) -> str:
    await asyncio.sleep(0)
    return value


async def fail(value: str) -> str:
    raise KeyError(value)


async def hang() -> str:
    await asyncio.Event().wait()
    return ""


def test_work_is_completed_while_the_sdks_loop_runs() -> None:
    async def program() -> str:
        return completed(answer("found"))

    assert asyncio.run(program()) == "found"
    with pytest.raises(KeyError):
        completed(fail("x"))


def test_a_part_that_fails_says_why_and_counts_as_nothing_found() -> None:
    assert completed(bounded("hosts", answer("a"), "")) == ("a", "")
    assert completed(bounded("hosts", fail("a\x1b"), "nothing")) == (
        "nothing",
        "the inspection of the hosts failed: KeyError: 'a\\x1b'",
    )


def test_a_part_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LIMIT", 0)
    assert completed(bounded("cluster", hang(), "nothing")) == (
        "nothing",
        "the inspection of the cluster took longer than 0 s",
    )


def test_a_limit_of_the_part_itself_is_a_failure_of_it() -> None:
    async def slow() -> str:
        async with asyncio.timeout(0):
            return await hang()

    (_, why) = completed(bounded("hosts", slow(), ""))
    assert why == "the inspection of the hosts failed: TimeoutError"


def test_a_result_does_not_wait_for_threads_that_hang() -> None:
    """A slow name server blocks a thread that can't be cancelled, as this test's thread does."""
    let_go = threading.Event()

    async def work() -> tuple[str, str]:
        return await bounded("hosts", asyncio.to_thread(lambda: str(let_go.wait(LIMIT))), "nothing")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bounds, "LIMIT", 0.1)
        found, _ = completed(work())
    assert (found, let_go.is_set()) == ("nothing", False)
    let_go.set()


@pytest.fixture
def silent() -> Iterator[int]:
    """Yield the port of a server that accepts connections and never responds."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


@pytest.fixture
def unanswered(silent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a stack whose API server and host accept connections and never respond."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "chart").mkdir()
    (tmp_path / "chart" / "nvidia-device-plugin").mkdir()
    (tmp_path / "kubeconfig").write_text(kubeconfig(f"http://127.0.0.1:{silent}", context="here"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    host = {
        "name": "gpu-1",
        "address": "127.0.0.1",
        "port": silent,
        "hostKey": KEY.export_public_key().decode().strip(),
    }
    made = document(hosts=[host], kubernetes={"context": "here"}, ssh={"perDialTimeoutSeconds": 1})
    return load({**made, "charts": {"directory": str(tmp_path / "chart")}})


def test_a_cluster_and_a_host_that_hang_are_named_and_hold_nothing_up(
    unanswered: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cluster and host are inspected in parallel, each with its own time limit."""
    monkeypatch.setattr(bounds, "LIMIT", 2)
    monkeypatch.setattr(inspect, "observe_hosts", quickly)
    key = KEY.export_private_key().decode()
    seen = looked(unanswered, key, Extent.ALL)
    assert seen.reasons == "the inspection of the cluster took longer than 2 s"
    assert seen.cluster == ClusterSeen()
    assert (
        "stage greeting: the port is open, and no SSH server answered" in seen.hosts["gpu-1"].error
    )


@pytest.mark.promise(
    "A cluster that can't be inspected fails the preview after one wait, except where the stack "
    "makes the cluster."
)
@pytest.mark.parametrize("made", [False, True], ids=["there", "made by the stack"])
def test_a_cluster_that_can_not_be_inspected_is_a_fault_after_one_wait(
    unanswered: Cluster, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    waits: list[str] = []

    async def counted(part: str, work: Any, nothing: Any, longer: float = 0) -> Any:
        waits.append(part)
        return await bounded(part, work, nothing, longer)

    monkeypatch.setattr(bounds, "LIMIT", 1)
    monkeypatch.setattr(observe, "bounded", counted)
    monkeypatch.setattr(observe, "is_there", lambda _: True)
    monkeypatch.setattr(inspect, "observe_hosts", quickly)
    desired = resolve(unanswered, "test")
    if made:
        (first,) = desired.hosts
        init = DesiredKubeadmCluster(
            first=first,
            joining=(),
            init=Init.model_construct(),
            context="here",
            identifier="here",
            charts=unanswered.charts,
        )
        desired = replace(desired, kubeadm=init)
        monkeypatch.setattr(difference, "desired_phases", lambda *_: {})
    _, change = observe.inspect("c", desired, KEY.export_private_key().decode())
    texts = [fault.text for fault in change.faults]
    assert waits.count("cluster") == 1
    if made:
        assert not [text for text in texts if "cluster here" in text]
        return
    assert waits == ["cluster", "hosts"]
    assert [text for text in texts if text.startswith("cluster here: found")] == texts
    assert "took longer than 1 s; wanted: an answer of its API server; cure: check" in texts[0]
    assert observe.documented(change, "test", StackFile()).outcome is Outcome.FAILED


async def quickly(*args: object, **more: object) -> object:
    """Inspect the hosts with a time limit of one second for each."""
    return await observe_hosts(*args, limit=1, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("extent", "hosts", "cluster"),
    [
        (Extent.ALL, True, True),
        (Extent.HOSTS, True, False),
        (Extent.CLUSTER, False, True),
        (Extent.OFF, False, False),
    ],
)
def test_what_is_left_out_is_not_asked(
    unanswered: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    extent: Extent,
    hosts: bool,
    cluster: bool,
) -> None:
    asked = []

    async def ask_hosts(declared: tuple[object, ...], *_: object, **__: object) -> dict[str, str]:
        asked.extend(["hosts"] * bool(declared))
        return {}

    async def ask_cluster(*_: object) -> ClusterSeen:
        asked.append("cluster")
        return ClusterSeen()

    monkeypatch.setattr(inspect, "observe_hosts", ask_hosts)
    monkeypatch.setattr(observe, "observe_cluster", ask_cluster)
    key = KEY.export_private_key().decode()
    for there in (True, False):
        asked.clear()
        looked(unanswered, key, extent, there=there)
        assert sorted(asked) == ["cluster"] * (cluster and there) + ["hosts"] * hosts


@pytest.mark.parametrize("value", [None, *Extent])
def test_what_is_inspected_is_what_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv(EXTENT, raising=False)
    if value:
        monkeypatch.setenv(EXTENT, value)
    assert Extent.wanted() == (value or Extent.ALL)


def test_another_word_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXTENT, "everything")
    with pytest.raises(FaultError, match="found 'everything'; wanted: all, cluster, hosts"):
        Extent.wanted()


def test_a_credential_plugin_runs_beside_the_sdks_loop(
    unanswered: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event loop outside the main thread runs the process of the kubeconfig's plugin."""
    kubeconfig = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    script = "echo session expired >&2; exit 1"
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh"}
    kubeconfig["users"][0]["user"] = {"exec": {**plugin, "args": ["-c", script]}}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    seen = looked(unanswered, "", Extent.CLUSTER)
    for part in ("a credential plugin that failed", "session expired"):
        assert part in seen.cluster.unreachable


def test_a_limit_counts_only_the_time_without_progress() -> None:
    async def work() -> None:
        limit = asyncio.timeout(1000)
        async with limit:
            with renewed_by_progress(limit, 2000):
                begun = limit.when()
                made_progress()
                assert (begun or 0) + 999 < (renewed := limit.when() or 0)
            made_progress()
            assert limit.when() == renewed

    asyncio.run(work())
