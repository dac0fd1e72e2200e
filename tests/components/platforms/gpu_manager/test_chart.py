"""The chart of gpu-manager, its flags, and what its settings refuse."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.gpu_manager import values as chart
from gpu_cluster.platforms.gpu_manager.platform import PLATFORM
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster_lab.simulator.controller.manager_flags import admission_refusal, refusal
from gpu_rules.faults import ConfigError
from gpu_rules.kube.gpu_resources import VCUDA_CORE, VCUDA_MEMORY
from gpu_rules.rules import Context, evaluate
from lab.helm import Helm
from tests.components.platforms.gpu_manager.pods import pod
from tests.proofs.platform import ways
from tests.resolved import platform_of

Json = dict[str, Any]

LIMIT = 60


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Json]:
    """Return the objects that Helm renders, by kind and name."""
    helm = Helm(tmp_path_factory.mktemp("helm"))
    try:
        values = platform_of(cluster()).values()
        result = helm.render(PLATFORM.own_chart, values, chart.NAMESPACE)
    finally:
        helm.close()
    return {f"{manifest['kind']}/{manifest['metadata']['name']}": manifest for manifest in result}


def cluster(**changes: Any) -> Cluster:
    return load(ways.declared("x", "gpu-manager", **changes))


def container(item: Json) -> Json:
    (only,) = item["spec"]["template"]["spec"]["containers"]
    result: Json = only
    return result


def test_both_programs_get_one_cpu_and_one_gibibyte(objects: dict[str, Json]) -> None:
    for name in ("DaemonSet/gpu-manager-daemonset", "Deployment/gpu-quota-admission"):
        assert objects[name]["metadata"]["namespace"] == "kube-system"
        resources = container(objects[name])["resources"]
        assert resources == {kind: {"cpu": "1", "memory": "1Gi"} for kind in ("requests", "limits")}


def test_flags_name_the_runtime_and_the_cgroup_driver(objects: dict[str, Json]) -> None:
    environment = {
        variable["name"]: variable.get("value")
        for variable in container(objects["DaemonSet/gpu-manager-daemonset"])["env"]
    }
    assert environment["EXTRA_FLAGS"] == (
        "--logtostderr=false "
        "--container-runtime-endpoint=/var/run/containerd/containerd.sock "
        "--cgroup-driver=cgroupfs"
    )
    other = chart.extra_flags(cluster().gpu_manager, systemd_cgroup=True)
    assert other[-1] == "--cgroup-driver=systemd"


def test_it_mounts_what_it_needs_of_the_host_and_writes_no_more(objects: dict[str, Json]) -> None:
    pod = objects["DaemonSet/gpu-manager-daemonset"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"nvidia-device-enable": "enable"}
    assert pod["hostPID"] is True
    assert pod["containers"][0]["securityContext"] == {"privileged": True}
    host = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
    mounts = {
        host[volume_mount["name"]]: volume_mount
        for volume_mount in pod["containers"][0]["volumeMounts"]
    }
    assert mounts["/usr"]["mountPath"] == "/usr/local/host"
    assert {path for path, mount in mounts.items() if mount.get("readOnly")} == {
        "/usr",
        "/sys/fs/cgroup",
    }
    assert "/var/lib/kubelet/device-plugins" in mounts


def test_metrics_are_served_where_document_002_looks(objects: dict[str, Json]) -> None:
    service = objects["Service/gpu-manager-metric"]
    assert service["spec"]["ports"] == [{"name": "metrics", "port": 5678, "targetPort": "metrics"}]
    assert service["metadata"]["annotations"]["prometheus.io/path"] == "/metric"
    assert service["spec"]["selector"] == {"name": "gpu-manager-ds"}
    assert set(chart.METRICS) == {
        "container_gpu_utilization",
        "container_request_gpu_utilization",
        "container_gpu_memory_total",
        "container_request_gpu_memory",
    }


def test_neither_program_may_more_than_it_does(objects: dict[str, Json]) -> None:
    rules = {
        name: {
            resource: set(rule["verbs"])
            for rule in objects[f"ClusterRole/{name}"]["rules"]
            for resource in rule["resources"]
        }
        for name in ("gpu-manager", "gpu-quota-admission")
    }
    pods = {"get", "list", "watch", "patch"}
    assert rules == {
        "gpu-manager": {"pods": pods, "pods/status": {"update"}, "nodes": {"get", "update"}},
        "gpu-quota-admission": {"pods": pods, "nodes": {"get", "list", "watch"}},
    }


def rendered_pod(image: str, flags: list[str]) -> Json:
    environment = [{"name": "EXTRA_FLAGS", "value": " ".join(flags)}]
    return {"spec": {"containers": [{"image": image, "env": environment}]}}


@pytest.mark.parametrize("tag", ["1.0.3", "1.0.9", "1.1.0", "1.1.5", "v1.1.5"])
def test_each_release_gets_the_flags_that_it_knows(tag: str) -> None:
    image = f"tkestack/gpu-manager:{tag}"
    declared = cluster(gpuManager={"image": image}, runtime={"engine": "docker"})
    assert (
        refusal(
            rendered_pod(
                image,
                chart.extra_flags(
                    declared.gpu_manager, systemd_cgroup=declared.pools[0].runtime.systemd_cgroup
                ),
            )
        )
        == ""
    )


def test_the_simulated_program_ends_at_a_flag_of_another_release() -> None:
    new, old = "tkestack/gpu-manager:1.1.5", "tkestack/gpu-manager:1.0.3"
    flag = "--container-runtime-endpoint=/run/containerd/containerd.sock"
    assert refusal(rendered_pod(new, [flag])) == ""
    assert refusal(rendered_pod(old, [flag])) == "unknown flag: --container-runtime-endpoint"
    assert refusal(rendered_pod(new, ["--incluster-mode=true"])).startswith("unknown flag")
    assert "kube/config" in refusal(rendered_pod(old, ["--logtostderr=false"]))


def test_an_image_from_before_cri_is_refused_without_docker() -> None:
    old = {"image": "tkestack/gpu-manager:1.0.3"}
    with pytest.raises(ConfigError) as raised:
        cluster(gpuManager=old)
    assert [problem.place for problem in raised.value.faults] == ["gpuManager.image"]
    assert cluster(gpuManager=old, runtime={"engine": "docker"}).gpu_manager.image == old["image"]


def test_a_declared_driver_that_the_library_for_shares_does_not_know_is_refused() -> None:
    driver = {"source": "preinstalled", "version": "470.256.02"}
    assert cluster(driver=driver).pools[0].driver.version == "470.256.02"
    with pytest.raises(ConfigError) as raised:
        cluster(driver={**driver, "version": "595.91.07"})
    assert [fault.place for fault in raised.value.faults] == ["driver.version"]
    assert "CUDA 11.5" in str(raised.value)


def test_a_declared_address_is_known_before_the_first_run() -> None:
    """The first run's validation calls the extender, so the scheduler needs its address before."""
    declared = cluster(gpuManager={"extenderAddress": "10.96.0.200"})
    service = next(each for each in platform_of(declared).extra_objects() if each.key == "extender")
    assert service.manifest["spec"]["clusterIP"] == "10.96.0.200"
    scheduler = next(
        each for each in platform_of(declared).extra_objects() if each.key == "scheduler"
    )
    content = yaml.safe_load(scheduler.data(service.manifest["spec"])["scheduler.yaml"])
    assert content["extenders"][0]["urlPrefix"] == "http://10.96.0.200:3456/scheduler"
    drawn = next(each for each in platform_of(cluster()).extra_objects() if each.key == "extender")
    assert "clusterIP" not in drawn.manifest["spec"]


