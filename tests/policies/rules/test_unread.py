"""Requests that may be for GPUs but that no rule reads are listed with the reason."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from gpu_rules.kube.vendor_resources import VENDORS, Vendor
from gpu_rules.rules import Context, Subject
from gpu_rules.rules.resource_names import of_gpus
from gpu_rules.rules.unread import unread
from tests.policies.rules.cases import container, pod, resource, workload
from tests.policies.rules.messages import judge


def listed(manifest: dict[str, Any], context: Context | None = None) -> list[str]:
    return [left.path for left in unread(Subject.all_of(manifest), context or Context())]


def broken(manifest: dict[str, Any], context: Context | None = None) -> set[str]:
    return {violation.rule.id for violation in judge(manifest, context or Context())}


@pytest.mark.promise(
    "A resource that may be a GPU of an unknown vendor is listed as not checked, with the cure."
)
def test_a_resource_that_may_be_a_gpu_is_listed_with_its_path_and_cure() -> None:
    (left,) = unread(Subject.all_of(pod(container({"example.com/gpu": 1, "cpu": 1}))), Context())
    assert left.path == "spec.containers[0].resources.limits[example.com/gpu]"
    assert "example.com/gpu" in left.reason
    assert "resourceNames" in left.reason


def test_an_annotation_with_a_device_class_for_gpus_is_listed() -> None:
    # kserve/kserve docs/samples/llmisvc/managed-dra
    key = "serving.kserve.io/exp-dra-device-class"
    for name, paths in (("gpu.nvidia.com", [f"metadata.annotations[{key}]"]), ("a.b", [])):
        service = resource("LLMInferenceService", "serving.kserve.io/v1alpha2", spec={})
        service["metadata"]["annotations"] = {key: name}
        assert listed(service) == paths


def test_such_resources_are_listed_wherever_they_are_requested() -> None:
    job = workload("Job", container({}), pod_spec={"initContainers": [container({"a.b/gpu": 1})]})
    assert listed(job) == ["spec.template.spec.initContainers[0].resources.limits[a.b/gpu]"]
    machine = resource(
        "VirtualMachineInstance",
        "kubevirt.io/v1",
        spec={"domain": {"devices": {"gpus": [{"deviceName": "nvidia.com/GA102GL_A10"}]}}},
    )
    (path,) = listed(machine)
    assert path.startswith("spec.domain.devices.gpus")


@pytest.mark.parametrize(
    "name",
    [
        "nvidia.com/gpu",
        "aliyun.com/gpu-mem",
        "nvidia.com/hostdev",
        "nvidia.com/mlnxnics",
        "nvidia.com/rdma_shared_device_a",
        "nvidia.com/sriov_resource_a",
        "nvidia.com/bf_sf",
        "rdma/hca",
        "amd.com/cpx_nps4",
        "nvidia.com/gpus",
        "requests.example.com/gpu",
    ],
)
def test_known_names_and_names_of_other_devices_are_not_listed(name: str) -> None:
    assert listed(pod(container({name: 1}))) == []


def test_a_request_for_none_and_a_name_in_the_settings_are_not_listed() -> None:
    assert listed(pod(container({"example.com/gpu": 0}))) == []
    settings = Context(resource_names=frozenset({"example.com/gpu"}))
    assert listed(pod(container({"example.com/gpu": 1})), settings) == []


@pytest.mark.parametrize(
    "name",
    [
        "aliyun.com/gpu-mem",
        "koordinator.sh/gpu-core",
        "nvshare.com/gpu",
        "tke.cloud.tencent.com/qgpu-core",
        "volcano.sh/vgpu-number",
        "volcano.sh/vgpu-memory",
    ],
)
def test_shares_of_gpus_by_other_schedulers_are_gpus(name: str) -> None:
    assert "GPU016" in broken(pod(container({name: 1}), nodeName="gpu-1"))


@pytest.mark.parametrize(
    ("name", "several"), [("volcano.sh/vgpu-number", True), ("aliyun.com/gpu-mem", False)]
)
def test_only_whole_devices_count_for_the_maximum(name: str, several: bool) -> None:
    capped = Context(max_gpus_per_container=4)
    assert ("GPU028" in broken(pod(container({name: 5})), capped)) == several


@pytest.mark.promise("Resources of accelerators that no rule judges are listed as not checked.")
@pytest.mark.parametrize(
    "name",
    [
        "habana.ai/gaudi",
        "huawei.com/Ascend910",
        "huawei.com/Ascend910B4-memory",
        "cambricon.com/mlu",
        "cambricon.com/mlu.smlu.vmemory",
        "hygon.com/dcunum",
        "enflame.com/gcu",
        "google.com/tpu",
        "intel.com/gpu",
        "gpu.intel.com/i915_monitoring",
        "aws.amazon.com/neuron",
        "kunlunxin.com/vxpu",
        "vastaitech.com/va",
        "metax-tech.com/what-is-new",
    ],
)
def test_accelerators_of_other_vendors_are_listed_as_not_checked(name: str) -> None:
    assert listed(pod(container({name: 1}))) == [f"spec.containers[0].resources.limits[{name}]"]


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_each_name_of_a_vendor_is_judged_or_listed_as_not_judged(vendor: Vendor) -> None:
    assert vendor.source
    assert date.fromisoformat(vendor.read)
    for name in (*vendor.devices, *vendor.parts):
        assert listed(pod(container({name: 1}))) == []
        manifest = pod(container({name: 1}, securityContext={"privileged": True}))
        assert "GPU022" in broken(manifest), f"{name} is no GPU"
    assert vendor.devices or vendor.unjudged


@pytest.mark.parametrize(
    ("name", "counts"),
    [(name, name != "tpu.google.com") for vendor in VENDORS for name in vendor.classes],
)
def test_classes_of_vendors_are_of_gpus_but_for_tpus(name: str, counts: bool) -> None:
    assert of_gpus(name, Context()) is counts


@pytest.mark.parametrize("name", ["amd.com/cpx_nps4", "amd.com/spx_nps1"])
def test_partitions_of_amd_are_gpus(name: str) -> None:
    assert "GPU001" in broken(pod(container({name: "1500m"})))
    assert "GPU063" not in broken(pod(container({name: 1}), runtimeClassName="nvidia"))
