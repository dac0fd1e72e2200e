"""Validation of one node, step by step, without disturbing the pods that use its GPUs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from gpu_cluster.base.stack_option import stack_option
from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.kubernetes.api import Client, Json, Refused
from gpu_cluster.nodes import gpu_holders, record, startup_taint
from gpu_cluster.nodes.causes import read
from gpu_cluster.nodes.inspect import has_surplus, shortfall
from gpu_cluster.validation import waiting
from gpu_cluster.validation.container_result import (
    ContainerResult,
    failures,
    has_ended,
    read_result,
    refusal,
    statuses,
    twice,
)
from gpu_cluster.validation.job import JOBS, ObservedJob, job, job_name
from gpu_cluster.validation.node_annotations import GONE, annotate
from gpu_rules.printable import printable

LOG_BYTES = 64 * 1024
"""Maximum number of bytes of one container's log that are read."""
WIDE = 128
"""Maximum number of containers in the later pods for shared GPUs.

The first pod may not get every GPU, so later pods request more devices.
"""
ROUNDS = 3
"""Maximum number of pods for one node with shared GPUs.

Several pods are needed, because the device plugin assigns the least used device first.
"""
REFUSED_SECONDS = 5.0
"""Seconds in which the Job controller tries again to create a pod that was refused.

A refusal may be temporary: a new namespace has no service account yet.
"""
SURPLUS = (
    "unless a device plugin restarts now, that stays so: declare all GPUs of the node in "
    "gpusPerNode, and name an unhealthy GPU by its uuid or index; `missing` only counts GPUs that "
    "the node does not show"
)
"""Cause and cure if a node advertises more GPUs than declared."""