def extender_pod(image: str, helm: Helm) -> Json:
    """Return the template of the extender's pod as the chart renders it for an image."""
    values = platform_of(cluster(gpuManager={"admissionImage": image})).values()
    rendered = helm.render(PLATFORM.own_chart, values, chart.NAMESPACE)
    (deployment,) = (manifest for manifest in rendered if manifest["kind"] == "Deployment")
    template: Json = deployment["spec"]["template"]
    return template


@pytest.mark.parametrize("tag", ["v1.0.0", "47d56ae9"])
def test_each_extender_gets_the_flags_and_the_file_that_it_knows(tag: str, tmp_path: Path) -> None:
    helm = Helm(tmp_path / "helm")
    try:
        pod = extender_pod(f"registry.example.com/gpu-quota-admission:{tag}", helm)
    finally:
        helm.close()
    assert admission_refusal(pod) == ""


def test_the_simulated_extender_ends_without_what_its_release_needs() -> None:
    old, new = "tkestack/gpu-quota-admission:v1.0.0", "thomassong/gpu-admission:47d56ae9"
    assert "kubeconfig" in admission_refusal(rendered_pod(old, []))
    flag = ["--incluster-mode=true"]
    assert "invalid GPUFilter config" in admission_refusal(rendered_pod(old, flag))
    assert admission_refusal(rendered_pod(new, flag)) == "unknown flag: --incluster-mode"


