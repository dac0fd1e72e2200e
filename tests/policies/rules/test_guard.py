"""The program checks its resources against the same rules without the policy pack."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import pulumi
    import pulumi_kubernetes as k8s

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_rules.guard import RuleBroken, check_declared
from gpu_rules.rules import Context, NodeTaint, PluginFacts, PoolFacts, Sharing, evaluate
from tests.mocks import LOOP

GPU = "nvidia.com/gpu"
CONTEXT = Context(pools=(PoolFacts("a100", 8, (NodeTaint(GPU, "present"),)),))
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}}
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    """Set a current event loop, which outputs need and an earlier test may have removed."""
    asyncio.set_event_loop(LOOP)
    yield
    asyncio.set_event_loop(None)


def limits(**kinds: Any) -> dict[str, Any]:
    return {"resources": {"limits": {GPU: kinds["gpus"]}}, "name": "cuda", "image": "cuda"}


def spec(gpus: Any, **fields: Any) -> dict[str, Any]:
    tolerations = [{"key": GPU, "operator": "Exists"}]
    return {"containers": [limits(gpus=gpus)], "tolerations": tolerations, **fields}


def check(spec: Any, type_: str = "kubernetes:core/v1:Pod") -> None:
    check_declared(type_, "train", {"metadata": {"name": "train"}, "spec": spec}, CONTEXT)


def test_a_good_pod_passes() -> None:
    check(spec("1"))


def test_a_bad_pod_is_refused_with_the_rule_and_its_text() -> None:
    with pytest.raises(RuleBroken) as error:
        check(spec("500m"))
    assert "kubernetes:core/v1:Pod train: rejected by the GPU rules" in str(error.value)
    assert "GPU001 GPU amounts are whole numbers" in str(error.value)


def test_python_names_count_as_kubernetes_names() -> None:
    with pytest.raises(RuleBroken, match="GPU007"):
        check(spec("1", init_containers=[limits(gpus="9")]))


def test_typed_arguments_are_read() -> None:
    container = k8s.core.v1.ContainerArgs(
        name="cuda",
        image="cuda",
        resources=k8s.core.v1.ResourceRequirementsArgs(requests={GPU: "1"}),
    )
    toleration = k8s.core.v1.TolerationArgs(operator="Exists")
    pod = k8s.core.v1.PodSpecArgs(containers=[container], tolerations=[toleration])
    with pytest.raises(RuleBroken, match="GPU003"):
        check(pod)


@pytest.mark.parametrize("unknown", ["image", "limit", "tolerations"])
def test_outputs_are_left_out_and_the_rest_is_judged(unknown: str) -> None:
    output: Any = pulumi.Output.from_input("x")
    given = spec("9")
    if unknown == "image":
        given["containers"][0]["image"] = output
    if unknown == "tolerations":
        given["tolerations"] = output
    if unknown == "limit":
        given["containers"].append(limits(gpus=output))
    with pytest.raises(RuleBroken, match="GPU007"):
        check(given)


def test_advice_refuses_nothing() -> None:
    unsized = spec("1")
    advice = {violation.rule.id for violation in evaluate(POD | {"spec": unsized}, CONTEXT)}
    assert advice == {"GPU050", "GPU051"}
    check(unsized)


@pytest.mark.parametrize(
    "type_",
    ["command:local:Command", "kubernetes:helm.sh/v3:Release", "kubernetes:yaml:ConfigFile"],
)
def test_what_is_no_manifest_passes(type_: str) -> None:
    check(spec("500m"), type_)


def test_a_patch_is_judged_by_what_it_says() -> None:
    with pytest.raises(RuleBroken, match="GPU001"):
        check(spec("500m", tolerations=[]), "kubernetes:core/v1:PodPatch")
    check(spec("1", tolerations=[]), "kubernetes:core/v1:PodPatch")


@pytest.fixture(params=["dev", "staging", "prod"])
def stack_context(request: pytest.FixtureRequest) -> Context:
    return resolve(load_stack_file(ROOT / f"Pulumi.{request.param}.yaml"), "dev").rules


def test_a_stack_file_gives_the_rules_their_pools(stack_context: Context) -> None:
    assert stack_context.platform in ("device-plugin", "gpu-operator")
    assert any(pool.gpus_per_node for pool in stack_context.pools)
    assert all(
        isinstance(taint, NodeTaint) for pool in stack_context.pools for taint in pool.taints
    )


RELEASE = {"chart": "gpu-operator", "version": "v26.7.0", "repository_opts": {"repo": "https://x"}}


def check_release(**fields: Any) -> None:
    check_declared("kubernetes:helm.sh/v3:Release", "operator", {**RELEASE, **fields}, CONTEXT)


def test_a_release_is_judged_by_its_values_and_keeps_their_names() -> None:
    check_release(values={"driver": {"upgradePolicy": {"maxParallelUpgrades": 1}}})
    with pytest.raises(RuleBroken, match="GPU055"):
        check_release(values={"driver": {"upgradePolicy": {"maxParallelUpgrades": 0}}})
    check_release(values={"driver": {"upgrade_policy": {"max_parallel_upgrades": 0}}})
    with pytest.raises(RuleBroken, match="GPU052"):
        check_release(version=None)


def test_a_command_on_a_host_is_judged() -> None:
    given: Any = {"create": "true", "connection": {"host": "192.0.2.1"}}
    with pytest.raises(RuleBroken, match="GPU056"):
        check_declared("command:remote:Command", "host", given, CONTEXT)
    given["connection"] = pulumi.Output.from_input(given["connection"])
    check_declared("command:remote:Command", "host", given, CONTEXT)


def stack(platform: str = "device-plugin", **fields: Any) -> Context:
    pools = [{"name": "a", "nodes": ["a-1"], "gpusPerNode": 8}]
    cluster = {"version": "v1", "kubernetes": {"context": "none"}, "platform": platform}
    return resolve(load({**cluster, "pools": pools, **fields}), "dev").rules


def shared(**fields: Any) -> dict[str, Any]:
    resources = [{"name": GPU, "replicas": 4}]
    return {"config": {"sharing": {"timeSlicing": {"resources": resources, **fields}}}}


def test_the_stack_tells_how_its_plugin_shares() -> None:
    assert stack().plugin == PluginFacts()
    assert stack(devicePlugin=shared()).plugin == PluginFacts(
        sharing=Sharing.TIME_SLICING, replicas=4
    )
    renamed = stack(devicePlugin=shared(renameByDefault=True)).plugin
    assert renamed == PluginFacts(sharing=Sharing.TIME_SLICING, renamed=True, replicas=4)


def test_a_plugin_that_differs_between_pools_is_not_known() -> None:
    label = {"nvidia.com/gpu": "true", "nvidia.com/device-plugin.config": "other"}
    pools = [
        {"name": "a", "nodes": ["a-1"], "gpusPerNode": 8},
        {"name": "b", "nodes": ["b-1"], "gpusPerNode": 8, "labels": label},
    ]
    plugin = {"configs": {"other": shared()["config"]}}
    assert stack(pools=pools, devicePlugin=plugin).plugin is None


def test_the_stack_tells_the_runtime_class() -> None:
    assert stack().runtime_class == ""
    assert stack(runtime={"defaultRuntime": "runc"}).runtime_class == "nvidia"
    assert stack("gpu-manager").runtime_class is None
    assert stack("gpu-manager").plugin is None
    operated = stack("gpu-operator", driver={"source": "operator"})
    assert operated.runtime_class is None
    assert "nvidia" in operated.runtime_classes
