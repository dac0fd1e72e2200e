"""Cures of what a preview finds in the cluster are followed: the next preview is without the fault.

The cluster is the observed state of `tests/components/change/world.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gpu_cluster.base.compatibility import kernel_refused
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.inspection import moves, overruled
from gpu_cluster.inspection.judgement import Seen, judged, with_busy
from gpu_cluster.inspection.misfits import misfits
from gpu_cluster.inspection.observed_cluster import ClusterSeen
from gpu_cluster.inspection.upgrade_path import unsupported_kubernetes
from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.base import NodeOverride
from gpu_rules.faults import Fault
from tests.components.change.world import World, base, desired_of, facts_of, pod
from tests.fixtures.documents import stack_document
from tests.proofs.advice.edits import merged
from tests.proofs.advice.following import follow_cure, named
from tests.proofs.advice.rows import Record

Json = dict[str, Any]
Change = Callable[[World], None]
DRA: Json = {**base(), "platform": "dra", "runtime": {"defaultRuntime": "runc"}}
SHARING: Json = {
    "version": "v1",
    "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}},
}
SHARED: Json = {**base(), "devicePlugin": {"config": SHARING}}
CRIO: Json = {**base(), "runtime": {"engine": "cri-o"}}
WITHOUT_HOST: Json = merged(base(), {"hosts": {1: None}})
WITHOUT_NODE: Json = merged(WITHOUT_HOST, {"pools": {0: {"nodes": {0: "gpu-1", 1: "gpu-[3-4]"}}}})
RENAMED: Json = merged(base(), {"hosts": {1: {"name": "rack-2", "node": "gpu-2"}}})
BY_OPERATOR: Json = stack_document(
    platform="gpu-operator",
    driver={"source": "operator", "version": "595.91.07"},
    gpuOperator={"toolkit": True},
)


def operator(version: str) -> Json:
    values: Json = {"version": version}
    if not version.startswith(("v26.3", "v26.7")):
        values["unknownVersion"] = True
    return {**base(), "platform": "gpu-operator", "gpuOperator": values, "hosts": []}


def unchanged(_: World) -> None:
    """Leave the cluster as it is."""


def holding(*pods: Json) -> Change:
    return lambda world: world.pods.extend(pods)


def with_crio(world: World) -> None:
    world.hosts = {name: replace(facts, crio="1.34.2") for name, facts in world.hosts.items()}


def engine_in_use(world: World) -> None:
    with_crio(world)
    world.pods.append(pod("web", "gpu-2"))


def running(version: str) -> Change:
    def change(world: World) -> None:
        world.release = {"gpu-operator": version}

    return change


@dataclass(frozen=True)
class Cure:
    """A fault that a preview finds, and what its cure says.

    Attributes:
        words: Words of the cure.
        was: Stack file that was applied.
        now: Stack file whose preview has the fault.
        broken: What breaks the cluster.
        cured_was: Stack file that was applied, after the cure.
        cured_now: Stack file after the cure.
        cured: State of the cluster after the cure.
    """

    words: str
    was: Json
    now: Json
    broken: Change = unchanged
    cured_was: Json | None = None
    cured_now: Json | None = None
    cured: Change | None = None


CURES = {
    "pods that hold GPUs": Cure(
        "or delete the pods",
        base(),
        DRA,
        holding(pod("train-0", "gpu-1", 8)),
        cured=unchanged,
    ),
    "shared GPUs": Cure(
        "take the sharing or partitions out of the old platform's settings",
        SHARED,
        DRA,
        cured_was=base(),
    ),
    "removed host": Cure("declare the host again", base(), WITHOUT_HOST, cured_now=base()),
    "removed host with its node": Cure(
        "or take its node out of the pool", base(), WITHOUT_HOST, cured_now=WITHOUT_NODE
    ),
    "renamed host": Cure("name the host gpu-2 again", base(), RENAMED, cured_now=base()),
    "removed host in use": Cure(
        "kubectl --context gpu-cluster-dev drain gpu-2",
        base(),
        WITHOUT_NODE,
        holding(pod("train-0", "gpu-2", 8)),
        cured=unchanged,
    ),
    "engine in use": Cure(
        "kubectl --context gpu-cluster-dev drain gpu-2",
        base(),
        CRIO,
        engine_in_use,
        cured=with_crio,
    ),
    "engine in use, declared again": Cure(
        "or declare runtime.engine: containerd", base(), CRIO, engine_in_use, cured_now=base()
    ),
    "fewer GPUs": Cure(
        "declare 8 again",
        base(),
        merged(base(), {"pools": {0: {"gpusPerNode": 4}}}),
        cured_now=base(),
    ),
    "upgrade in one step": Cure(
        "write gpuOperator.version: v25.10.1",
        operator("v26.7.0"),
        operator("v26.7.0"),
        running("v25.3.4"),
        cured_now=operator("v25.10.1"),
    ),
    "upgrade in one step, accepted": Cure(
        'rollout.unsupportedFrom: {gpu-operator: "v25.3.4"}',
        operator("v26.7.0"),
        operator("v26.7.0"),
        running("v25.3.4"),
        cured_now=operator("v26.7.0")
        | {"rollout": {"unsupportedFrom": {"gpu-operator": "v25.3.4"}}},
    ),
}


def previewed(was: Json, now: Json, change: Change) -> list[str]:
    """Return the faults of a preview."""
    world = World.of(was)
    change(world)
    return [fault.text for fault in world.change(now).faults]


@pytest.mark.promise("A cure of what a preview finds removes the fault and brings no new one.")
@pytest.mark.parametrize("row", named(CURES))
def test_the_cure_of_a_preview_is_followed(row: Cure, record_property: Record) -> None:
    follow_cure(
        row.words,
        lambda: previewed(row.was, row.now, row.broken),
        lambda: previewed(
            row.cured_was or row.was, row.cured_now or row.now, row.cured or row.broken
        ),
        record_property,
    )


def judge(
    document: Json, *, hosts: Json | None = None, recorded: tuple[str, ...] = (), **cluster: Any
) -> list[str]:
    """Return what the inspection reports.

    Args:
        hosts: What differs in the facts of the hosts.
        recorded: Hosts that an earlier run prepared.
        **cluster: What was seen in the cluster.
    """
    desired = desired_of(document)
    facts = {
        host.name: replace(facts_of(desired, host.name), **(hosts or {})) for host in desired.hosts
    }
    seen = Seen(hosts=facts, cluster=ClusterSeen(**cluster), recorded=recorded)
    inspection = judged(desired, seen)
    return [*inspection.problems, *inspection.warnings]


JOINED: Json = merged(
    base(),
    {
        "kubernetesPackages": {
            "version": "1.36.3",
            "join": {
                "endpoint": "192.0.2.9:6443",
                "caCertHashes": {0: f"sha256:{'1' * 64}"},
            },
        }
    },
)
NODES = tuple(f"gpu-{number}" for number in range(1, 5))
JUDGED: Mapping[str, tuple[str, Json, Json]] = {
    "node of a joined host": (
        "restart kubelet there",
        {"document": JOINED, "nodes": NODES[1:]},
        {"nodes": NODES},
    ),
    "cordoned node": (
        "`kubectl uncordon gpu-1` when the work on it is done",
        {"unschedulable": ("gpu-1",)},
        {"unschedulable": ()},
    ),
    "node that somebody cordoned": (
        "let it finish",
        {"unschedulable": ("gpu-1",), "cordoners": {"gpu-1": "kured"}},
        {"unschedulable": (), "cordoners": {}},
    ),
    "MIG layout of an earlier platform": (
        "declare the earlier platform without `mig`",
        {"kept_layouts": {"gpu-1": "all-1g.5gb"}},
        {"kept_layouts": {}},
    ),
    "GPUs that no run validated": (
        "run `gpu-cluster validate --nodes gpu-1`",
        {"deferred": {"gpu-1": "GPUs not validated, because pods use them: team-a/web"}},
        {"deferred": {}},
    ),
    "GPUs of many nodes that no run validated": (
        "when these pods have ended, run `gpu-cluster validate`",
        {"deferred": {f"gpu-{n}": "GPUs in use by pod team-a/web" for n in range(12)}},
        {"deferred": {}},
    ),
    "chart that can't be read": (
        "shows how to compare an archive",
        {"chart": "no response from nvidia.github.io"},
        {"chart": ""},
    ),
}


@pytest.mark.parametrize("row", named(JUDGED))
def test_the_cure_of_an_inspection_is_followed(
    row: tuple[str, Json, Json], record_property: Record
) -> None:
    words, broken, cured = row
    whole = {"document": base(), **broken}
    follow_cure(words, lambda: judge(**whole), lambda: judge(**{**whole, **cured}), record_property)


@pytest.mark.advice("several")
def test_access_to_a_registry_is_allowed(record_property: Record) -> None:
    registries = desired_of(base()).registries
    follow_cure(
        "allow outbound access to the registry",
        lambda: judge(base(), hosts={"unreached": registries[:1]}),
        lambda: judge(base()),
        record_property,
    )


@pytest.mark.advice("several")
def test_nodes_in_use_are_validated_later(record_property: Record) -> None:
    desired = desired_of(base())
    inspection = judged(desired, Seen())

    def check(refused: Mapping[str, str]) -> tuple[str, ...]:
        return with_busy(inspection, refused).problems

    follow_cure(
        "wait until these pods have ended",
        lambda: check({"gpu-1": "team-a/web"}),
        lambda: check({}),
        record_property,
    )


def _overrides(document: Json) -> dict[bool, NodeOverride]:
    overrides = desired_of(document).question.overrides
    return {each.is_annotation: each for each in overrides}


@pytest.mark.advice("several")
@pytest.mark.parametrize(
    ("words", "is_annotation"),
    [
        ("remove the annotation with `kubectl annotate node`", True),
        ("remove the label with `kubectl label node`", False),
    ],
)
def test_what_overrules_a_setting_is_removed(
    words: str, is_annotation: bool, record_property: Record
) -> None:
    documents = (
        BY_OPERATOR,
        stack_document(
            platform="gpu-operator",
            driver={"source": "operator", "version": "595.91.07"},
            gpuOperator={"upgrade": {"automatic": False}},
        ),
        base(),
    )
    document = next(each for each in documents if is_annotation in _overrides(each))
    override = _overrides(document)[is_annotation]

    def check(*, is_set: bool) -> list[str]:
        world = World.of(document)
        metadata = world.nodes["gpu-2"]["metadata"]
        if is_set:
            place = "annotations" if is_annotation else "labels"
            metadata[place][override.key] = min(override.values, default="other")
        found = world.inspected(desired_of(document)).warnings
        return [text for text in found if ", whatever " in text]

    follow_cure(words, lambda: check(is_set=True), lambda: check(is_set=False), record_property)


@pytest.mark.advice("several")
def test_an_edit_of_an_operand_is_written_again(record_property: Record) -> None:
    override = next(
        each for each in desired_of(BY_OPERATOR).question.operand_overrides if each.is_argument
    )
    container = {"name": "main", "args": [f"--{override.name}=other"]}
    of_container: Json = {'k:{"name":"main"}': {"f:args": {}}}
    hash_of_operator: Json = {"f:metadata": {"f:annotations": {f"f:{overruled.HASH}": {}}}}
    edit = {"f:spec": {"f:template": {"f:spec": {"f:containers": of_container}}}}

    def check(editor: str) -> list[Fault]:
        """Return the warnings; the operator writes all fields again without its annotation."""
        item = {
            "metadata": {
                "namespace": "gpu-operator",
                "name": override.app,
                "labels": {"app": override.app},
                "managedFields": [
                    {"manager": "gpu-operator", "fieldsV1": hash_of_operator},
                    {"manager": editor, "fieldsV1": edit},
                ],
            },
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
        return list(overruled.operand_warnings(overruled.edited_operands([item], [override])))

    follow_cure(
        "remove the annotation",
        lambda: check("kubectl-edit"),
        lambda: check("gpu-operator"),
        record_property,
    )


@pytest.mark.advice("several")
def test_kubernetes_is_upgraded_for_a_move_to_dra(record_property: Record) -> None:
    desired = desired_of(DRA)
    validation = World.of(base()).inspected(desired).difference.validation
    follow_cure(
        "upgrade Kubernetes, or let pods request claims",
        lambda: moves.warnings(validation, "v1.35.2"),
        lambda: moves.warnings(validation, "v1.36.3"),
        record_property,
    )


@pytest.mark.advice("several")
def test_a_cluster_is_upgraded_for_a_chart(record_property: Record) -> None:
    follow_cure(
        "or upgrade the cluster",
        lambda: unsupported_kubernetes("gpu-operator", "v26.7.0", "v1.20.15"),
        lambda: unsupported_kubernetes("gpu-operator", "v26.7.0", "v1.36.3"),
        record_property,
    )


@pytest.mark.advice("several")
def test_a_driver_in_a_container_is_declared_for_the_kernel(record_property: Record) -> None:
    def check(version: str) -> list[Fault]:
        document = merged(BY_OPERATOR, {"driver": {"version": version}})
        desired = resolve(load(copy.deepcopy(document)), "test")
        return list(misfits(desired.platform, desired.nodes, {"gpu-1": "6.16.0"}))

    old, new = "570.133.20", "595.91.07"
    assert kernel_refused(old, "6.16.0")
    follow_cure(
        "declare another driver.version, or boot another kernel",
        lambda: check(old),
        lambda: check(new),
        record_property,
    )
