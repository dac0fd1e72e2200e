"""The change document's contents and schema; secrets and times are never in the document."""

from __future__ import annotations

import contextlib
import copy
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pulumi
import pytest
import yaml
from pulumi import automation
from pydantic import ValidationError

from gpu_cluster.change import document as document_module
from gpu_cluster.change import file
from gpu_cluster.change.document import (
    Cause,
    ClusterChange,
    Direction,
    Document,
    Down,
    Gap,
    Loss,
    Move,
    NodeChange,
    Numbers,
    Outage,
    Outcome,
    PodChange,
    PoolChange,
    Problem,
    Resource,
    ResourceNumbers,
    Restriction,
    Statement,
    VersionChange,
    schema,
)
from gpu_cluster.change.lines import StackFile, located
from gpu_cluster.change.text import move_text, statement_text
from gpu_cluster.commands.change_document import EngineSteps, assembled
from gpu_cluster.commands.engine import move_of
from gpu_cluster.commands.files import ROOT
from gpu_cluster.commands.forges.comment_markdown import rendered
from gpu_cluster.findings import Aspect, Finding, Kind, Subject
from gpu_cluster.hosts.script import FOLDER
from gpu_cluster.hosts.steps import every
from gpu_cluster.loading.loader import load
from gpu_cluster.release.difference import PlatformDifference
from tests.components.change.edits import EDITS
from tests.components.change.world import DRIVER, HOST_KEY, World, base, changed, desired_of, pod

SLICED = {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}
SCHEMA = ROOT / "docs" / "change.schema.json"
Json = dict[str, Any]


def test_a_node_that_is_not_there_lets_no_other_node_of_its_pool_leave() -> None:
    more = base()
    more["pools"][0]["nodes"] = ["gpu-[1-5]"]
    world = World.of(base())
    world.pods.append(pod("train", "gpu-1", 8))
    change = world.change(more)
    assert any("gpu-5: found no such node" in problem.text for problem in change.faults)
    assert not [node.node for node in change.nodes if node.was != node.pool]
    assert (change.pods, change.limits) == ((), ())


def test_the_repair_of_an_edit_by_hand_that_restarts_pods_is_an_outage() -> None:
    world, desired = World.of(base()), desired_of(base())
    found = world.inspected(desired)
    name = "DaemonSet nvidia-device-plugin/nvidia-device-plugin"

    def gaps(field: str) -> list[Gap]:
        edit = Finding(Kind.DRIFT, Subject.OBJECT, name, Aspect.FIELD, field, "true", "false")
        platform = PlatformDifference(edited=(edit,))
        difference = replace(found.difference, platform=platform)
        return list(changed(desired, replace(found, difference=difference)).gaps)

    (gap,) = gaps("spec.template.spec.containers[main].env[FAIL_ON_INIT_ERROR].value")
    assert gap.why == f"{name} gets back what was edited by hand; its pods restart, node by node"
    assert (gap.gpus, gap.at_most, gap.evicts) == (32, 8, False)
    assert gaps("metadata.labels.team") == []


def edited(**sections: Any) -> Json:
    return {**base(), **sections}


def pool(**changes: Any) -> Json:
    document = base()
    document["pools"][0] |= changes
    return document


def document_of(change: ClusterChange, **more: Any) -> Document:
    outcome = Outcome.FAILED if change.faults else Outcome.CHANGED
    return Document(stack="dev", outcome=outcome, clusters=(change,), **more)


@pytest.mark.promise(
    "A preview counts the GPUs of each pool and of each resource before and after the run."
)
def test_half_of_the_gpus_is_counted_by_pool_and_resource() -> None:
    change = World.of(base()).change(pool(gpusPerNode=4))
    assert change.gpus == Numbers(before=32, after=16)
    gpus = ResourceNumbers(name="nvidia.com/gpu", before=32, after=16)
    numbers = Numbers(before=32, after=16)
    assert change.pools == (PoolChange(pool="a100", gpus=numbers, resources=(gpus,)),)
    assert [(node.node, node.gpus, node.validated) for node in change.nodes] == [
        (f"gpu-{n}", Numbers(before=8, after=4), True) for n in (1, 2, 3, 4)
    ]


