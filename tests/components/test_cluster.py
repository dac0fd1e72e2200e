"""Resources that the Pulumi components declare, with mocks, in updates and previews."""

from __future__ import annotations

import json
import re
from typing import Any

import pulumi
import pytest

from gpu_cluster.change.document import ClusterChange, Problem
from gpu_cluster.change.file import Inspected
from gpu_cluster.cluster import GpuCluster, GpuClusterArgs
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.hosts import component as hosts
from gpu_cluster.hosts.reboot import component as host_reboot
from gpu_cluster.inspection.difference import Difference
from gpu_cluster.nodes import component as node_scheduling
from gpu_cluster.operation import command_line, repair, repair_line
from gpu_cluster.provider import kubernetes_provider
from gpu_cluster.release.component import GpuPlatform
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.nodes.taint import STARTUP_TAINT
from gpu_cluster.validation import component as validation
from tests.findings import found
from tests.fixtures.clusters import HOST_KEY, cluster
from tests.mocks import Recorded, Recorder, declare, inspected, without_secrets

pytestmark = pytest.mark.usefixtures("no_hooks")

CANARY = "canary-5f1d-private-key"


@pytest.fixture(params=[False, True], ids=["up", "preview"])
def preview(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def build(preview: bool, declared: Cluster | None = None) -> Recorder:
    def program() -> None:
        GpuCluster(
            "gpu-cluster",
            GpuClusterArgs(
                settings=declared or cluster(),
                private_key=pulumi.Output.secret(CANARY),
            ),
        )

    return declare(program, preview=preview)


def settings_of(declared: Cluster) -> str:
    """Return the digest of the settings that a validation of the first pool depends on."""
    return resolve(declared, "test").validation.pools[0].settings


def test_tokens_of_components_are_fixed() -> None:
    result = {
        component.TYPE
        for component in (
            GpuCluster,
            hosts.HostPreparation,
            host_reboot.Reboot,
            hosts.ContainerRuntime,
            node_scheduling.NodeScheduling,
            GpuPlatform,
            validation.Validation,
        )
    }
    nouns = (
        "GpuCluster HostPreparation Reboot ContainerRuntime NodeScheduling GpuPlatform Validation"
    )
    assert result == {f"gpucluster:index:{noun}" for noun in nouns.split()}


def test_a_host_costs_at_most_two_resources_and_no_gpu_step_without_gpus(preview: bool) -> None:
    commands = [resource.name for resource in build(preview).of("command:remote:Command")]
    assert sorted(commands) == [
        "gpu-cluster-container-runtime-gpu-1",
        "gpu-cluster-host-preparation-cp-1",
        "gpu-cluster-host-preparation-gpu-1",
    ]


def test_a_pool_costs_the_same_however_many_nodes_it_has(preview: bool) -> None:
    small = build(preview)
    large = build(
        preview,
        cluster(pools=[{"name": "a100", "nodes": ["gpu-[1-800]"], "gpusPerNode": 8}]),
    )
    assert len(small.resources) == len(large.resources)


@pytest.mark.promise("A run declares nothing if its inspection finds a fault that would stop it.")
def test_a_fault_that_stops_the_run_declares_nothing(preview: bool) -> None:
    def program() -> None:
        GpuCluster("gpu-cluster", GpuClusterArgs(settings=cluster(), private_key=CANARY))

    recorder, texts = Recorder(), ("rollout: node gpu-1: found a pod", "host gpu-2: found b")
    faults = tuple(Problem(text=text) for text in texts)
    with (
        inspected(Difference(), ClusterChange(name="gpu-cluster", faults=faults)),
        pytest.raises(Inspected, match="\n".join(texts)),
    ):
        declare(program, preview=preview, recorder=recorder)
    assert recorder.resources == []


def test_host_keys_are_checked_on_every_connection(preview: bool) -> None:
    for command in build(preview).of("command:remote:Command"):
        # The connection is a Pulumi secret, so the mock sees it wrapped.
        assert command.inputs["connection"]["value"]["hostKey"] == HOST_KEY


def test_scripts_run_under_a_limit_and_never_reach_the_engine_log(preview: bool) -> None:
    for command in build(preview).of("command:remote:Command"):
        assert command.inputs["create"] == "timeout -k 10 600 sh -s -- apply"
        assert command.inputs["delete"] == "timeout -k 10 600 sh -s -- undo"
        assert command.inputs["logging"] == "none"


def test_a_secret_is_in_no_text_that_a_command_shows(preview: bool) -> None:
    recorder = build(preview)
    for resource in recorder.resources:
        assert CANARY not in json.dumps(without_secrets(resource.inputs), default=str)


def test_another_user_than_root_uses_sudo_without_a_prompt(preview: bool) -> None:
    recorder = build(preview, cluster(ssh={"user": "ops"}))
    for command in recorder.of("command:remote:Command"):
        assert command.inputs["create"].startswith("sudo -n timeout ")


def validations(recorder: Recorder) -> list[dict[str, Any]]:
    """Return the pools of the Command that runs the program `validation`."""
    given = [
        resource.inputs["stdin"]
        for resource in recorder.of("command:local:Command")
        if resource.inputs["create"] == command_line("validation", "validate")
    ]
    (request,) = (json.loads(item["value"] if isinstance(item, dict) else item) for item in given)
    return list(request["pools"])


def test_validation_tolerates_only_the_pools_taints_and_disturbs_nobody(preview: bool) -> None:
    recorder = build(preview)
    (document,) = validations(recorder)
    assert document["offers"] == [{"resource": "nvidia.com/gpu", "count": 8, "devices": 8}]
    spec = document["pod"]["spec"]
    assert spec["tolerations"] == [
        {
            "key": "nvidia.com/gpu",
            "operator": "Equal",
            "value": "present",
            "effect": "NoSchedule",
        },
        {"key": STARTUP_TAINT.key, "operator": "Exists", "effect": "NoSchedule"},
    ]
    assert "runtimeClassName" not in spec
    (priority,) = recorder.of("kubernetes:scheduling.k8s.io/v1:PriorityClass")
    assert priority.inputs["metadata"]["name"] == spec["priorityClassName"]
    assert priority.inputs["preemptionPolicy"] == "Never"
    assert priority.inputs["value"] < -10
    assert spec["terminationGracePeriodSeconds"] == 0


def test_under_dra_each_container_has_a_claim_of_one_device(preview: bool) -> None:
    recorder = build(preview, cluster(platform="dra"))
    templates = recorder.of("kubernetes:resource.k8s.io/v1:ResourceClaimTemplate")
    (template,) = [
        template for template in templates if template.name == "gpu-cluster-validation-claim"
    ]
    (request,) = template.inputs["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["count"] == 1
    (document,) = validations(recorder)
    assert document["pod"]["claimTemplate"] == template.inputs["metadata"]["name"]


def test_runc_as_default_makes_gpu_pods_name_the_runtime_class(preview: bool) -> None:
    recorder = build(preview, cluster(runtime={"defaultRuntime": "runc"}))
    (document,) = validations(recorder)
    assert document["pod"]["spec"]["runtimeClassName"] == "nvidia"
    (made,) = [
        resource
        for resource in recorder.of("command:local:Command")
        if resource.inputs["create"] == command_line("runtime-class", "own")
    ]
    assert json.loads(made.inputs["stdin"])["name"] == "nvidia"


def test_each_platform_installs_its_own_chart_and_no_other(preview: bool) -> None:
    for platform, chart in (
        ("device-plugin", "nvidia-device-plugin"),
        ("gpu-operator", "gpu-operator"),
        ("gpu-manager", "gpu-manager"),
        ("hami", "hami"),
        ("dra", "dra-driver-nvidia-gpu"),
    ):
        releases = build(preview, cluster(platform=platform)).of("kubernetes:helm.sh/v3:Release")
        assert [release.inputs["name"] for release in releases] == [chart]


def test_a_finding_shows_as_an_update_and_its_absence_changes_nothing() -> None:
    gone = found("drift: node gpu-1: label a", was="b")
    assert repair(()) == ({}, ["environment"])
    environment, ignored = repair((gone,))
    assert environment["GPU_CLUSTER_FINDING"].startswith("drift: node gpu-1: label a b → none (20")
    assert ignored == []
    assert repair_line("sh x", (), ["stdin"]) == ("sh x", ["update", "stdin"])
    assert repair_line("sh x", (gone,), ["stdin"])[1] == []
    (early, _), (late, _) = (repair_line("sh x", (gone,)) for _ in range(2))
    assert early != late
    assert re.fullmatch(r"sh x # finding [0-9a-f]{16}", early)


def test_a_validation_stands_for_drivers_runtime_and_platform_but_not_for_labels() -> None:
    before = cluster()
    relabelled = cluster(
        pools=[{"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8, "labels": {"a": "b"}}]
    )
    upgraded = cluster(devicePlugin={"version": "0.19.2"})
    same = settings_of(before)
    assert settings_of(relabelled) == same
    assert settings_of(upgraded) != same


def test_a_host_with_a_driver_of_its_own_is_validated_for_itself() -> None:
    document: dict[str, Any] = {
        "name": "gpu-1",
        "address": "192.0.2.11",
        "hostKey": HOST_KEY,
        "driver": {"version": "580.65.06"},
    }
    given = cluster(hosts=[document])
    result = resolve(given, "test").validation.pools[0]
    assert set(result.own) == {"gpu-1"}
    assert result.own["gpu-1"] != result.settings
    assert result.settings == resolve(cluster(), "test").validation.pools[0].settings


def secrets(declared: Cluster, preview: bool, **given: str) -> list[Recorded]:
    """Return the Kubernetes Secrets that a cluster declares for the given Pulumi secrets."""

    def program() -> None:
        made = {name: pulumi.Output.secret(value) for name, value in given.items()}
        GpuCluster(
            "gpu-cluster",
            GpuClusterArgs(
                settings=declared,
                private_key=pulumi.Output.secret(CANARY),
                registry_credentials=made.get("registryCredentials"),
                secrets=made,
            ),
        )

    return declare(program, preview=preview).of("kubernetes:core/v1:Secret")


def test_registry_credentials_are_secrets_in_each_namespace_of_ours(preview: bool) -> None:
    declared = cluster(registry={"mirror": "registry.example.com", "pullSecret": "credentials"})
    made = secrets(declared, preview, registryCredentials="docker-canary")
    result = {item.inputs["metadata"]["namespace"]: item.inputs for item in made}
    assert set(result) == {"nvidia-device-plugin", "gpu-validation"}
    for inputs in result.values():
        assert inputs["metadata"]["name"] == "credentials"
        wrapped = inputs["stringData"]
        # The data is one Pulumi secret as a whole, so its keys are not visible.
        assert ".dockerconfigjson" not in wrapped
        assert wrapped["value"] == {".dockerconfigjson": "docker-canary"}


@pytest.mark.parametrize(
    ("vgpu", "gridd"),
    [
        ({}, ""),
        ({"feature": "vgpu"}, "FeatureType=1\n"),
        ({"feature": "workstation"}, "FeatureType=2\n"),
        ({"feature": "compute"}, "FeatureType=4\n"),
    ],
)
def test_a_licence_is_a_secret_where_the_stack_has_a_token(
    preview: bool, vgpu: dict[str, str], gridd: str
) -> None:
    declared = cluster(
        platform="gpu-operator",
        driver={
            "source": "operator",
            "version": "580.95.05",
            "imageRepository": "registry.example.com/guests",
        },
        gpuOperator={"vgpu": {"hostDriver": "19.2", "licenseSecret": "licence", **vgpu}},
    )
    assert secrets(declared, preview) == []
    (made,) = secrets(declared, preview, licenseToken="licence-canary")
    assert made.inputs["metadata"]["name"] == "licence"
    assert made.inputs["metadata"]["namespace"] == "gpu-operator"
    wrapped = made.inputs["stringData"]
    # The data is one Pulumi secret as a whole, so its keys are not visible.
    assert "client_configuration_token.tok" not in wrapped
    assert wrapped["value"] == {
        "gridd.conf": gridd,
        "client_configuration_token.tok": "licence-canary",
    }


def test_every_pod_of_ours_pulls_from_the_private_registry(preview: bool) -> None:
    given = cluster(registry={"mirror": "registry.example.com", "pullSecret": "credentials"})
    (document,) = validations(build(preview, given))
    assert document["pod"]["image"].startswith("registry.example.com/nvidia/k8s/")
    assert document["pod"]["spec"]["imagePullSecrets"] == [{"name": "credentials"}]


def test_a_node_with_gpus_left_out_costs_one_daemon_set_and_one_count(preview: bool) -> None:
    pools = [
        {
            "name": "a100",
            "nodes": ["gpu-[1-4]"],
            "gpusPerNode": 8,
            "unhealthyDevices": {"gpu-3": {"index": [3]}},
        }
    ]
    recorder = build(preview, cluster(pools=pools))
    assert len(recorder.of("kubernetes:apps/v1:DaemonSet")) == 1
    assert sorted(item["gpus"] for item in validations(recorder)) == [7, 8]


def test_the_provider_takes_over_what_exists_wherever_the_plugin_runs(preview: bool) -> None:
    recorder = declare(lambda: kubernetes_provider("kubernetes", "c", "i"), preview=preview)
    (provider,) = recorder.of("pulumi:providers:kubernetes")
    assert provider.inputs == {
        "kubeconfig": "",
        "context": "c",
        "clusterIdentifier": "i",
        "upsertExistingObjects": "true",
    }


def test_the_state_calls_a_program_and_a_component_by_its_name(preview: bool) -> None:
    recorder = build(preview)
    commands = recorder.of("command:local:Command")
    lines = [command.inputs.get("update") or command.inputs["create"] for command in commands]
    assert [
        (command.name, line)
        for command, line in zip(commands, lines, strict=True)
        if line.split()[2] not in command.name
    ] == []
    nouns = {
        resource.name: re.sub(r"(?<!^)(?=[A-Z])", "-", resource.token.rpartition(":")[2]).lower()
        for resource in recorder.resources
        if resource.token.startswith("gpucluster:")
    }
    assert [name for name, noun in nouns.items() if not name.endswith(noun)] == []
