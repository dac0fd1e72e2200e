"""Cases of this project's Pulumi program: state of nodes after a run and after a destroy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.real.behaviours import gpus, heal, withdraw
from lab.real.case import Case
from lab.real.lab import GPUS, REAL, SIMULATED, Json
from lab.real.pod_inspections import ends, init_ends
from lab.real.stack_inspections import (
    classes_of_plugins,
    containers,
    labels,
    namespaces,
    notes,
    plugins,
    pods,
    recorded,
    runtime_class,
    taints,
)

Change = Callable[[Json], None]

_CHART = "nvidia-device-plugin 0.19.3, templates/daemonset-device-plugin.yml"
_MANAGER = "k8s-device-plugin v0.19.3, cmd/config-manager/main.go"
_PLUGIN = "k8s-device-plugin v0.19.3, internal/plugin/server.go"
_DEVICES = "kubernetes v1.34.4, pkg/kubelet/cm/devicemanager/manager.go"
_OURS = "docs/explanation/decisions/0013-nodes.md"


@dataclass(frozen=True)
class Step:
    """One `make` command, and the cases that are checked after it.

    Attributes:
        name: Description of the step.
        cases: Cases to check after the command.
        change: Function that changes the stack file before the command.
        command: Name of the command behind `make`, such as `up`.
    """

    name: str
    cases: tuple[Case, ...]
    change: Change = lambda document: None
    command: str = "up"


def _sharing_section(replicas: int) -> Json:
    return {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": replicas}]}}


def _slice_gpus(document: Json) -> None:
    document["devicePlugin"]["config"]["sharing"] = _sharing_section(3)


def _share_by_config(document: Json) -> None:
    device_plugin = document["devicePlugin"]
    del device_plugin["config"]["sharing"]
    device_plugin["configs"] = {
        "shared": {**device_plugin["config"], "sharing": _sharing_section(2)}
    }
    for pool in document["pools"]:
        pool["labels"] = {"nvidia.com/gpu": "true", "nvidia.com/device-plugin.config": "shared"}


def _leave_out(document: Json) -> None:
    del document["devicePlugin"]["configs"]
    for pool, nodes in zip(document["pools"], (REAL, SIMULATED), strict=True):
        del pool["labels"]
        pool["unhealthyDevices"] = {nodes[0]: {"index": [0, 3]}}


def _use_class_resources(document: Json) -> None:
    for pool in document["pools"]:
        del pool["unhealthyDevices"]
    document["runtime"] = {"defaultRuntime": "runc"}


_LABELS = {"nvidia.com/gpu": "true", "nvidia.com/gpu.present": "true"}
_PLUGIN_CONTAINERS = [("nvidia-device-plugin-ctr", True), ("nvidia-device-plugin-sidecar", True)]

STEPS = (
    Step(
        "the stack comes up",
        (
            Case("a node has the pool's labels", labels, _LABELS, _OURS),
            Case(
                "it has the pool's taints and no other",
                taints,
                ["nvidia.com/gpu=present:NoSchedule"],
                _OURS,
            ),
            Case(
                "its annotations are two of ours",
                notes,
                ["gpu-cluster/taints", "gpu-cluster/validation"],
                _OURS,
            ),
            Case("the chart's plugin runs", plugins(lambda s: s["phase"]), ["Running"], _CHART),
            Case(
                "plugin and config manager are ready",
                plugins(containers),
                [_PLUGIN_CONTAINERS],
                _CHART,
            ),
            Case(
                "its first config manager has ended well",
                plugins(init_ends),
                [[(0, "Completed")]],
                _MANAGER,
            ),
            Case("no container of it has ended", plugins(ends), [[]], _CHART),
            Case("it registers all GPUs", gpus, (GPUS, GPUS), _DEVICES),
            Case(
                "each GPU is in the record of the validation",
                recorded(
                    lambda validation_record: (
                        len(validation_record.devices),
                        validation_record.missing,
                    )
                ),
                (GPUS, 0),
                _OURS,
            ),
            Case(
                "the record says that no kernel ran",
                recorded(lambda validation_record: validation_record.simulated),
                True,
                _OURS,
            ),
            Case(
                "it holds as long as boot, kernel, runtime, plugin and settings do",
                recorded(lambda validation_record: sorted(validation_record.facts)),
                ["DaemonSet nvidia-device-plugin", "boot", "kernel", "runtime", "settings"],
                _OURS,
            ),
            Case(
                "no validation pod is left",
                lambda lab, node: len(pods(lab, node, "gpu-validation")),
                0,
                _OURS,
            ),
            Case("there is no RuntimeClass", runtime_class, "", _OURS),
        ),
    ),
    Step(
        "the configuration shares each GPU",
        (
            Case("a changed configuration is the plugin's", gpus, (24, 24), _MANAGER),
            Case(
                "each GPU is in the record, though three replicas ran on it",
                recorded(
                    lambda validation_record: (
                        len(validation_record.devices),
                        validation_record.missing,
                    )
                ),
                (GPUS, 0),
                _OURS,
            ),
        ),
        _slice_gpus,
    ),
    Step(
        "the nodes' label chooses time-slicing",
        (
            Case(
                "the label is the node's",
                labels,
                {**_LABELS, "nvidia.com/device-plugin.config": "shared"},
                _OURS,
            ),
            Case("the plugin offers replicas", gpus, (2 * GPUS, 2 * GPUS), _MANAGER),
            Case(
                "plugin and config manager are ready again",
                plugins(containers),
                [_PLUGIN_CONTAINERS],
                _MANAGER,
            ),
            Case(
                "each GPU is in the record, shared or not",
                recorded(
                    lambda validation_record: (
                        len(validation_record.devices),
                        validation_record.missing,
                    )
                ),
                (GPUS, 0),
                _OURS,
            ),
        ),
        _share_by_config,
    ),
    Step(
        "two GPUs are left out",
        (
            Case("the node's label is gone", labels, _LABELS, _OURS),
            Case("the other six are offered", gpus, (6, 6), _PLUGIN),
            Case(
                "one plugin runs, with no config manager",
                plugins(containers),
                [[("nvidia-device-plugin-ctr", True)]],
                _OURS,
            ),
            Case(
                "the six are in the record",
                recorded(
                    lambda validation_record: (
                        len(validation_record.devices),
                        validation_record.missing,
                    )
                ),
                (6, 0),
                _OURS,
            ),
        ),
        _leave_out,
    ),
    Step(
        "pods get GPUs by a RuntimeClass",
        (
            Case("the RuntimeClass names its handler", runtime_class, "nvidia", _OURS),
            Case("the plugin's pod has it", classes_of_plugins, ["nvidia"], _CHART),
            Case("all GPUs are offered again", gpus, (GPUS, GPUS), _DEVICES),
            Case(
                "all are in the record again",
                recorded(
                    lambda validation_record: (
                        len(validation_record.devices),
                        validation_record.missing,
                    )
                ),
                (GPUS, 0),
                _OURS,
            ),
            Case("a withdrawn GPU isn't offered", gpus, (GPUS, GPUS - 1), _PLUGIN, withdraw),
        ),
        _use_class_resources,
    ),
    Step(
        "the stack is destroyed",
        (
            Case("no label is left", labels, {}, _OURS, heal),
            Case("no taint is left", taints, [], _OURS),
            Case("no annotation of ours is left", notes, [], _OURS),
            Case("no namespace is left", namespaces, [], _OURS),
            Case("no RuntimeClass is left", runtime_class, "", _OURS),
            Case("without a plugin there is none to have", gpus, (GPUS, 0), _DEVICES),
        ),
        command="destroy",
    ),
)
