"""Helm values of the chart `gpu-operator`.

Value paths: NVIDIA/gpu-operator v26.7.0, deployments/gpu-operator/values.yaml.
"""

from __future__ import annotations

from typing import Any

import yaml

from gpu_cluster.charts.digests import pinned
from gpu_cluster.charts.extra_values import merged
from gpu_cluster.charts.images import NFD, NFD_DEFINITIONS, sections
from gpu_cluster.charts.value_table import nearest_series, series_of
from gpu_cluster.kubernetes.resources import ALL_DISABLED
from gpu_cluster.platforms.gpu_operator.images import sections_in_use
from gpu_cluster.platforms.gpu_operator.mig_config import CONFIG_MAP, layouts
from gpu_cluster.platforms.site import Site
from gpu_cluster.platforms.tolerations import discovery_tolerations
from gpu_cluster.settings.device_plugin import DEFAULT_CONFIG
from gpu_cluster.settings.gpu_operator import Distribution, DriverUpgrade, GpuOperatorSettings

PLUGIN_CONFIG_MAP = "gpu-cluster-plugin-configs"

_DEFINITIONS = ("clusterpolicies.nvidia.com", "nvidiadrivers.nvidia.com", *NFD_DEFINITIONS)
_SINCE_V26_7 = (
    "computedomaincliques.resource.nvidia.com",
    "computedomains.resource.nvidia.com",
    "gpuclusters.nvidia.com",
)

# Paths of containerd in Rancher's distributions (NVIDIA/gpu-operator#623). Their config.toml.tmpl
# must not be used: that file replaces the configuration that the distributions generate at each
# start, which breaks the node (NVIDIA/gpu-operator#992).
_RANCHER = {
    "CONTAINERD_SOCKET": "/run/k3s/containerd/containerd.sock",
    "CONTAINERD_CONFIG": "/var/lib/rancher/{name}/agent/etc/containerd/config.toml",
}


def definitions(version: str) -> list[str]:
    """Return the CustomResourceDefinitions in the folders `crds/` of the chart and its subchart."""
    return sorted(
        (
            *_DEFINITIONS,
            *(_SINCE_V26_7 if nearest_series("gpu-operator", version) != "v26.3" else ()),
        )
    )


# Prefixes of labels that the operator, its operands and Node Feature Discovery set on nodes
# (gpu-operator v26.7.0 controllers/state_manager.go, k8s-operator-libs pkg/upgrade/consts.go;
# node-feature-discovery 0.19.0 api/nfd).
NODE_LABELS = [
    "feature.node.kubernetes.io/",
    "nvidia.com/cuda.",
    "nvidia.com/gfd.",
    "nvidia.com/gpu-driver-upgrade",
    "nvidia.com/gpu-operator.",
    "nvidia.com/gpu.",
    "nvidia.com/mig.",
    "nvidia.com/mps.",
    "nvidia.com/vgpu.",
]
NODE_ANNOTATIONS = ["nfd.node.kubernetes.io/", "nvidia.com/gpu-driver-upgrade"]

# CustomResourceDefinitions without which no version of the operator works.
POLICY_DEFINITIONS = ["clusterpolicies.nvidia.com"]


def values(operator: GpuOperatorSettings, site: Site) -> dict[str, Any]:
    """Return the Helm values."""
    result: dict[str, Any] = {
        "driver": _driver_values(operator, site),
        "toolkit": _toolkit_values(operator, site),
        "cdi": {"enabled": site.shared.runtime.cdi, "nriPluginEnabled": operator.nri},
        "nfd": {"enabled": operator.nfd},
        "mig": {"strategy": str(operator.mig_strategy)},
        "daemonsets": {"tolerations": site.tolerations},
        "dcgmExporter": {"serviceMonitor": {"enabled": False}},
    }
    if operator.nfd:
        worker = {"tolerations": discovery_tolerations(site.tolerations)}
        result["node-feature-discovery"] = {"worker": worker}
    if operator.sandbox:
        result["sandboxWorkloads"] = {
            "enabled": True,
            "defaultWorkload": str(operator.sandbox.default_workload),
            "mode": str(operator.sandbox.mode),
        }
    if plugin := _device_plugin(operator, site):
        result["devicePlugin"] = plugin
    if divided := layouts(site.pools):
        result["migManager"] = {
            "config": {
                "create": True,
                "name": CONFIG_MAP,
                "default": ALL_DISABLED,
                "data": {"config.yaml": _as_yaml({"version": "v1", "mig-configs": divided})},
            }
        }
    return merged(_image_registry_values(operator, site, result), operator.extra_values)


def _as_yaml(document: dict[str, Any]) -> str:
    return str(yaml.safe_dump(document, sort_keys=False))


def _driver_values(operator: GpuOperatorSettings, site: Site) -> dict[str, Any]:
    driver = site.shared.driver
    if not driver.managed_by_operator:
        return {"enabled": False}
    result: dict[str, Any] = {
        "enabled": True,
        "kernelModuleType": str(driver.kernel_module_type),
        "usePrecompiled": driver.precompiled,
        "nvidiaDriverCRD": {"enabled": driver.resource},
    }
    image = {
        # If the version is a digest, the operator uses it without the node's operating system
        # appended (gpu-operator v26.7.0, internal/image/image.go; controllers/object_controls.go,
        # resolveDriverTag; api/nvidia/v1alpha1/nvidiadriver_types.go, GetImagePath).
        "version": driver.digest or driver.version,
        "repository": driver.image_repository,
        "image": driver.image,
    }
    result |= {key: value for key, value in image.items() if value}
    if variables := site.proxy.both_cases:
        # The driver container downloads compilers from the operating system's repositories and
        # needs the proxy for them (GPU Operator documentation, "Install GPU Operator in Proxy
        # Environments").
        result["env"] = [{"name": name, "value": value} for name, value in variables.items()]
    if operator.vgpu:
        result["licensingConfig"] = {"secretName": operator.vgpu.license_secret}
        result["nvidiaDriverCRD"]["driverType"] = "vgpu"
    if operator.upgrade:
        result["upgradePolicy"] = _upgrade_values(operator.upgrade)
    return result


