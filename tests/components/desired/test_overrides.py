"""Each setting that pools and hosts override has one effect, wherever the document has it.

The settings and their values come from the models, so a new setting is tested without a change
here. A document declares a value in the section of the stack, in a pool, or in a host.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
from pydantic import ValidationError

from gpu_cluster.base.model import Model
from gpu_cluster.desired.resolve import Desired, resolve
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.inspection.judgement import Seen, judged
from gpu_cluster.inspection.observed_cluster import ClusterSeen
from gpu_cluster.loading.loader import load
from gpu_cluster.loading.warnings import warnings
from gpu_cluster.platforms.findings import Surroundings
from gpu_cluster.settings.hosts.driver import SOURCES_OF
from gpu_cluster.settings.hosts.sections import NodeSections
from gpu_cluster.settings.hosts.ssh import Reach
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_rules.faults import ConfigError, Fault
from tests.components.desired.samples import samples

Json = dict[str, Any]
SECTIONS = {
    **{name: field.annotation for name, field in NodeSections.model_fields.items()},
    "ssh": Reach,
}
SYSTEMS = {"ubuntu": f"registry.example.com/installer@sha256:{'0' * 64}"}
CDI = {"config": {"version": "v1", "flags": {"plugin": {"deviceListStrategy": "cdi-cri"}}}}
VERSION = "595.91.07"

CONTEXTS: Mapping[str, Json] = {
    "device-plugin": {"platform": "device-plugin"},
    "packages": {
        "platform": "device-plugin",
        "driver": {"source": "package", "version": VERSION},
        "cuda": {"source": "package", "version": "12.8"},
        "kernel": {"release": "6.1.0-42-amd64"},
    },
    "docker": {"platform": "device-plugin", "runtime": {"engine": "docker"}},
    "cdi": {
        "platform": "device-plugin",
        "devicePlugin": CDI,
        "runtime": {"defaultRuntime": "runc"},
    },
    "uuid": {
        "platform": "device-plugin",
        "driver": {"source": "package"},
        "unhealthy": {"gpu-2": {"uuid": ["GPU-00000001-0000-4000-8000-000000000000"]}},
    },
    "daemonset": {
        "platform": "device-plugin",
        "driver": {"source": "daemonset", "version": VERSION},
        "driverInstaller": {"images": SYSTEMS},
    },
    "operator": {"platform": "gpu-operator", "gpuOperator": {"nri": True, "toolkit": True}},
    "operator-driver": {
        "platform": "gpu-operator",
        "driver": {"source": "operator", "version": VERSION},
        "gpuOperator": {"upgrade": {}},
    },
    "gpu-manager": {"platform": "gpu-manager"},
    "hami": {"platform": "hami"},
    "dra": {"platform": "dra"},
    "kubeadm": {
        "platform": "device-plugin",
        "kubernetesPackages": {
            "version": "1.34.4",
            "init": {"endpoint": "192.0.2.9:6443", "network": {"manifest": "cni.yaml"}},
        },
    },
}
"""Stacks in which checks between sections, warnings and findings read overridable settings."""


def is_default(model: type[Model], sample: Json) -> bool:
    """Return True if a model accepts a document that declares only default values."""
    try:
        return model.model_validate(sample) == model()
    except ValidationError:
        return False


SETTINGS = [
    pytest.param(section, sample, id=f"{section}.{path}={number}")
    for section, model in SECTIONS.items()
    for number, (path, sample) in enumerate(samples(model))
    if path.count(".") < 2 and not is_default(model, sample)
]
SEEN = [
    Seen(
        hosts={"gpu-2": facts},
        cluster=ClusterSeen(
            surroundings=Surroundings(version="v1.34.0", engines={"gpu-2": engine}),
            kernels={"gpu-2": "7.0.0-1-amd64"},
        ),
    )
    for engine in ("containerd://1.6.38", "containerd://2.1.0", "cri-o://1.33.0")
    for facts in (
        HostFacts(),
        HostFacts(driver="550.54.14", os="ubuntu", os_version="24.04", containerd="1.6.38"),
        HostFacts(driver=VERSION, os="rocky", os_version="9.4", cgroup=2, nvidia_devices=8),
    )
]


@dataclass(frozen=True)
class Outcome:
    """What a document leads to: faults, or warnings and the desired state."""

    faults: frozenset[Fault]
    warnings: frozenset[Fault]
    desired: Desired | None

    def findings(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Return what inspections of the node `gpu-2` lead to."""
        assert self.desired is not None
        inspected = [judged(self.desired, seen) for seen in SEEN]
        return [(each.problems, each.warnings) for each in inspected]


