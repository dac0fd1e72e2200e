"""The change document: effects of a run on a stack's GPUs, nodes, pods, hosts and versions.

The terminal's text, the JSON output and the comment of a pull request are
made from the document. It contains no time, secret or placeholder of the engine, so equal runs give
equal documents. `docs/change.schema.json` is its JSON schema, and docs/reference/change.md
describes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import Field, ValidationError, computed_field, model_validator

from gpu_cluster.base.explain import first_error
from gpu_cluster.base.model import Freeze, FrozenDict, Model
from gpu_cluster.desired.parts import Part
from gpu_cluster.findings import Aspect, aspect_text
from gpu_rules.faults import PartError
from gpu_rules.printable import printable

VERSION: Final = "v1"
"""Version of the document's format; an incompatible format gets another version."""
LARGEST = 32 * 1024 * 1024
"""Maximum size in bytes of a document that is read; 1,000 changed nodes need about 2 MB."""
MOST_SEPARATORS = 1_000_000
"""Maximum number of commas and colons of a document that is read.

1,000 changed nodes with 8,000 evicted pods have 117,000. The number bounds the memory for many
small values: the worst of the tried documents, one of valid problems, needs 350 bytes for each.
"""
MOST_KEYS = 64
"""Maximum number of keys of one object; each unknown key needs about 1 kB, for its error."""

T = TypeVar("T")
Many = Annotated[tuple[T, ...], Field(fail_fast=True)]
"""A list of the document; `read` reports its first wrong item only."""
Text = Annotated[str, Field(max_length=64 * 1024)]
"""A text of the document; `read` rejects a document with a longer text."""
Count = Annotated[int, Field(ge=0, le=10**9)]


class Outcome(StrEnum):
    """Result of a preview: nothing would change, something would change, or it failed."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    FAILED = "failed"


class Direction(StrEnum):
    """Direction of a version change; `other` if the versions can't be compared."""

    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    OTHER = "other"


class Loss(StrEnum):
    """What happens to a pod.

    - `evicted`: the pod is evicted from its node.
    - `loses-gpu`: the pod's GPU is no longer advertised by the stack.
    - `undeclared-gpu`: the node's pods request more GPUs than the changed stack file
      declares for the node.
    """

    EVICTED = "evicted"
    LOSES_GPU = "loses-gpu"
    UNDECLARED_GPU = "undeclared-gpu"


class Cause(StrEnum):
    """Reason why a pod is evicted or loses its GPUs.

    - `drain`: its node is drained.
    - `taint`: it does not tolerate a taint that the run adds.
    - `driver`: the container with its node's driver is replaced.
    - `leaves-pool`: its node leaves its pool and joins no other pool of the stack.
    - `platform`: the platform that advertises its GPUs is removed, and it or another is installed.
    - `fewer-gpus`: the stack file declares fewer GPUs for its node.
    """

    DRAIN = "drain"
    TAINT = "taint"
    DRIVER = "driver"
    LEAVES_POOL = "leaves-pool"
    PLATFORM = "platform"
    FEWER_GPUS = "fewer-gpus"


class Restriction(StrEnum):
    """Restriction of GPUs that stay up during the run.

    - `leaves-pool`: their node leaves its pool and joins no other pool of the stack.
    - `undeclared`: the stack file no longer declares them.
    - `taint`: only pods that tolerate a taint that the run adds can get them.
    - `not-inspected`: unknown, because the host or the cluster did not answer.
    """

    LEAVES_POOL = "leaves-pool"
    UNDECLARED = "undeclared"
    TAINT = "taint"
    NOT_INSPECTED = "not-inspected"


class Outage(StrEnum):
    """Step of a run that makes a node unavailable to pods: rollout, reboot or new MIG layout."""

    ROLLOUT = "rollout"
    REBOOT = "reboot"
    MIG_LAYOUT = "mig-layout"


