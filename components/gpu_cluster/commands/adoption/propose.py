"""Settings with which a stack takes over a running cluster without changes; pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_cluster.base.confidential import is_confidential
from gpu_cluster.charts.extra_values import merged
from gpu_cluster.commands.adoption import handover
from gpu_cluster.commands.adoption.observed import (
    ManagerKind,
    ObservedCluster,
    ObservedNode,
    ObservedRelease,
    ObservedWorkload,
)
from gpu_cluster.commands.adoption.pools import (
    ObservedPool,
    Sharing,
    by_selector,
    gpu_pools,
    node_ranges,
    pool_names,
)
from gpu_cluster.kubernetes.engine import parse_engine
from gpu_cluster.kubernetes.managers import HAMI as HAMI_PLUGIN
from gpu_cluster.kubernetes.resources import DRIVER_LABEL
from gpu_cluster.loading.validate_adopted import variable_of
from gpu_cluster.platforms.findings import numbers, value_at
from gpu_rules.context import KUBE_SYSTEM
from gpu_rules.faults import Fault
from gpu_rules.kube.gpu_resources import GPU

Settings = dict[str, Any]

DEVICE_PLUGIN, GPU_OPERATOR, HAMI = "device-plugin", "gpu-operator", "hami"
PLUGIN = "NVIDIA's device plugin"
OPERATOR = "NVIDIA's GPU Operator"
# Name of the device plugin that kubespray installs from a manifest and GKE as an add-on.
KUBESPRAY = "a device plugin of GKE or kubespray"
# Platform of each kind of software whose DaemonSet advertises GPUs.
PLUGINS = {PLUGIN: DEVICE_PLUGIN, KUBESPRAY: DEVICE_PLUGIN, HAMI_PLUGIN: HAMI}
NFD = "Node Feature Discovery"
# Name of the Helm chart of each platform.
CHARTS = {DEVICE_PLUGIN: "nvidia-device-plugin", GPU_OPERATOR: "gpu-operator", HAMI: "hami"}
# First containerd version with CDI in its CRI plugin (containerd 1.7 release notes).
_CDI_CONTAINERD = (1, 7)
_NAMES = re.compile(r".*(name|names|secrets|refs?)$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Settings that describe a running cluster, and reasons why a stack can't take it over.

    Attributes:
        settings: Content of `gpu-cluster:cluster`, with camelCase keys.
        refused: Why the cluster's GPU software can't be taken over; empty if it can.
        notes: Facts that the user should know or decide about, one sentence each.
        ours: Names of the nodes whose labels and taints are already managed by a stack.
    """

    settings: Settings = field(default_factory=dict)
    refused: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    ours: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class _Software:
    """The software that advertises a cluster's GPUs.

    Attributes:
        release: Helm release of the software; None for plain manifests, and if no software
            advertises GPUs.
        objects: DaemonSets of the software, if they are plain manifests.
    """

    platform: str
    release: ObservedRelease | None = None
    objects: tuple[ObservedWorkload, ...] = ()


def propose(observed: ObservedCluster, context: str) -> Proposal:
    """Return the settings that describe a cluster and keep its GPU software as it is.

    Args:
        observed: The running cluster.
    """
    software, refused = _find_software(observed)
    pools = gpu_pools(observed.nodes)
    counted = tuple(pool for pool in pools if pool.gpus)
    sections = {
        "version": "v1",
        "kubernetes": {"context": context},
        "platform": software.platform,
        "adopted": _adopted_section(software),
        "driver": _driver_section(software),
        **_runtime_section(observed),
        **_platform_section(software, counted),
        "pools": [
            _propose_pool(pool, name, observed.nodes)
            for pool, name in zip(counted, pool_names(counted), strict=True)
        ],
        "maintenance": node_ranges(
            node for pool in counted for node in pool.nodes if not node.ready
        ),
    }
    return Proposal(
        settings={key: value for key, value in sections.items() if value},
        refused=(
            *refused,
            *_refused_values(software),
            *_check_edits(software),
            *_check_split_counts(software, counted),
        ),
        notes=tuple(_proposal_notes(observed, software, pools)),
        ours=frozenset(node.name for node in observed.nodes if node.is_ours),
    )