def document(
    context: str, pools: tuple[str, ...], at: str = "", section: str = "", sample: Any = None
) -> Json:
    """Return a stack file's document.

    Args:
        context: Name of the context.
        pools: Names of the pools; the pool `b` has the node `gpu-2`.
        at: Level with the value: `stack`, `pool` (b) or `host` (gpu-2); empty for no value.
        section: Section of the value.
        sample: Document with the value.
    """
    declared = copy.deepcopy(dict(CONTEXTS[context]))
    sample = copy.deepcopy(sample)
    if section == "ssh" and "bastion" in sample:
        sample["bastion"]["hostKey"] = simulated.host_public_key("bastion")
    unhealthy = declared.pop("unhealthy", {})
    nodes = {"a": "gpu-1", "b": "gpu-2"}
    result: Json = {
        "version": "v1",
        "kubernetes": {"context": "test"},
        "pools": [{"name": pool, "nodes": [nodes[pool]], "gpusPerNode": 8} for pool in pools],
        "hosts": [
            {
                "name": nodes[pool],
                "address": f"192.0.2.1{number}",
                "hostKey": simulated.host_public_key(nodes[pool]),
                **({"role": "gpu-control-plane"} if context == "kubeadm" and not number else {}),
            }
            for number, pool in enumerate(pools)
        ],
        **declared,
    }
    if unhealthy:
        result["pools"][-1]["unhealthyDevices"] = unhealthy
    if context == "kubeadm":
        result["pools"][0]["taints"] = []
    if at == "stack":
        below = result.get(section, {})
        if section == "driver" and "source" in sample:
            unused = {key for key, sources in SOURCES_OF.items() if sample["source"] not in sources}
            below = {key: value for key, value in below.items() if key not in unused}
        result[section] = _over(below, sample)
    elif at == "pool":
        result["pools"][-1][section] = sample
    elif at == "host":
        result["hosts"][-1].update(sample if section == "ssh" else {section: sample})
    return result


def _over(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return {**below, **{key: _over(below.get(key), value) for key, value in above.items()}}


def outcome(declared: Json) -> Outcome:
    try:
        cluster = load(declared)
    except ConfigError as error:
        return Outcome(frozenset(_moved(error.faults)), frozenset(), None)
    return Outcome(frozenset(), frozenset(_moved(warnings(cluster))), resolve(cluster, "test"))


@cache
def base(context: str) -> Outcome:
    return outcome(document(context, ("a", "b")))


def _moved(faults: Iterable[Fault]) -> Iterator[Fault]:
    """Yield faults with the place that they have in the stack's sections."""
    for fault in faults:
        level, *rest = (*fault.location, "")
        if level in ("pools", "hosts") and rest[1] in {*SECTIONS, *Reach.model_fields}:
            place = fault.place.removeprefix(f"{level}[{rest[0]}].")
            yield replace(fault, place=f"ssh.{place}" if rest[1] in Reach.model_fields else place)
        else:
            yield fault


def is_refused_at(faults: frozenset[Fault], level: str, section: str) -> bool:
    """Return True if each fault names the level's own section."""
    places = {section, *(Reach.model_fields if section == "ssh" else ())}
    return all(
        fault.location[0] == level and places.intersection(fault.location) for fault in faults
    )


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_context_is_valid_without_the_value(context: str) -> None:
    assert base(context).faults == frozenset()
    assert outcome(document(context, ("b",))).faults == frozenset()


@pytest.mark.parametrize(("section", "model"), SECTIONS.items())
def test_each_setting_has_a_value_that_is_not_its_default(section: str, model: type[Model]) -> None:
    keys = {key for param in SETTINGS if param.values[0] == section for key in param.values[1]}
    assert keys == {field.alias for field in model.model_fields.values()}


@pytest.mark.promise(
    "A pool's or host's own value of a setting has the faults, the warnings and the effect of the "
    "same value in the stack's section, on its nodes only, or is refused with the reason."
)
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize(("section", "sample"), SETTINGS)
def test_a_value_of_the_only_pool_or_host_is_that_of_the_stack(
    context: str, section: str, sample: Json
) -> None:
    of_stack = outcome(document(context, ("b",), "stack", section, sample))
    of_pool = outcome(document(context, ("b",), "pool", section, sample))
    assert of_pool.faults == of_stack.faults
    assert of_pool.warnings == of_stack.warnings
    if of_pool.desired is None or of_stack.desired is None:
        assert of_pool.desired is of_stack.desired
    elif section == "ssh":  # The settings of the pool itself differ, and only its hosts use them.
        assert of_pool.desired.hosts == of_stack.desired.hosts
    else:
        assert of_pool.desired == of_stack.desired
    of_host = outcome(document(context, ("b",), "host", section, sample))
    if of_host.desired is None:
        assert is_refused_at(of_host.faults - of_stack.faults, "hosts", section)
        return
    assert of_stack.desired is not None, of_stack.faults
    assert of_host.desired.hosts == of_stack.desired.hosts
    assert of_host.warnings >= of_stack.warnings
    assert of_host.findings() == of_stack.findings()


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize(("section", "sample"), SETTINGS)
def test_a_value_of_a_pool_concerns_its_nodes_only_or_is_refused(
    context: str, section: str, sample: Json
) -> None:
    without, of_stack = (
        base(context),
        outcome(document(context, ("a", "b"), "stack", section, sample)),
    )
    of_pool = outcome(document(context, ("a", "b"), "pool", section, sample))
    if of_pool.desired is None:
        assert is_refused_at(of_pool.faults - of_stack.faults, "pools", section)
        return
    assert without.desired is not None
    stacks = [(without.desired, 0)]
    if of_stack.desired is not None:
        stacks.append((of_stack.desired, 1))
    else:  # Another section would have no effect at all.
        assert all(fault.location[0] != section for fault in of_stack.faults)
    for desired, number in stacks:
        assert of_pool.desired.hosts[number] == desired.hosts[number]
        assert of_pool.desired.validation.pools[number] == desired.validation.pools[number]
        assert of_pool.desired.scheduling.pools[number] == desired.scheduling.pools[number]
        names = list(desired.nodes.by_name)
        assert of_pool.desired.nodes.by_name[names[number]] == desired.nodes.by_name[names[number]]
        # One release runs on the nodes of both pools: it can't depend on the value of one pool.
        assert of_pool.desired.platform.installation == desired.platform.installation
    assert of_pool.warnings - without.warnings <= of_stack.warnings
