"""A cluster that the stack creates: order of its parts, rules, and its kubeconfig context."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from pulumi.runtime import mocks

from gpu_cluster.cluster import GpuCluster, GpuClusterArgs
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.findings import Finding
from gpu_cluster.hosts.difference import HostDifference
from gpu_cluster.hosts.kubeadm import kubeconfig
from gpu_cluster.hosts.kubeadm.access import ACCESS
from gpu_cluster.hosts.kubeadm.component import manifests
from gpu_cluster.hosts.kubeadm.configuration import member_configuration
from gpu_cluster.hosts.kubeadm.kubeconfig import KubeconfigRequest
from gpu_cluster.inspection.difference import Difference
from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.loading.warnings import warnings
from gpu_cluster.settings.hosts.kubeadm_init import Init
from gpu_rules.faults import ConfigError, FaultError
from tests.findings import found
from tests.fixtures.clusters import HOST_KEY, cluster
from tests.fixtures.kubeconfigs import ENDPOINT, administrator, first_line, pair
from tests.mocks import Recorder, declare, inspected

ALL_WITH_GPUS: dict[str, Any] = {
    "pools": [{"name": "a", "nodes": ["cp-1", "gpu-1"], "gpusPerNode": 8}],
    "hosts": [
        {"name": name, "role": role, "address": address, "hostKey": HOST_KEY}
        for name, role, address in (
            ("cp-1", "gpu-control-plane", "192.0.2.1"),
            ("gpu-1", "gpu-worker", "192.0.2.2"),
        )
    ],
}
THREE: dict[str, Any] = {
    "pools": [
        {"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8},
        {"name": "b", "nodes": ["cp-3"], "gpusPerNode": 8, "taints": []},
    ],
    "hosts": [
        {"name": name, "role": role, "address": address, "hostKey": HOST_KEY}
        for name, role, address in (
            ("cp-1", "control-plane", "192.0.2.1"),
            ("cp-2", "control-plane", "192.0.2.2"),
            ("cp-3", "gpu-control-plane", "192.0.2.3"),
            ("gpu-1", "gpu-worker", "192.0.2.11"),
        )
    ],
}
LENT = ("abcdef.0123456789abcdef", (f"sha256:{'1' * 64}",), "2" * 64)
NETWORK = {"manifest": "cni.yaml"}
HASH = f"sha256:{'0123456789abcdef' * 4}"
OBJECTS = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: cni, namespace: kube-system}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: cni, namespace: kube-system}
"""


class Answers(Recorder):
    """Recorder whose control-plane Commands print a token and a kubeconfig."""

    printed = f"{first_line()}{yaml.safe_dump(administrator())}"

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        name, outputs = super().new_resource(args)
        if "-access-" in args.name:
            outputs["stdout"] = self.printed
        return name, outputs


def packages(**init: Any) -> dict[str, Any]:
    given = {"endpoint": "192.0.2.9:6443", "network": {"manifest": "cni.yaml"}, **init}
    return {"version": "1.34.4", "init": given}


@pytest.mark.usefixtures("no_hooks")
def test_the_parts_come_in_their_order_and_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cni.yaml"
    path.write_text(OBJECTS)
    declared = cluster(kubernetesPackages=packages(network={"manifest": str(path)}))

    def program() -> None:
        args = GpuClusterArgs(settings=declared, private_key="key")
        GpuCluster("gpu-cluster", args)

    names = [
        resource.name for resource in declare(program, preview=False, recorder=Answers()).resources
    ]
    order = [
        "gpu-cluster-host-preparation-cp-1",
        "gpu-cluster-kubeadm-cluster-member-cp-1",
        "gpu-cluster-kubeadm-cluster-access-cp-1",
        "gpu-cluster-kubeadm-cluster-kubeconfig",
        "gpu-cluster-kubeadm-cluster-kubernetes",
        "gpu-cluster-kubeadm-cluster-network-daemonset-kube-system-cni",
        "gpu-cluster-kubeadm-cluster-join-gpu-1",
        "gpu-cluster-node-scheduling.pools",
        "gpu-cluster-gpu-platform-release",
    ]
    places = [names.index(name) for name in order]
    assert places == sorted(places), names
    assert names.index("gpu-cluster-container-runtime-gpu-1") < names.index(
        "gpu-cluster-kubeadm-cluster-join-gpu-1"
    )
    assert "gpu-cluster-kubeadm-cluster-join-cp-1" not in names