def test_shared_gpus_are_counted_by_what_pods_can_request() -> None:
    sliced = edited(
        devicePlugin={
            "config": {
                "version": "v1",
                "sharing": {
                    "timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}
                },
            }
        }
    )
    change = World.of(base()).change(sliced)
    assert change.gpus == Numbers(before=32, after=32)
    assert change.pools[0].resources[0].before == 32
    assert change.pools[0].resources[0].after == 128


def test_hamis_shares_are_counted_and_its_cards_once() -> None:
    shared = edited(platform="hami", hami={"deviceSplitCount": 4})
    change = World.of(edited(platform="hami")).change(shared)
    (a100,) = change.pools
    assert change.gpus == Numbers(before=32, after=32)
    assert a100.resources == (ResourceNumbers(name="nvidia.com/gpu", before=320, after=128),)
    # HAMi limits what each pod gets of a card, so its pods don't take turns as with time-slicing.
    assert a100.sharing is None


def test_a_cluster_that_was_not_inspected_has_no_number_before() -> None:
    desired = desired_of(base())
    world = World.of(base())
    inspection = world.inspected(desired)
    unseen = replace(
        inspection,
        unreachable="no route",
        difference=replace(
            inspection.difference,
            scheduling=replace(
                inspection.difference.scheduling,
                gpus=tuple(replace(each, before=None) for each in inspection.difference.gpus),
            ),
        ),
    )
    change = changed(desired, unseen)
    assert change.gpus == Numbers(before=None, after=32)
    assert change.uninspected == ("no route",)


def test_nodes_are_added_removed_and_moved_with_their_pods() -> None:
    world = World.of(base())
    world.join("gpu-5")
    world.pods = [pod("train-0", "gpu-4", 8), pod("web", "gpu-4"), pod("stays", "gpu-3", 8)]
    document = base()
    document["pools"] = [
        {"name": "a100", "nodes": ["gpu-[1-2]", "gpu-5"], "gpusPerNode": 8},
        {"name": "batch", "nodes": ["gpu-3"], "gpusPerNode": 8},
    ]
    change = world.change(document)
    assert [(n.node, n.was, n.pool) for n in change.nodes] == [
        ("gpu-3", "a100", "batch"),
        ("gpu-4", "a100", ""),
        ("gpu-5", "", "a100"),
    ]
    assert change.pods == (
        PodChange(
            namespace="team-a",
            name="train-0",
            node="gpu-4",
            gpus=8,
            loss=Loss.LOSES_GPU,
            cause=Cause.LEAVES_POOL,
        ),
    )


def test_a_new_taint_that_evicts_names_the_pods_without_a_toleration() -> None:
    world = World.of(base())
    tolerant = [{"key": "example.com/own", "operator": "Exists"}]
    world.pods = [
        pod("a", "gpu-1", 1),
        pod("b", "gpu-1", 1, tolerations=tolerant),
        pod("c", "gpu-1", 1, tolerations=[{"key": "example.com/own", "value": "y"}]),
        pod("d", "gpu-1", 1, tolerations=[{"operator": "Exists", "effect": "NoSchedule"}]),
        pod("e", "gpu-1", 1, tolerations=[{"operator": "Exists"}]),
    ]
    taints = ["nvidia.com/gpu=present:NoSchedule", "example.com/own=x:NoExecute"]
    change = world.change(pool(taints=taints))
    assert [(each.name, each.loss) for each in change.pods] == [
        ("a", Loss.EVICTED), ("c", Loss.EVICTED), ("d", Loss.EVICTED),
    ]  # fmt: skip