def _find_software(observed: ObservedCluster) -> tuple[_Software, tuple[Fault, ...]]:
    """Return the software that advertises GPUs, and the reasons why it can't be taken over."""
    operators = [workload for workload in observed.workloads if workload.what == OPERATOR]
    servers = [
        workload
        for workload in observed.workloads
        if workload.kind == "DaemonSet"
        and workload.what != NFD
        and workload.managed_by.kind is not ManagerKind.OPERATOR
    ]
    known_software = [*operators, *(server for server in servers if server.what in PLUGINS)]
    plugins = (PLUGINS[server.what] for server in servers if server.what in PLUGINS)
    platform = GPU_OPERATOR if operators else next(plugins, DEVICE_PLUGIN)
    faults = [*_check_unknown_software(servers), *_two_of_them(operators, servers)]
    faults += [fault for workload in known_software if (fault := handover.refusal(workload))]
    release = _release_of(known_software, observed.releases)
    if release is not None:
        faults += [*_check_release(release, CHARTS[platform]), *_gpu_cluster(release)]
        return _Software(platform=platform, release=release), tuple(faults)
    if platform != DEVICE_PLUGIN and not faults:
        faults.append(handover.no_release(known_software[0]))
    return _Software(platform=platform, objects=tuple(known_software)), tuple(faults)


def _release_of(
    workloads: Sequence[ObservedWorkload], releases: Iterable[ObservedRelease]
) -> ObservedRelease | None:
    keys = {workload.release for workload in workloads}
    return next(
        (release for release in releases if (release.namespace, release.name) in keys), None
    )


def _check_unknown_software(servers: Iterable[ObservedWorkload]) -> Iterator[Fault]:
    for server in servers:
        if server.what not in PLUGINS:
            yield Fault(
                str(server),
                f"{server.what}, managed by {server.managed_by}",
                "NVIDIA's device plugin, its GPU Operator or HAMi; only these are taken over",
                "keep it outside the stack, or replace it",
            )


def _two_of_them(
    operators: Sequence[ObservedWorkload], servers: Sequence[ObservedWorkload]
) -> Iterator[Fault]:
    """Yield a fault if GPUs are advertised by several Helm releases, or by release and manifest.

    Several plain manifests are no fault, because they can be for different nodes.
    """
    plugins = [server for server in servers if server.what in PLUGINS]
    sources = {workload.release for workload in (*operators, *plugins)}
    if len(sources) > 1 or (operators and plugins):
        first, *other_software = map(str, (*operators, *plugins))
        yield Fault(
            first,
            f"a device plugin in addition to {', '.join(other_software)}",
            "either one release or plain manifests: two device plugins would give the same GPU "
            "to two pods",
            "remove one of them",
        )


def _check_release(release: ObservedRelease, chart: str) -> Iterator[Fault]:
    if release.status != "deployed":
        yield Fault(
            str(release),
            f"status {release.status}",
            "status deployed: the last change of the release succeeded",
            f"see `helm history -n {release.namespace} {release.name}`, and roll it back",
        )
    if release.chart != chart:
        yield Fault(
            str(release),
            f"chart {release.chart}",
            f"chart {chart} as a separate release",
            "install this chart as a separate release, with the same values",
        )


def _gpu_cluster(release: ObservedRelease) -> Iterator[Fault]:
    """Yield a fault if the operator runs a GPUCluster (gpu-operator v26.7.0, values.yaml)."""
    if value_at(merged(release.defaults, release.values), "gpuCluster", "deployCR") is True:
        yield Fault(
            f"{release}: gpuCluster.deployCR",
            "true: the operator runs a GPUCluster, which is experimental, and with it NVIDIA's "
            "DRA driver",
            "a ClusterPolicy: this program manages the DRA driver only as a separate release",
            "keep it outside the stack; or remove it, declare `platform: dra` and run "
            "`gpu-cluster up`",
        )


def _check_edits(software: _Software) -> Iterator[Fault]:
    """Yield a fault for each edited field that the next upgrade of the Helm release would reset."""
    release = software.release
    for edit in release.edits if release else ():
        yield Fault(
            f"{edit.item}: {edit.path}",
            f"a value that was changed on the object, not in {release}",
            "the value of the release: the next upgrade resets it and may restart the pods",
            "write it into the release (`helm upgrade --reuse-values --set …`), or undo the edit",
        )


def _check_split_counts(software: _Software, pools: Iterable[ObservedPool]) -> Iterator[Fault]:
    """Yield a fault for nodes on which HAMi advertises GPUs another number of times than declared.

    Settings of single nodes stand in a file of the plugin (HAMi v2.10.0, values.yaml,
    devicePlugin.nodeConfiguration), which a release of the stack doesn't describe.
    """
    count = _split_count(software)
    if software.platform != HAMI or count is None:
        return
    for node, gpus in ((node, pool.gpus) for pool in pools for node in pool.nodes):
        advertised = node.advertised.get(GPU, 0)
        if advertised != gpus * count:
            yield Fault(
                f"node {node.name}",
                f"{GPU}: {advertised} for {gpus} GPUs",
                f"{gpus * count}: devicePlugin.deviceSplitCount is {count}",
                "remove devicesplitcount of this node from devicePlugin.nodeConfiguration, or "
                "leave the node out of the stack's pools",
            )


