"""Helm values of the chart `nvidia-device-plugin`.

Value paths: NVIDIA/k8s-device-plugin v0.20.0, deployments/helm/nvidia-device-plugin/values.yaml.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from gpu_cluster.charts.extra_values import merged, plain
from gpu_cluster.platforms.site import Site
from gpu_cluster.platforms.tolerations import discovery_tolerations
from gpu_cluster.settings.device_plugin import DEFAULT_CONFIG, DevicePluginSettings, Presence
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.plugin_flags import CDI

CONFIG_MAP = "nvidia-plugin-configs"
# Annotation of the plugin's pods. The chart sets it only for a ConfigMap that the chart itself
# creates (0.19.3 and 0.20.0, templates/_helpers.tpl, podAnnotations).
CHECKSUM = "checksum/config"
IMAGE = "nvcr.io/nvidia/k8s-device-plugin"

# Labels in the chart's default affinity; the plugin runs on nodes with any of them (values.yaml).
PRESENT = {
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/cpu-model.vendor_id": "NVIDIA",
    "nvidia.com/gpu.present": "true",
}


def image(plugin: DevicePluginSettings, site: Site) -> str:
    """Return the image name of the plugin's pods."""
    return site.registry.deployed(f"{IMAGE}:v{plugin.version}")


def values(plugin: DevicePluginSettings, site: Site, runtime_class: str | None) -> dict[str, Any]:
    """Return the Helm values.

    All settings of the plugin are in the ConfigMap. Chart values become arguments and environment
    variables, which take precedence over the file (api/config/v1, "precedence"). Only the driver
    root and the MPS root are set in both with the same value, because the chart mounts these
    directories.
    """
    result: dict[str, Any] = {
        "config": {"name": CONFIG_MAP, "default": DEFAULT_CONFIG},
        "gfd": {"enabled": plugin.gfd},
        # The subchart's condition has two paths (nfd, then gfd); Helm uses the first one that is
        # set.
        "nfd": _discovery_values(plugin, site),
        "tolerations": plugin_tolerations(site),
        "podAnnotations": pod_annotations(plugin),
    }
    if runtime_class:
        result["runtimeClassName"] = runtime_class
    flags = plugin.config.flags
    strategies = {
        strategy
        for file in (plugin.config, *plugin.configs.values())
        for strategy in file.flags.plugin.device_list_strategy
    }
    if flags.nvidia_driver_root != "/" or strategies & set(CDI):
        result["nvidiaDriverRoot"] = flags.nvidia_driver_root
    result |= privileges(plugin)
    if flags.mps_root:
        result["mps"] = {"root": flags.mps_root}
    if plugin_resources := resources(plugin, site.plugin_memory):
        result["resources"] = plugin_resources
    if left_out := sorted(exclusions(site.pools)):
        result["affinity"] = _affinity_to_others(left_out)
    return merged(_registry_values(plugin, site, result), plugin.extra_values)


def privileges(plugin: DevicePluginSettings) -> dict[str, Any]:
    """Return the Helm values that make the plugin privileged; empty if it need not be.

    A plugin that passes device specifications must run privileged, because Kubernetes' CPU manager
    updates its containers (k8s-device-plugin v0.20.0, README.md, `PASS_DEVICE_SPECS`). The chart
    only makes it privileged by `compatWithCPUManager`, which turns the flag on in every file.
    """
    passing = [
        file.flags.plugin.pass_device_specs for file in (plugin.config, *plugin.configs.values())
    ]
    if not any(passing) or "securityContext" in plugin.extra_values:
        return {}
    if all(passing):
        return {"compatWithCPUManager": True}
    return {"securityContext": {"privileged": True}}


def pod_annotations(plugin: DevicePluginSettings) -> dict[str, str]:
    """Return the pod annotation whose change makes the DaemonSet replace the plugin's pods.

    A running plugin doesn't read its file again, and config-manager restarts the plugin only if the
    node's label changes (k8s-device-plugin v0.19.3, cmd/config-manager/main.go).
    """
    text = json.dumps(plugin.files(), sort_keys=True)
    return {CHECKSUM: hashlib.sha256(text.encode()).hexdigest()}


def _discovery_values(plugin: DevicePluginSettings, site: Site) -> dict[str, Any]:
    if plugin.presence is not Presence.NFD:
        return {"enabled": False}
    return {"enabled": True, "worker": {"tolerations": discovery_tolerations(site.tolerations)}}


def exclusions(pools: tuple[Pool, ...]) -> dict[str, tuple[Pool, tuple[int, ...]]]:
    """Return the nodes with excluded GPUs, mapped to the node's pool and the indexes of these GPUs.

    GPUs that the driver does not show are not included.
    """
    return {
        node: (pool, tuple(sorted(devices.index)))
        for pool in pools
        for node, devices in pool.unhealthy_devices.items()
        if devices.index
    }


def resources(plugin: DevicePluginSettings, memory: str | None) -> dict[str, Any]:
    """Return the resource requests and limits of the plugin; empty if there are none.

    With a driver installer, the memory is `driverInstaller.pluginMemory` (kubespray's
    nvidia_gpu_device_plugin_memory), unless `devicePlugin.resources` sets memory.
    """
    declared = plain(plugin.resources or {})
    if memory is None or any("memory" in amounts for amounts in declared.values()):
        return dict(declared)
    kinds = ("limits", "requests")
    return {**declared, **{kind: {**declared.get(kind, {}), "memory": memory} for kind in kinds}}


def plugin_tolerations(site: Site) -> list[dict[str, str]]:
    """Return the tolerations that all pods of the device plugin get."""
    critical = {"key": "CriticalAddonsOnly", "operator": "Exists"}
    return [critical, *(toleration for toleration in site.tolerations if toleration != critical)]


def _affinity_to_others(nodes: list[str]) -> dict[str, Any]:
    """Return the chart's default node affinity, minus nodes that have a separate DaemonSet."""
    other_nodes = [
        {"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes
    ]
    terms = [
        {
            "matchExpressions": [{"key": key, "operator": "In", "values": [value]}],
            "matchFields": other_nodes,
        }
        for key, value in PRESENT.items()
    ]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }


def _registry_values(
    plugin: DevicePluginSettings, site: Site, values: dict[str, Any]
) -> dict[str, Any]:
    registry, nfd = site.registry, dict(values["nfd"])
    tag = image(plugin, site).removeprefix(f"{IMAGE}:")
    if registry.pins and "@" in tag and "image" not in plugin.extra_values:
        values["image"] = {"tag": tag}
    if registry.mirror:
        values["image"] = {"repository": registry.rewritten(IMAGE)}
        nfd["image"] = {
            "repository": registry.rewritten("registry.k8s.io/nfd/node-feature-discovery")
        }
    if registry.pull_secret:
        values["imagePullSecrets"] = nfd["imagePullSecrets"] = [{"name": registry.pull_secret}]
    return {**values, "nfd": nfd}