def uvm_script(objects: dict[str, Json]) -> str:
    spec = objects["DaemonSet/gpu-manager-daemonset"]["spec"]["template"]["spec"]
    (first,) = spec["initContainers"]
    assert first["command"][:5] == ["nsenter", "--target=1", "--mount", "--", "sh"]
    assert first["securityContext"] == {"privileged": True}
    script: str = first["command"][-1]
    return script


@pytest.mark.parametrize(
    ("programs", "made"),
    [
        ({}, ""),
        ({"nvidia-modprobe": "touch $DEV/nvidia-uvm"}, "nvidia-uvm"),
        ({"nvidia-modprobe": "exit 1", "modprobe": "exit 1"}, ""),
        ({"modprobe": ":", "mknod": 'touch "$3"; echo "$*" >&2'}, "nvidia-uvm"),
    ],
)
def test_no_card_is_offered_before_the_device_that_its_containers_name(
    objects: dict[str, Json], tmp_path: Path, programs: dict[str, str], made: str
) -> None:
    """A container without /dev/nvidia-uvm can't start, so gpu-manager must wait for the device."""
    folder, devices = tmp_path / "bin", tmp_path / "dev"
    folder.mkdir()
    devices.mkdir()
    for tool in ("awk", "touch"):
        (folder / tool).symlink_to(f"/usr/bin/{tool}")
    for name, body in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    (tmp_path / "devices").write_text("Character devices:\n195 nvidia\n511 nvidia-uvm\n")
    script = uvm_script(objects).replace("/proc/devices", str(tmp_path / "devices"))
    done = subprocess.run(
        ["/bin/sh", "-c", script.replace("/dev/nvidia", f"{devices}/nvidia")],
        env={"PATH": str(folder), "DEV": str(devices)},
        capture_output=True,
        text=True,
    )
    assert [path.name for path in devices.iterdir()] == ([made] if made else [])
    assert (done.returncode == 0) is bool(made), done
    if "mknod" in programs:
        assert done.stderr.endswith("c 511 0\n")
    if not made:
        assert "; wanted it" in done.stderr


def test_a_toolkit_that_no_host_would_get_is_refused() -> None:
    """gpu-manager mounts the libraries itself, so no host has a phase that installs the toolkit."""
    with pytest.raises(ConfigError) as raised:
        cluster(runtime={"toolkit": {"source": "package"}})
    assert [problem.place for problem in raised.value.faults] == ["runtime.toolkit.source"]


@pytest.mark.parametrize("cards", [0.01, 0.05, 0.3, 1, 2])
def test_a_namespace_may_have_the_same_shares_as_a_container(cards: float) -> None:
    """Policies and limits accept the same shares as gpu-manager: hundredths of a card."""
    limits = [{"namespace": "team", "maxCards": cards}]
    (limit,) = cluster(scheduling={"limits": limits}).scheduling.limits
    cores = PLATFORM.limit(limit.max_cards)[VCUDA_CORE]
    asked = {VCUDA_CORE: cores, VCUDA_MEMORY: "1"} if cards < 1 else {VCUDA_CORE: cores}
    violations = evaluate(pod("share", asked), Context(platform="gpu-manager"))
    assert [item for item in violations if item.rule.id in {"GPU001", "GPU005"}] == []


def test_a_decimal_share_is_told_in_hundredths() -> None:
    violations = evaluate(
        pod("share", {VCUDA_CORE: "0.3", VCUDA_MEMORY: "20"}), Context(platform="gpu-manager")
    )
    (told,) = (item for item in violations if item.rule.id == "GPU001")
    assert told.cure == "Request hundredths of a GPU: 30 are 0.3 of a GPU."
