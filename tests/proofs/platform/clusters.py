"""Configurations that together use each setting which reaches a chart's values.

There is a configuration for each setting of the device plugin and the GPU Operator.
"""

from __future__ import annotations

from typing import Any

from gpu_cluster.loading.loader import load
from gpu_cluster.settings.cluster import Cluster
from tests.fixtures.clusters import INSTALLERS
from tests.resolved import platform_of

Json = dict[str, Any]
MIRROR = "registry.example.com/gpu"


def cluster(platform: str, **sections: Any) -> Cluster:
    return load(
        {
            "version": "v1",
            "kubernetes": {"context": "c"},
            "platform": platform,
            "pools": [{"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8}],
            **sections,
        }
    )


def plugin(**sections: Any) -> Cluster:
    return cluster("device-plugin", **sections)


def operator(**sections: Any) -> Cluster:
    return cluster("gpu-operator", **sections)


def pool(**changes: Any) -> list[Json]:
    return [{"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8, **changes}]


OWN_DRIVER = {"source": "operator"}
PRIVATE = {"mirror": MIRROR, "pullSecret": "registry-credentials"}
SLICED = {"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}}
CLUSTERS: dict[str, Cluster] = {
    "plugin": plugin(),
    "plugin-configs": plugin(
        pools=pool(labels={"nvidia.com/device-plugin.config": "sliced"}),
        devicePlugin={"configs": {"sliced": SLICED}, "resources": {"limits": {"memory": "100Mi"}}},
    ),
    "plugin-mps": plugin(
        devicePlugin={
            "config": {
                "flags": {"mpsRoot": "/var/mps"},
                "sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}},
            }
        }
    ),
    "plugin-cdi": plugin(
        runtime={"cdi": True, "defaultRuntime": "runc"},
        devicePlugin={"config": {"flags": {"plugin": {"deviceListStrategy": "cdi-annotations"}}}},
    ),
    "plugin-nfd": plugin(devicePlugin={"gfd": True}),
    "plugin-existing-nfd": plugin(devicePlugin={"gfd": True, "presence": "existing-nfd"}),
    "plugin-private": plugin(registry=PRIVATE, devicePlugin={"gfd": True}),
    "plugin-left-out": plugin(pools=pool(unhealthyDevices={"gpu-3": {"index": [3]}})),
    "plugin-driver": plugin(
        driver={"source": "daemonset", "version": "595.91.07"},
        driverInstaller={"images": INSTALLERS},
        pools=pool(unhealthyDevices={"gpu-3": {"index": [3]}}),
        devicePlugin={"resources": {"limits": {"cpu": "50m"}}},
    ),
    "plugin-extra": plugin(
        devicePlugin={
            "extraValues": {"podAnnotations": {"a": "b"}, "mps": {"enableHostPID": False}}
        }
    ),
    "hami": cluster("hami", hami={"kubeSchedulerVersion": "v1.36.3"}),
    "hami-runc": cluster(
        "hami",
        runtime={"defaultRuntime": "runc"},
        pools=pool(unhealthyDevices={"gpu-3": {"index": [3]}}),
        hami={
            "kubeSchedulerVersion": "v1.36.3",
            "deviceSplitCount": 4,
            "deviceMemoryScaling": 1.5,
            "nodePolicy": "spread",
            "gpuPolicy": "binpack",
            "corePolicy": "force",
            "extraValues": {"scheduler": {"replicas": 2}},
        },
    ),
    "hami-private": cluster("hami", registry=PRIVATE, hami={"kubeSchedulerVersion": "v1.36.3"}),
    "operator": operator(),
    "operator-driver": operator(driver={**OWN_DRIVER, "version": "595.91.07"}),
    "operator-driver-resource": operator(
        driver={**OWN_DRIVER, "resource": True, "kernelModuleType": "open"}
    ),
    "operator-precompiled": operator(driver={**OWN_DRIVER, "precompiled": True, "version": "595"}),
    "operator-upgrade": operator(
        driver=OWN_DRIVER,
        gpuOperator={
            "upgrade": {
                "parallel": 4,
                "maxUnavailable": 2,
                "wait": {"podSelector": "app=training", "timeoutSeconds": 60},
                "podDeletion": {"force": True},
                "drain": {"deleteEmptyDir": True},
            }
        },
    ),
    "operator-k3s": operator(driver=OWN_DRIVER, gpuOperator={"distribution": "k3s"}),
    "operator-nri": operator(driver=OWN_DRIVER, runtime={"cdi": True}, gpuOperator={"nri": True}),
    "operator-mig": operator(
        pools=pool(mig={"1g.5gb": 2, "2g.10gb": 2}), gpuOperator={"migStrategy": "mixed"}
    ),
    "operator-configs": operator(gpuOperator={"devicePlugin": {"config": SLICED}}),
    "operator-sandbox": operator(
        gpuOperator={"sandbox": {"defaultWorkload": "vm-passthrough", "mode": "kata"}}
    ),
    "operator-vgpu": operator(
        driver={
            **OWN_DRIVER,
            "version": "550.90.07",
            "imageRepository": "registry.example.com/vgpu",
        },
        gpuOperator={"vgpu": {"hostDriver": "17.3", "licenseSecret": "licensing-config"}},
    ),
    "operator-no-nfd": operator(gpuOperator={"nfd": False}),
    "operator-private": operator(driver=OWN_DRIVER, registry=PRIVATE),
    "operator-old": operator(gpuOperator={"version": "v26.3.2"}),
}


def chart_of(declared: Cluster) -> tuple[str, str, str, Json]:
    """Return chart name, chart version, namespace and Helm values of a configuration's platform."""
    platform = platform_of(declared)
    return (
        platform.chart,
        platform.version,
        platform.namespace,
        platform.values(),
    )
