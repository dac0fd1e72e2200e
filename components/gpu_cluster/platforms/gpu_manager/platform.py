"""Platform `gpu-manager`: TKEStack's gpu-manager, installed by a Helm chart of this project.

In addition to the release it creates the Service of the scheduler extender, and a ConfigMap with
the configuration that the cluster's kube-scheduler needs. The scheduler is a static pod of the
control plane, so the cluster's administrator must mount this configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final

import yaml

from gpu_cluster.base.image import VECTORADD_CUDA_10
from gpu_cluster.charts.links import PROJECT_FILES
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.kubernetes.engine import parse_engine
from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.platforms import findings
from gpu_cluster.platforms.base import (
    Delivery,
    ExtraObject,
    Json,
    Monitored,
    Offer,
    Platform,
    Servers,
    Share,
    Trait,
)
from gpu_cluster.platforms.gpu_manager import values
from gpu_cluster.platforms.gpu_manager.metrics import METRICS
from gpu_cluster.settings.gpu_manager import CRI, GpuManagerSettings, release_of
from gpu_cluster.settings.hosts.driver import DriverSettings
from gpu_cluster.settings.hosts.kubernetes_packages import KubernetesPackagesSettings
from gpu_cluster.settings.hosts.runtime import Engine, RuntimeSettings, ToolkitSource
from gpu_cluster.settings.nodes.cards import cores
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.valid_sections import Level, ValidSections
from gpu_rules.faults import Fault, FaultSeverity, fault
from gpu_rules.kube.gpu_resources import VCUDA_CORE, VCUDA_MEMORY

# First kubelet version that rejects cgroup v1 by default (`failCgroupV1`).
NO_CGROUP_V1 = (1, 35)

# gpu-manager speaks only the interface `runtime.v1alpha2` of container engines. From these versions
# on, an engine no longer has this interface. Sources: tkestack/gpu-manager 8cd842e,
# pkg/runtime/runtime.go; containerd v2.0, docs/containerd-2.0.md; kubernetes/kubernetes#110618.
WITHOUT_V1ALPHA2: Final = {"containerd": (2, 0), "cri-o": (1, 26)}
# Sockets at which engines speak CRI (kubernetes v1.34 cmd/kubeadm/app/constants/
# constants_unix.go; K3s and RKE2 have their containerd elsewhere). gpu-manager ends if the socket
# does not answer (gpu-manager 8cd842e, pkg/runtime/runtime.go).
SOCKETS: Final = {
    "containerd": "/var/run/containerd/containerd.sock",
    "cri-o": "/var/run/crio/crio.sock",
    "docker": "/var/run/cri-dockerd.sock",
    "k3s": "/run/k3s/containerd/containerd.sock",
}
# gpu-manager looks for a container's cgroup `containerd-<id>.scope` or `cri-o-<id>.scope`; the
# engines' prefixes are `cri-containerd` and `crio`. Fixed after the newest release (gpu-manager
# f0669de6, pkg/utils/cgroup/cgroup.go; #164, #184).
WITHOUT_SCOPES, SCOPES_FIXED = (1, 1, 5), "f0669de6"

# gpu-manager's library for shares knows CUDA up to 11.5. These are the first driver branch with a
# newer CUDA, and the first one with CUDA 12 (vcuda-controller 72e0115, README: CUDA 11.5.1 and
# before; its issue #34: programs fail with driver 530; gpu-manager #159: with driver 510 memory
# can't be read, #199: CUDA 12).
NEWER_CUDA, CUDA_12 = 510, 525

# gpu-manager loads its library for shares only into containers that request less than a card
# (gpu-manager 8cd842e, pkg/services/allocator/nvidia/allocator.go), so one container of a
# validation requests half of a card and 2 GiB of its memory.
SHARE: Final = Share(
    amounts={VCUDA_CORE: cores(1) // 2, VCUDA_MEMORY: 8},
    cure="see gpu-manager's log on the node; if the whole cards pass, declare a `validation.image` "
    "with CUDA 11.5 or older, the newest that gpu-manager's library for shares supports",
)


def scheduler_data(service: Json) -> dict[str, str]:
    """Return the scheduler's configuration file for the cluster IP of the extender's Service."""
    document = values.scheduler_configuration(str(service.get("clusterIP", "")))
    return {"scheduler.yaml": yaml.safe_dump(document, sort_keys=False)}


class GpuManagerPlatform(Platform):
    """The Helm release `gpu-manager` in namespace kube-system, where TKEStack installs it."""

    settings: GpuManagerSettings

    chart = "gpu-manager"
    # TKEStack publishes manifests but no Helm chart, so this project contains one. Its path
    # stands in the state, so it must be the same in a clone and in a site's repository.
    repository = f"./{PROJECT_FILES}/gpu-manager"
    own_chart = Path(__file__).with_name("chart")
    servers = Servers("name=gpu-manager-ds", "gpu-manager-daemonset")
    delivery = Delivery.PLUGIN
    own_namespace = False
    traits = frozenset({Trait.SHARES_CARDS, Trait.WANTS_CGROUP_V1})
    version = values.VERSION
    namespace = values.NAMESPACE
    found_by = (("nvidia-device-enable", "enable"),)

    @property
    def monitored(self) -> Monitored:
        """Return the data of the platform for the monitoring."""
        return Monitored(resource=("tencent_com_vcuda_core", 100), metrics=METRICS)

    def values(self) -> Json:
        """Return the Helm values of the release."""
        return values.values(self.settings, self.site)

    @staticmethod
    def placing_values(values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return all values: the pods are placed by those at the top."""
        return values

    def offers(self, pool: Pool) -> tuple[Offer, ...]:
        """Return the extended resource that each node of a pool advertises."""
        gpus = pool.gpus_per_node
        return (Offer(VCUDA_CORE, cores(gpus), gpus, cores(1), SHARE),)

    @property
    def service_address(self) -> str:
        """Return the IP address set for the scheduler extender's Service, or an empty string."""
        return self.settings.extender_address or ""

    def images(self) -> Iterator[str]:
        """Yield the images that the release needs."""
        yield self.settings.image
        yield self.settings.admission_image

    def extra_objects(self) -> tuple[ExtraObject, ...]:
        """Return the scheduler extender's Service and the ConfigMap for the scheduler."""
        address = self.settings.extender_address
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": values.ADMISSION,
                "namespace": values.NAMESPACE,
                "labels": LABELS,
                # The release creates the Service's pods after the Service, so Pulumi must not wait
                # for them.
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            "spec": {
                "selector": {"name": values.ADMISSION},
                "ports": [{"name": "extender", "port": values.PORT, "targetPort": "extender"}],
                **({"clusterIP": address} if address else {}),
            },
        }
        scheduler = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": values.SCHEDULER,
                "namespace": values.NAMESPACE,
                "labels": LABELS,
            },
        }
        return (
            ExtraObject(key="extender", manifest=service),
            ExtraObject(
                key="scheduler", manifest=scheduler, source="extender", data=scheduler_data
            ),
        )

    def labels(self, pool: Pool) -> dict[str, str]:
        """Return the DaemonSet's node selector label (gpu-manager 8cd842e, gpu-manager.yaml)."""
        return dict(self.found_by)

    @staticmethod
    def limit(cards: float) -> dict[str, str]:
        """Return the maximum of `tencent.com/vcuda-core` for this number of GPUs."""
        return {VCUDA_CORE: str(cores(cards))}

    @staticmethod
    def defaults(document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return sections with default values that gpu-manager can work with.

        Its library for shares knows CUDA up to 11.5, so the validation's image has an older one.
        The default image of gpu-manager needs containers whose cgroups are not by systemd, if the
        engine is not Docker (`WITHOUT_SCOPES`).
        """
        filled: dict[str, Any] = {}
        validation, manager = document.get("validation", {}), document.get("gpuManager", {})
        if isinstance(validation, Mapping):
            filled["validation"] = {"image": VECTORADD_CUDA_10, **validation}
        if isinstance(manager, Mapping) and _misses_scopes_by_name(manager.get("image")):
            filled |= {
                key: [_without_systemd(each) for each in document[key]]
                for key in ("pools", "hosts")
                if isinstance(document.get(key), list)
            }
            filled |= _without_systemd({"runtime": document.get("runtime", {})})
        return filled

    @staticmethod
    def validate_settings(sections: ValidSections) -> Iterator[Fault]:
        """Yield faults for sections that gpu-manager can't work with.

        These are an unneeded container toolkit, a driver that is too new, an image without CRI and
        an address outside of the Services' range.
        """
        manager = sections.section(GpuManagerSettings)
        if manager is None:
            return
        yield from _declared_address(manager, sections.section(KubernetesPackagesSettings))
        for level in sections.gpu_levels:
            yield from _node_settings(manager, level)

    @classmethod
    def shared(
        cls, driver: DriverSettings, runtime: RuntimeSettings
    ) -> dict[tuple[str, str], object]:
        """Return the settings that the release gives to all nodes with GPUs."""
        return {("runtime", "systemd_cgroup"): runtime.systemd_cgroup}

    def validate_cluster(
        self, surroundings: findings.Surroundings, hosts: Mapping[str, HostFacts]
    ) -> Iterator[Fault]:
        """Yield faults for nodes that can't run gpu-manager, and for the extender's address."""
        yield from _check_node_engines(
            self.settings, surroundings, systemd=self.site.shared.runtime.systemd_cgroup
        )
        yield from _check_drivers(surroundings, hosts)
        yield from _check_address(self.service_address, surroundings)
        yield from _check_runtimes(hosts)
        wanted = "cgroup v1: gpu-manager reads /sys/fs/cgroup/memory (tkestack/gpu-manager#184)"
        cure = "boot with systemd.unified_cgroup_hierarchy=0, or declare another platform"
        for name, facts in hosts.items():
            if facts.cgroup == 2 and not facts.simulated:
                yield Fault(f"host {name}", "cgroup v2", wanted, cure)
        if findings.numbers(surroundings.version) >= NO_CGROUP_V1:
            yield Fault(
                f"cluster {self.site.context}",
                f"Kubernetes {surroundings.version}, whose kubelet rejects cgroup v1 by default",
                "nodes with cgroup v1 and failCgroupV1: false",
                cure,
                FaultSeverity.WARNING,
            )


def _node_settings(manager: GpuManagerSettings, level: Level) -> Iterator[Fault]:
    """Yield faults for settings of a pool or host that gpu-manager can't work with."""
    runtime, driver, release = level.runtime, level.driver, release_of(manager.image)
    if runtime is not None and runtime.toolkit.source is ToolkitSource.PACKAGE:
        yield fault(
            (*level.place("runtime", "toolkit"), "source"),
            "runtime.toolkit.source package with platform gpu-manager",
            "no toolkit: gpu-manager mounts devices and libraries itself, and its pods run with "
            "runc",
            "remove runtime.toolkit",
        )
    for cuda_fault in _newer_cuda("driver.version", (driver and driver.version) or ""):
        if cuda_fault.severity is FaultSeverity.ERROR:
            yield fault(
                level.place("driver", "version"),
                cuda_fault.found,
                cuda_fault.wanted,
                cuda_fault.cure,
            )
    if runtime is None or release is None:
        return
    if release < CRI and runtime.engine is not Engine.DOCKER:
        yield fault(
            ("gpuManager", "image"),
            f"{manager.image}, with runtime.engine {runtime.engine}",
            f"{'.'.join(map(str, CRI))} or later, which supports CRI",
            f'write "image: {GpuManagerSettings().image}"',
        )


def _check_node_engines(
    manager: GpuManagerSettings, surroundings: findings.Surroundings, *, systemd: bool
) -> Iterator[Fault]:
    """Yield faults for container engines that gpu-manager can't work with, as nodes report them.

    Args:
        surroundings: State of the cluster, as the inspection read it.
        systemd: Whether containers have cgroups by systemd.
    """
    for node, text in surroundings.engines.items():
        engine, version = parse_engine(text)
        limit = WITHOUT_V1ALPHA2.get(engine)
        release, socket = release_of(manager.image), manager.container_runtime_endpoint
        engine_name = "k3s" if "k3s" in version else engine
        if limit and findings.numbers(version) >= limit:
            yield Fault(
                f"node {node}",
                f"{engine} {version}, without the interface v1alpha2 (CRI) that gpu-manager uses",
                f"{engine} before {limit[0]}.{limit[1]}",
                "declare another platform: no release of gpu-manager works with this engine",
            )
        elif (release is None or release >= CRI) and _of_another(engine_name, socket):
            yield Fault(
                f"node {node}",
                f"{socket}, the socket of another engine than its {engine} {version}",
                f"the socket at which {engine_name} speaks CRI: gpu-manager ends otherwise",
                f"write gpuManager.containerRuntimeEndpoint: {SOCKETS[engine_name]}",
            )
        elif limit and systemd and _misses_scopes(manager):
            yield Fault(
                f"node {node}",
                f"{engine} with cgroups by systemd, whose names {manager.image} does not know, so "
                "that programs on a share of a card fail",
                f"cgroups by cgroupfs, or an image built from {SCOPES_FIXED} or later",
                'write "systemdCgroup: false" in runtime if the kubelets use cgroupfs, or declare '
                "such an image",
            )


def _of_another(engine: str, socket: str) -> bool:
    """Return whether a path is the usual socket of another container engine than the given one."""
    usual = {path.removeprefix("/var"): name for name, path in SOCKETS.items()}
    return engine in SOCKETS and usual.get(socket.removeprefix("/var"), engine) != engine


def _check_drivers(
    surroundings: findings.Surroundings, hosts: Mapping[str, HostFacts]
) -> Iterator[Fault]:
    """Yield faults for drivers whose CUDA gpu-manager's library for shares does not know.

    Args:
        surroundings: State of the cluster, as the inspection read it.
        hosts: Facts by host, for inspected hosts; they count more than labels of their nodes.
    """
    versions = {
        f"node {name}": text for name, text in surroundings.drivers.items() if name not in hosts
    }
    versions |= {
        f"host {name}": facts.driver
        for name, facts in hosts.items()
        if facts.driver and not facts.simulated
    }
    for place, version in versions.items():
        yield from _newer_cuda(place, version)


def _check_runtimes(hosts: Mapping[str, HostFacts]) -> Iterator[Fault]:
    """Yield a fault for each host whose container engine starts all containers by NVIDIA's runtime.

    A default runtime that this program has set is left out, because this run takes it back.
    """
    for name, facts in hosts.items():
        if facts.default_runtime.startswith("nvidia") and "runtime" not in facts.applied:
            yield Fault(
                f"host {name}",
                f"{facts.default_runtime} as its container engine's default runtime, with which "
                "shares of a card don't work (tkestack/gpu-manager#78, tkestack/tke#1127)",
                "runc, the only one that gpu-manager supports",
                "make runc the engine's default runtime, and restart the engine",
            )


def _newer_cuda(place: str, version: str) -> Iterator[Fault]:
    """Yield a fault for a driver whose CUDA is too new for gpu-manager's library for shares."""
    branch = findings.numbers(version)[0]
    if branch < NEWER_CUDA:
        return
    effect = "fail" if branch >= CUDA_12 else "can't read its memory"
    yield Fault(
        place,
        f"driver {version}, whose CUDA gpu-manager's library for shares does not know, so that "
        f"programs on a share of a card {effect}",
        f"a driver with CUDA 11.5 or older, before {NEWER_CUDA}",
        "declare another platform: no release of gpu-manager knows a newer CUDA",
        FaultSeverity.ERROR if branch >= CUDA_12 else FaultSeverity.WARNING,
    )


def _contains_address(addresses: str, address: str) -> bool:
    """Return whether an address range (CIDR) contains an address; True if the range is invalid."""
    try:
        return ip_address(address) in ip_network(addresses, strict=False)
    except ValueError:
        return True


def _declared_address(
    manager: GpuManagerSettings, packages: KubernetesPackagesSettings | None
) -> Iterator[Fault]:
    """Yield a fault if the address is outside the Service range of the stack's own cluster."""
    init = packages.init if packages is not None else None
    if init and manager.extender_address:
        ranges = tuple(init.service_subnet.split(","))
        surroundings = findings.Surroundings(version="", service_ranges=ranges)
        for address_fault in _check_address(manager.extender_address, surroundings):
            yield fault(
                ("gpuManager", "extenderAddress"),
                address_fault.found,
                address_fault.wanted,
                address_fault.cure,
            )


def _misses_scopes_by_name(image: object) -> bool:
    """Return whether an image, or else the default one, does not know systemd's cgroup names."""
    release = release_of(image) if isinstance(image, str) else WITHOUT_SCOPES
    return release is not None and release <= WITHOUT_SCOPES


def _without_systemd(level: Any) -> Any:
    """Return a level of the document whose section `runtime` has no cgroups by systemd."""
    runtime = level.get("runtime") if isinstance(level, Mapping) else None
    if not isinstance(runtime, Mapping):
        return level
    return {**level, "runtime": {"systemdCgroup": False, **runtime}}


def _misses_scopes(manager: GpuManagerSettings) -> bool:
    release = release_of(manager.image)
    return release is not None and release <= WITHOUT_SCOPES


def _check_address(address: str, surroundings: findings.Surroundings) -> Iterator[Fault]:
    """Yield a fault if the extender's Service can't get its declared address."""
    if not address:
        return
    cure = "write another one, or leave it out: the cluster then chooses a free address"
    ranges, own_service = surroundings.service_ranges, f"{values.NAMESPACE}/{values.ADMISSION}"
    if ranges and not any(_contains_address(service_range, address) for service_range in ranges):
        found = f"{address}, outside of the cluster's addresses for Services"
        yield Fault("gpuManager.extenderAddress", found, f"one of {', '.join(ranges)}", cure)
    elif surroundings.address_owner not in ("", own_service):
        found = f"{address}, which the Service {surroundings.address_owner} has"
        yield Fault("gpuManager.extenderAddress", found, "an address that no Service has", cure)


PLATFORM = GpuManagerPlatform
