"""Stack files and pods with the documents' own values are taken as the documents have them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.driver_daemonset.component import daemon_set
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.log_pattern import figure
from gpu_rules.rules import Severity, evaluate
from tests.resolved import platform_of

Json = dict[str, Any]
FOLDER = Path(__file__).parent
STACKS = {path.stem: path for path in sorted((FOLDER / "stacks").glob("*.yaml"))}
PODS: dict[str, list[Json]] = yaml.safe_load((FOLDER / "pods.yaml").read_text(encoding="utf-8"))


def document(stack: str) -> Json:
    read: Json = yaml.safe_load(STACKS[stack].read_text(encoding="utf-8"))
    return read


@cache
def loaded(stack: str) -> Cluster:
    return load(document(stack))


@pytest.mark.parametrize("stack", STACKS)
def test_a_document_s_stack_loads(stack: str) -> None:
    assert loaded(stack).pools
    assert resolve(loaded(stack), stack).rules.pools


@pytest.mark.parametrize(
    ("stack", "pod"),
    [
        pytest.param(stack, pod, id=pod["metadata"]["name"])
        for stack, pods in PODS.items()
        for pod in pods
    ],
)
def test_a_document_s_pod_is_admitted(stack: str, pod: Json) -> None:
    violations = evaluate(pod, resolve(loaded(stack), stack).rules)
    assert [each.message for each in violations if each.severity is Severity.MANDATORY] == []


def test_the_plugin_s_file_is_read_as_the_document_has_it() -> None:
    config_map, *_ = (each.manifest for each in platform_of(loaded("plugin")).extra_objects())
    written = yaml.safe_load(config_map["data"]["config"])
    declared = document("plugin")["devicePlugin"]["config"]
    assert written["version"] == declared["version"]
    for name in ("migStrategy", "failOnInitError", "nvidiaDriverRoot"):
        assert written["flags"][name] == declared["flags"][name]
    for name, value in declared["flags"]["plugin"].items():
        assert written["flags"]["plugin"][name] in (value, [value])


def test_the_installer_gets_the_document_s_address() -> None:
    cluster = loaded("kubespray")
    assert cluster.installer is not None
    made = daemon_set(cluster.installer, platform_of(cluster).site, cluster.pools[0])
    (installer, *_) = made["spec"]["template"]["spec"]["initContainers"]
    environment = {each["name"]: each.get("value") for each in installer["env"]}
    assert environment["NVIDIA_DRIVER_DOWNLOAD_URL"] == (
        "https://us.download.nvidia.com/tesla/450.51.06/NVIDIA-Linux-x86_64-450.51.06.run"
    )


@pytest.mark.parametrize(
    ("stack", "cure"),
    [
        ("whole-cards", {"runtime": {"toolkit": {"source": "package"}}}),
        ("kubespray", {"runtime": {"toolkit": {"source": "package"}}}),
        ("bare-metal", {"runtime": {"toolkit": {"source": "package"}}}),
        ("shares", {"packages": {"install": ["libnvidia-container-tools"]}}),
    ],
)
def test_the_cure_of_the_control_groups_is_taken_on_each_platform(stack: str, cure: Json) -> None:
    declared = document(stack)
    for section, values in cure.items():
        declared[section] = {**declared.get(section, {}), **values}
    if stack == "shares":
        key = document("whole-cards")["hosts"][0]["hostKey"]
        host = {"name": "gpu-127", "node": "10.0.0.127", "address": "192.0.2.127", "hostKey": key}
        declared["hosts"] = [host]
    assert load(declared).hosts


def test_a_package_of_the_site_is_declared() -> None:
    declared = document("whole-cards")
    declared["packages"] = {"install": ["socat"]}
    assert load(declared).packages.install == ("socat",)


def test_a_pool_without_a_taint_takes_every_pod() -> None:
    declared = document("kubespray")
    declared["pools"][0]["taints"] = []
    pod = PODS["kubespray"][0]
    plain = {**pod, "spec": {**pod["spec"], "tolerations": []}}
    open_pool = evaluate(plain, resolve(load(declared), "kubespray").rules)
    tainted = evaluate(plain, resolve(loaded("kubespray"), "kubespray").rules)
    mandatory = [
        [each.rule.id for each in found if each.severity is Severity.MANDATORY]
        for found in (open_pool, tainted)
    ]
    assert mandatory == [[], ["GPU004"]]


def test_tensorflow_s_count_is_a_test_of_the_validation() -> None:
    declared = document("bare-metal")
    line = "import tensorflow as tf; print('gpus', len(tf.config.list_physical_devices('GPU')))"
    declared["validation"] = {
        "tests": {
            "tensorflow": {
                "image": "tensorflow/tensorflow:latest-gpu",
                "command": ["python", "-c", line],
                "gpus": 1,
                "pattern": "gpus {figure}",
                "minimum": 1,
            }
        }
    }
    (test,) = load(declared).validation.tests.values()
    assert test.pattern is not None
    assert figure(test.pattern, "gpus 1") == 1
