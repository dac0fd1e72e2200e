"""What overrules a setting on a node or in a DaemonSet is named, with who wrote it."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from gpu_cluster.base import keys
from gpu_cluster.inspection import overruled
from gpu_cluster.kubernetes.resources import MIG_LABEL
from gpu_cluster.nodes import record
from gpu_cluster.platforms.base import NodeOverride, OperandOverride
from gpu_cluster.settings.declared_cluster import ClusterSettings
from gpu_cluster.settings.device_plugin import CONFIG_LABEL
from tests.components.change.world import World, base, desired_of
from tests.fixtures.api import client
from tests.fixtures.documents import stack_document

Json = dict[str, Any]
BY_OPERATOR = stack_document(
    platform="gpu-operator",
    driver={"source": "operator", "version": "595.91.07"},
    gpuOperator={"toolkit": True},
)
BY_HAND = stack_document(
    platform="gpu-operator",
    driver={"source": "operator", "version": "595.91.07"},
    gpuOperator={"upgrade": {"automatic": False}},
)
SANDBOX = stack_document(
    platform="gpu-operator", gpuOperator={"sandbox": {"defaultWorkload": "container"}}
)
MIG = stack_document(platform="gpu-operator")
MIG["pools"][0]["mig"] = {"1g.5gb": 7}
PLUGIN = base()


def overrides(document: Json) -> dict[str, NodeOverride]:
    return {each.key: each for each in desired_of(document).question.overrides}


def warnings(world: World, document: Json) -> list[str]:
    found = world.inspected(desired_of(document)).warnings
    return [text for text in found if ", whatever " in text]


def labelled(document: Json, key: str, value: str, manager: str = "kubectl-label") -> list[str]:
    """Return the warnings about a node that got a label or annotation by a field manager."""
    world = World.of(document)
    metadata = world.nodes["gpu-2"]["metadata"]
    is_annotation = key in overrides(document) and overrides(document)[key].is_annotation
    place = "annotations" if is_annotation else "labels"
    metadata.setdefault(place, {})[key] = value
    entry = {
        "manager": manager,
        "operation": "Update",
        "fieldsV1": {"f:metadata": {f"f:{place}": {f"f:{key}": {}}}},
    }
    metadata["managedFields"] = [*metadata.get("managedFields", []), entry]
    return warnings(world, document)


EVERY = [
    pytest.param(
        document,
        override,
        id=override.key,
        marks=pytest.mark.clusters("override", f"node {override.key}"),
    )
    for document in (BY_OPERATOR, BY_HAND, SANDBOX, MIG, PLUGIN)
    for override in overrides(document).values()
    # A pool that declares a layout gets its label from this program.
    if not (document is MIG and override.key == MIG_LABEL)
]


@pytest.mark.promise(
    "A preview names each label and annotation by which others overrule a setting on a node."
)
@pytest.mark.parametrize(("document", "override"), EVERY)
def test_a_label_of_others_that_overrules_a_setting_is_named(
    document: Json, override: NodeOverride
) -> None:
    value = min(override.values, default="other")
    (warning,) = labelled(document, override.key, value)
    kind = "annotation" if override.is_annotation else "label"
    assert warning.startswith(
        f"node gpu-2: found {kind} {override.key}={value}, set by kubectl-label"
    )
    assert f"{override.effect}, whatever {override.setting} says" in warning
    path = tuple(override.setting.replace("[]", ".0").split("."))
    assert keys.field_at(ClusterSettings, tuple(int(p) if p.isdigit() else p for p in path))


@pytest.mark.parametrize(("document", "override"), EVERY)
def test_a_label_that_agrees_or_that_this_program_set_is_not_named(
    document: Json, override: NodeOverride
) -> None:
    value = min(override.values, default="other")
    assert labelled(document, override.key, value, manager="gpu-cluster-dev") == []
    for harmless in override.harmless or ({"true", "paused-for-mig-change"} - override.values):
        if override.values or override.harmless:
            assert labelled(document, override.key, harmless) == []


def test_a_label_that_the_pool_declares_is_not_named() -> None:
    document = stack_document(platform="gpu-operator")
    document["pools"][0]["labels"] = {"nvidia.com/gpu.deploy.dcgm-exporter": "false"}
    assert labelled(document, "nvidia.com/gpu.deploy.dcgm-exporter", "false") == []


def test_a_layout_that_a_pool_declares_is_not_overruled_but_drift() -> None:
    assert labelled(MIG, MIG_LABEL, "all-2g.10gb") == []


def test_nodes_without_declared_gpus_are_left_out() -> None:
    document = base()
    document["pools"].append({"name": "cpu", "nodes": ["cpu-1"], "gpusPerNode": 0})
    world = World.of(document)
    world.nodes["cpu-1"]["metadata"]["labels"][CONFIG_LABEL] = "other"
    assert not [
        text for text in world.inspected(desired_of(document)).warnings if "whatever" in text
    ]


def test_nodes_with_the_same_label_share_a_warning_and_its_value_is_printable() -> None:
    world = World.of(base())
    for node in world.nodes.values():
        node["metadata"]["labels"][CONFIG_LABEL] = "a\x1b[2J"
    (warning,) = [
        text for text in world.inspected(desired_of(base())).warnings if "whatever" in text
    ]
    assert warning.startswith("nodes gpu-[1-4]: found label")
    assert warning.isprintable()


def test_what_is_not_enabled_is_not_overruled() -> None:
    plain = overrides(stack_document(platform="gpu-operator"))
    assert "nvidia.com/gpu.deploy.driver" not in plain
    assert "nvidia.com/gpu.deploy.container-toolkit" not in plain
    assert "nvidia.com/gpu.deploy.mig-manager" not in plain
    assert "nvidia.com/gpu.workload.config" not in plain


OPERANDS = desired_of(BY_OPERATOR).question.operand_overrides


def daemon_set(app: str, manager: str, container: Json, fields: Json) -> Json:
    """Return a DaemonSet of the operator, of which a field manager owns fields of a container."""
    of_container = {f'k:{{"name":"{container["name"]}"}}': {".": {}, "f:name": {}, **fields}}
    by_operator = {
        "manager": "gpu-operator",
        "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{overruled.HASH}": {}}}},
    }
    edit = {
        "manager": manager,
        "fieldsV1": {"f:spec": {"f:template": {"f:spec": {"f:containers": of_container}}}},
    }
    return {
        "metadata": {
            "namespace": "gpu-operator",
            "name": app,
            "labels": {"app": app},
            "managedFields": [by_operator, edit],
        },
        "spec": {"template": {"spec": {"containers": [container]}}},
    }


def edited(override: OperandOverride, manager: str) -> Json:
    if override.is_argument:
        container = {"name": "main", "args": [f"--{override.name}=other"]}
        return daemon_set(override.app, manager, container, {"f:args": {}})
    container = {"name": "main", "env": [{"name": override.name, "value": "other"}]}
    own = {"f:env": {f'k:{{"name":"{override.name}"}}': {"f:value": {}}}}
    return daemon_set(override.app, manager, container, own)


def messages(*sets: Json) -> list[str]:
    found = overruled.edited_operands(sets, OPERANDS)
    return list(map(str, overruled.operand_warnings(found)))


def test_a_daemon_set_of_a_tenant_overrules_no_setting() -> None:
    """Who creates a DaemonSet chooses its labels, and the names of its field managers."""
    own = edited(OPERANDS[0], "kubectl-edit")
    forged = {**own, "metadata": {**own["metadata"], "namespace": "team-a"}}
    pools = desired_of(BY_OPERATOR).validation.pools
    answer = {"metadata": {}, "items": [own, forged]}
    server = client(lambda _: httpx.Response(200, json=answer))
    found = asyncio.run(record.list_daemon_sets(server, pools))
    assert [item["metadata"]["namespace"] for item in found] == ["gpu-operator"]
    assert len(messages(*found)) == 1


@pytest.mark.promise(
    "A preview names each variable and argument that somebody wrote into a DaemonSet of the GPU "
    "Operator against a setting."
)
@pytest.mark.parametrize(
    "override",
    [
        pytest.param(
            each, marks=pytest.mark.clusters("override", f"DaemonSet {each.app} {each.name}")
        )
        for each in OPERANDS
    ],
    ids=lambda each: f"{each.app} {each.name}",
)
def test_an_edit_of_an_operand_that_overrules_a_setting_is_named(override: OperandOverride) -> None:
    (message,) = messages(edited(override, "kubectl-edit"))
    written = f"--{override.name}=other" if override.is_argument else f"{override.name}=other"
    assert message.startswith(f"DaemonSet gpu-operator/{override.app}: found ")
    assert f" {written}, set by kubectl-edit; wanted: what the operator wrote" in message
    assert f"the edit overrules {override.setting}; cure: remove the annotation" in message
    assert messages(edited(override, "gpu-operator")) == []


def test_variables_of_a_config_map_in_an_operand_are_named() -> None:
    app = "nvidia-device-plugin-daemonset"
    source = {"configMapRef": {"name": "site\x1b[2J"}}
    whole = {"name": "main", "envFrom": [source]}
    (message,) = messages(daemon_set(app, "kubectl-edit", whole, {"f:envFrom": {}}))
    assert "found all variables of site" in message
    assert "the edit overrules any setting" in message
    assert message.isprintable()
    one = {"name": "main", "env": [{"name": "MIG_STRATEGY", "valueFrom": {"configMapKeyRef": {}}}]}
    own = {"f:env": {'k:{"name":"MIG_STRATEGY"}': {"f:valueFrom": {}}}}
    (message,) = messages(daemon_set(app, "kubectl-set", one, own))
    assert "variable MIG_STRATEGY=the value of another object, set by kubectl-set" in message


def test_what_overrules_nothing_in_a_daemon_set_is_not_named() -> None:
    app = "nvidia-device-plugin-daemonset"
    proxy = {"name": "main", "env": [{"name": "HTTPS_PROXY", "value": "x"}], "args": ["--v=4"]}
    own = {"f:env": {'k:{"name":"HTTPS_PROXY"}': {"f:value": {}}}, "f:args": {}}
    assert messages(daemon_set(app, "kubectl-edit", proxy, own)) == []
    assert messages(edited(OperandOverride("other", "X", False, "x"), "kubectl-edit")) == []
    foreign = edited(OPERANDS[0], "kubectl-edit")
    foreign["metadata"]["managedFields"].pop(0)
    assert messages(foreign) == []