@pytest.mark.promise(
    "A preview names each pod that would be evicted or lose its GPU, by namespace and name."
)
def test_a_rollout_names_waves_pods_and_the_gpus_that_are_down_meanwhile() -> None:
    world = World.of(base())
    world.pods = [pod("train-0", "gpu-1", 8), pod("ops/web", "gpu-2"), pod("far", "gpu-3", 8)]
    change = world.change(edited(runtime={"devicesByEnvironment": True}))
    drained = [node for node in change.nodes if node.drained]
    assert [(n.node, n.outage, n.wave, n.validated) for n in drained] == [
        ("gpu-1", Outage.ROLLOUT, 1, True),
        ("gpu-2", Outage.ROLLOUT, 2, True),
    ]
    assert [(p.namespace, p.name, p.gpus, p.loss) for p in change.pods] == [
        ("team-a", "train-0", 8, Loss.EVICTED),
        ("ops", "web", 0, Loss.EVICTED),
    ]
    assert change.gaps[0] == Gap(
        why="drained for runtime.devicesByEnvironment false → true",
        nodes=("gpu-1", "gpu-2"),
        gpus=16,
        at_most=8,
    )


def test_gpus_that_are_down_at_the_same_time_are_counted_by_the_waves() -> None:
    packaged = edited(driver={"source": "package", "version": "580.95.05"})
    packaged["hosts"] = [
        {"name": f"gpu-{n}", "address": f"192.0.2.{n}", "hostKey": HOST_KEY} for n in range(1, 5)
    ]
    after = copy.deepcopy(packaged)
    after["driver"]["version"] = "595.91.07"
    for number, most in ((1, 8), (2, 16), (3, 24), (9, 24)):
        after["rollout"] = {"maxUnavailable": number}
        change = World.of(packaged).change(after)
        (gap,) = change.gaps
        assert [node.wave for node in change.nodes if node.drained] == [1, 2, 2, 2]
        assert (gap.gpus, gap.at_most, gap.evicts) == (32, most, True)
        assert change.down == Down(nodes=gap.nodes, gpus=32, at_most=most)


def test_causes_that_overlap_give_one_total() -> None:
    change = World.of(base()).change(edited(runtime={"devicesByEnvironment": True}))
    assert [(gap.gpus, gap.evicts) for gap in change.gaps] == [(16, True), (32, False)]
    assert change.down == Down(nodes=("gpu-1", "gpu-2", "gpu-3", "gpu-4"), gpus=32, at_most=8)
    assert not change.is_full_outage


@pytest.mark.parametrize(("parallel", "most"), [(1, 8), (2, 16), (0, 32)])
def test_a_driver_in_a_container_evicts_pods_on_as_many_nodes_as_declared(
    parallel: int, most: int
) -> None:
    section = {"source": "operator", "version": "595.91.07"}
    before = edited(platform="gpu-operator", driver=section, hosts=[])
    before["gpuOperator"] = {"upgrade": {"parallel": parallel}}
    after = {**before, "driver": {**section, "version": "580.126.20"}}
    world = World.of(before)
    world.pods = [pod("train-0", "gpu-1", 8), pod("web", "gpu-1")]
    change = world.change(after)
    assert [(each.name, each.loss, each.cause) for each in change.pods] == [
        ("train-0", Loss.EVICTED, Cause.DRIVER)
    ]
    (gap,) = change.gaps
    assert (gap.at_most, gap.evicts) == (most, True)
    assert change.is_full_outage == (most == 32)


def test_what_becomes_of_gpus_that_are_not_down_is_told() -> None:
    world = World.of(base())
    change = world.change(pool(nodes=["gpu-[1-3]"], taints=["a.example/b:NoExecute"]))
    assert [(each.what, each.nodes, each.gpus, each.detail) for each in change.limits] == [
        (Restriction.LEAVES_POOL, ("gpu-4",), 8, ""),
        (Restriction.TAINT, ("gpu-1", "gpu-2", "gpu-3"), 24, "a.example/b:NoExecute"),
    ]
    (fewer,) = World.of(base()).change(pool(gpusPerNode=4)).limits
    assert (fewer.what, fewer.gpus) == (Restriction.UNDECLARED, 16)
    world = World.of(base())
    world.hosts["gpu-2"] = replace(world.hosts["gpu-2"], error="no answer")
    (unknown,) = world.change(base()).limits
    assert (unknown.what, unknown.nodes, unknown.gpus) == (Restriction.NOT_INSPECTED, ("gpu-2",), 8)


