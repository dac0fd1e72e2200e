"""Helm values of the chart `hami`.

Value paths: Project-HAMi/HAMi v2.10.0 (4707fb02), charts/hami/values.yaml and templates.
"""

from __future__ import annotations

import json
from typing import Any

from gpu_cluster.charts.extra_values import merged
from gpu_cluster.platforms.site import Site
from gpu_cluster.settings.hami import HamiSettings
from gpu_cluster.settings.hosts.runtime import RuntimeSettings

Json = dict[str, Any]

CHART = "hami"
IMAGE = "docker.io/projecthami/hami"
# Image of the jobs that make the webhook's certificate, for Kubernetes 1.22 and later.
CERTIFICATE_JOB = "docker.io/liangjw/kube-webhook-certgen"
CERTIFICATE_JOB_TAG = "v1.1.1"
# Kubernetes' own registry in place of the chart's copy in Alibaba Cloud's registry.
KUBE_SCHEDULER = "registry.k8s.io/kube-scheduler"
# Label in the default node selector of the device plugin.
NODE_LABEL = {"gpu": "on"}


def values(hami: HamiSettings, site: Site, runtime_class: str | None) -> Json:
    """Return the Helm values.

    The Services get no port on nodes: the webhook is reached inside the cluster, and the metrics
    are read there. Pods of the scheduler tolerate the taints of GPU nodes, because a cluster may
    have no other nodes.
    """
    runtime = site.shared.runtime
    scheduler: Json = {
        "defaultSchedulerPolicy": {
            "nodeSchedulerPolicy": hami.node_policy.value,
            "gpuSchedulerPolicy": hami.gpu_policy.value,
        },
        "service": {"type": "ClusterIP"},
        "tolerations": site.tolerations,
        "kubeScheduler": {
            "image": image(site, KUBE_SCHEDULER, hami.kube_scheduler_version or ""),
        },
        "extender": {"image": image(site, IMAGE)},
        "patch": {
            "imageNew": image(site, CERTIFICATE_JOB, CERTIFICATE_JOB_TAG),
            "tolerations": site.tolerations,
        },
    }
    plugin: Json = {
        "deviceSplitCount": hami.device_split_count,
        "deviceMemoryScaling": hami.device_memory_scaling,
        "deviceListStrategy": device_list_strategy(runtime),
        "nodeConfiguration": {"config": node_configuration(site)},
        "service": {"type": "ClusterIP"},
        "tolerations": site.tolerations,
        "image": image(site, IMAGE),
        "monitor": {"image": image(site, IMAGE)},
    }
    if runtime_class:
        plugin["runtimeClassName"] = runtime_class
    secret = site.registry.pull_secret
    return merged(
        {
            "global": {
                "imageTag": f"v{hami.version}",
                **({"imagePullSecrets": [secret]} if secret else {}),
            },
            "scheduler": scheduler,
            "devicePlugin": plugin,
            "devices": {"nvidia": {"gpuCorePolicy": hami.core_policy.value}},
        },
        hami.extra_values,
    )


def device_list_strategy(runtime: RuntimeSettings) -> str:
    """Return how the plugin passes GPUs to containers.

    Prepared hosts ignore NVIDIA_VISIBLE_DEVICES in unprivileged containers, and accept mounts
    (pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go, getAllocateResponse).
    """
    return "envvar" if runtime.devices_by_environment else "volume-mounts"


def image(site: Site, repository: str, tag: str = "") -> Json:
    """Return the chart's values of an image; without a tag the chart's own applies.

    The chart joins registry, repository and tag, and leaves out an empty registry
    (templates/_commons.tpl, common.images.image).
    """
    name = {"registry": "", "repository": site.registry.rewritten(repository)}
    return {**name, "tag": tag} if tag else name


def node_configuration(site: Site) -> str:
    """Return the plugin's configuration of single nodes: GPUs to leave out by index.

    Source: pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go, readFromConfigFile.
    """
    nodes = [
        {"name": node, "filterdevices": {"uuid": [], "index": sorted(devices.index)}}
        for pool in site.gpu_pools
        for node, devices in pool.unhealthy_devices.items()
        if devices.index
    ]
    return json.dumps({"nodeconfig": nodes})