Operation = Literal["create", "update", "replace", "delete", "refresh", "import"]
"""What the engine does to a resource, in the words that users read."""


class SharingKind(StrEnum):
    """How several pods share one GPU: they take turns, or MPS gives each pod a fixed part."""

    TIME_SLICING = "time-slicing"
    MPS = "mps"


class Numbers(Model):
    """A number before and after the run.

    Attributes:
        before: Number that was last applied. None: the number was not inspected.
        after: Desired number.
    """

    before: Count | None
    after: Count


def total(numbers: Iterable[Numbers]) -> Numbers:
    """Return the sum of numbers; the sum before the run is unknown if one of them is."""
    every = list(numbers)
    known = [each.before for each in every if each.before is not None]
    return Numbers(
        before=sum(known) if len(known) == len(every) else None,
        after=sum(each.after for each in every),
    )


class ResourceNumbers(Numbers):
    """Amount of one extended resource, or of one DRA driver's devices, that a pool advertises.

    Attributes:
        name: Name of the resource, such as `nvidia.com/gpu`.
    """

    name: Text


class SharedGpus(Model):
    """Sharing of each GPU, or of each MIG device, by several pods.

    Attributes:
        kind: How the pods share the GPU.
        pods: Largest number of pods that share one GPU.
    """

    kind: SharingKind
    pods: Count


class PoolChange(Model):
    """GPUs of a pool before and after the run.

    Attributes:
        resources: Amount of each resource that pods can request.
        sharing: How pods share GPUs after the run. None: each pod gets whole GPUs or MIG devices,
            or requests a part of a GPU.
    """

    pool: Text
    gpus: Numbers
    resources: Many[ResourceNumbers] = ()
    sharing: SharedGpus | None = None


class NodeChange(Model):
    """A node that the run changes, drains, reboots or validates.

    Attributes:
        was: Pool of the node before the run. Empty: the node was in no pool of the stack.
        pool: Pool of the node after the run. Empty: the node is in no pool of the stack.
        gpus: Number of GPUs of the node; None if the number is unknown.
        outage: Step of the run that takes the node out of use. None: the node stays in use.
        wave: Number of the wave within that step, from 1; nodes of one wave may be changed at the
            same time. None: the node is in no wave.
        drained: Whether the node's pods are evicted.
        rebooted: Whether the node's host is rebooted.
        validated: Whether the run executes a CUDA kernel on each GPU of the node.
    """

    node: Text
    was: Text = ""
    pool: Text = ""
    gpus: Numbers | None = None
    outage: Outage | None = None
    wave: Count | None = None
    drained: bool = False
    rebooted: bool = False
    validated: bool = False


class PodChange(Model):
    """A pod that would be evicted or would lose its GPUs.

    Attributes:
        namespace: Namespace of the pod.
        name: Name of the pod.
        node: Node that the pod runs on.
        gpus: Number of GPUs, or shares of GPUs, that the pod requests.
        loss: What happens to the pod.
        cause: Why it happens. None: unknown.
        recreated: Whether a controller creates the pod again after it is evicted.
    """

    namespace: Text
    name: Text
    node: Text
    gpus: Count = 0
    loss: Loss
    cause: Cause | None = None
    recreated: bool = True


class Gap(Model):
    """GPUs that are unavailable to pods for a part of the run.

    Attributes:
        why: Reason, such as `drained for driver 580.95.05 → 595.91.07`.
        nodes: Nodes whose GPUs are unavailable.
        gpus: Number of GPUs of all these nodes together.
        at_most: Largest number of these GPUs that are unavailable at the same time.
        evicts: Whether running pods with these GPUs are evicted. False: they keep their GPUs, and
            only new pods get none.
    """

    why: Text
    nodes: Many[Text]
    gpus: Count
    at_most: Count
    evicts: bool = True