def test_a_pending_reboot_is_an_outage_if_reboots_are_allowed() -> None:
    world = World.of(base())
    world.hosts["gpu-2"] = replace(world.hosts["gpu-2"], reboot=("kernel 6.8",))
    world.pods = [pod("train-0", "gpu-2", 8)]
    calm = world.change(base())
    assert not calm.pods
    assert [each.what for each in calm.due] == ["reboot: kernel 6.8"]
    change = world.change(edited(reboot={"when": "required"}))
    (node,) = [each for each in change.nodes if each.rebooted]
    assert (node.node, node.outage, node.drained) == ("gpu-2", Outage.REBOOT, True)
    assert [each.name for each in change.pods] == ["train-0"]


@pytest.mark.promise("A preview says from what to what driver and chart change, and if it is down.")
def test_a_driver_that_goes_down_is_a_downgrade() -> None:
    world = World.of(base())
    change = world.change(edited(driver={"source": "package", "version": "580.95.05"}))
    (version,) = change.versions
    assert version.support is not None
    assert version.support.verdict == "unknown"
    assert version.model_copy(update={"support": None}) == VersionChange(
        part="driver",
        where=("gpu-1", "gpu-2"),
        was=DRIVER,
        now="580.95.05",
        direction=Direction.DOWNGRADE,
    )


def test_a_chart_that_goes_up_or_down_says_so() -> None:
    world = World.of(base())
    for version, direction in (("0.19.2", Direction.DOWNGRADE), ("0.20.1", None)):
        change = world.change(edited(devicePlugin={"version": version}))
        found = [(each.part, each.now, each.direction) for each in change.versions]
        expected = [("chart nvidia-device-plugin", version, direction)]
        assert found == (expected if direction else [])


@pytest.mark.promise("A preview refuses a driver that is known not to fit the kernel of a node.")
@pytest.mark.parametrize(
    ("kernel", "driver", "image", "found"),
    [
        ("6.8.0-60-generic", "595.91.07", "", ""),
        ("4.4.0-1", "595.91.07", "", "driver 595.91.07 on kernel 4.4.0-1, needs Linux 4.15"),
        ("6.8.0-60-generic", "580", "13.0.1", ""),
        ("6.15.2", "575.51.02", "", "known not to build since Linux 6.15"),
    ],
)
def test_versions_that_do_not_fit_each_other_are_refused(
    kernel: str, driver: str, image: str, found: str
) -> None:
    branch = {} if "." in driver else {"precompiled": True}
    section = {"source": "operator", "version": driver, **branch}
    operator = edited(platform="gpu-operator", driver=section, hosts=[])
    if image:
        name = f"nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda{image}"
        operator["validation"] = {"image": name}
    world = World.of(operator)
    for node in world.nodes.values():
        node["status"]["nodeInfo"]["kernelVersion"] = kernel
    faults = [fault.text for fault in world.change(operator).faults]
    assert len(faults) == bool(found), faults
    assert all(found in text for text in faults)


def test_another_platform_tells_that_gpus_are_gone_in_between() -> None:
    world = World.of(base())
    world.pods = [pod("train-0", "gpu-4", 8)]
    change = world.change(edited(platform="gpu-operator"))
    (gap,) = change.gaps
    assert (gap.gpus, gap.at_most, gap.nodes) == (32, 32, ("gpu-1", "gpu-2", "gpu-3", "gpu-4"))
    assert "device-plugin is removed before gpu-operator is installed" in gap.why
    assert [each.name for each in change.pods] == ["train-0"]


def test_pods_that_hold_more_than_is_declared_then_are_named() -> None:
    world = World.of(base())
    world.pods = [pod("a", "gpu-1", 3), pod("b", "gpu-1", 2), pod("c", "gpu-2", 4)]
    change = world.change(pool(gpusPerNode=4))
    assert [(each.name, each.loss) for each in change.pods] == [
        ("a", Loss.UNDECLARED_GPU),
        ("b", Loss.UNDECLARED_GPU),
    ]


