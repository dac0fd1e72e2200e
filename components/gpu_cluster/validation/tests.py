"""Program that runs user-defined tests on nodes with GPUs and keeps the results: action `measure`.

Only tests that an environment variable names are run (`gpu_cluster.validation.selection`). Results
of earlier runs come from `PULUMI_COMMAND_STDOUT` and are kept until the test is run again.
Input: `gpu_cluster.desired.validation.Measuring`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpu_cluster.desired.validation import MeasuredPool, MeasuredTest, Measuring
from gpu_cluster.kubernetes.api import Client, ClusterError, Json, Refused, connect
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.nodes import gpu_holders
from gpu_cluster.nodes.causes.cause import SHOWN
from gpu_cluster.nodes.inspect import list_nodes, pool_members, with_devices
from gpu_cluster.nodes.record import now
from gpu_cluster.program import main
from gpu_cluster.requests import previous
from gpu_cluster.settings.log_pattern import LOG_BYTES, LOG_LINES
from gpu_cluster.validation import measurement, selection, waiting
from gpu_cluster.validation.measurement import Outcome
from gpu_cluster.validation.node_annotations import GONE
from gpu_rules.faults import Fault, FaultError
from gpu_rules.printable import counted, printable

INTERVAL = 0.5
TOLD = 10.0
"""Seconds between two progress messages."""
NAMED = 20
"""Maximum number of nodes that one message names; other nodes are only counted."""
KEPT = 2000
"""Maximum number of results that are kept, the slowest of each test first."""


@dataclass(frozen=True)
class TestsResult:
    """Output of the program: the latest result of each test on each node, the slowest first."""

    tests: tuple[Outcome, ...] = ()


@dataclass
class Trial:
    """One user-defined test on one node."""

    client: Client
    request: Measuring
    test: MeasuredTest
    pool: MeasuredPool
    node: Json
    waits: str = ""
    started: float = field(default_factory=time.monotonic)

    @property
    def name(self) -> str:
        """Return the node's name."""
        return str(self.node["metadata"]["name"])

    async def explained(self) -> str:
        """Return what the test waits for, with the cause that events and logs name."""
        pod = await self.client.find(f"{self._pods}/{self._pod}")
        if pod is None:
            return self.waits
        return await waiting.explained(self.client, pod, measurement.CONTAINER)

    async def run(self) -> Outcome:
        """Run the test once its GPUs are free, and delete its pod afterwards."""
        if reason := await self._without():
            return self._skipped(reason)
        while holders := await self._held():
            self.waits = holders
            if self.request.busy != "wait" or self._late():
                failed = self.request.busy != "defer"
                return self._failed(holders) if failed else self._skipped(holders)
            await asyncio.sleep(INTERVAL)
        await self._remove()
        await self._is_gone()
        try:
            body = measurement.pod(self.test, self.pool, self.name)
            await self.client.request("POST", self._pods, body=body)
        except Refused as error:
            return self._failed(f"its pod was rejected: {printable(str(error))}")
        try:
            return await self._ended()
        finally:
            await self._remove()

    async def _without(self) -> str:
        if not self.pool.is_whole:
            return "its GPUs are shared or divided"
        if self.pool.devices < self.test.gpus:
            return f"it has {counted(self.pool.devices, 'GPU')}; the test needs {self.test.gpus}"
        return ""

    async def _held(self) -> str:
        """Return which pods hold the test's GPUs; empty if enough GPUs are free."""
        holders = await gpu_holders.holders(
            self.client, self.name, self.pool.resources, self.pool.namespace
        )
        free = sum(gpu_holders.free(self.node, self.pool.offers, holders).values())
        if free >= self.test.gpus:
            return ""
        holders_text = (
            gpu_holders.named([holder for holder in holders if holder.amounts])
            or "no pod uses them"
        )
        return f"{counted(free, 'GPU')} free; wanted: {self.test.gpus}; {holders_text}"

    async def _ended(self) -> Outcome:
        while not self._late():
            pod = await self.client.find(f"{self._pods}/{self._pod}")
            if pod is None or pod["metadata"].get("deletionTimestamp"):
                return self._skipped("its pod was removed: something more important came")
            if pod["status"].get("phase") in gpu_holders.FINISHED:
                return await self._judge(pod)
            self.waits = waiting.reason(pod, measurement.CONTAINER)
            await asyncio.sleep(INTERVAL)
        explanation = await self.explained()
        return self._failed(f"no end after {self.test.timeout_seconds} s: {explanation}")

    async def _judge(self, pod: Json) -> Outcome:
        ended = [
            status["state"]["terminated"]
            for status in pod["status"].get("containerStatuses") or []
            if status["name"] == measurement.CONTAINER and status.get("state", {}).get("terminated")
        ]
        if not ended:
            message = printable(str(pod["status"].get("message") or "no message"), SHOWN)
            return self._failed(f"its container did not run: {message}")
        params = {
            "container": measurement.CONTAINER,
            "tailLines": str(LOG_LINES),
            "limitBytes": str(LOG_BYTES),
        }
        try:
            log = await self.client.request(
                "GET", f"{self._pods}/{self._pod}/log", params=params, parse=False
            )
        except Refused as error:
            return self._failed(f"its log can't be read: {printable(str(error))}")
        code = ended[0].get("exitCode")
        return measurement.evaluate(self.test, self.pool.pool, self.name, code, log, now())

    def _late(self) -> bool:
        return time.monotonic() - self.started > float(self.test.timeout_seconds)

    def _failed(self, problem: str) -> Outcome:
        least = self.test.minimum
        return Outcome(self.test.name, self.name, self.pool.pool, None, least, problem, at=now())

    def _skipped(self, reason: str) -> Outcome:
        return Outcome(self.test.name, self.name, self.pool.pool, skipped=reason, at=now())

    @property
    def _pods(self) -> str:
        return f"namespaces/{self.request.namespace}/pods"

    @property
    def _pod(self) -> str:
        return measurement.name_of(self.test.name, self.name)

    async def _remove(self) -> None:
        try:
            await self.client.request("DELETE", f"{self._pods}/{self._pod}")
        except Refused as error:
            if error.code != GONE:
                raise

    async def _is_gone(self) -> None:
        while await self.client.find(f"{self._pods}/{self._pod}") and not self._late():
            await asyncio.sleep(INTERVAL)


