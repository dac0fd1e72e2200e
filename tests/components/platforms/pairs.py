"""All pairs of feature and platform, as stack files, and their table in the documentation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.discovery import NAMES as PLATFORMS
from gpu_rules.faults import ConfigError, Fault
from tests.fixtures.clusters import INSTALLERS
from tests.fixtures.documents import stack_document

Json = dict[str, Any]
UUID = "GPU-11111111-2222-3333-4444-555555555555"

COUNTED = {
    "dra": "gpu.nvidia.com.deviceclass.resource.k8s.io/devices",
    "gpu-manager": "tencent.com/vcuda-core",
}
"""Resource of quotas, where it isn't that of whole GPUs."""


def plugin_file(platform: str, **keys: Any) -> Json:
    """Return the section with the device plugin's file; other platforms get the plugin's own."""
    section = {"config": {"version": "v1", **keys}}
    if platform == "gpu-operator":
        return {"gpuOperator": {"devicePlugin": section}}
    return {"devicePlugin": section}


def shared(kind: str) -> Callable[[str], Json]:
    resources = {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}
    return lambda platform: plugin_file(platform, sharing={kind: resources})


def pool(**changes: Any) -> Json:
    return {"pools": [{"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8, **changes}]}


def layout(platform: str) -> Json:
    strategy = {
        "device-plugin": plugin_file(platform, flags={"migStrategy": "mixed"}),
        "gpu-operator": {"gpuOperator": {"migStrategy": "mixed"}},
    }
    return {**pool(mig={"1g.5gb": 7}), **strategy.get(platform, {})}


def driver(platform: str, source: str) -> Json:
    # gpu-manager's library knows CUDA up to 11.5.
    version = "470.256.02" if platform == "gpu-manager" else "595.91.07"
    return {"driver": {"source": source, "version": version}}


def always(**sections: Any) -> Callable[[str], Json]:
    return lambda _: sections


TEST = {"image": "ghcr.io/x/y:1", "command": ["x"], "gpus": 8, "pattern": "{figure}", "minimum": 1}
FEATURES: Mapping[str, Callable[[str], Json]] = {
    "MIG layouts of pools": layout,
    "time-slicing": shared("timeSlicing"),
    "MPS": shared("mps"),
    "virtual machines": always(gpuOperator={"sandbox": {"defaultWorkload": "container"}}),
    "compute domains": always(dra={"computeDomains": True}),
    "GPUs left out by index": always(**pool(unhealthyDevices={"gpu-1": {"index": [5]}})),
    "GPUs left out by number": always(**pool(unhealthyDevices={"gpu-1": {"missing": 1}})),
    "the driver by the operator": lambda platform: driver(platform, "operator"),
    "the driver by a DaemonSet": lambda platform: {
        **driver(platform, "daemonset"),
        "driverInstaller": {"images": INSTALLERS},
    },
    "monitoring": always(monitoring={}),
    "quotas": lambda platform: {
        "guardrails": {
            "mode": "enforce",
            "quotas": [
                {
                    "namespace": "team",
                    "resources": {COUNTED.get(platform, "nvidia.com/gpu"): 4},
                }
            ],
        }
    },
    "limits of pods": always(scheduling={"limits": [{"namespace": "team", "maxCards": 2}]}),
    "tolerations": always(scheduling={"tolerations": [{"key": "site/spot", "operator": "Exists"}]}),
    "tests of your own": always(validation={"tests": {"speed": TEST}}),
    "a mirror of images": always(registry={"mirror": "registry.example.com/gpu"}),
    "no CDI": always(runtime={"cdi": False}),
}
"""Sections of a stack file by feature, for a platform."""
NAMES = tuple(sorted(PLATFORMS))


def base(platform: str) -> Json:
    """Return a stack file of a platform without further features."""
    needed = {
        "gpu-manager": {"gpuManager": {"extenderAddress": "10.96.0.200"}},
        "hami": {"hami": {"kubeSchedulerVersion": "v1.36.6"}},
    }
    return stack_document(**{"platform": platform, **needed.get(platform, {})})


def declared(platform: str, feature: str) -> Json:
    document = base(platform)
    for section, value in copy.deepcopy(FEATURES[feature](platform)).items():
        merges = isinstance(value, dict) and isinstance(document.get(section), dict)
        document[section] = {**document[section], **value} if merges else value
    return document


def faults(document: Json) -> tuple[Fault, ...]:
    try:
        load(copy.deepcopy(document))
    except ConfigError as error:
        return error.faults
    return ()


def effect(document: Json) -> str:
    """Return all that a stack deploys, sets and checks, without the settings themselves."""
    desired = resolve(load(copy.deepcopy(document)), "dev")
    platform = desired.platform
    parts = (
        platform.installation,
        [platform.offers(each) for each in platform.site.pools],
        desired.scheduling,
        desired.validation,
        desired.monitoring,
        desired.namespaces,
        desired.layouts,
        desired.installer,
        desired.guardrails,
        desired.registries,
        desired.rules,
        platform.engines,
    )
    return repr(parts)


def answer(platform: str, feature: str) -> str:
    """Return `yes`, or `refused` if the stack file with the feature has a fault."""
    return "refused" if faults(declared(platform, feature)) else "yes"


def table() -> str:
    """Return the Markdown table of all pairs."""
    lines = [f"| feature | {' | '.join(NAMES)} |", f"| --- |{' --- |' * len(NAMES)}"]
    lines += [
        f"| {feature} | {' | '.join(answer(platform, feature) for platform in NAMES)} |"
        for feature in FEATURES
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
