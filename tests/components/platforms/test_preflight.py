"""The cluster preflight refuses harmful configurations and accepts harmless ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest
from kr8s import KUBERNETES_MINIMUM_SUPPORTED_VERSION

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.preflight import validate_host
from gpu_cluster.inspection.judgement import Seen
from gpu_cluster.inspection.judgement import judged as judge
from gpu_cluster.kubernetes.labels import MANAGER
from gpu_cluster.kubernetes.managers import Manager, daemon_set
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes.taints import RECORD
from gpu_cluster.platforms import findings
from gpu_cluster.platforms.validate_cluster import Declared, validate_cluster
from gpu_cluster.release.inspect import surroundings
from gpu_cluster.settings.cluster import Cluster
from gpu_rules.faults import ConfigError, Fault, FaultSeverity
from gpu_rules.kube.taints import NodeTaint
from tests.desired_host import desired_host
from tests.fixtures.api import client
from tests.proofs.platform import ways
from tests.resolved import platform_of

Json = dict[str, Any]

HOST = {
    "name": "gpu-1",
    "address": "192.0.2.1",
    "hostKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPVVJnWq0RGVDc6v0ocP1kZbAnZ3WQ2GuMHyM9Ea5kT",
}
LABELS = {"nvidia.com/gpu": "true"}
SEEN = findings.Surroundings(
    version="v1.34.4",
    groups={"resource.k8s.io": ["v1"]},
    namespaces=("nvidia-device-plugin",),
)


def judged(
    cluster: Cluster,
    seen: findings.Surroundings,
    members: Mapping[str, list[Mapping[str, str]]],
    hosts: Mapping[str, HostFacts],
) -> list[Fault]:
    """Return the faults that the preflight finds about a cluster's platform."""
    declared = Declared(
        engines={host.node: host.runtime.engine for host in cluster.hosts},
        node_features=cluster.scheduling.node_features,
        guardrails=cluster.guardrails is not None,
    )
    return validate_cluster(platform_of(cluster), seen, members, hosts, declared)


def faults_of(way: str, host: HostFacts | None = None, **changes: Any) -> list[str]:
    """Return the faults that stop a run, as text; a warning begins with `warning`."""
    cluster = load(ways.declared("x", way))
    seen = replace(SEEN, **changes)
    hosts = {"gpu-1": host} if host else {}
    return [
        ("" if fault.severity is FaultSeverity.ERROR else "warning ") + str(fault)
        for fault in judged(cluster, seen, {"a100": [LABELS]}, hosts)
    ]


def item(
    image: str,
    name: str = "plugin",
    namespace: str = "other",
    path: str = "/var/lib/kubelet/device-plugins",
    **spec: Any,
) -> Manager:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": path}}]
    pod = {"containers": [{"image": image}], "volumes": volumes if path else [], **spec}
    kept = daemon_set(
        {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"template": {"spec": pod}},
            "status": {"desiredNumberScheduled": 2},
        }
    )
    assert kept is not None
    return kept


def test_a_plain_cluster_passes_for_every_way() -> None:
    assert {way: faults_of(way) for way in ways.WAYS} == {way: [] for way in ways.WAYS}


class Namespaces:
    """Fake API client of a cluster with the given namespaces, their labels and annotations."""

    def __init__(
        self,
        labels: dict[str, Json],
        annotations: dict[str, Json] | None = None,
        deleted: Collection[str] = (),
    ) -> None:
        self.labels = labels
        self.annotations = annotations or {}
        self.deleted = deleted

    async def server_version(self) -> str:
        return "v1.34.4"

    async def request(self, *_: Any, **__: Any) -> Json:
        return {"groups": []}

    async def list(self, kind: str, **_: Any) -> list[Json]:
        found = self.labels.items() if kind == "namespaces" else ()
        return [
            {
                "metadata": {
                    "name": name,
                    "labels": labels,
                    "annotations": self.annotations.get(name),
                    "deletionTimestamp": "2026-01-01T00:00:00Z" if name in self.deleted else None,
                }
            }
            for name, labels in found
        ]