class Down(Model):
    """All GPUs that are unavailable to pods for a part of the run, each counted once.

    Attributes:
        nodes: Nodes whose GPUs are unavailable.
        gpus: Number of GPUs of all these nodes together.
        at_most: Largest number of these GPUs that are unavailable at the same time.
    """

    nodes: Many[Text]
    gpus: Count
    at_most: Count


class Limit(Model):
    """GPUs that stay up during the run but are not usable as before.

    Attributes:
        what: Kind of the restriction.
        nodes: Nodes of the GPUs. Empty: all nodes of the cluster.
        gpus: Number of GPUs.
        detail: The taint, or why something was not inspected. Empty: nothing to add.
        evicts: Whether running pods that don't tolerate the taint are evicted.
    """

    what: Restriction
    nodes: Many[Text]
    gpus: Count
    detail: Text = ""
    evicts: bool = False


class UpgradePath(Model):
    """What the makers of software say about a change of its version, and what it changes.

    Attributes:
        verdict: `supported` in one step, `by-way-of` other versions only, `not-back` to the older
            version, or `unknown`: no source that was read says anything.
        path: Versions of the supported way, from the first to the last. Empty: there is none.
        source: Document that says so.
        read: Date of that document.
        definitions: CustomResourceDefinitions that the new chart changes.
        dropped: Values that the installed release sets and the new chart does not have.
        replaced: Parts of the chart that get another version, so that their pods restart.
        notes: What the makers say in addition.
    """

    verdict: Literal["supported", "by-way-of", "not-back", "unknown"]
    path: Many[Text] = ()
    source: Text = ""
    read: Text = ""
    definitions: Many[Text] = ()
    dropped: Many[Text] = ()
    replaced: Many[Text] = ()
    notes: Many[Text] = ()


class VersionChange(Model):
    """A change of a component's version.

    Attributes:
        part: Software, such as `driver`, `chart nvidia-device-plugin` or `kubelet`.
        where: Hosts or nodes that have the software, or the Helm release.
        was: Version before the run. Empty: the software is not installed.
        now: Version after the run. Empty: the software is removed.
        direction: Whether the version goes up or down.
        support: What the software's makers say about the change. None: the software is installed
            or removed, or no source about it was read.
    """

    part: Text
    where: Many[Text]
    was: Text = ""
    now: Text = ""
    direction: Direction = Direction.OTHER
    support: UpgradePath | None = None


class Statement(Model):
    """A difference that several hosts, nodes or objects share.

    Attributes:
        subject: Type of the subjects: `host`, `node`, `pool` or `object`.
        names: Names of the hosts, nodes, pools or objects that differ.
        aspect: What differs.
        key: Which label, taint, setting or file differs, or a reason. Empty: there is only one.
        was: Value before the run. Empty: no value.
        now: Value after the run; for drift, the observed value. Empty: no value.
        first: Whether no run has applied anything to the subjects yet.
    """

    subject: Literal["host", "node", "pool", "object"]
    names: Many[Text]
    aspect: Aspect
    key: Text = ""
    was: Text = ""
    now: Text = ""
    first: bool = False

    @property
    def what(self) -> str:
        """Return what differs in words."""
        return aspect_text(self.aspect, self.key)


class UnusableGpus(Model):
    """GPUs of a node that pods can't use now, although the stack file declares them.

    Attributes:
        gpus: Number of these GPUs.
        lost: Number of these GPUs that pods could use after the node's last validation.
        why: Why pods can't use them.
    """

    node: Text
    gpus: Count
    lost: Count = 0
    why: Text = ""


class Problem(Model):
    """A fault or a violated rule.

    Attributes:
        text: Complete message; may have several lines.
        rule: Id of the violated rule, such as `GPU049`. Empty: the problem is not a violation.
        mandatory: Whether the problem stops the run.
        file: Name of the stack file that causes the problem. Empty: no stack file does.
        line: Line number in the file, from 1. None: the line is unknown.
    """

    text: Text
    rule: Text = ""
    mandatory: bool = True
    file: Text = ""
    line: Count | None = None