async def _report_waits(
    trials: list[Trial], running: asyncio.Future[list[Outcome]]
) -> list[Outcome]:
    """Wait for the results and return them; print regularly what the tests are waiting for."""
    while not (await asyncio.wait([running], timeout=TOLD))[0]:
        open_trials = [trial for trial in trials if trial.waits]
        first_trials = open_trials[:NAMED]
        causes = await gather(lambda trial: trial.explained(), first_trials)
        for trial, cause in zip(first_trials, causes, strict=True):
            print(f"test {trial.test.name} on {trial.name}: {cause}", file=sys.stderr)
    return running.result()


async def _run_test(client: Client, request: Measuring, test: MeasuredTest) -> list[Outcome]:
    """Run one test on all selected nodes in parallel; each node has its own GPUs."""
    nodes = await with_devices(
        client, await list_nodes(client), [pool.resources for pool in request.pools]
    )
    trials = [
        Trial(client, request, test, pool, node)
        for pool in request.pools
        for node in pool_members(nodes, pool)
        if selection.is_tested(node["metadata"]["name"])
    ]
    return await _report_waits(
        trials, asyncio.ensure_future(gather(lambda trial: trial.run(), trials))
    )


def _earlier_results(request: Measuring) -> list[Outcome]:
    """Return earlier results of tests and nodes that are still declared."""
    try:
        outcomes = previous(TestsResult).tests
    except FaultError:
        return []
    names = {test.name for test in request.tests}
    pools = {pool.pool for pool in request.pools}
    resting = {name for pool in request.pools for name in pool.maintenance}
    return [
        outcome
        for outcome in outcomes
        if outcome.test in names and outcome.pool in pools and outcome.node not in resting
    ]


def _failed_tests(failed: list[Outcome], ran: int) -> Iterator[Fault]:
    for outcome in failed[:NAMED]:
        least = "" if outcome.minimum is None else f", with {outcome.minimum:g} at least"
        place, wanted = f"test {outcome.test} on node {outcome.node}", f"exit code 0{least}"
        yield Fault(
            place, outcome.problem, wanted, "read the output of the test's program on that node"
        )
    more = f"; only the slowest {NAMED} are named above" if len(failed) > NAMED else ""
    found = f"{len(failed)} of {ran} tests failed{more}"
    yield Fault(
        "tests", found, "no failed test", "repair these nodes, or lower the test's `minimum`"
    )


async def measure(request: Measuring) -> Json:
    """Run the requested tests; return the fields of `TestsResult`, with those at their defaults.

    Raises:
        ClusterError: A test failed, or a requested name is not a test.
    """
    selected = selection.tests()
    tests = {test.name: test for test in request.tests}
    if strange := [name for name in selected if name not in tests]:
        known_tests, cure = (
            f"of {', '.join(tests)}",
            "correct the name, or add it to `validation.tests`",
        )
        raise ClusterError(Fault(selection.TESTS, ", ".join(strange), known_tests, cure))
    ran: list[Outcome] = []
    if selected:
        async with connect(request.context) as client:
            for name in dict.fromkeys(selected):
                ran += await _run_test(client, request, tests[name])
    if failed := [outcome for outcome in measurement.slowest_first(ran) if outcome.problem]:
        raise ClusterError(*_failed_tests(failed, len(ran)))
    again = {(outcome.test, outcome.node) for outcome in ran}
    earlier = [
        outcome
        for outcome in _earlier_results(request)
        if (outcome.test, outcome.node) not in again
    ]
    return {"tests": measurement.plain(measurement.slowest_first([*ran, *earlier])[:KEPT])}


if __name__ == "__main__":
    main(Measuring, {"measure": measure})