def test_a_namespace_that_somebody_else_made_is_never_taken_over() -> None:
    """Pulumi would adopt an existing namespace and delete it, with its contents, on destroy."""
    made = {"app.kubernetes.io/managed-by": "gpu-cluster"}
    client = Namespaces({"monitoring": {}, "gpu-validation": made, "other": {}})
    own = ["monitoring", "gpu-validation"]
    seen = asyncio.run(surroundings(client, [], [], own))  # type: ignore[arg-type]
    assert (seen.taken, seen.namespaces) == (("monitoring",), ("gpu-validation",))
    (text,) = faults_of("device-plugin", taken=seen.taken)
    assert text.startswith(
        "namespace monitoring: found a namespace that this program did not create"
    )


def test_a_namespace_of_another_stack_is_refused_before_anything_is_declared() -> None:
    made = {"app.kubernetes.io/managed-by": "gpu-cluster"}
    labels = {name: made for name in ("own", "first", "second", "unknown", "other")}
    annotations: dict[str, Json] = {
        "own": {MANAGER: "gpu-cluster-b"},
        "unknown": {MANAGER: ""},
        "other": {MANAGER: "gpu-cluster-a"},
        "first": {MANAGER: "gpu-cluster-a\x1b"},
    }
    client: Any = Namespaces(labels, annotations)
    own = ["own", "first", "second", "unknown"]
    seen = asyncio.run(surroundings(client, [], [], own, "", "gpu-cluster-b"))
    assert (seen.taken, seen.shared) == ((), {"first": "gpu-cluster-a\x1b"})
    (text,) = faults_of("device-plugin", shared=seen.shared)
    assert text.startswith(
        "namespace first: found a namespace of another stack, gpu-cluster-a\\x1b;"
    )


def test_a_namespace_in_deletion_belongs_to_nobody() -> None:
    """`leave` deletes the validation's namespace; who adopts the cluster may ask before its end."""
    labels = {"gpu-validation": {"app.kubernetes.io/managed-by": "gpu-cluster"}}
    annotations: dict[str, Json] = {"gpu-validation": {MANAGER: "gpu-cluster-a"}}
    client: Any = Namespaces(labels, annotations, deleted=("gpu-validation",))
    seen = asyncio.run(surroundings(client, [], [], ["gpu-validation"], "", "gpu-cluster-b"))
    assert (seen.taken, seen.shared) == ((), {})


@pytest.mark.parametrize("way", ["gpu-manager", "dra"])
def test_a_host_needs_no_toolkit_where_the_platform_takes_none(way: str) -> None:
    cluster = load({**ways.declared("x", way), "hosts": [HOST]})
    version = 1 if way == "gpu-manager" else 2
    facts = HostFacts(
        os="debian", os_version="12", arch="x86_64", kernel="6.1.0", nvidia_devices=8,
        driver="580.159.03", containerd="2.0.0", cgroup=version, disk_free_mib=50_000,
    )  # fmt: skip
    assert validate_host(desired_host(cluster), facts) == []


def test_a_node_whose_operands_are_off_is_in_no_pool_with_gpus() -> None:
    """Operands are disabled on this node, so no device plugin would ever advertise its GPUs."""
    off = {"labels": {"nvidia.com/gpu.deploy.operands": "false"}}
    with pytest.raises(ConfigError) as raised:
        load(ways.declared("x", "gpu-operator-driver", scheduling={"nodes": {"gpu-1": off}}))
    (fault,) = raised.value.faults
    assert fault.place.startswith("scheduling.nodes")
    assert fault.found == "false, in a pool with GPUs"


def test_kubernetes_below_the_floor_is_refused() -> None:
    assert KUBERNETES_MINIMUM_SUPPORTED_VERSION.release[:2] == findings.FLOOR
    (text,) = faults_of("device-plugin", version="v1.27.16")
    assert "found Kubernetes v1.27.16; wanted: 1.28 or later" in text
    assert faults_of("device-plugin", version="v1.28.15") == []
    old = {"version": "v1.33.13", "groups": {"resource.k8s.io": ["v1beta2"]}}
    assert "without resource.k8s.io/v1" in faults_of("dra", **old)[0]
    assert faults_of("device-plugin", **old) == []