class SettingEdit(Model):
    """A setting of the stack file that differs from the last run that succeeded.

    Attributes:
        path: Path of the setting, such as `pools[a100].gpusPerNode`.
        was: Value in the last run, as a stack file writes it. Empty: it was not there.
        now: Value now. Empty: it was taken out.
        default: Value that holds while the setting is not in the stack file. Empty: none, or this
            program doesn't name it.
    """

    path: Text
    was: Text = ""
    now: Text = ""
    default: Text = ""


class UpgradeNote(Model):
    """A change of this program, in a release since the last run, that a stack must know.

    Attributes:
        text: Entry of the change log.
        breaking: Whether something that exists must be edited.
        here: Lines of the stack file that declare a setting which the entry names.
    """

    text: Text
    breaking: bool = False
    here: Many[Text] = ()


class Upgrade(Model):
    """Another version of this program than that of the last run.

    Attributes:
        was: Version that deployed the stack.
        now: Version that is installed.
        back: Whether the installed version is the older one.
        notes: Changes that are breaking, or name settings of the stack file.
        others: Number of other entries in the change log.
    """

    was: Text
    now: Text
    back: bool = False
    notes: Many[UpgradeNote] = ()
    others: Count = 0


class RefusedWorkload(Model):
    """A workload that runs, and whose pods admission refuses from this run on.

    Attributes:
        kind: Kind of the pods' controller; `Pod` for pods without one.
        namespace: Namespace of the workload.
        name: Name of the controller or the pod.
        pods: Number of its pods that run now.
        why: The first violated rule, with what it wants.
    """

    kind: Text
    namespace: Text
    name: Text
    pods: Count
    why: Text


class QuotaUse(Model):
    """A quota that the stack file declares for a namespace, and what is used of it.

    Attributes:
        namespace: The namespace.
        resource: Name of the resource, such as `nvidia.com/gpu`.
        limit: Amount that all pods of the namespace may request together.
        used: Amount that its pods request now. None: unknown.
    """

    namespace: Text
    resource: Text
    limit: Count
    used: Count | None = None


class Move(Model):
    """Another cluster than that in which the stack is deployed.

    Attributes:
        was: Identifier of the cluster in which the stack is deployed.
        now: Identifier of the cluster that the stack file declares.
    """

    was: Text
    now: Text


class Resource(Model):
    """A Pulumi resource that changes.

    Attributes:
        operation: `create`, `update`, `replace`, `delete` or `refresh`.
        type: Type token of the resource.
        name: Name of the resource.
        details: Properties of a Kubernetes object or a Helm release that change, one line each,
            without secrets and without values that are not known before the run.
    """

    operation: Operation
    type: Text
    name: Text
    details: Many[Text] = ()


