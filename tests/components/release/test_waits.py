"""What is said about a release that Helm waits for, and after its time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gpu_cluster import hooks
from gpu_cluster.release import waits
from gpu_cluster.release.waits import Waiting
from gpu_rules.faults import Fault, FaultError

PULLING, STUCK = "pod a: is being pulled", "pod a: no runtime"


def read_from(*answers: list[str]) -> Callable[[], list[str]]:
    left = list(answers)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_a_cause_is_said_once_and_only_if_it_stays() -> None:
    said: list[str] = []
    watch = Waiting("a/b", read_from([PULLING], [STUCK], [STUCK], [STUCK]), said.append)
    for _ in range(4):
        watch.report()
    assert said == [f"release a/b waits: {STUCK}"]


def test_a_cluster_that_cannot_be_read_fails_no_release() -> None:
    def refuse() -> list[str]:
        raise FaultError(Fault("cluster", "nothing", "an answer", "see it"))

    watch = Waiting("a/b", refuse, lambda line: pytest.fail(line))
    watch.report()
    assert asyncio.run(watch.failed()) == []


def test_the_reading_ends_with_the_release_and_a_failure_says_why() -> None:
    async def run() -> tuple[list[str], int]:
        watch = Waiting("a/b", lambda: [STUCK], said.append, every=0.001)
        await watch.start()
        while not said:
            await asyncio.sleep(0.001)
        causes = await watch.failed()
        await watch.end()
        return causes, len(asyncio.all_tasks())

    said: list[str] = []
    causes, tasks = asyncio.run(run())
    assert causes == [STUCK]
    assert said == [f"release a/b waits: {STUCK}"]
    assert tasks == 1


def test_an_unexpected_failure_of_the_reading_fails_no_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noted: list[str] = []
    monkeypatch.setattr("pulumi.log.debug", noted.append)

    def broken() -> list[str]:
        raise KeyError("items")

    async def run() -> None:
        watch = Waiting("a/b", broken, lambda line: pytest.fail(line), every=0.0)
        await watch.start()
        await asyncio.sleep(0.05)
        await watch.end()

    asyncio.run(run())
    assert noted == ["release a/b: its causes can't be read: KeyError('items')"]


def test_a_failed_release_is_an_error_for_each_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[str] = []
    given: dict[str, Callable[..., object]] = {}

    async def why(context: str, namespace: str, name: str) -> list[str]:
        return [f"{context} {namespace} {name}", STUCK]

    def around(name: str, before: object, after: object, failed: Callable[..., object]) -> None:
        given[name] = failed

    monkeypatch.setattr(waits, "why", why)
    monkeypatch.setattr(hooks, "around", around)
    monkeypatch.setattr("pulumi.log.error", errors.append)
    waits.waiting("prod", "gpu", "nvdp", "platform-release")
    asyncio.run(given["wait-platform-release"]())  # type: ignore[arg-type]
    assert errors == [
        "release gpu/nvdp is not ready: prod gpu nvdp",
        f"release gpu/nvdp is not ready: {STUCK}",
    ]