def test_guardrails_need_the_kubernetes_that_has_admission_policies() -> None:
    declared = load(ways.declared("x", "device-plugin", guardrails={"mode": "warn"}))
    for version, refused in (("v1.29.15", True), ("v1.30.0", False)):
        found = [str(one) for one in judged(declared, replace(SEEN, version=version), {}, {})]
        assert any("with guardrails declared; wanted: 1.30" in text for text in found) is refused


def test_another_manager_on_the_same_nodes_is_refused_and_elsewhere_is_not() -> None:
    plugin = item("registry/nvidia/k8s-device-plugin:v0.17.0")
    for way in ways.WAYS:
        (text,) = faults_of(way, managers=[plugin])
        assert "DaemonSet other/plugin: found NVIDIA's device plugin on nodes of the pools" in text
    elsewhere = replace(plugin, selector={"nvidia.com/gpu": "false"})
    idle = replace(plugin, scheduled=0)
    ours = replace(plugin, namespace="nvidia-device-plugin")
    for harmless in (elsewhere, idle, ours, replace(plugin, ours=True)):
        assert faults_of("gpu-manager", managers=[harmless]) == []


@pytest.mark.promise(
    "A DaemonSet with the image of a device plugin stops no deployment if it can't register one."
)
@pytest.mark.parametrize("path", ["", "/data", "/var/lib/kubelet/pod-resources"])
def test_a_tenants_daemon_set_with_the_image_of_a_manager_stops_no_deployment(path: str) -> None:
    plugin = item("evil.example/k8s-device-plugin:v1", namespace="team-a", path=path)
    assert faults_of("device-plugin", managers=[plugin]) == []
    nfd = item("evil.example/node-feature-discovery:v1", namespace="team-a", path="")
    assert faults_of("gpu-operator-preinstalled", managers=[nfd]) == []


@pytest.mark.parametrize("path", ["/var/lib/k0s/kubelet/device-plugins/", "/var/lib/kubelet", "/"])
def test_a_manager_that_can_register_is_refused_on_each_distribution(path: str) -> None:
    plugin = item("registry/nvidia/k8s-device-plugin:v0.17.0", path=path)
    (text,) = faults_of("device-plugin", managers=[plugin])
    assert "found NVIDIA's device plugin on nodes of the pools" in text