def _split_count(software: _Software) -> int | None:
    """Return how many containers share a GPU by HAMi's values; None if they don't say it."""
    count = value_at(_release_values(software), "devicePlugin", "deviceSplitCount")
    return count if isinstance(count, int) else None


def _refused_values(software: _Software) -> Iterator[Fault]:
    """Yield faults for secrets in values or manifests, which a stack file must not contain."""
    values_by_place: list[tuple[str, Mapping[str, Any]]] = [
        (str(workload), workload.manifest) for workload in software.objects
    ]
    if software.release is not None:
        values_by_place.append((str(software.release), software.release.values))
    for place, values in values_by_place:
        for path in _suspicious_paths(values):
            yield Fault(
                f"{place}: {path}",
                "a value that looks like a secret (not repeated here)",
                "no secret in a stack file, which many people can read",
                "put it into a Secret and name that Secret here",
            )


def _suspicious_paths(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of values whose key, or whose environment variable, suggests a secret."""
    if isinstance(value, Mapping):
        name, text = value.get("name"), value.get("value")
        if isinstance(name, str) and isinstance(text, str) and text and _is_secret(name):
            yield f"{path}.value"
        for key, item in value.items():
            key_path = f"{path}.{key}" if path else str(key)
            if isinstance(item, str) and item and _is_secret(str(key)):
                yield key_path
            else:
                yield from _suspicious_paths(item, key_path)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _suspicious_paths(item, f"{path}[{index}]")


def _is_secret(key: str) -> bool:
    """Return True if a key's value is probably a secret, not just the name of a Secret object."""
    return is_confidential(key) and not _NAMES.fullmatch(key)


def _adopted_section(software: _Software) -> Settings:
    release = software.release
    if release is not None and release.is_ours:
        # A stack installed or already adopted the release, so no section `adopted` is added.
        return {}
    if release is not None:
        release_fields = {
            "name": release.name,
            "namespace": release.namespace,
            "version": release.version,
            "values": dict(release.values),
        }
        return {"release": {key: value for key, value in release_fields.items() if value}}
    objects = [dict(workload.manifest) for workload in software.objects]
    return {"objects": objects} if objects else {}


def _release_values(software: _Software) -> Settings:
    release = software.release
    return merged(release.defaults, release.values) if release else {}


def _is_enabled(values: Mapping[str, Any], section: str) -> bool:
    section_values = values.get(section)
    return isinstance(section_values, Mapping) and section_values.get("enabled") is True


def _driver_section(software: _Software) -> Settings:
    brings = software.platform == GPU_OPERATOR and _is_enabled(_release_values(software), "driver")
    return {"source": "operator" if brings else "preinstalled"}


def _runtime_section(observed: ObservedCluster) -> Settings:
    """Return the section `runtime` of the stack file: default runtime and use of CDI."""
    runtime: Settings = {}
    if observed.runtime_classes.get("nvidia") == "nvidia":
        runtime["defaultRuntime"] = "runc"
    old = (
        numbers(version) < _CDI_CONTAINERD
        for node in observed.nodes
        for engine, version in [parse_engine(node.engine)]
        if engine == "containerd"
    )
    if any(old):
        runtime["cdi"] = False
    return {"runtime": runtime} if runtime else {}


def _platform_section(software: _Software, pools: Sequence[ObservedPool]) -> Settings:
    files = _plugin_files(pools)
    if software.platform == DEVICE_PLUGIN:
        if (strategy := _plugin_strategy(software)) not in ("", "none"):
            file = files.setdefault("config", {"version": "v1"})
            file["flags"] = {**file.get("flags", {}), "migStrategy": strategy}
        return {"devicePlugin": files} if files else {}
    if software.platform == HAMI:
        count = _split_count(software)
        return {"hami": {"deviceSplitCount": count}} if count else {}
    values = _release_values(software)
    operator: Settings = {
        "toolkit": _is_enabled(values, "toolkit"),
        "nfd": _is_enabled(values, "nfd"),
    }
    if files:
        operator["devicePlugin"] = files
    # The operator applies the variable last (gpu-operator v26.7.0, TransformDevicePlugin).
    variable = variable_of(values.get("devicePlugin"), "MIG_STRATEGY")
    strategy = variable or value_at(values, "mig", "strategy")
    if strategy in ("none", "single", "mixed"):
        operator["migStrategy"] = strategy
    return {"gpuOperator": operator}


def _plugin_strategy(software: _Software) -> str:
    """Return the MIG strategy of the plugin's variable, which overrides its file; empty if none.

    The plugin's chart makes the variable of a value.
    """
    if software.release is not None:
        return str(_release_values(software).get("migStrategy") or "")
    containers = (
        container
        for workload in software.objects
        for container in value_at(workload.manifest, "spec", "template", "spec", "containers") or ()
    )
    found = (variable_of(container, "MIG_STRATEGY") for container in containers)
    return next((text for text in found if text in ("single", "mixed")), "")


def _plugin_files(pools: Sequence[ObservedPool]) -> Settings:
    """Return the device plugin's configuration (sharing, MIG) that the nodes' labels show."""
    named_files = {
        pool.config: document for pool in pools if pool.config for document in [_plugin_file(pool)]
    }
    plain = [document for pool in pools if not pool.config and (document := _plugin_file(pool))]
    files: Settings = {}
    if plain:
        files["config"] = plain[0]
    if named_files:
        files["configs"] = named_files
    return files


def _plugin_file(pool: ObservedPool) -> Settings:
    document: Settings = {}
    if pool.mig:
        document["flags"] = {"migStrategy": "mixed"}
    if pool.sharing != Sharing():
        document["sharing"] = _plugin_sharing(pool.sharing)
    return {"version": "v1", **document} if document else {}


def _plugin_sharing(sharing: Sharing) -> Settings:
    shared: Settings = {"resources": [{"name": GPU, "replicas": sharing.replicas}]}
    if sharing.mps:
        return {"mps": shared}
    return {"timeSlicing": {**({"renameByDefault": True} if sharing.renamed else {}), **shared}}


def _propose_pool(pool: ObservedPool, name: str, nodes: Iterable[ObservedNode]) -> Settings:
    selector = by_selector(pool, nodes)
    node_selection: Settings = (
        {"selector": selector, "count": len(pool.nodes)}
        if selector
        else {"nodes": node_ranges(pool.nodes)}
    )
    return {
        "name": name,
        **node_selection,
        "gpusPerNode": pool.gpus,
        "labels": pool.labels,
        "taints": [str(taint) for taint in pool.taints],
        "startupTaint": False,
        **({"mig": dict(pool.mig)} if pool.mig else {}),
    }


def _proposal_notes(
    observed: ObservedCluster, software: _Software, pools: Sequence[ObservedPool]
) -> Iterator[str]:
    if software.release is None and not software.objects and not observed.workloads:
        yield "Nothing in the cluster advertises GPUs yet; the stack would install the platform."
    for pool in pools:
        names = ", ".join(node_ranges(pool.nodes))
        if not pool.gpus:
            yield (
                f"The number of GPUs of {names} ({pool.product or 'unknown GPUs'}) can't be read "
                "from the cluster, because their MIG devices stand for them: write a pool by hand."
            )
    for workload in software.objects:
        if workload.namespace != KUBE_SYSTEM:
            yield (
                f"{workload} is taken over for its image and its folder of the kubelet. Nothing "
                "says who made it. Find that out: the stack trusts it from then on."
            )
    yield from _different_sharing(pools)
    yield from _hosts_note(pools)
    resting = [node for pool in pools if pool.gpus for node in pool.nodes if not node.ready]
    if resting:
        yield (
            f"{', '.join(node_ranges(resting))} is not ready, so it is in maintenance: neither "
            "touched nor counted until you remove it there."
        )


def _hosts_note(pools: Sequence[ObservedPool]) -> Iterator[str]:
    """Yield a note that the nodes' hosts stay unchanged until the stack file declares them."""
    nodes = [node for pool in pools for node in pool.nodes]
    engines = sorted({node.engine for node in nodes if node.engine})
    drivers = sorted(
        {node.reported[DRIVER_LABEL] for node in nodes if DRIVER_LABEL in node.reported}
    )
    parts = [*(engine.replace("://", " ") for engine in engines), *(f"driver {d}" for d in drivers)]
    if parts:
        yield (
            f"The hosts stay as they were prepared ({', '.join(parts)}). Hosts that you declare in "
            "the section hosts are prepared by the stack; the preview shows what that changes."
        )


def _different_sharing(pools: Sequence[ObservedPool]) -> Iterator[str]:
    plain = {pool.sharing for pool in pools if not pool.config and pool.gpus}
    if len(plain) > 1:
        yield (
            "Nodes without the label nvidia.com/device-plugin.config share GPUs differently, which "
            "one configuration can't express; the first pool's sharing was written."
        )