@pytest.mark.promise("A preview names the configuration files on hosts that a run may write.")
@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"system": {"sysctl": {"vm.swappiness": "1"}}}, ("/etc/sysctl.d/zz-gpu-cluster.conf",)),
        ({"system": {"swapOff": False}}, ("/etc/fstab",)),
        (
            {"system": {"modules": ["overlay", "br_netfilter", "nf_conntrack"]}},
            ("/etc/modules-load.d/gpu-cluster.conf",),
        ),
        (
            {"runtime": {"devicesByEnvironment": True}},
            ("/etc/nvidia-container-runtime/config.toml",),
        ),
        ({"validation": {"timeoutSeconds": 121}}, ()),
    ],
)
def test_files_on_hosts_that_change_are_named(sections: Json, expected: tuple[str, ...]) -> None:
    change = World.of(base()).change(edited(**sections))
    assert tuple(each.what for each in change.files) == expected
    assert all(each.names == ("gpu-1", "gpu-2") for each in change.files)


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ({"sysctl": {"vm.swappiness": "1"}}, "/etc/sysctl.d/zz-gpu-cluster.conf"),
        ({"modules": ["nf_conntrack"]}, "/etc/modules-load.d/gpu-cluster.conf"),
        ({"limits": {"nofile": 1048576}}, "/etc/security/limits.d/99-gpu-cluster.conf"),
    ],
)
def test_files_of_settings_that_are_taken_out_are_named(system: Json, expected: str) -> None:
    change = World.of(edited(system=system)).change(base())
    assert expected in {each.what for each in change.files}


def test_a_step_says_only_files_that_its_scripts_name() -> None:
    for name, step in every().items():
        files = [FOLDER / f"{each}.sh" for each in step.files]
        shared = (FOLDER / "library").glob("*.sh")
        text = "".join(each.read_text() for each in [*files, *shared])
        for path in step.writes:
            folder, _, file = path.rpartition("/")
            assert file in text, (name, path)
            assert folder.rpartition("/")[2] in text, (name, path)


def test_change_drift_and_due_stay_apart() -> None:
    world = World.of(base())
    del world.nodes["gpu-3"]["metadata"]["labels"]["nvidia.com/gpu"]
    world.nodes["gpu-2"]["metadata"]["annotations"].pop("gpu-cluster/validation")
    change = world.change(pool(labels={"nvidia.com/gpu": "true", "team": "ml"}))
    assert [(e.names, e.what, e.was, e.now) for e in change.changes] == [
        (("gpu-1", "gpu-2", "gpu-3", "gpu-4"), "label team", "", "ml")
    ]
    assert [(e.names, e.what, e.was) for e in change.drift] == [
        (("gpu-3",), "label nvidia.com/gpu", "true")
    ]
    assert [(e.names, e.what) for e in change.due] == [(("gpu-2",), "not validated")]


def test_no_digest_of_settings_is_shown_as_a_value() -> None:
    world = World.of(base())
    change = world.change(edited(registry={"mirror": "mirror.example.com"}))
    text = document_of(change).write()
    assert "registry.*" in text
    assert not [each for each in change.changes if each.subject == "node" and each.was]


def test_equal_runs_give_equal_documents_whatever_the_order_of_the_engine() -> None:
    steps = [Resource(operation="update", type="t", name=name) for name in "abc"]
    rules = [(Problem(text=f"GPU04{n} x", rule=f"GPU04{n}"), "r") for n in range(3)]
    made = [
        assembled(
            "dev",
            [document_of(World.of(base()).change(pool(gpusPerNode=4)))],
            EngineSteps(resources=tuple(resources), rules=tuple(found), steps={"update": 3}),
            StackFile(),
        ).write()
        for resources, found in ((steps, rules), (steps[::-1], rules[::-1]))
    ]
    assert made[0] == made[1]


