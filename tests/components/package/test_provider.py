"""The component package's provider: what it declares, and what it refuses by property path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from pulumi.errors import InputPropertiesError
from pulumi.output import Unknown

from gpu_cluster.inspection.difference import Difference
from gpu_cluster.package.provider import PackageProvider
from tests.components.package.kubeconfig import CANARY, KUBECONFIG
from tests.fixtures.clusters import HOST_KEY
from tests.mocks import Recorder, declare, inspected, without_secrets

CLUSTER = "gpucluster:index:GpuCluster"
EACH = {
    "kubernetes": {"context": "test"},
    "pools": [{"name": "a100", "nodes": ["gpu-[1-2]"], "gpusPerNode": 8.0}],
}
WHOLE = {**EACH, "platform": "device-plugin"}
HOST = {"name": "gpu-1", "address": "127.0.0.1", "hostKey": "ssh-ed25519 AAAA"}


def declared(
    token: str,
    inputs: dict[str, Any],
    kubeconfig: Callable[[], Any] = lambda: KUBECONFIG,
    *,
    preview: bool = False,
) -> Recorder:
    """Return the resources that a component of the package declares on a cluster as declared."""
    provider = PackageProvider()

    def program() -> None:
        given = {**inputs, "kubeconfig": kubeconfig()}
        provider.construct("site", f"gpucluster:index:{token}", given)

    with inspected(Difference()):
        return declare(program, preview=preview)


def types(recorder: Recorder) -> set[str]:
    return {resource.token.rpartition(":")[2] for resource in recorder.resources}


PARTS = {
    "GpuDevicePlugin": {"NodeScheduling", "GpuPlatform"},
    "GpuOperator": {"NodeScheduling", "GpuPlatform"},
    "GpuValidation": {"Validation"},
    "GpuGuardrails": {"Guardrails"},
}
CHILDREN = {
    *("Rollout", "HostPreparation", "Reboot", "ContainerRuntime", "NodeScheduling", "GpuPlatform"),
    *("Validation", "Guardrails", "Monitoring", "DriverInstaller", "KubeadmCluster"),
}
EXTRA: dict[str, dict[str, Any]] = {
    "GpuValidation": {"platform": "gpu-operator"},
    "GpuGuardrails": {"platform": "device-plugin", "guardrails": {"mode": "enforce"}},
}


@pytest.mark.promise(
    "A part of a cluster is declared by itself: it declares nothing that belongs to another part."
)
@pytest.mark.parametrize("token", PARTS)
def test_a_part_declares_only_its_own_children(token: str) -> None:
    assert types(declared(token, {**EACH, **EXTRA.get(token, {})})) & CHILDREN == PARTS[token]


def test_the_whole_declares_all_parts() -> None:
    found = types(declared("GpuCluster", {**WHOLE, "guardrails": {"mode": "audit"}}))
    assert {"NodeScheduling", "GpuPlatform", "Validation", "Guardrails"} <= found


def test_commands_find_the_package_without_a_path_of_the_machine() -> None:
    recorder = declared("GpuValidation", WHOLE)
    (command,) = recorder.of("command:local:Command")
    for name in ("create", "update", "delete"):
        line = str(without_secrets(command.inputs[name]))
        assert line.startswith('PATH="components:venv/bin:')
        assert "/tmp" not in line
        assert "/home" not in line


@pytest.mark.promise(
    "A component of the package takes the kubeconfig of a cluster that the same program makes, "
    "also while it is unknown, and keeps it secret."
)
@pytest.mark.parametrize("preview", [True, False])
def test_an_unknown_kubeconfig_leaves_the_children_declared(preview: bool) -> None:

    def kubeconfig() -> Any:
        return pulumi.Output.secret(Unknown() if preview else KUBECONFIG)

    recorder = declared("GpuCluster", WHOLE, kubeconfig, preview=preview)
    assert {"NodeScheduling", "GpuPlatform", "Validation"} <= types(recorder)
    for resource in recorder.resources:
        assert CANARY not in str(without_secrets(resource.inputs)), resource.name


@pytest.mark.promise("A component of the package keeps each of its secret inputs secret.")
def test_no_secret_input_stands_in_a_resource_in_plain() -> None:
    credentials = f'{{"auths": {{"registry.example.com": {{"auth": "{CANARY}"}}}}}}'
    inputs = {
        **WHOLE,
        "pools": [{**EACH["pools"][0], "nodes": ["gpu-1"]}],
        "hosts": [{**HOST, "role": "gpu-worker", "hostKey": HOST_KEY}],
    }

    def program() -> None:
        secrets = {
            "kubeconfig": pulumi.Output.secret(KUBECONFIG),
            "privateKey": pulumi.Output.secret(CANARY),
            "registryCredentials": pulumi.Output.secret(credentials),
        }
        PackageProvider().construct("site", CLUSTER, {**inputs, **secrets})

    with inspected(Difference()):
        recorder = declare(program, preview=False)
    assert {"HostPreparation", "GpuPlatform", "Validation"} <= types(recorder)
    held = [resource for resource in recorder.resources if CANARY in str(resource.inputs)]
    assert len(held) > 3
    for resource in held:
        assert CANARY not in str(without_secrets(resource.inputs)), resource.name


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a required input is missing": ("GpuCluster", EACH, "platform"),
    "an unknown platform": ("GpuCluster", {**EACH, "platform": "slurm"}, "platform"),
    "no pools": ("GpuCluster", {**WHOLE, "pools": []}, "pools"),
    "a fraction of a GPU": (
        "GpuCluster",
        {**WHOLE, "pools": [{**EACH["pools"][0], "gpusPerNode": 7.5}]},
        "pools[0].gpusPerNode",
    ),
    "an ill-formed range of nodes": (
        "GpuCluster",
        {**WHOLE, "pools": [{**EACH["pools"][0], "nodes": ["gpu-[4-1]"]}]},
        "pools[0].nodes[0]",
    ),
    "an unknown key deep inside": (
        "GpuCluster",
        {**WHOLE, "validation": {"timeoutSecond": 5.0}},
        "validation.timeoutSecond",
    ),
    "a section of another part": (
        "GpuValidation",
        {**WHOLE, "guardrails": {"mode": "enforce"}},
        "guardrails",
    ),
    "hosts without hosts": ("GpuHosts", WHOLE, "hosts"),
    "guardrails without their section": ("GpuGuardrails", WHOLE, "guardrails"),
    "a platform for a component that has one": (
        "GpuOperator",
        {**EACH, "platform": "device-plugin"},
        "platform",
    ),
    "a setting that is an output": (
        "GpuCluster",
        {**WHOLE, "kubernetes": {"context": Unknown()}},
        "kubernetes.context",
    ),
    "an ill-formed host key": ("GpuHosts", {**WHOLE, "hosts": [HOST]}, "hosts[0].hostKey"),
}
"""Component, inputs, and the path of the property that is refused."""


@pytest.mark.promise(
    "A component of the package refuses a wrong input by its path, before it declares anything."
)
@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_input_is_refused_by_its_path(case: str) -> None:
    token, inputs, path = REFUSED[case]
    with pytest.raises(InputPropertiesError) as caught:
        PackageProvider().construct("site", f"gpucluster:index:{token}", inputs)
    details = caught.value.errors or []
    assert path in [detail["property_path"] for detail in details], details
    assert all(detail["reason"] for detail in details)


def test_an_unknown_component_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputPropertiesError, match="GpuGuardrails"):
        PackageProvider().construct("site", "gpucluster:index:Slurm", {})
    assert CLUSTER in PackageProvider().schema
