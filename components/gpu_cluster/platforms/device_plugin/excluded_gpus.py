"""DaemonSets of the device plugin for nodes with unhealthy GPUs; the plugin sees only healthy GPUs.

NVIDIA's plugin has no list of devices to exclude. `unhealthyDevices.json` and
`CHECKPOINT_DEVICE_ID_STRATEGY` belong to the plugin of Alibaba Cloud's
Container Service (its page "GPU Device Plugin-related operations"); k8s-device-plugin v0.20.0 reads
neither.
A plugin advertises the GPUs that it sees, and its container runtime injects the GPUs in
`NVIDIA_VISIBLE_DEVICES`, which the chart sets to `all`. Therefore nodes with unhealthy GPUs get
a separate DaemonSet with the same image, configuration and labels, and are excluded from the
chart's DaemonSet. Only the plugin's pod on such a node is replaced; other pods keep their GPUs.
"""

from __future__ import annotations

import re
from typing import Any

from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.platforms.device_plugin import values as chart
from gpu_cluster.platforms.site import Site
from gpu_cluster.settings.device_plugin import (
    CONFIG_LABEL,
    DEFAULT_CONFIG,
    DevicePluginSettings,
)

NAME = "nvidia-device-plugin-without"
KUBELET = "/var/lib/kubelet/device-plugins"


def daemon_sets(
    plugin: DevicePluginSettings, site: Site, values: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return one DaemonSet for each set of excluded GPUs, for the nodes with this set.

    Args:
        site: Other settings of the stack.
        values: Helm values of the chart, which the DaemonSets share.
    """
    groups: dict[tuple[int, tuple[int, ...], str], list[str]] = {}
    for node, (pool, left_out) in chart.exclusions(site.pools).items():
        name = site.labels_of(pool, node).get(CONFIG_LABEL, DEFAULT_CONFIG)
        groups.setdefault((pool.on_the_bus(node), left_out, name), []).append(node)
    return [
        _plugin_daemon_set(plugin, site, values, gpus, left_out, name, sorted(nodes))
        for (gpus, left_out, name), nodes in sorted(groups.items())
    ]


def _plugin_daemon_set(
    plugin: DevicePluginSettings,
    site: Site,
    values: dict[str, Any],
    gpus: int,
    left_out: tuple[int, ...],
    file: str,
    nodes: list[str],
) -> dict[str, Any]:
    visible = ",".join(str(index) for index in range(gpus) if index not in left_out)
    words = [*map(str, left_out), "of", str(gpus), *([file] if file != DEFAULT_CONFIG else [])]
    name = f"{NAME}-{re.sub('[^a-z0-9-]', '-', '-'.join(words).lower())}"
    identity = {
        "app.kubernetes.io/name": "nvidia-device-plugin",
        "app.kubernetes.io/instance": name,
    }
    mps = values.get("mps", {}).get("root", "/run/nvidia/mps")
    driver = values.get("nvidiaDriverRoot")
    folders = {
        "kubelet": (KUBELET, KUBELET),
        "mps-root": (mps, "/mps"),
        "mps-shm": (f"{mps}/shm", "/dev/shm"),  # noqa: S108  a path inside the container
        "cdi-root": ("/var/run/cdi", "/var/run/cdi"),
        **({"driver-root": (driver, "/driver-root")} if driver else {}),
    }
    environment = {
        "CONFIG_FILE": f"/config/{file}",
        "MPS_ROOT": mps,
        "NVIDIA_VISIBLE_DEVICES": visible,
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    }
    pod: dict[str, Any] = {
        "priorityClassName": "system-node-critical",
        "automountServiceAccountToken": False,
        "tolerations": chart.plugin_tolerations(site),
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [_on(node) for node in nodes]
                }
            }
        },
        "containers": [
            {
                "name": "nvidia-device-plugin-ctr",
                "image": chart.image(plugin, site),
                "command": ["nvidia-device-plugin"],
                "env": [{"name": key, "value": value} for key, value in environment.items()],
                # The chart also adds SYS_ADMIN if the configuration is a ConfigMap (0.20.0,
                # templates/_helpers.tpl, requiresCapSysAdmin). Without SYS_ADMIN the toolkit
                # ignores NVIDIA_VISIBLE_DEVICES.
                "securityContext": {"privileged": True}
                if chart.privileges(plugin)
                else {"capabilities": {"add": ["SYS_ADMIN"]}},
                "volumeMounts": [
                    {"name": "configs", "mountPath": "/config"},
                    *({"name": volume, "mountPath": at} for volume, (_, at) in folders.items()),
                ],
                **(
                    {"resources": limits}
                    if (limits := chart.resources(plugin, site.plugin_memory))
                    else {}
                ),
            }
        ],
        "volumes": [
            {"name": "configs", "configMap": {"name": chart.CONFIG_MAP}},
            *(
                {"name": volume, "hostPath": {"path": path}}
                for volume, (path, _) in folders.items()
            ),
        ],
    }
    if "runtimeClassName" in values:
        pod["runtimeClassName"] = values["runtimeClassName"]
    if site.registry.pull_secret:
        pod["imagePullSecrets"] = [{"name": site.registry.pull_secret}]
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": name,
            "namespace": plugin.namespace,
            "labels": {**identity, **LABELS},
        },
        "spec": {
            "selector": {"matchLabels": identity},
            "template": {
                "metadata": {"labels": identity, "annotations": chart.pod_annotations(plugin)},
                "spec": pod,
            },
        },
    }


def _on(node: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