@pytest.mark.usefixtures("no_hooks")
def test_control_planes_join_one_after_the_other_and_workers_after_them(tmp_path: Path) -> None:
    path = tmp_path / "cni.yaml"
    path.write_text(OBJECTS)
    declared = cluster(kubernetesPackages=packages(network={"manifest": str(path)}), **THREE)

    def program() -> None:
        args = GpuClusterArgs(settings=declared, private_key="key")
        GpuCluster("gpu-cluster", args)

    recorder = declare(program, preview=False, recorder=Answers())
    words = ("-cluster-member-", "-cluster-join-")
    joins = [one.name for one in recorder.resources if any(word in one.name for word in words)]
    assert joins == [
        f"gpu-cluster-kubeadm-cluster-{name}"
        for name in ("member-cp-1", "member-cp-2", "member-cp-3", "join-gpu-1")
    ]
    by_name = {one.name: one for one in recorder.resources}
    for name in joins[:3]:
        # What these Commands would have in the state: nothing that lets a host join.
        script = str(by_name[name].inputs["stdin"])
        assert "certificateKey" not in script
        assert "caCertHashes" not in script
    assert "caCertHashes" in str(by_name[joins[3]].inputs["stdin"])


@pytest.mark.usefixtures("no_hooks")
def test_a_state_of_one_control_plane_keeps_it_under_its_earlier_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine finds the resource under its earlier name, and so deletes none."""
    names: dict[str, list[str]] = {}
    register = mocks.MockMonitor.RegisterResource

    def registered(monitor: mocks.MockMonitor, request: Any) -> Any:
        listed = [urn.rpartition("::")[2] for urn in request.aliasURNs]
        names[request.name] = listed + [each.spec.name for each in request.aliases]
        return register(monitor, request)

    monkeypatch.setattr(mocks.MockMonitor, "RegisterResource", registered)
    path = tmp_path / "cni.yaml"
    path.write_text(OBJECTS)
    declared = cluster(kubernetesPackages=packages(network={"manifest": str(path)}))

    def program() -> None:
        GpuCluster("gpu-cluster", GpuClusterArgs(settings=declared, private_key="key"))

    declare(program, preview=False, recorder=Answers())
    assert names["gpu-cluster-kubeadm-cluster-member-cp-1"] == [
        "gpu-cluster-kubeadm-cluster-init-cp-1"
    ]


def test_one_of_three_control_planes_may_be_in_maintenance() -> None:
    declared = cluster(kubernetesPackages=packages(), **{**THREE, "maintenance": ["cp-3"]})
    kubeadm = resolve(declared, "dev").kubeadm
    assert kubeadm is not None
    assert [host.name for host in kubeadm.members if host.in_maintenance] == ["cp-3"]


def test_each_control_plane_joins_without_taints_only_if_it_takes_gpu_pods() -> None:
    hosts = resolve(cluster(kubernetesPackages=packages(), **THREE), "dev").hosts
    documents = {
        host.name: json.loads(
            member_configuration("1.34.4", Init.model_validate(packages()["init"]), host, *LENT)
        )
        for host in hosts
    }
    assert "taints" not in documents["cp-2"]["nodeRegistration"]
    assert documents["cp-3"]["nodeRegistration"]["taints"] == []
    assert documents["cp-2"]["controlPlane"] == {
        "localAPIEndpoint": {"bindPort": 6443},
        "certificateKey": LENT[2],
    }


@pytest.mark.usefixtures("no_hooks")
def test_the_token_is_made_good_again_for_whoever_has_not_joined(tmp_path: Path) -> None:
    path = tmp_path / "cni.yaml"
    path.write_text(OBJECTS)
    declared = cluster(kubernetesPackages=packages(network={"manifest": str(path)}))

    def renewal(*findings: Finding) -> str:
        def program() -> None:
            args = GpuClusterArgs(settings=declared, private_key="key")
            GpuCluster("gpu-cluster", args)

        hosts = HostDifference(cluster={"gpu-1": findings} if findings else {})
        with inspected(Difference(hosts=hosts)):
            recorder = declare(program, preview=False, recorder=Answers())
        (access,) = (one for one in recorder.resources if "-access-" in one.name)
        return str(access.inputs["update"])

    plain = renewal()
    membership = "change: host gpu-1: membership of the cluster"
    assert renewal(found(membership, now="applied", first=True)) != plain
    assert renewal(found("drift: host gpu-1: kubelet is not active")) == plain


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hosts": []}, "found 0 control-plane hosts; wanted: one, or three"),
        (
            {
                "hosts": [
                    {"name": n, "role": "control-plane", "address": a, "hostKey": HOST_KEY}
                    for n, a in (("cp-1", "192.0.2.1"), ("cp-2", "192.0.2.2"))
                ]
            },
            "found 2 control-plane hosts (cp-1, cp-2)",
        ),
        (
            {"hosts": [*THREE["hosts"], {**THREE["hosts"][0], "name": "cp-4"}]},
            "found 4 control-plane hosts (cp-1, cp-2, cp-3, cp-4); wanted: one, or three",
        ),
        (
            {**THREE, "kubernetesPackages": packages(endpoint="192.0.2.2:6443")},
            '"192.0.2.2:6443", which is host cp-2',
        ),
        (
            {**THREE, "kubernetesPackages": packages(endpoint="cp-3:6443")},
            '"cp-3:6443", which is host cp-3',
        ),
        (
            {"kubernetesPackages": packages(endpoint="cp-1:6443", kubeVip={})},
            "declare an address of the hosts' network that no host has",
        ),
        (
            {**THREE, "kubernetesPackages": packages(endpoint="api.example.com:6443", kubeVip={})},
            '"api.example.com:6443", a name, with kubeVip; wanted: an IP address',
        ),
        (
            {**THREE, "kubernetesPackages": packages(advertiseAddress="192.0.2.1")},
            '"192.0.2.1", one address for 3 control-plane hosts',
        ),
        (
            {**THREE, "kubernetesPackages": {"version": "1.34.4", "init": {"network": NETWORK}}},
            "endpoint",
        ),
        (
            {
                **THREE,
                "kubernetesPackages": packages(
                    clusterConfiguration={"etcd": {"external": {"endpoints": ["https://e:2379"]}}}
                ),
            },
            "etcd.external, with 3 control-plane hosts",
        ),
        ({**THREE, "maintenance": ["cp-1"]}, "write cp-1 after the other control-plane hosts"),
        ({**THREE, "maintenance": ["cp-2", "cp-3"]}, '"cp-3", on which the control plane is'),
        ({"maintenance": ["cp-1"]}, "on which the control plane is"),
        (ALL_WITH_GPUS, "taints on each node of the cluster that init creates"),
        ({"runtime": {"engine": "k3s"}}, "an engine that works with kubeadm"),
        (
            {
                "kubernetesPackages": {
                    **packages(),
                    "join": {"endpoint": "192.0.2.9:6443", "caCertHashes": [HASH]},
                }
            },
            "init for a new cluster, or join for an existing cluster",
        ),
    ],
)
def test_what_init_can_t_do_is_refused_before_a_host_is_changed(
    changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        cluster(**{"kubernetesPackages": packages(), **changes})
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("zones", "warned"),
    [
        (("a", "a", "a"), True),
        (("a", "a", "b"), False),
        (("a", "a", ""), False),
        (("", "", ""), False),
    ],
)
def test_three_control_planes_in_one_declared_zone_are_a_warning(
    zones: tuple[str, ...], warned: bool
) -> None:
    labels = [{"topology.kubernetes.io/zone": zone} if zone else {} for zone in zones]
    pools = [
        {"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8},
        {"name": "b", "nodes": ["cp-1"], "gpusPerNode": 0, "labels": labels[0]},
        {"name": "c", "nodes": ["cp-2"], "gpusPerNode": 0, "labels": labels[1]},
        {"name": "d", "nodes": ["cp-3"], "gpusPerNode": 8, "labels": labels[2]},
    ]
    declared = cluster(kubernetesPackages=packages(), **{**THREE, "pools": pools})
    text = "all control-plane hosts (cp-1, cp-2, cp-3) in topology.kubernetes.io/zone a"
    assert any(text in str(warning) for warning in warnings(declared)) is warned


@pytest.mark.parametrize(
    "changes",
    [
        {"taints": []},
        {"taints": ["nvidia.com/gpu=present:PreferNoSchedule"]},
        {"nodes": ["cp-1"], "gpusPerNode": 8},
    ],
    ids=["no taints", "preferred", "a second pool"],
)
def test_a_cluster_of_gpu_machines_alone_has_a_node_for_coredns(changes: dict[str, Any]) -> None:
    pool = {**ALL_WITH_GPUS["pools"][0], **changes}
    others = [{"name": "b", "nodes": ["gpu-1"], "gpusPerNode": 8, "taints": []}]
    pools = [pool, *others] if "gpu-1" not in pool["nodes"] else [pool]
    cluster(kubernetesPackages=packages(), **{**ALL_WITH_GPUS, "pools": pools})


@pytest.mark.parametrize(
    "init",
    [
        {"skipPhases": ["addon/coredns"]},
        {"clusterConfiguration": {"dns": {"disabled": True}}},
    ],
)
def test_a_cluster_without_coredns_may_have_taints_on_each_node(init: dict[str, Any]) -> None:
    cluster(kubernetesPackages=packages(**init), **ALL_WITH_GPUS)


@pytest.mark.parametrize("text", ["- no object\n", "kind: Pod\n", "a: [\n"])
def test_a_network_of_no_objects_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cni.yaml"
    path.write_text(text)
    with pytest.raises(pulumi.RunError) as refused:
        manifests(str(path))
    assert str(path) in str(refused.value)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "folder" / "config"
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


def write(context: str = "new", **changes: str) -> None:
    asyncio.run(kubeconfig.apply(request(context, **changes)))


def request(context: str, **changes: str) -> KubeconfigRequest:
    found = ACCESS.read(f"{first_line()}{yaml.safe_dump(administrator())}", "cp-1", ENDPOINT)
    return KubeconfigRequest(context=context, administrator=replace(found.administrator, **changes))


def test_a_key_of_another_is_not_written(file: Path) -> None:
    with pytest.raises(FaultError, match="client key"):
        write(key=pair("other")[1])
    assert not file.exists()


@pytest.mark.usefixtures("no_hooks")
def test_a_kubeconfig_that_runs_a_program_ends_the_run_before_anything_uses_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "asyncio")  # Pulumi's language host sets the same log level.
    path = tmp_path / "cni.yaml"
    path.write_text(OBJECTS)
    declared = cluster(kubernetesPackages=packages(network={"manifest": str(path)}))
    hostile = administrator()
    hostile["users"][0]["user"]["exec"] = {"command": "id"}
    recorder = Answers()
    recorder.printed = f"{first_line()}{yaml.safe_dump(hostile)}"

    def program() -> None:
        args = GpuClusterArgs(settings=declared, private_key="key")
        GpuCluster("gpu-cluster", args)

    with pytest.raises(pulumi.RunError, match="found the key exec in users"):
        declare(program, preview=False, recorder=recorder)
    gc.collect()
    names = [resource.name for resource in recorder.resources]
    assert "gpu-cluster-kubeadm-cluster-kubeconfig" not in names
    assert "gpu-cluster-kubeadm-cluster-join-gpu-1" not in names


def test_the_context_comes_for_its_owner_alone_and_goes_with_its_file(file: Path) -> None:
    assert not kubeconfig.is_there("new")
    write()
    write()
    assert kubeconfig.is_there("new")
    assert file.stat().st_mode & 0o777 == 0o600
    found = yaml.safe_load(file.read_text())
    assert [len(found[kind]) for kind in ("clusters", "users", "contexts")] == [1, 1, 1]
    assert found["current-context"] == "new"
    asyncio.run(kubeconfig.undo(request("new")))
    assert not file.exists()


def test_the_contexts_of_others_stay(file: Path) -> None:
    theirs = {
        "clusters": [{"name": "old", "cluster": {}}],
        "users": [{"name": "old", "user": {}}],
        "contexts": [{"name": "old", "context": {"cluster": "old", "user": "old"}}],
        "current-context": "old",
    }
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(theirs))
    write()
    assert yaml.safe_load(file.read_text())["current-context"] == "old"
    asyncio.run(kubeconfig.undo(request("new")))
    left = yaml.safe_load(file.read_text())
    assert {kind: left[kind] for kind in theirs} == theirs
    with pytest.raises(ClusterError, match="a context that this stack didn't write"):
        write("old")
    asyncio.run(kubeconfig.undo(request("old")))
    assert yaml.safe_load(file.read_text())["contexts"] == theirs["contexts"]


@pytest.mark.usefixtures("no_hooks")
@pytest.mark.parametrize("text", [None, "- a list"])
def test_a_network_file_that_is_none_is_refused_before_the_first_resource(
    tmp_path: Path, text: str | None
) -> None:
    path, recorder = tmp_path / "cni.yaml", Recorder()
    if text is not None:
        path.write_text(text)
    declared = cluster(kubernetesPackages=packages(network={"manifest": str(path)}))

    def program() -> None:
        GpuCluster("gpu-cluster", GpuClusterArgs(settings=declared, private_key="key"))

    with pytest.raises(pulumi.RunError, match=r"cni\.yaml: found"):
        declare(program, preview=False, recorder=recorder)
    assert recorder.resources == []


def test_a_kubeconfig_beside_a_cluster_to_be_made_is_refused_before_the_first_resource() -> None:
    declared, recorder = cluster(kubernetesPackages=packages()), Recorder()

    def program() -> None:
        args = GpuClusterArgs(settings=declared, private_key="key", kubeconfig="{}")
        GpuCluster("gpu-cluster", args)

    with pytest.raises(pulumi.RunError, match=r"in addition to kubernetesPackages\.init"):
        declare(program, preview=False, recorder=recorder)
    assert recorder.resources == []