@dataclass
class NodeCheck:
    """Validation of one node in progress.

    Attributes:
        facts: Facts under which the validation will be valid.
        done: Whether the validation has finished.
        problem: Why the node failed. Empty: it has not failed.
        cure: How to resolve the problem, if known.
        waits: What the validation is waiting for.
        asked: Devices that the current Job requests, by resource. Empty: there is no Job.
        uid: UID of the Job created for this validation; logs of any other Job prove nothing.
        since: Monotonic time at which the Job was created.
        pod: The Job's pod as it was last read. None: it has not been seen.
        rounds: Number of Jobs created so far.
        is_free: Whether no pod held GPUs of the node when the run listed the pods. The first Job is
            created without another look.
        devices: UUIDs of the GPUs that ran a kernel, each with the UUIDs of its MIG devices.
        simulated: Whether a kernel was only simulated.
        ran: Whether the containers of a pod have ended in this run.
    """

    client: Client
    pool: PoolValidation
    node: Json
    facts: dict[str, str]
    done: bool = False
    problem: str = ""
    cure: str = ""
    waits: str = ""
    asked: dict[str, int] = field(default_factory=dict)
    uid: str = ""
    since: float = 0.0
    pod: Json | None = None
    rounds: int = 0
    is_free: bool = False
    devices: dict[str, list[str]] = field(default_factory=dict)
    simulated: bool = False
    ran: bool = False

    def __post_init__(self) -> None:
        """Take over validated devices from the node's record if its facts are unchanged."""
        validation = record.decode(self.node)
        if validation and not record.changes(validation, self.facts):
            # Recorded devices stay validated, so the Job requests only the others.
            self.devices = {} if not validation.missing else dict(validation.devices)
            self.simulated = validation.simulated and bool(self.devices)

    @property
    def name(self) -> str:
        """Return the node's name."""
        return str(self.node["metadata"]["name"])

    @property
    def needs_node(self) -> bool:
        """Return True if the Node must be read again, as long as no Job requests its GPUs."""
        return not self.asked

    @property
    def progress(self) -> int:
        """Return a number that only grows: the first Job, each validated device, the end.

        A pod that is preempted and created again is no progress.
        """
        return bool(self.since) + len(self.devices) + self.done

    @property
    def wanted(self) -> int:
        """Return the number of devices that must run a kernel."""
        return self.pool.devices

    @property
    def missing(self) -> int:
        """Return the number of devices that have run no kernel yet."""
        return self.wanted - record.ValidationRecord(devices=self.devices).count

    @property
    def has_surplus(self) -> bool:
        """Return whether the node advertises more GPUs than declared, so no Job can begin."""
        return not self.asked and has_surplus(self.node, self.pool.resources)

    @property
    def is_without_pod(self) -> bool:
        """Return True if the Job has no pod after the time in which its controller creates one."""
        late = time.monotonic() - self.since > REFUSED_SECONDS
        return bool(self.asked) and self.pod is None and late

    def use(self, node: Json | None) -> None:
        """Use the Node as it was read again; without one the validation has failed."""
        if node is None:
            self._fail("its Node object was deleted during the validation")
        else:
            self.node = node

    async def step(self, observed: ObservedJob) -> None:
        """Check the node's Job once and do the next step."""
        if observed.job and observed.job["metadata"].get("deletionTimestamp"):
            return
        if not self.asked:
            if observed.job:
                # An earlier run was killed or failed, and left this Job.
                await self._remove()
            elif short := shortfall(self.node, self.pool.gpus, self.pool.resources):
                self.waits = short
            else:
                await self._ask()
        elif observed.job is None or observed.job["metadata"]["uid"] != self.uid:
            # The Job is gone, or another Job has its name; the next step deletes that other Job.
            self.asked = {}
        else:
            await self._follow(observed.job, observed)

    async def _follow(self, job: Json, observed: ObservedJob) -> None:
        """Evaluate the Job's pod if the pod has ended, else record what the pod waits for."""
        living = observed.living
        pod_uid = self.pod["metadata"]["uid"] if self.pod else ""
        if not observed.pods and not pod_uid:
            self.waits = waiting.reason_without_pod(job, observed.refusal)
            if observed.refusal and self.is_without_pod:
                self._fail(f"its validation pod was rejected: {observed.refusal}")
        elif len(living) != 1 or pod_uid not in ("", living[0]["metadata"]["uid"]):
            # Either the pod was preempted or evicted, so the next step checks again which pods use
            # the GPUs. Or a pod that the Job's controller did not create names the Job as its
            # owner; then no pod is evaluated.
            await self._withdraw()
        else:
            (self.pod,) = living
            if has_ended(self.pod):
                await self._judge(self.pod)
                return
            self.waits = waiting.reason(self.pod)
            if waiting.is_unschedulable(self.pod):
                await self._give_way()

    async def _withdraw(self) -> None:
        """Delete a Job without a usable result, so that another Job can be created."""
        await self._remove()
        self.asked = {}
        self.rounds -= 1

    async def _ask(self) -> None:
        # A pod that has taken GPUs since then keeps the Job's pod waiting: see `_give_way`.
        holders = [] if self.is_free else await self._holders()
        self.is_free = False
        free = gpu_holders.free(self.node, self.pool.offers, holders)
        needed = {offer.resource: offer.devices for offer in self.pool.offers}
        if self.rounds and self.pool.is_shared:
            needed = dict.fromkeys(needed, WIDE)
        ask = {name: min(number, free[name]) for name, number in needed.items()}
        short = any(ask[offer.resource] < offer.devices for offer in self.pool.offers)
        if short and (
            holders_text := gpu_holders.named([holder for holder in holders if holder.amounts])
        ):
            self.waits = f"{sum(free.values())} of {self.wanted} devices free; {holders_text}"
            if self.pool.busy == "wait":
                return
            if self.pool.busy == "fail":
                self._fail(f"GPUs in use: {self.waits}")
                self.cure = self._when_free
                return
        ask = {name: number for name, number in ask.items() if number}
        if not ask:
            await self._finish(holders)
            return
        body = job(self.pool, self.node, ask)
        try:
            created = await self.client.request("POST", self._jobs, base=JOBS, body=body)
        except Refused as error:
            self._fail(f"its validation Job was rejected: {printable(error.message)}")
            return
        self.asked, self.uid, self.pod = ask, created["metadata"]["uid"], None
        self.since = time.monotonic()
        self.rounds += 1

    async def _holders(self) -> list[gpu_holders.GpuHolder]:
        return await gpu_holders.holders(
            self.client, self.name, self.pool.resources, self.pool.namespace
        )

    async def _give_way(self) -> None:
        """Withdraw the Job if another pod has taken devices, unless it may wait for them."""
        if self.pool.busy == "wait":
            return
        holders = await self._holders()
        free = gpu_holders.free(self.node, self.pool.offers, holders)
        if any(number > free[name] for name, number in self.asked.items()):
            await self._withdraw()

    async def _judge(self, pod: Json) -> None:
        if refused := refusal(pod):
            self._fail(refused)
            return
        name = pod["metadata"]["name"]
        results = [await self._result(name, status) for status in statuses(pod)]
        self.ran = True
        self.simulated = self.simulated or any(result.simulated for result in results)
        wrong = "" if self.pool.is_shared else twice(results)
        if failed := "; ".join(filter(None, (failures(results), wrong))):
            self._fail(failed)
            if any(result.is_share and result.problem for result in results):
                self.cure = "; ".join(offer.share.cure for offer in self.pool.offers if offer.share)
            return
        for result in results:
            instances = self.devices.setdefault(result.gpu, [])
            if result.instance and result.instance not in instances:
                instances.append(result.instance)
        # The pod has ended, so another Job need not wait for it. The control plane sends half as
        # many requests as for `Foreground`.
        await self._remove("Background")
        before, self.asked = sum(self.asked.values()), {}
        again = self.pool.is_shared and self.rounds < ROUNDS and before < WIDE
        if not (self.missing > 0 and again):
            await self._finish(await self._holders() if self.missing > 0 else [])

    async def _result(self, pod: str, status: Json) -> ContainerResult:
        """Return a container's result by its termination message, or by its log if that fails.

        The message can be cut, and has no line that explains a failure.
        """
        ended = (status.get("state") or {}).get("terminated") or {}
        result = read_result(status, str(ended.get("message") or ""))
        if not result.problem:
            return result
        url = f"namespaces/{self.pool.namespace}/pods/{pod}/log"
        params = {"container": status["name"], "limitBytes": str(LOG_BYTES)}
        try:
            log = await self.client.request("GET", url, params=params, parse=False)
        except Refused as error:
            log = f"(its log can't be read: {error})"
        return read_result(status, log)

    async def _finish(self, holders: list[gpu_holders.GpuHolder]) -> None:
        """Record the result on the Node; a later run validates GPUs that other pods use."""
        self.done = True
        holding = [holder for holder in holders if holder.amounts]
        validation = record.decode(self.node)
        if self.missing > 0 and not holding:
            self.problem = (
                f"{self.wanted - self.missing} of {self.wanted} devices ran a kernel, and no pod "
                "uses the others"
            )
            return
        now = record.now() if self.devices else ""
        written = record.ValidationRecord(
            facts=self.facts,
            devices=self.devices,
            since=validation.since
            if validation and validation.devices == self.devices and not self.ran
            else now,
            missing=max(0, self.missing),
            holders=gpu_holders.digest(holding) if self.missing > 0 else "",
            held=gpu_holders.named(holding) if self.missing > 0 else "",
            simulated=self.simulated,
            manager=self.pool.manager,
            host=self.pool.hosts[self.name].name if self.name in self.pool.hosts else "",
            stack=self.pool.stack,
        )
        if self.missing <= 0 and startup_taint.has_startup_taint(self.node):
            # One request does both, so a killed run leaves no record without the taint's removal.
            annotations = {record.RECORD: record.encode(written)}
            await startup_taint.remove_startup_taint(self.client, self.node, annotations)
        else:
            await annotate(self.client, self.name, written)

    def _fail(self, problem: str) -> None:
        self.done, self.problem = True, problem

    async def explained(self) -> str:
        """Return what the node's validation waits for, and the cause from events and pod logs.

        Before its Job exists, a validation waits until the node advertises its GPUs. The text
        then says why the device plugin's pod on this node does not run.
        """
        if not self.waits:
            return ""
        if self.asked:
            return await waiting.explained(self.client, self.pod) if self.pod else self.waits
        causes = await read.lines_of_node(
            self.client, self.name, self.pool.spaces, self.pool.shared_spaces
        )
        if self.has_surplus:
            causes = [*causes, SURPLUS]
        return f"{self.waits} ({'; '.join(causes)})" if causes else self.waits

    async def give_up(self) -> None:
        """Stop waiting after the time limit: report why, and delete the Job."""
        text = await self.explained() or "its validation pod did not end"
        await self._remove()
        holders = await self._holders()
        holding = [holder for holder in holders if holder.amounts]
        if holding and self.asked and self.pool.busy == "defer":
            await self._finish(holders)
            return
        finished = [holder for holder in holders if not holder.amounts]
        if finished and self.asked:
            text += f"; pods that requested GPUs: {gpu_holders.named(finished)}"
        self._fail(text)
        if holding:
            self.cure = self._when_free

    @property
    def _when_free(self) -> str:
        return (
            f"when these pods have ended, run `gpu-cluster validate{stack_option(self.pool.stack)} "
            f"NODES={self.name}`; with validation.busy: defer the stack comes up without these GPUs"
        )

    @property
    def _jobs(self) -> str:
        return f"namespaces/{self.pool.namespace}/jobs"

    async def _remove(self, propagation: str = "Foreground") -> None:
        """Delete the node's Job; by default its name is free once its pods are gone."""
        url, params = f"{self._jobs}/{job_name(self.name)}", {"propagationPolicy": propagation}
        try:
            await self.client.request("DELETE", url, base=JOBS, params=params)
        except Refused as error:
            if error.code != GONE:
                raise
