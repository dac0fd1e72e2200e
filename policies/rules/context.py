"""What the rules need to know about the cluster that a manifest is meant for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from ..facts.floors import Software, floor


class Severity(StrEnum):
    """What a violation does: `mandatory` stops a preview, `advisory` is printed, `off` is not."""

    MANDATORY = "mandatory"
    ADVISORY = "advisory"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class TaintFacts:
    """A node taint, `key=value:effect`; `value` may be empty."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """A pool of equal GPU nodes.

    `gpus_per_node`: whole devices on each node. `labels`: those that the stack sets; nodes may
    carry more. `taints`: those that the stack sets. `nodes`: how many there are, `None` where
    unknown. `node_names`: theirs, empty where unknown. `gpu_memory_mib`: memory of one device in
    MiB, `None` where unknown.
    """

    name: str
    gpus_per_node: int
    taints: tuple[TaintFacts, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    nodes: int | None = None
    node_names: frozenset[str] = frozenset()
    gpu_memory_mib: int | None = None


class Mig(StrEnum):
    """How the device plugin advertises MIG devices."""

    NONE = "none"
    SINGLE = "single"
    MIXED = "mixed"


class Sharing(StrEnum):
    """How the device plugin offers one GPU several times."""

    NONE = "none"
    TIME_SLICING = "time-slicing"
    MPS = "mps"


@dataclass(frozen=True, slots=True)
class PluginFacts:
    """How NVIDIA's device plugin is configured.

    `renamed`: shared GPUs are advertised as `nvidia.com/gpu.shared` (`renameByDefault`).
    `replicas`: how often each GPU is offered, 1 without sharing.
    """

    mig: Mig = Mig.NONE
    sharing: Sharing = Sharing.NONE
    renamed: bool = False
    replicas: int = 1


INFRASTRUCTURE_NAMESPACES = frozenset(
    {"kube-system", "gpu-operator", "nvidia-device-plugin", "nvidia-gpu-operator"}
)


# kubernetes v1.34.4 cmd/kube-controller-manager: with and without an account for each controller.
DAEMON_SET_CONTROLLERS = frozenset(
    {"system:serviceaccount:kube-system:daemon-set-controller", "system:kube-controller-manager"}
)


@dataclass(frozen=True, slots=True)
class Context:
    """The cluster, as far as it is known; rules that need more than is known judge nothing.

    `pools`: empty where unknown. `platform`: what hands out the GPUs (`device-plugin`,
    `gpu-operator`, `gpu-manager`, `dra`), `None` where unknown. `resource_names`: GPU resources
    that the nodes advertise besides the well-known ones. `extended_resource_toleration`: whether
    the API server runs that admission plugin, off by default (kubernetes v1.34.4
    pkg/kubeapiserver/options/plugins.go). `infrastructure_namespaces`: where the GPU stack's own
    pods run. `severities`: by rule id, in place of the rule's own. `plugin`: `None` where unknown.
    `runtime_class`: the RuntimeClass that GPU pods must name, empty where nvidia is the default
    runtime, `None` where unknown. `runtime_classes`: further ones that the cluster has.
    `max_gpus_per_container`, `max_gpus_per_pod`: caps in whole GPUs, `None` for none.
    `toolkit_floor`: the oldest NVIDIA Container Toolkit that may be deployed; by default the first
    with the fixes of all bulletins (`policies.facts.floors`). `daemon_set_controllers`: the users
    that make the pods of DaemonSets, which only admission sees.
    `namespace`: of objects that name none. `today`: for the end of exemptions, the current date by
    default.
    """

    pools: tuple[PoolFacts, ...] = ()
    platform: str | None = None
    resource_names: frozenset[str] = frozenset()
    extended_resource_toleration: bool = False
    infrastructure_namespaces: frozenset[str] = INFRASTRUCTURE_NAMESPACES
    severities: Mapping[str, Severity] = field(default_factory=dict)
    plugin: PluginFacts | None = None
    runtime_class: str | None = None
    runtime_classes: frozenset[str] = frozenset()
    max_gpus_per_container: int | None = None
    max_gpus_per_pod: int | None = None
    toolkit_floor: str = field(default_factory=lambda: floor(Software.TOOLKIT).fixed)
    namespace: str = ""
    daemon_set_controllers: frozenset[str] = DAEMON_SET_CONTROLLERS
    today: date | None = None