def _upgrade_values(upgrade: DriverUpgrade) -> dict[str, Any]:
    drain = upgrade.drain.model_dump(by_alias=True) if upgrade.drain else {}
    return {
        "autoUpgrade": upgrade.automatic,
        "maxParallelUpgrades": upgrade.parallel,
        "maxUnavailable": upgrade.max_unavailable,
        "waitForCompletion": upgrade.wait.model_dump(by_alias=True),
        "gpuPodDeletion": upgrade.pod_deletion.model_dump(by_alias=True),
        "drain": {"enable": upgrade.drain is not None, **drain},
    }


def _device_plugin(operator: GpuOperatorSettings, site: Site) -> dict[str, Any]:
    """Return the chart values of the device plugin.

    With CDI the operator sets the device list strategy itself. Without CDI its default is the
    environment variable, which containers may not use (`runtime.devicesByEnvironment`). Volume
    mounts are used in its place (NVIDIA's page "Preventing Unprivileged Access to GPUs in
    Kubernetes").
    """
    result: dict[str, Any] = {}
    if operator.device_plugin:
        files = operator.device_plugin.files()
        result["config"] = {
            "create": True,
            "name": PLUGIN_CONFIG_MAP,
            "default": DEFAULT_CONFIG,
            "data": {name: _as_yaml(file) for name, file in files.items()},
        }
    if not site.shared.runtime.cdi and _accepts_mounts(operator, site):
        result["env"] = [{"name": "DEVICE_LIST_STRATEGY", "value": "volume-mounts"}]
    return result


def _accepts_mounts(operator: GpuOperatorSettings, site: Site) -> bool:
    """Return True if the nodes' container toolkit accepts GPUs through volume mounts."""
    return not site.shared.runtime.devices_by_environment and (operator.toolkit or site.has_hosts)


def _toolkit_values(operator: GpuOperatorSettings, site: Site) -> dict[str, Any]:
    """Return the chart values of the container toolkit.

    `RUNTIME_CONFIG_SOURCE=file` keeps the drop-in file's version equal to that of the main
    configuration file. Read from the daemon, the drop-in would have version 4, which containerd 2.3
    rejects next to an older main file (NVIDIA/gpu-operator#2646). The variables that control which
    containers get GPUs come from nvidia-container-toolkit 1.20.0,
    cmd/nvidia-ctk-installer/toolkit/toolkit.go; `components/gpu_cluster/hosts/steps/toolkit.sh`
    configures hosts in the same way.
    """
    if not operator.toolkit:
        return {"enabled": False}
    paths = _RANCHER if operator.distribution is not Distribution.PLAIN else {}
    environment = {
        "RUNTIME_CONFIG_SOURCE": "file",
        "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED": str(
            site.shared.runtime.devices_by_environment
        ).lower(),
        "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS": "true",
        **{name: path.format(name=operator.distribution) for name, path in paths.items()},
    }
    return {
        "enabled": True,
        "env": [{"name": name, "value": value} for name, value in environment.items()],
    }


def _image_registry_values(
    operator: GpuOperatorSettings, site: Site, values: dict[str, Any]
) -> dict[str, Any]:
    """Return the values with every image taken from the private registry."""
    registry = site.registry
    series = nearest_series("gpu-operator", operator.version)
    for section in sections():
        if series not in map(series_of, section.versions):
            continue
        section_values: dict[str, Any] = {}
        is_own_image = section.path == "driver" and site.shared.driver.image_repository
        if registry.mirror and not is_own_image:
            section_values["repository"] = registry.rewritten(section.repository)
        if registry.pull_secret and section.secrets:
            section_values["imagePullSecrets"] = [registry.pull_secret]
        values = (
            merged(values, _nest_value(section.path, section_values)) if section_values else values
        )
    if registry.pins:
        values = merged(values, _digest_values(operator, site))
    nfd: dict[str, Any] = {}
    if registry.mirror:
        nfd["image"] = {"repository": registry.rewritten(NFD)}
    if registry.pull_secret:
        nfd["imagePullSecrets"] = [{"name": registry.pull_secret}]
    return merged(values, {"node-feature-discovery": nfd}) if nfd else values


def _digest_values(operator: GpuOperatorSettings, site: Site) -> dict[str, Any]:
    """Return chart values in which each known image's version ends with its digest.

    Images that `extraValues` replaces are skipped. The operator appends a version unchanged after
    the colon (gpu-operator v26.7.0, internal/image/image.go), and so does the chart
    (templates/_helpers.tpl).
    """
    result: dict[str, Any] = {}
    for section, section_values in sections_in_use(operator, site.shared.driver):
        version = section.versions.get(operator.version)
        if version is None or {"repository", "image", "version"} & set(section_values):
            continue
        repository = f"{section.repository}/{section.image}"
        tag = pinned(f"{repository}:{version}").removeprefix(f"{repository}:")
        if "@" in tag:
            result = merged(result, _nest_value(section.path, {"version": tag}))
    return result


def _nest_value(path: str, value: dict[str, Any]) -> dict[str, Any]:
    for step in reversed(path.split(".")):
        value = {step: value}
    return value
