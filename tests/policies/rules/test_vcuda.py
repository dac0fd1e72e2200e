# ruff: noqa: E501  a table reads best one case a line
"""The rules for parts of a GPU, and for pods whose GPUs would not be counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_rules.kube.gpu_resources import BY_CLASS, HAMI_CORES, HAMI_MEMORY
from gpu_rules.rules import RULES, UNKNOWN, Context, Severity
from tests.policies.rules.cases import (
    CONTEXT,
    CORE,
    GPU,
    MEMORY,
    container,
    gpus,
    paths,
    pod,
    workload,
)
from tests.policies.rules.messages import judge

CORES = f"spec.containers[0].resources.limits[{CORE}]"
BLOCKS = f"spec.containers[0].resources.limits[{MEMORY}]"
INIT = "spec.initContainers[0].resources"
PARTS: list[tuple[str, str, Any, list[str]]] = [
    ("one hundredth", "GPU005", pod(container({CORE: 1, MEMORY: 1})), []),
    ("one GPU", "GPU005", pod(container({CORE: 100})), []),
    ("more than one", "GPU005", pod(container({CORE: 101})), [CORES]),
    ("none", "GPU005", pod(container({CORE: 0})), []),
    ("none and more than one", "GPU005", pod(container({CORE: 0}), container({CORE: 101})), [CORES.replace("[0]", "[1]")]),
    ("half a hundredth", "GPU005", pod(container({CORE: "500m"})), []),
    ("no number", "GPU005", pod(container({CORE: "one"})), []),
    ("unknown", "GPU005", pod(container({CORE: UNKNOWN})), []),
    ("in the second container", "GPU005", pod(container(), container({CORE: 101})), [CORES.replace("[0]", "[1]")]),
    ("behind an unknown one", "GPU005", pod(container({CORE: UNKNOWN}), container({CORE: 101})), [CORES.replace("[0]", "[1]")]),
    ("a part with memory", "GPU006", pod(container({CORE: 1, MEMORY: 1})), []),
    ("a part without", "GPU006", pod(container({CORE: 1})), [BLOCKS]),
    ("nearly a GPU without", "GPU006", pod(container({CORE: 99})), [BLOCKS]),
    ("a part with none", "GPU006", pod(container({CORE: 99, MEMORY: 0})), [BLOCKS]),
    ("a part with a crumb", "GPU006", pod(container({CORE: 99, MEMORY: "1m"})), []),
    ("a GPU without", "GPU006", pod(container({CORE: 100})), []),
    ("no part", "GPU006", pod(container({CORE: 0})), []),
    ("unknown memory", "GPU006", pod(container({CORE: 1, MEMORY: UNKNOWN})), []),
    ("unknown cores", "GPU006", pod(container({CORE: UNKNOWN})), []),
    ("unknown requests", "GPU006", pod(container({CORE: 1}, UNKNOWN)), []),
    ("unknown limits", "GPU006", pod(container(UNKNOWN, {CORE: 1})), []),
    ("behind a GPU", "GPU006", pod(container({CORE: 100}), container({CORE: 1})), [BLOCKS.replace("[0]", "[1]")]),
    ("memory with cores", "GPU018", pod(container({CORE: 1, MEMORY: 1})), []),
    ("memory alone", "GPU018", pod(container({MEMORY: 1})), [BLOCKS]),
    ("memory with no cores", "GPU018", pod(container({CORE: 0, MEMORY: 1})), [BLOCKS]),
    ("neither", "GPU018", pod(container({CORE: 0, MEMORY: 0})), []),
    ("no memory", "GPU018", pod(container({MEMORY: 0})), []),
    ("a crumb of memory", "GPU018", pod(container({MEMORY: "1m"})), [BLOCKS]),
    ("memory by request", "GPU018", pod(container(None, {MEMORY: 1})), [BLOCKS.replace("limits", "requests")]),
    ("memory, unknown cores", "GPU018", pod(container({CORE: UNKNOWN, MEMORY: 1})), []),
    ("memory, unknown requests", "GPU018", pod(container({MEMORY: 1}, UNKNOWN)), []),
    ("memory that is no number", "GPU018", pod(container({MEMORY: "one"})), []),
    ("behind one without", "GPU018", pod(container(), container({MEMORY: 1})), [BLOCKS.replace("[0]", "[1]")]),
    ("in a container", "GPU019", pod(container({CORE: 100})), []),
    ("in an init container", "GPU019", pod(container(), initContainers=[container({CORE: 100})]), [INIT]),
    ("both in one", "GPU019", pod(container(), initContainers=[container({CORE: 1, MEMORY: 1})]), [INIT, INIT]),
    ("in a sidecar", "GPU019", pod(container(), initContainers=[container({MEMORY: 1}, restartPolicy="Always")]), [INIT]),
    ("none before", "GPU019", pod(container(), initContainers=[container({CORE: 0, MEMORY: 0})]), []),
    ("unknown before", "GPU019", pod(container(), initContainers=[container({CORE: UNKNOWN})]), [INIT]),
    ("a GPU before", "GPU019", pod(container(), initContainers=[gpus()]), []),
    ("of one kind", "GPU021", pod(gpus(), gpus()), []),
    ("parts only", "GPU021", pod(container({CORE: 100})), []),
    ("of two kinds", "GPU021", pod(gpus(), container({CORE: 100})), ["spec"]),
    ("none of the other", "GPU021", pod(gpus(), container({CORE: 0})), []),
    ("none of this", "GPU021", pod(container({GPU: 0}), container({CORE: 100})), []),
    ("of two kinds in a template", "GPU021", workload("Job", gpus(), container({MEMORY: 1})), ["spec.template.spec"]),
    ("by its node", "GPU016", pod(gpus(), nodeName="gpu-1"), ["spec.nodeName"]),
    ("by a node's name that is empty", "GPU016", pod(gpus(), nodeName=""), []),
    ("by an unknown name", "GPU016", pod(gpus(), nodeName=UNKNOWN), []),
    ("by its node, without GPUs", "GPU016", pod(container(), nodeName="gpu-1"), []),
    ("by its node, two kinds", "GPU016", pod(gpus(), container({CORE: 100}), nodeName="gpu-1"), ["spec.nodeName"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "manifest", "wanted"), [r[1:] for r in PARTS], ids=[f"{r[1]} {r[0]}" for r in PARTS]
)
def test_parts_of_gpus(rule: str, manifest: Any, wanted: list[str]) -> None:
    assert paths(rule, manifest) == wanted


@pytest.mark.parametrize(("limits", "found"), [({}, "no memory"), ({MEMORY: "0Ki"}, "0Ki")])
def test_a_part_says_which_memory_it_has(limits: Any, found: str) -> None:
    (violation,) = [
        violation
        for violation in judge(pod(container({CORE: 1, **limits})), CONTEXT)
        if violation.rule.id == "GPU006"
    ]
    assert violation.found == found


@pytest.mark.parametrize(
    ("name", "amount", "cure"),
    [
        (CORE, "0.3", "Request hundredths of a GPU: 30 are 0.3 of a GPU."),
        (CORE, "10m", "Request hundredths of a GPU: 1 are 0.01 of a GPU."),
        (CORE, "990m", "Request hundredths of a GPU: 99 are 0.99 of a GPU."),
        (CORE, "5m", "Request hundredths of a GPU: 1 to 100, or a multiple of 100."),
        (CORE, "1500m", "Request hundredths of a GPU: 1 to 100, or a multiple of 100."),
        (CORE, "-500m", "Request hundredths of a GPU: 1 to 100, or a multiple of 100."),
        (MEMORY, "0.3", "Request whole blocks of 256 MiB."),
        (GPU, "0.3", "Request whole devices; parts of a GPU need MIG, time-slicing or vcuda."),
    ],
)
def test_a_fraction_is_cured_in_the_units_of_its_resource(
    name: str, amount: str, cure: str
) -> None:
    found = judge(pod(container({name: amount})), CONTEXT)
    assert [each.cure for each in found if each.rule.id == "GPU001"] == [cure]


def test_a_pod_for_another_platform_stops_a_preview() -> None:
    """Advice would not be enough, because such a pod stays Pending for ever."""
    assert RULES["GPU015"].severity is Severity.MANDATORY


@pytest.mark.promise("Rules about one product are off unless the settings say that it is used.")
@pytest.mark.parametrize(
    ("rule", "limits", "platform", "resource"),
    [
        ("GPU005", {CORE: 150}, "gpu-manager", CORE),
        ("GPU006", {CORE: 50}, "gpu-manager", MEMORY),
        ("GPU080", {GPU: 1, HAMI_MEMORY: "3Gi"}, "hami", HAMI_CORES),
    ],
)
def test_rules_about_a_product_are_off_unless_it_is_used(
    rule: str, limits: Any, platform: str, resource: str
) -> None:
    def is_found(context: Context) -> bool:
        return rule in {each.rule.id for each in judge(pod(container(limits)), context)}

    assert not is_found(Context())
    assert not is_found(Context(platform="gpu-operator"))
    assert is_found(Context(platform=platform))
    assert is_found(Context(resource_names=frozenset({resource})))


@pytest.mark.parametrize(
    ("platform", "limits", "known", "refused"),
    [
        (None, {CORE: 100}, (), False),
        (None, {GPU: 1}, (), False),
        ("device-plugin", {GPU: 1}, (), False),
        ("device-plugin", {CORE: 100}, (), True),
        ("device-plugin", {CORE: 0, MEMORY: "0"}, (), False),
        ("gpu-operator", {CORE: 0, MEMORY: 1}, (), True),
        ("gpu-manager", {GPU: 0}, (), False),
        ("gpu-operator", {MEMORY: 1}, (), True),
        ("gpu-operator", {GPU: 1}, (), False),
        ("gpu-manager", {CORE: 100, MEMORY: 1}, (), False),
        ("gpu-manager", {GPU: 1}, (), True),
        ("gpu-manager", {GPU: 1}, (GPU,), False),
        ("dra", {GPU: 1}, (), True),
        ("gpu-manager", {"nvidia.com/gpu.shared": 1}, (), True),
        ("dra", {CORE: 100}, (), True),
        ("dra", {GPU: 1}, (GPU,), False),
        ("hami", {GPU: 1, HAMI_MEMORY: 3000, HAMI_CORES: 30}, (), False),
        ("hami", {"nvidia.com/gpu.shared": 1}, (), True),
        ("hami", {CORE: 100}, (), True),
        ("device-plugin", {GPU: 1, HAMI_MEMORY: 3000}, (), True),
        ("gpu-operator", {GPU: 1, HAMI_CORES: 30}, (), True),
        ("of one's own", {GPU: 1, CORE: 100}, (), False),
        ("device-plugin", {"amd.com/gpu": 1}, (), True),
        ("device-plugin", {"amd.com/gpu": 1}, ("amd.com/gpu",), False),
        ("device-plugin", {"gpu.intel.com/i915": 1}, (), True),
        ("device-plugin", {"aliyun.com/gpu-mem": 1}, (), True),
        ("device-plugin", {"volcano.sh/vgpu-number": 1}, (), True),
        ("device-plugin", {"nvidia.com/pgpu": 1}, (), True),
        ("gpu-operator", {"nvidia.com/pgpu": 1}, (), False),
        ("device-plugin", {"nvidia.com/mig-1g.10gb": 1}, (), False),
        ("dra", {"nvidia.com/mig-1g.10gb": 1}, (), True),
        ("device-plugin", {f"{BY_CLASS}gpu.nvidia.com": 1}, (), True),
        ("device-plugin", {f"{BY_CLASS}gpu.nvidia.com": 1}, ("gpu.nvidia.com",), False),
        ("dra", {f"{BY_CLASS}gpu.nvidia.com": 1}, (), False),
        ("device-plugin", {"google.com/tpu": 1}, (), False),
    ],
)
def test_what_a_platform_advertises(platform: Any, limits: Any, known: Any, refused: bool) -> None:
    context = replace(CONTEXT, platform=platform, resource_names=frozenset(known))
    wanted = ["spec.containers[1].resources"] if refused else []
    assert paths("GPU015", pod(container(), container(limits)), context) == wanted