def test_the_published_schema_is_the_models_and_documents_keep_it() -> None:
    assert SCHEMA.read_text() == schema(), "run `make change-schema`"
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    for change in (
        World.of(base()).change(pool(gpusPerNode=4)),
        World.of(base()).change(edited(runtime={"devicesByEnvironment": True})),
        World().change(base()),
    ):
        advice = Problem(text="GPU049 x", mandatory=False)
        document = document_of(change, cause="c", rules=(advice,))
        validator.validate(json.loads(document.write()))
        assert Document.read(document.write()) == document


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", "null", '{"version": "v2", "stack": "s", "outcome": "changed"}',
        '{"version": "v1", "stack": "s", "outcome": "maybe"}',
        '{"version": "v1", "stack": "s", "outcome": "changed", "more": 1}',
        '{"version": "v1", "stack": 1, "outcome": "changed"}',
        '{"version": "v1", "stack": "s", "outcome": "failed", "cause": "' + "x" * 70_000 + '"}',
        "[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Document.read(text)


def test_a_document_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="wanted at most"):
        Document.read(" " * (32 * 1024 * 1024 + 1))
    with pytest.raises(ValueError, match="commas and colons; wanted at most"):
        Document.read('{"clusters": [' + ",".join(["{}"] * 2_000_000) + "]}")


@pytest.mark.parametrize(
    "hostile",
    [
        json.dumps({f"key-{number}": 1 for number in range(10_000)}),
        json.dumps({"clusters": [{"a": 1}] * 10_000}),
        json.dumps({"clusters": [{"name": "c", "nodes": [[]] * 10_000}]}),
        json.dumps({"faults": [1] * 10_000, "rules": [1] * 10_000}),
        json.dumps({"steps": {f"step-{number}": "x" for number in range(10_000)}}),
    ],
)
def test_a_hostile_document_has_few_errors_however_many_values_are_wrong(
    monkeypatch: pytest.MonkeyPatch, hostile: str
) -> None:
    errors = []
    first_error = document_module.first_error

    def count(error: ValidationError) -> tuple[str, str]:
        errors.append(error.error_count())
        return first_error(error)

    monkeypatch.setattr(document_module, "first_error", count)
    with pytest.raises(ValueError, match=r"."):
        Document.read(hostile)
    assert sum(errors) < 100


@pytest.mark.promise("A preview fails if it finds a fault that would stop the run.")
def test_a_fault_that_stops_the_run_fails_the_preview_whatever_the_engine_reports() -> None:
    change = EDITS["devices by environment, with a pod that may not be evicted"].change
    (fault,) = change.faults
    assert "gpu-1: found pods that no controller creates again" in fault.text
    document = assembled("dev", [document_of(change)], EngineSteps(), StackFile())
    assert (document.outcome, document.succeeded) == (Outcome.FAILED, False)
    assert document.cause == fault.text


@pytest.mark.parametrize("place", ["faults", "clusters", "rules"])
def test_no_document_says_success_beside_a_problem_that_stops_the_run(place: str) -> None:
    problem = Problem(text="host gpu-1: found a")
    parts: dict[str, Any] = {place: (problem,)}
    if place == "clusters":
        parts = {place: (ClusterChange(name="c", faults=(problem,)),)}
    with pytest.raises(ValueError, match="host gpu-1: found a"):
        Document(stack="dev", outcome=Outcome.CHANGED, **parts)
    found = Document(stack="dev", outcome=Outcome.FAILED, **parts)
    contradicting = found.write().replace('"failed"', '"changed"')
    with pytest.raises(ValueError, match="no change document"):
        Document.read(contradicting)
    advice = problem.model_copy(update={"mandatory": False})
    assert Document(stack="dev", outcome=Outcome.CHANGED, rules=(advice,)).succeeded


@pytest.mark.promise("A stack that moves to another cluster says so before anything else.")
def test_a_move_to_another_cluster_is_told_first() -> None:
    move = Move(was="lab", now="`x`\x1b[2J")
    change = World.of(base()).change(base())
    for cause in ("", "cluster x: found no answer"):
        steps = EngineSteps(move=move, cause=cause)
        document = Document.read(
            assembled("dev", [document_of(change)], steps, StackFile()).write()
        )
        assert document.move == move
        first = [line for line in rendered(document).splitlines() if line][2]
        assert first.startswith("**The cluster changes: `lab` → ")
        assert first.isprintable()
    assert move_text(move).startswith("The cluster changes: lab → `x`\\x1b[2J. All objects")