class ClusterChange(Model):
    """Effects of a Pulumi run on one component `GpuCluster`.

    Attributes:
        parts: Parts of the cluster that the component declares; other components may declare
            the others.
        unknown: Why the cluster was not inspected. Empty: it was inspected.
        pools: Changes of the pools that have GPUs.
        nodes: Nodes that the run changes, drains, reboots or validates.
        at_once: Largest number of nodes that are out of use at the same time.
        pods: Pods that would be evicted or would lose their GPUs.
        gaps: GPUs that are unavailable to pods for a part of the run, by cause.
        down: Sum of the gaps. None: no GPU becomes unavailable.
        limits: GPUs that stay up but are not usable as before.
        files: Files on hosts that the run would write or remove, by host.
        changes: Differences that come from edits of the stack file.
        drift: Differences that come from changes on hosts or in the cluster outside of this
            program.
        due: Validations that are missing or outdated, and interrupted steps that must be finished.
        usable: Number of declared GPUs that pods can use now. None: not inspected.
        unusable: Declared GPUs that pods can't use now, by node.
        simulated: Whether all these GPUs are simulated.
        faults: Problems that stop the run.
        warnings: Problems that don't stop the run but will probably do harm.
        uninspected: Hosts or objects that could not be inspected, with the reason.
        notes: Nodes that the run doesn't change or must wait for, and why.
        maintenance: Hosts and nodes in maintenance, which the run doesn't change.
        resting: Number of GPUs of the nodes in maintenance, which no pool counts. None: not
            inspected.
    """

    name: Text
    parts: Many[Part] = tuple(Part)
    unknown: Text = ""
    pools: Many[PoolChange] = ()
    nodes: Many[NodeChange] = ()
    at_once: Count = 1
    pods: Many[PodChange] = ()
    gaps: Many[Gap] = ()
    down: Down | None = None
    limits: Many[Limit] = ()
    versions: Many[VersionChange] = ()
    files: Many[Statement] = ()
    changes: Many[Statement] = ()
    drift: Many[Statement] = ()
    due: Many[Statement] = ()
    usable: Count | None = None
    unusable: Many[UnusableGpus] = ()
    simulated: bool = False
    faults: Many[Problem] = ()
    warnings: Many[Problem] = ()
    uninspected: Many[Text] = ()
    notes: Many[Text] = ()
    maintenance: Many[Text] = ()
    resting: Numbers | None = None

    def with_faults(self, texts: Iterable[str]) -> Self:
        """Return a copy with more faults that stop the run."""
        more = tuple(Problem(text=text) for text in texts)
        return self.model_copy(update={"faults": (*self.faults, *more)})

    @property
    def gpus(self) -> Numbers:
        """Return the number of GPUs of all pools, without those of nodes in maintenance."""
        return total(pool.gpus for pool in self.pools)

    @property
    def declared(self) -> Numbers:
        """Return the number of declared GPUs, also those of nodes in maintenance."""
        return total(filter(None, (self.gpus, self.resting)))

    @property
    def lost(self) -> int:
        """Return the number of GPUs that were usable after the last run and are not now."""
        return sum(node.lost for node in self.unusable)

    @property
    def is_full_outage(self) -> bool:
        """Return whether all GPUs of the cluster are unavailable at the same time."""
        before = self.gpus.before
        return bool(before) and self.down is not None and self.down.at_most == before

    @property
    def is_changed(self) -> bool:
        """Return whether the run would change anything that the inspection can detect."""
        return bool(self.changes or self.drift or self.due or self.unknown)


def stopping(
    clusters: Iterable[ClusterChange],
    faults: Iterable[Problem] = (),
    rules: Iterable[Problem] = (),
) -> list[Problem]:
    """Return the problems that stop the run, each once.

    Args:
        clusters: Changes of each `GpuCluster`, with their faults.
        faults: Problems that were found before a cluster was inspected.
        rules: Violated rules, also those that are only advice.
    """
    problems = [*faults, *(fault for cluster in clusters for fault in cluster.faults), *rules]
    return list(dict.fromkeys(problem for problem in problems if problem.mandatory))


def conclusion(
    problems: Iterable[Problem], *, is_changed: bool, cause: str = ""
) -> tuple[Outcome, str]:
    """Return the outcome of a preview and, if it failed, the cause in one line.

    Args:
        problems: Problems that stop the run.
        is_changed: Whether the run would change anything.
        cause: Why the preview itself failed. Empty: it did not fail.
    """
    if texts := [*filter(None, [cause]), *(problem.text for problem in problems)]:
        return Outcome.FAILED, texts[0].split("\n", 1)[0]
    return (Outcome.CHANGED if is_changed else Outcome.UNCHANGED), ""


