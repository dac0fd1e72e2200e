"""A device plugin that sees only a node's healthy GPUs, for nodes on which others are left out.

NVIDIA's plugin has no list of devices to leave out: ``unhealthyDevices.json`` and
``CHECKPOINT_DEVICE_ID_STRATEGY`` of document 001 belong to the plugin of Alibaba Cloud's Container
Service (its page "GPU Device Plugin-related operations"); k8s-device-plugin v0.20.0 reads neither.
What a plugin offers is what it sees, and what it sees is what its container runtime injects for
``NVIDIA_VISIBLE_DEVICES``, which the chart fixes to ``all``. So these nodes get a DaemonSet of
their own with the same image, configuration and labels, and the chart's leaves them out. Only the
plugin's pod of such a node is replaced; pods keep the GPUs that they have.
"""

from __future__ import annotations

import re
from typing import Any

from components.kubernetes.labels import LABELS
from components.platforms.device_plugin import values as chart
from components.platforms.site import Site
from components.settings.device_plugin import (
    CONFIG_LABEL,
    DEFAULT_CONFIG,
    DevicePluginSettings,
)

NAME = "nvidia-device-plugin-without"
KUBELET = "/var/lib/kubelet/device-plugins"


def daemon_sets(
    plugin: DevicePluginSettings, site: Site, values: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return one DaemonSet for each set of GPUs that is left out, on the nodes that have it.

    Args:
        plugin: the settings.
        site: the cluster.
        values: the chart's, from which image, resources and the rest are taken.
    """
    groups: dict[tuple[int, tuple[int, ...], str], list[str]] = {}
    for node, (pool, left_out) in chart.exclusions(site.pools).items():
        name = pool.labels.get(CONFIG_LABEL, DEFAULT_CONFIG)
        groups.setdefault((pool.on_the_bus(node), left_out, name), []).append(node)
    return [
        _daemon_set(plugin, site, values, gpus, left_out, name, sorted(nodes))
        for (gpus, left_out, name), nodes in sorted(groups.items())
    ]


def _daemon_set(
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
        "mps-shm": (f"{mps}/shm", "/dev/shm"),  # noqa: S108  the container's own
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
                # As the chart has it where the configuration is a ConfigMap (0.20.0,
                # templates/_helpers.tpl, requiresCapSysAdmin): only so the variable above counts.
                "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}},
                "volumeMounts": [
                    {"name": "configs", "mountPath": "/config"},
                    *({"name": volume, "mountPath": at} for volume, (_, at) in folders.items()),
                ],
                **(
                    {"resources": wanted}
                    if (wanted := chart.resources(plugin, site.plugin_memory))
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