def test_what_gives_no_gpu_out_is_no_manager() -> None:
    for name in ("gpu-feature-discovery", "nvidia-mps-control-daemon"):
        metadata = {"name": name, "namespace": "x"}
        spec = {"containers": [{"image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}]}
        assert daemon_set({"metadata": metadata, "spec": {"template": {"spec": spec}}}) is None


def test_a_second_node_feature_discovery_is_refused_only_where_the_chart_brings_one() -> None:
    nfd = item("registry.k8s.io/nfd/node-feature-discovery:v0.18.3", "nfd-worker", "nfd")
    (text,) = faults_of("gpu-operator-preinstalled", managers=[nfd])
    assert 'write "nfd: false" in gpuOperator' in text
    assert faults_of("device-plugin", managers=[nfd]) == []


def test_gpu_manager_is_refused_on_cgroup_v2_with_the_reason() -> None:
    (text,) = faults_of("gpu-manager", HostFacts(cgroup=2))
    assert "found cgroup v2" in text
    assert "gpu-manager#184" in text
    assert faults_of("gpu-manager", HostFacts(cgroup=1)) == []
    assert faults_of("device-plugin", HostFacts(cgroup=2)) == []
    assert faults_of("gpu-manager", version="v1.35.4")[0].startswith("warning ")


def test_gpu_manager_is_refused_where_nvidia_s_runtime_stays_the_default() -> None:
    (text,) = faults_of("gpu-manager", HostFacts(default_runtime="nvidia"))
    assert "found nvidia as its container engine's default runtime" in text
    assert "gpu-manager#78" in text
    ours = HostFacts(default_runtime="nvidia", applied=("runtime",))
    for harmless in (ours, HostFacts(default_runtime="runc"), HostFacts()):
        assert faults_of("gpu-manager", harmless) == []
    assert faults_of("device-plugin", HostFacts(default_runtime="nvidia")) == []


def gpu_manager(seen: findings.Surroundings, **sections: Any) -> list[str]:
    """Return the faults of a gpu-manager stack in a cluster, as text."""
    return [str(each) for each in judged(load(ways.declared("x", "gpu-manager", **sections)),
                                         seen, {}, {})]  # fmt: skip


CONTAINERD = "/var/run/containerd/containerd.sock"
CGROUPFS = {"runtime": {"systemdCgroup": False}}


@pytest.mark.promise("gpu-manager is refused on container engines that it can't work with.")
@pytest.mark.parametrize(
    ("engine", "refused"),
    [
        ("containerd://1.6.38", False),
        ("containerd://1.7.29", False),
        ("containerd://2.0.0", True),
        ("containerd://2.1.4-k3s1", True),
        ("cri-o://1.25.5", False),
        ("cri-o://1.26.0", True),
        ("cri-o://1.34.2", True),
    ],
)
def test_gpu_manager_is_refused_where_its_interface_is_gone(engine: str, refused: bool) -> None:
    socket = "/var/run/crio/crio.sock" if engine.startswith("cri-o") else CONTAINERD
    declared = {**CGROUPFS, "gpuManager": {"containerRuntimeEndpoint": socket}}
    found = gpu_manager(replace(SEEN, engines={"gpu-1": engine}), **declared)
    assert [text.partition(" that gpu-manager")[0] for text in found] == refused * [
        f"node gpu-1: found {engine.replace('://', ' ')}, without the interface v1alpha2 (CRI)"
    ]


@pytest.mark.parametrize(
    ("engine", "socket", "refused"),
    [
        ("containerd://1.7.29", CONTAINERD, False),
        ("containerd://1.7.29", "/run/containerd/containerd.sock", False),
        ("containerd://1.7.29", "/var/run/crio/crio.sock", True),
        ("containerd://1.7.29", "/srv/own.sock", False),
        ("containerd://1.7.27-k3s1", CONTAINERD, True),
        ("containerd://1.7.27-k3s1", "/run/k3s/containerd/containerd.sock", False),
        ("cri-o://1.25.5", CONTAINERD, True),
        ("docker://24.0.9", CONTAINERD, True),
        ("docker://24.0.9", "/var/run/cri-dockerd.sock", False),
    ],
)
def test_gpu_manager_is_refused_with_the_socket_of_another_engine(
    engine: str, socket: str, refused: bool
) -> None:
    """It dials this socket to find containers, and ends if nobody answers as Kubernetes does."""
    declared = {**CGROUPFS, "gpuManager": {"containerRuntimeEndpoint": socket}}
    found = gpu_manager(replace(SEEN, engines={"gpu-1": engine}), **declared)
    assert len(found) == refused
    assert all(f"found {socket}" in text for text in found)


def test_gpu_manager_is_refused_where_its_release_misses_the_cgroups_of_containers() -> None:
    seen = replace(SEEN, engines={"gpu-1": "containerd://1.7.29"})
    by_systemd = {"runtime": {"systemdCgroup": True}}
    (text,) = gpu_manager(seen, **by_systemd)
    assert "found containerd with cgroups by systemd" in text
    assert "systemdCgroup: false" in text
    assert gpu_manager(seen, **CGROUPFS) == gpu_manager(seen) == []
    own = f"registry.example.com/gpu-manager@sha256:{'a' * 64}"
    assert gpu_manager(seen, gpuManager={"image": own}, **by_systemd) == []


@pytest.mark.promise("gpu-manager is refused on drivers that its library for shares can't use.")
@pytest.mark.parametrize(
    ("driver", "severity"),
    [
        ("470.256.02", ""),
        ("495.46", ""),
        ("510.47.03", "warning "),
        ("520.61.05", "warning "),
        ("525.60.13", "error "),
        ("595.91.07", "error "),
    ],
)
def test_a_driver_that_the_library_for_shares_does_not_know_is_refused(
    driver: str, severity: str
) -> None:
    facts = HostFacts(cgroup=1, driver=driver)
    labelled = replace(SEEN, drivers={"gpu-2": driver})
    texts = [
        f"{fault.severity.value} {fault}"
        for seen, hosts in ((SEEN, {"gpu-1": facts}), (labelled, {}))
        for fault in judged(load(ways.declared("x", "gpu-manager", **CGROUPFS)), seen, {}, hosts)
    ]
    wanted = [f"{severity}{place}: found driver {driver}" for place in ("host gpu-1", "node gpu-2")]
    assert [text.partition(",")[0] for text in texts] == (wanted if severity else [])
    assert all("CUDA 11.5" in text for text in texts)


def test_a_driver_is_named_once_for_a_node_whose_host_was_inspected() -> None:
    seen = replace(SEEN, drivers={"gpu-1": "595.91.07"})
    facts = HostFacts(cgroup=1, driver="595.91.07")
    declared = load(ways.declared("x", "gpu-manager", **CGROUPFS))
    assert len(judged(declared, seen, {}, {"gpu-1": facts})) == 1
    assert judged(declared, SEEN, {}, {"gpu-1": replace(facts, simulated=True)}) == []


@pytest.mark.promise("A Service's declared address is compared with the cluster before a change.")
def test_an_address_that_the_extender_cannot_have_is_refused() -> None:
    declared = {**CGROUPFS, "gpuManager": {"extenderAddress": "10.96.0.200"}}
    outside = replace(SEEN, service_ranges=("10.0.0.0/24", "fd00:10:96::/112"))
    (text,) = gpu_manager(outside, **declared)
    assert text.startswith(
        "gpuManager.extenderAddress: found 10.96.0.200, outside of the cluster's addresses for "
        "Services; wanted: one of 10.0.0.0/24, fd00:10:96::/112; cure: "
    )
    inside = replace(SEEN, service_ranges=("10.96.0.0/12",))
    assert gpu_manager(inside, **declared) == []
    (text,) = gpu_manager(replace(inside, address_owner="team/web"), **declared)
    assert "found 10.96.0.200, which the Service team/web has" in text
    ours = replace(inside, address_owner="kube-system/gpu-quota-admission")
    assert gpu_manager(ours, **declared) == []
    assert gpu_manager(SEEN, **declared) == []  # The API server doesn't list its Service ranges.
    with pytest.raises(ConfigError, match="an IPv4 or IPv6 address"):
        load(ways.declared("x", "gpu-manager", gpuManager={"extenderAddress": "extender.local"}))


def test_the_extenders_address_lies_in_the_declared_range_of_a_new_cluster() -> None:
    init = {"endpoint": "192.0.2.1:6443", "network": {"manifest": "cni.yaml"}}
    master = {**HOST, "name": "cp-1", "role": "control-plane"}

    def document(subnets: Json) -> Json:
        return ways.declared(
            "x",
            "gpu-manager",
            gpuManager={"extenderAddress": "10.96.0.200"},
            kubernetesPackages={"version": "1.34.4", "init": {**init, **subnets}},
            hosts=[master],
        )

    both = {
        "serviceSubnet": "fd00:10:96::/112,10.96.0.0/12",
        "podSubnet": "fd00:10:97::/56,10.244.0.0/16",
    }
    assert load(document(both))
    with pytest.raises(ConfigError, match=r"10\.96\.0\.200, outside of .*172\.20\.0\.0/16"):
        load(document({"serviceSubnet": "172.20.0.0/16"}))


def test_ranges_and_owners_of_addresses_are_read_where_the_api_server_shows_them() -> None:
    asked: list[str] = []

    def listed(*items: Json) -> Json:
        return {"metadata": {}, "items": list(items)}

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path.rstrip("/")
        asked.append(path)
        if path == "/version":
            return httpx.Response(200, json={"gitVersion": "v1.34.4"})
        if path == "/apis":
            return httpx.Response(200, json={"groups": []})
        if path.endswith("/servicecidrs"):
            return httpx.Response(200, json=listed({"spec": {"cidrs": ["10.0.0.0/24"]}}))
        if path.endswith("/ipaddresses"):
            return httpx.Response(403, json={"message": "forbidden"})
        return httpx.Response(200, json=listed())

    found = asyncio.run(surroundings(client(answer), [], [], [], "10.0.0.200"))
    assert (found.service_ranges, found.address_owner) == (("10.0.0.0/24",), "")
    asked.clear()
    found = asyncio.run(surroundings(client(answer), [], [], []))
    assert found.service_ranges == ()
    assert not any("networking" in path for path in asked)


def test_an_engine_that_cannot_do_what_is_asked_is_refused_by_node() -> None:
    engines = {"gpu-1": "containerd://1.6.38", "gpu-2": "containerd://2.1.4"}
    (text,) = faults_of("dra", engines=engines)
    assert text.startswith("node gpu-1: found containerd 1.6.38; wanted: 1.7 or later")
    assert faults_of("device-plugin", engines=engines) == []
    (text,) = faults_of("gpu-manager", engines={"gpu-1": "docker://26.1.0"})
    assert text.endswith("containerRuntimeEndpoint: /var/run/cri-dockerd.sock")


def test_guests_need_their_licence_server_and_registry() -> None:
    vgpu = {"hostDriver": "20.1", "licenseSecret": "l", "licenseServer": "licences.example:443"}
    declared = ways.declared(
        "x",
        "gpu-operator-driver",
        gpuOperator={"vgpu": vgpu},
        driver={
            "source": "operator",
            "version": ways.VERSION,
            "imageRepository": "registry.example/nvidia",
        },
    )
    cluster = load(declared)
    needed = sorted(platform_of(cluster).endpoints().values())
    assert needed == ["licences.example:443", "registry.example:443"]
    silent = dict.fromkeys(needed, "no answer within 3 s")
    texts = [str(fault) for fault in judged(cluster, replace(SEEN, endpoints=silent), {}, {})]
    assert [text.split(":")[0] for text in texts] == [
        "licence server licences.example",
        "registry registry.example",
    ]
    reached = dict.fromkeys(silent, "")
    assert judged(cluster, replace(SEEN, endpoints=reached), {}, {}) == []


def test_hosts_with_gpus_are_asked_for_the_licence_server_and_this_machine_is_not() -> None:
    server = "licences.example:443"
    operator = {"vgpu": {"hostDriver": "20.1", "licenseSecret": "l", "licenseServer": server}}
    driver = {"source": "operator", "version": ways.VERSION, "imageRepository": "r.example/nvidia"}
    hosts = [HOST, {**HOST, "name": "cp-1", "address": "192.0.2.2", "role": "control-plane"}]
    declared = ways.declared("x", "gpu-operator-driver", gpuOperator=operator, driver=driver)
    asked_here = resolve(load(declared), "x").question
    assert asked_here is not None
    assert server in asked_here.endpoints
    desired = resolve(load({**declared, "hosts": hosts}), "x")
    assert desired.question is not None
    assert desired.question.endpoints == []
    away = HostFacts(simulated=True, unreached=(server,))
    told = judge(desired, Seen(hosts={"gpu-1": away, "cp-1": away}))
    texts = [text for text in told.problems if server in text]
    assert [text.partition(";")[0] for text in texts] == [
        f"host gpu-1: found no response from the licence server {server}"
    ]


def test_taints_that_come_and_go_are_no_taints_of_others() -> None:
    def taint(key: str, effect: str = "NoSchedule") -> Json:
        return {"key": key, "value": "x", "effect": effect}

    own = taint("own")
    taints = [
        own,
        taint("node.kubernetes.io/not-ready"),
        taint("node.cloudprovider.kubernetes.io/uninitialized"),
        taint("soft", "PreferNoSchedule"),
        taint("dedicated"),
    ]
    node = {
        "metadata": {"name": "gpu-1", "annotations": {RECORD: json.dumps([own])}},
        "spec": {"taints": taints},
        "status": {"nodeInfo": {"containerRuntimeVersion": "containerd://2.1.1"}},
    }
    seen = asyncio.run(surroundings(Namespaces({}), [node], [], []))  # type: ignore[arg-type]
    assert seen.taints == {"gpu-1": (NodeTaint("dedicated", "x"),)}