def test_the_state_tells_in_which_cluster_a_stack_is() -> None:
    stack: Any = SimpleNamespace(cluster=load(base()))
    provider = {
        "type": "pulumi:providers:kubernetes",
        "urn": "urn:pulumi:dev::gpu-cluster::pulumi:providers:kubernetes::gpu-cluster-kubernetes",
        "inputs": {"clusterIdentifier": "lab"},
    }
    state = automation.Deployment(3, {"resources": [provider]})
    assert move_of(stack, state) == Move(was="lab", now="gpu-cluster-dev")
    for inputs in ({"clusterIdentifier": "gpu-cluster-dev"}, {}, None):
        state = automation.Deployment(3, {"resources": [{**provider, "inputs": inputs}]})
        assert move_of(stack, state) is None
    assert move_of(stack, automation.Deployment(3, None)) is None


def test_a_failed_preview_keeps_its_cause_and_each_fault_once() -> None:
    change = ClusterChange(name="c", faults=(Problem(text="node gpu-9: found no such node"),))
    document = assembled(
        "dev",
        [document_of(change)],
        EngineSteps(
            errors=("node gpu-9: found no such node", "a plugin ended"), cause="a plugin ended"
        ),
        StackFile(),
    )
    assert (document.outcome, document.cause) == (Outcome.FAILED, "a plugin ended")
    assert [fault.text for fault in document.faults] == ["a plugin ended"]
    assert not document.succeeded


@pytest.fixture
def stack_file(tmp_path: Path) -> Path:
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text("# a comment\n" + yaml.safe_dump({"config": {"gpu-cluster:cluster": base()}}))
    return path


@pytest.mark.parametrize(
    ("text", "resource", "key"),
    [
        ("pools[0].gpusPerNode: found 9", "", "gpusPerNode: 8"),
        ("  1. pools[0].gpusPerNode: found 9", "", "gpusPerNode: 8"),
        ("host gpu-2: found no answer", "", "name: gpu-2"),
        ("pool a100: node gpu-9: found nothing", "", "name: a100"),
        ("node gpu-3: found nothing", "", "- gpu-[1-4]"),
        ("GPU049 spec.x: found 1", "gpu-cluster-gpu-platform-release", "platform:"),
        ("GPU049 spec.x: found 1", "somebody-elses", ""),
    ],
)
def test_a_problem_has_the_stack_files_line(
    stack_file: Path, text: str, resource: str, key: str
) -> None:
    found = StackFile.read(stack_file).located(Problem(text=text), resource)
    lines = stack_file.read_text().splitlines()
    if not key:
        assert (found.file, found.line) == ("", None)
        return
    assert found.file == "Pulumi.dev.yaml"
    assert found.line is not None
    near = lines[found.line - 1] + "\n" + lines[found.line]
    assert key in near


def test_a_stack_file_that_cannot_be_read_gives_no_lines(tmp_path: Path) -> None:
    file = StackFile.read(tmp_path / "absent.yaml")
    problem = Problem(text="host gpu-1: found x")
    assert located(document_of(ClusterChange(name="c", faults=(problem,))), file).clusters[
        0
    ].faults == (problem,)


def test_the_variable_names_a_file_or_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = document_of(ClusterChange(name="c"))
    monkeypatch.delenv(file.VARIABLE, raising=False)
    file.write(document, "c")
    for target, path in (
        (tmp_path / "change.json", tmp_path / "change.json"),
        (tmp_path, tmp_path / "c.json"),
    ):
        monkeypatch.setenv(file.VARIABLE, str(target))
        file.write(document, "c")
        assert Document.read(path.read_text()) == document
        assert path.stat().st_mode & 0o777 == 0o600
    file.write(document, "../../out")
    assert sorted(each.name for each in tmp_path.iterdir())[-1] != "out.json"
    assert len(list(tmp_path.iterdir())) == 3


def test_a_change_that_can_not_be_written_is_an_error_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(file.VARIABLE, str(tmp_path / "none" / "change.json"))
    wanted = f"{file.VARIABLE}: found .*: No such file or directory; wanted: a path where a file"
    with pytest.raises(pulumi.RunError, match=wanted):
        file.write(document_of(ClusterChange(name="c")), "c")