class Document(Model):
    """Effects of a Pulumi run on a stack: the change document.

    Attributes:
        version: Version of the document's format.
        command: Name of the command, as in the JSON output of all commands.
        outcome: Result of the preview: failed if a problem stops the run.
        move: The other cluster that the stack moves to. None: it stays in its cluster.
        edits: Settings that differ from those of the last run that succeeded. None: unknown,
            because the state has no settings of an earlier run.
        upgrade: Another version of this program than that of the last run. None: the same version,
            or no run has recorded its version.
        refused: Running workloads whose pods admission refuses from this run on.
        quotas: Quotas of edited guardrails, and what is used of them.
        unjudged: Why running workloads were not judged by the new guardrails. Empty: they were, or
            guardrails are not edited.
        clusters: Changes of each `GpuCluster` of the stack.
        resources: Pulumi resources that change. Empty in a file that the Pulumi program
            writes, because the program doesn't know the engine's steps.
        steps: Number of the engine's steps by operation, such as `same` and `update`.
        rules: Violations that the policy pack reports.
        faults: Problems that stopped the run before a cluster was inspected.
        cause: Why the preview failed, in one line. Empty: it did not fail.
    """

    version: Literal["v1"] = VERSION
    command: Literal["preview", "status"] = "preview"
    stack: Text
    outcome: Outcome
    move: Move | None = None
    edits: Many[SettingEdit] | None = None
    upgrade: Upgrade | None = None
    refused: Many[RefusedWorkload] = ()
    quotas: Many[QuotaUse] = ()
    unjudged: Text = ""
    clusters: Many[ClusterChange] = ()
    resources: Many[Resource] = ()
    steps: Annotated[dict[Text, Count], Freeze] = Field(default_factory=FrozenDict)
    rules: Many[Problem] = ()
    faults: Many[Problem] = ()
    cause: Text = ""

    @model_validator(mode="after")
    def _fails_by_its_problems(self) -> Self:
        problems = stopping(self.clusters, self.faults, self.rules)
        if problems and self.outcome is not Outcome.FAILED:
            wanted = f"outcome {Outcome.FAILED}, because a problem stops the run"
            raise ValueError(f"{wanted}: {printable(problems[0].text, 200)}")
        return self

    @computed_field  # type: ignore[prop-decorator]
    @property
    def gpus(self) -> Numbers:
        """Return the number of declared GPUs of all clusters."""
        return total(cluster.declared for cluster in self.clusters)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def succeeded(self) -> bool:
        """Return whether the preview succeeded."""
        return self.outcome is not Outcome.FAILED

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """Return the document that a JSON text contains.

        Args:
            text: JSON from a file or an artifact, which is untrusted input.

        Raises:
            ValueError: The text is too long, or not a valid document of this format version.
        """
        if len(text) > LARGEST:
            raise PartError(f"{len(text)} bytes; wanted at most {LARGEST}")
        encoded = text.encode(errors="surrogatepass") if isinstance(text, str) else text
        if (separators := encoded.count(b",") + encoded.count(b":")) > MOST_SEPARATORS:
            raise PartError(f"{separators} commas and colons; wanted at most {MOST_SEPARATORS}")
        try:
            content = json.loads(text, object_pairs_hook=_object)
            if isinstance(content, dict):
                for computed in cls.model_computed_fields:
                    content.pop(computed, None)
            # Not `model_validate_json`: each of its errors copies the object that lacks a field.
            return cls.model_validate(content)
        except (ValidationError, RecursionError) as error:
            raise PartError(
                f"no change document of version {VERSION}: {_first_problem(error)}"
            ) from None

    def write(self) -> str:
        """Return the document as JSON; equal documents give equal text."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


def schema() -> str:
    """Return the JSON schema of the document."""
    document_schema = Document.model_json_schema(by_alias=True, mode="serialization")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(head | document_schema, indent=2, sort_keys=True) + "\n"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        ValueError: The object has more than `MOST_KEYS` keys.
    """
    if len(pairs) > MOST_KEYS:
        raise PartError(f"an object with {len(pairs)} keys; wanted at most {MOST_KEYS}")
    return dict(pairs)


def _first_problem(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return "nested too deep"
    return ": ".join(first_error(error))