def test_a_program_that_stops_before_the_inspection_writes_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(file.VARIABLE, str(tmp_path / "change.json"))
    with pytest.raises(pulumi.RunError), file.failures_written("c", "Pulumi.dev.yaml"):
        raise pulumi.RunError("host gpu-1: found no key")
    document = Document.read((tmp_path / "change.json").read_text())
    assert document.outcome is Outcome.FAILED
    assert [fault.text for fault in document.faults] == ["host gpu-1: found no key"]


def test_an_edit_changes_nothing_of_the_world_it_is_compared_with() -> None:
    world = World.of(base())
    kept = copy.deepcopy(world.nodes)
    world.change(pool(gpusPerNode=4))
    assert world.nodes == kept
    assert world.change(base()).nodes == ()


def test_a_thousand_nodes_fit_a_document_that_can_be_read_again() -> None:
    nodes = tuple(
        NodeChange(node=f"gpu-{n}", was="a", pool="a", gpus=Numbers(before=8, after=4))
        for n in range(1000)
    )
    pods = tuple(
        PodChange(namespace="n" * 63, name="p" * 253, node=f"gpu-{n // 8}", loss=Loss.EVICTED)
        for n in range(8000)
    )
    document = document_of(ClusterChange(name="c", nodes=nodes, pods=pods))
    text = document.write()
    assert Document.read(text) == document
    largest_cluster = 5
    assert largest_cluster * (text.count(",") + text.count(":")) < document_module.MOST_SEPARATORS


@pytest.mark.parametrize(
    ("head", "item"),
    [
        ("", '{"a":1}'),
        ("", '{"a%d":"\u00e9%d"}'),
        ('"outcome":"failed",', '{"text":"a"}'),
        ('"stack":"d","outcome":"failed",', '{"text":"a"}'),
        ('"stack":"d","outcome":"failed",', "{" + ",".join(f'"u{i}":[]' for i in range(60)) + "}"),
    ],
)
@pytest.mark.parametrize("key", ["rules", "clusters", "unknown"])
def test_a_hostile_document_needs_less_than_half_a_gigabyte(head: str, item: str, key: str) -> None:
    separators = item.count(":") + item.count(",") + 1
    number = 60_000 // separators
    items = ",".join(item.replace("%d", str(i)) for i in range(number))
    text = f"{{{head}{json.dumps(key)}:[{items}]}}"
    tracemalloc.start()
    try:
        with contextlib.suppress(ValueError):
            Document.read(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak / (number * separators) * document_module.MOST_SEPARATORS < 512 * 1024 * 1024


def test_what_a_pool_advertises_is_unknown_while_one_of_its_nodes_is_missing() -> None:
    document = {**base(), "pools": [{"name": "a100", "nodes": ["gpu-[1-5]"], "gpusPerNode": 8}]}
    (pool,) = World.of(base()).change(document).pools
    assert (pool.gpus.before, pool.gpus.after) == (32, 40)
    assert [(each.name, each.before) for each in pool.resources] == [("nvidia.com/gpu", None)]


@pytest.mark.parametrize(
    ("was", "now", "text"), [("", "there", "is created"), ("there", "missing", "was deleted")]
)
def test_an_object_of_the_platform_is_created_or_was_deleted(was: str, now: str, text: str) -> None:
    statement = Statement(
        subject="object", names=("DaemonSet a/b",), aspect=Aspect.OBJECT, was=was, now=now
    )
    assert statement_text(statement) == f"platform's object {text}"


def test_a_node_that_leaves_out_another_gpu_is_validated_and_its_plugins_restart() -> None:
    change = EDITS["another GPU of a node left out"].change
    assert [each.node for each in change.nodes if each.validated] == ["gpu-3"]
    (gap,) = change.gaps
    assert (gap.nodes, gap.at_most, gap.evicts) == (("gpu-3", "gpu-4"), 14, False)


def test_each_device_plugin_restarts_at_the_same_time_as_the_others() -> None:
    (gap,) = EDITS["a sick GPU back, and one that stays out"].change.gaps
    assert (gap.gpus, gap.at_most) == (30, 23)
