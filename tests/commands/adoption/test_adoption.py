"""Settings that are proposed for a running cluster load and keep the cluster's GPU software."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.commands.adopt import differing
from gpu_cluster.commands.adoption import parse
from gpu_cluster.commands.adoption.observed import (
    NOBODY,
    ManagerKind,
    ObservedCluster,
)
from gpu_cluster.commands.adoption.owners import Deliverers, owner_of
from gpu_cluster.commands.adoption.propose import KUBESPRAY, OPERATOR, PLUGIN, Proposal, propose
from gpu_cluster.commands.adoption.read import release_edits
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes.grammar import IllFormed
from gpu_cluster.loading.loader import load
from gpu_rules.faults import ConfigError
from tests.fixtures.clusters import HOST_KEY
from tests.fixtures.documents import stack_document
from tests.fixtures.running_clusters import (
    HELM,
    RELEASED,
    by_hami,
    by_helm,
    by_manifest,
    cluster,
    hami_machine,
    machine,
    plugin,
    release,
)

Json = dict[str, Any]


def the_pool(observed: ObservedCluster) -> Json:
    proposal = propose(observed, "prod")
    load(proposal.settings)
    (pool,) = proposal.settings["pools"]
    return dict(pool)


def reasons(proposal: Proposal) -> str:
    return "\n".join(map(str, proposal.refused))


def test_a_release_keeps_its_name_namespace_version_and_values() -> None:
    proposal = propose(by_helm(), "prod")
    assert proposal.refused == ()
    assert proposal.settings["adopted"] == {
        "release": {
            "name": "nvdp",
            "namespace": "kube-system",
            "version": "0.17.1",
            "values": {"gfd": {"enabled": True}},
        }
    }
    assert load(proposal.settings).platform == "device-plugin"


def test_equal_nodes_are_one_pool_that_adds_nothing_to_them() -> None:
    assert the_pool(by_helm()) == {
        "name": "a100",
        "nodes": ["gpu-[1-4]"],
        "gpusPerNode": 8,
        "labels": {},
        "taints": [],
        "startupTaint": False,
    }


def test_a_plain_manifest_is_kept_without_what_the_api_server_adds() -> None:
    proposal = propose(by_manifest(), "prod")
    (manifest,) = proposal.settings["adopted"]["objects"]
    assert set(manifest["metadata"]) == {"name", "namespace"}
    assert set(manifest["spec"]) == {"selector", "template"}
    pod = manifest["spec"]["template"]["spec"]
    assert list(pod) == ["containers"]
    assert set(pod["containers"][0]) == {"name", "image", "imagePullPolicy", "env"}
    load(proposal.settings)


def test_labels_and_taints_of_others_are_declared_as_they_are() -> None:
    taints = [
        {"key": "nvidia.com/gpu", "value": "reserved", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
    ]
    common = {"team": "ml", "feature.node.kubernetes.io/pci-10de.present": "true"}
    nodes = [
        machine(f"gpu-{number}", labels={**common, "rack": str(number)}, taints=taints)
        for number in (1, 2)
    ]
    pool = the_pool(by_manifest(*nodes))
    assert pool["labels"] == {"team": "ml"}
    assert pool["taints"] == ["nvidia.com/gpu=reserved:NoSchedule"]


def test_nodes_with_other_gpus_counts_or_taints_are_other_pools() -> None:
    taint = [{"key": "spot", "effect": "NoSchedule"}]
    other = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "4"}
    observed = by_manifest(
        machine("gpu-1"), machine("gpu-2", taints=taint), machine("gpu-3", 4, labels=other)
    )
    pools = propose(observed, "prod").settings["pools"]
    assert [(pool["name"], pool["gpusPerNode"]) for pool in pools] == [
        ("a100-sxm4-80gb", 8),
        ("a100-sxm4-80gb-2", 8),
        ("t4", 4),
    ]
    load(propose(observed, "prod").settings)


def test_time_slicing_is_described_by_what_nodes_offer() -> None:
    shared = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED"}
    observed = by_manifest(machine("gpu-1", labels=shared, offered=32))
    settings = propose(observed, "prod").settings
    declared = load(settings)
    assert settings["pools"][0]["gpusPerNode"] == 8
    assert declared.device_plugin.config.offered("nvidia.com/gpu", 8) == ("nvidia.com/gpu", 32)


def test_nodes_of_a_cloud_are_found_by_their_instance_type() -> None:
    kind = {"node.kubernetes.io/instance-type": "p4d.24xlarge"}
    nodes = [
        machine(f"ip-10-0-0-{n}.ec2.internal", labels=kind, provider=f"aws:///eu-1a/i-{n}")
        for n in (1, 7)
    ]
    pool = the_pool(by_manifest(*nodes))
    assert (pool["selector"], pool["count"]) == (kind, 2)


def test_a_node_that_is_not_ready_is_in_maintenance() -> None:
    proposal = propose(by_manifest(machine("gpu-1"), machine("gpu-2", ready=False)), "prod")
    assert proposal.settings["maintenance"] == ["gpu-2"]
    assert any("gpu-2 is not ready" in note for note in proposal.notes)
    load(proposal.settings)


def test_gpus_that_the_cluster_does_not_show_are_left_to_a_person() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"}
    proposal = propose(by_manifest(machine("gpu-1"), machine("gpu-2", 56, labels=labels)), "prod")
    assert [pool["nodes"] for pool in proposal.settings["pools"]] == [["gpu-1"]]
    assert any("gpu-2" in note and "by hand" in note for note in proposal.notes)


@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        (
            {"annotations": {"argocd.argoproj.io/tracking-id": "gpu:apps/DaemonSet:kube-system/x"}},
            "argocd app delete gpu --cascade=false",
        ),
        (
            {
                "annotations": RELEASED,
                "labels": {
                    "helm.toolkit.fluxcd.io/name": "nvdp",
                    "helm.toolkit.fluxcd.io/namespace": "flux-system",
                },
            },
            "flux suspend helmrelease -n flux-system nvdp",
        ),
        (
            {
                "labels": {
                    "kustomize.toolkit.fluxcd.io/name": "gpu",
                    "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
                }
            },
            "Kustomization flux-system/gpu",
        ),
        (
            {"labels": {"argocd.argoproj.io/instance": "gpu"}},
            "daemonset nvidia-device-plugin-daemonset argocd.argoproj.io/instance-`",
        ),
        (
            {
                "labels": {"objectset.rio.cattle.io/hash": "c35d8a"},
                "annotations": {"objectset.rio.cattle.io/id": "default-gpu"},
            },
            "keepResources: true",
        ),
        ({"labels": {"olm.owner": "gpu-operator-certified.v25"}}, "can't be handed over"),
        ({"labels": {"olm.owner": "gpu-operator-certified.v25"}}, "kubectl delete csv -n"),
    ],
)
def test_software_that_somebody_delivers_is_refused_with_the_way(
    metadata: Json, named: str
) -> None:
    proposal = propose(by_manifest(**metadata), "prod")
    assert named in reasons(proposal)


def test_an_add_on_of_k3s_is_not_taken_for_a_bundle_of_fleet() -> None:
    marks = {
        "objectset.rio.cattle.io/id": "",
        "objectset.rio.cattle.io/owner-gvk": "k3s.cattle.io/v1, Kind=Addon",
    }
    owners = [owner_of(plugin(annotations=marks), "DaemonSet", Deliverers())]
    marks["objectset.rio.cattle.io/id"] = "helm-controller-chart-registration"
    owners.append(owner_of(plugin(annotations=marks), "DaemonSet", Deliverers()))
    assert owners == [NOBODY, NOBODY]


def test_a_release_of_hami_keeps_its_values_and_its_cards_are_counted_once() -> None:
    values = {"devicePlugin": {"deviceSplitCount": 4}}
    nodes = [hami_machine(f"gpu-{number}", split=4) for number in (1, 2)]
    proposal = propose(by_hami(*nodes, values=values), "prod")
    assert reasons(proposal) == ""
    assert proposal.settings["platform"] == "hami"
    assert proposal.settings["hami"] == {"deviceSplitCount": 4}
    (pool,) = proposal.settings["pools"]
    assert (pool["nodes"], pool["gpusPerNode"]) == (["gpu-[1-2]"], 8)
    assert pool["labels"] == {"gpu": "on"}
    platform = resolve(load(proposal.settings), "prod").platform
    installed = platform.installation
    assert (installed.release.name, installed.namespace) == ("shares", "kube-system")
    assert installed.values == values
    assert installed.servers.daemon_set == "shares-hami-device-plugin"
    assert platform.monitored.metrics.service == "shares-hami-device-plugin-monitor"
    (offer,) = platform.offers(load(proposal.settings).pools[0])
    assert offer.count == 32


def test_hami_without_a_release_or_beside_another_plugin_is_refused() -> None:
    found = by_hami()
    (hami,) = found.workloads
    by_hand = replace(found, releases=(), workloads=(replace(hami, release=None),))
    assert "HAMi consists of many objects" in reasons(propose(by_hand, "prod"))
    (other,) = by_manifest().workloads
    both = replace(found, workloads=(hami, other))
    assert "a device plugin in addition to" in reasons(propose(both, "prod"))


def test_a_node_whose_cards_hami_splits_otherwise_is_refused() -> None:
    nodes = [hami_machine("gpu-1"), hami_machine("gpu-2", split=4)]
    assert "node gpu-2: found nvidia.com/gpu: 32 for 8 GPUs; wanted: 80" in reasons(
        propose(by_hami(*nodes), "prod")
    )


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"resourceName": "example.com/vgpu"}, "resourceName"),
        ({"resourceMem": "example.com/memory"}, "resourceMem"),
        ({"schedulerName": "shares"}, "schedulerName"),
        ({"scheduler": {"admissionWebhook": {"enabled": False}}}, "admissionWebhook.enabled"),
    ],
)
def test_a_hami_with_other_names_or_without_its_webhook_is_refused(
    values: Json, place: str
) -> None:
    proposal = propose(by_hami(values=values), "prod")
    with pytest.raises(ConfigError) as refused:
        load(proposal.settings)
    (found,) = refused.value.faults
    assert found.place.startswith("adopted.release.values.")
    assert found.place.endswith(place)


def test_an_adopted_hami_asks_for_no_version_that_it_would_refuse() -> None:
    mirror = {"registry": {"mirror": "registry.example.com/gpu"}}
    assert load({**propose(by_hami(), "prod").settings, **mirror}).platform == "hami"


def test_annotations_of_a_hami_that_is_gone_count_no_gpus() -> None:
    left = hami_machine("gpu-1", gpus=3)
    left["status"]["capacity"]["nvidia.com/gpu"] = "8"
    assert the_pool(by_manifest(left))["gpusPerNode"] == 8


def test_what_argo_cd_or_flux_gave_up_can_be_taken_over() -> None:
    gone = Deliverers(applications=(), helm_releases=(), kustomizations=())
    tracked = plugin(annotations={"argocd.argoproj.io/tracking-id": "gpu:apps/DaemonSet:a/b"})
    labels = {"helm.toolkit.fluxcd.io/name": "x", "helm.toolkit.fluxcd.io/namespace": "y"}
    released = plugin(annotations=RELEASED, labels=labels)
    assert owner_of(tracked, "DaemonSet", gone).kind is ManagerKind.NOBODY
    assert owner_of(released, "DaemonSet", gone) == HELM


def test_argo_cd_is_found_by_the_status_of_its_application() -> None:
    listed = {"kind": "DaemonSet", "namespace": "kube-system", "name": plugin()["metadata"]["name"]}
    application = {
        "metadata": {"name": "gpu", "namespace": "argocd"},
        "status": {"resources": [listed]},
    }
    found = owner_of(plugin(), "DaemonSet", Deliverers(applications=(application,)))
    assert str(found) == "Argo CD (Application argocd/gpu)"


def test_a_copied_label_of_the_addon_manager_counts_only_where_it_runs() -> None:
    labelled = plugin(labels={"addonmanager.kubernetes.io/mode": "Reconcile"})
    copied = owner_of(labelled, "DaemonSet", Deliverers())
    managed = owner_of(labelled, "DaemonSet", Deliverers(addon_manager=True))
    assert (copied.kind, managed.kind) == (ManagerKind.NOBODY, ManagerKind.ADDON_MANAGER)


def test_an_edit_past_helm_that_an_upgrade_would_reset_is_named() -> None:
    live = plugin()
    manifest = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nvidia-device-plugin-daemonset}
spec:
  template:
    spec:
      containers:
        - name: nvidia-device-plugin-ctr
          image: nvcr.io/nvidia/k8s-device-plugin:v0.17.0
          env: [{name: FAIL_ON_INIT_ERROR, value: "false"}]
"""
    members = {("DaemonSet", live["metadata"]["name"]): live}
    (edit,) = release_edits(manifest, members)
    assert edit.path == "spec.template.spec.containers[0].image"
    assert release_edits(manifest.replace("v0.17.0", "v0.17.1"), members) == ()


@pytest.mark.parametrize(
    ("written", "live", "edited"),
    [
        ({"resources": {"limits": {"cpu": "0.5"}}}, {"resources": {"limits": {"cpu": "500m"}}}, 0),
        ({"resources": {"limits": {"cpu": 1}}}, {"resources": {"limits": {"cpu": "2"}}}, 1),
        ({"args": ["1000m"]}, {"args": ["1"]}, 1),
        ({"args": ["1.10"]}, {"args": ["1.1"]}, 1),
    ],
)
def test_only_an_amount_is_compared_as_an_amount(
    written: dict[str, Any], live: dict[str, Any], edited: int
) -> None:
    recorded, running = ({"spec": {"containers": [part]}} for part in (written, live))
    assert len(parse.edits("DaemonSet a", recorded, running)) == edited


def test_a_default_for_a_null_in_a_manifest_is_no_edit() -> None:
    # NFD's chart v0.19.0 renders `revisionHistoryLimit` without a value.
    live = plugin()
    live["spec"]["revisionHistoryLimit"] = 10
    manifest = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nvidia-device-plugin-daemonset}
spec: {revisionHistoryLimit: null}
"""
    assert release_edits(manifest, {("DaemonSet", live["metadata"]["name"]): live}) == ()


@pytest.mark.clusters("stale", "unfinished release of others")
def test_a_release_whose_last_change_did_not_end_is_refused() -> None:
    proposal = propose(by_helm(info={"status": "pending-upgrade"}), "prod")
    assert "status pending-upgrade" in reasons(proposal)


def test_a_secret_in_values_is_not_written_into_the_stack_file() -> None:
    values = {"auth": {"password": "hunter2"}, "imagePullSecrets": [{"name": "registry"}]}
    proposal = propose(by_helm(config=values), "prod")
    assert "nvdp: auth.password" in reasons(proposal)
    assert "hunter2" not in reasons(proposal)


def test_an_operator_without_a_release_is_refused_with_the_way() -> None:
    item = plugin(name="gpu-operator")
    workload = parse.workload(item, "Deployment", OPERATOR, owner_of(item, "x", Deliverers()))
    proposal = propose(cluster(machine("gpu-1"), workloads=(workload,)), "prod")
    assert "--take-ownership" in reasons(proposal)


@pytest.mark.parametrize(("deployed", "refused"), [(True, True), (False, False)])
def test_an_operator_that_runs_a_gpu_cluster_is_refused_with_the_way(
    deployed: bool, refused: bool
) -> None:
    """A GPUCluster runs the DRA driver; its GPUs are not in the status of nodes."""
    item = plugin(name="gpu-operator", annotations=RELEASED)
    workload = parse.workload(item, "Deployment", OPERATOR, owner_of(item, "x", Deliverers()))
    chart = {"metadata": {"name": "gpu-operator", "version": "v26.7.0"}, "values": {}}
    values = {"gpuCluster": {"deployCR": deployed}, "clusterPolicy": {"deployCR": not deployed}}
    made = release(chart=chart, config=values)
    proposal = propose(cluster(machine("gpu-1"), workloads=(workload,), releases=(made,)), "prod")
    assert ("GPUCluster" in reasons(proposal)) is refused
    assert ("platform: dra" in reasons(proposal)) is refused


def test_a_variable_of_the_plugin_that_overrides_the_operators_mig_strategy_is_adopted() -> None:
    item = plugin(name="gpu-operator", annotations=RELEASED)
    workload = parse.workload(item, "Deployment", OPERATOR, owner_of(item, "x", Deliverers()))
    chart = {"metadata": {"name": "gpu-operator", "version": "v26.7.0"}, "values": {}}
    variable = {"env": [{"name": "MIG_STRATEGY", "value": "single"}]}
    made = release(chart=chart, config={"mig": {"strategy": "mixed"}, "devicePlugin": variable})
    proposal = propose(cluster(machine("gpu-1"), workloads=(workload,), releases=(made,)), "prod")
    assert proposal.settings["gpuOperator"]["migStrategy"] == "single"


def test_a_cluster_without_gpu_software_gets_the_platform() -> None:
    proposal = propose(cluster(machine("gpu-1")), "prod")
    assert "adopted" not in proposal.settings
    assert load(proposal.settings).platform == "device-plugin"


ADOPTED = {"release": {"name": "nvdp", "namespace": "kube-system", "version": "0.17.1"}}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"platform": "dra"}, "adopted.release"),
        ({"devicePlugin": {"extraValues": {"podAnnotations": {"a": "b"}}}}, "devicePlugin.extra"),
        ({"devicePlugin": {"version": "0.20.0"}}, "devicePlugin.version"),
        ({"adopted": {"release": ADOPTED["release"], "objects": [{"kind": "Pod"}]}}, "adopted"),
        ({"adopted": {}}, "adopted"),
        ({"adopted": {"objects": [{"apiVersion": "v1", "kind": "Pod"}]}}, "adopted.objects[0]"),
        (
            {"pools": [{"name": "a", "nodes": ["n"], "gpusPerNode": 8,
                        "unhealthyDevices": {"n": {"index": [1]}}}]},
            "pools[0].unhealthyDevices",
        ),
    ],
)  # fmt: skip
def test_what_contradicts_adopted_software_is_refused(changes: Json, place: str) -> None:
    document = (
        stack_document(pools=[{"name": "a", "nodes": ["n"], "gpusPerNode": 8}], adopted=ADOPTED)
        | changes
    )
    with pytest.raises(ConfigError) as caught:
        load(document)
    assert any(fault.place.startswith(place) for fault in caught.value.faults)


@pytest.mark.parametrize(
    ("adopted", "runtime", "refused"),
    [
        ({}, {}, True),
        ({"deviceListStrategy": "envvar"}, {}, True),
        ({"deviceListStrategy": ["volume-mounts", "envvar"]}, {}, True),
        ({"deviceListStrategy": "volume-mounts"}, {}, False),
        ({"deviceListStrategy": ["cdi-cri"]}, {}, False),
        ({}, {"devicesByEnvironment": True}, False),
        ({}, {"devicesByEnvironment": False}, False),
    ],
)
def test_hosts_do_not_ignore_the_gpus_of_an_adopted_release_unasked(
    adopted: Json, runtime: Json, refused: bool
) -> None:
    release = {**ADOPTED["release"], "values": adopted}
    assert_devices(with_host(adopted={"release": release}, runtime=runtime), refused)


@pytest.mark.parametrize(("value", "refused"), [("envvar", True), ("volume-mounts", False)])
def test_hosts_do_not_ignore_the_gpus_of_an_adopted_manifest_unasked(
    value: str, refused: bool
) -> None:
    containers = [{"name": "p", "env": [{"name": "DEVICE_LIST_STRATEGY", "value": value}]}]
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "p", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"name": "p"}},
            "template": {"spec": {"containers": containers}},
        },
    }
    assert_devices(with_host(adopted={"objects": [manifest]}), refused)


def with_host(**changes: Json) -> Json:
    """Return a stack file with an adopted plugin and one host."""
    return (
        stack_document(
            pools=[{"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8}],
            hosts=[{"name": "gpu-1", "address": "192.0.2.1", "hostKey": HOST_KEY}],
        )
        | changes
    )


def assert_devices(document: Json, refused: bool) -> None:
    """Check whether a document is refused because of `runtime.devicesByEnvironment`."""
    if not refused:
        load(document)
        return
    with pytest.raises(ConfigError, match=r"runtime\.devicesByEnvironment: found no value"):
        load(document)


def test_adopted_software_adds_no_label_and_no_image() -> None:
    desired = resolve(load(propose(by_helm(), "prod").settings), "prod")
    (pool,) = desired.scheduling.pools
    assert (pool.labels, pool.taints, pool.startup_taint) == ({}, (), False)
    assert [space.name for space in desired.namespaces] == ["gpu-validation"]
    assert str(desired.presence.release) == "release kube-system/nvdp"
    assert desired.platform.installation.values == {"gfd": {"enabled": True}}


DECLARED: Json = {
    "version": "v1",
    "kubernetes": {"context": "prod", "clusterIdentifier": "x"},
    "platform": "device-plugin",
    "driver": {"source": "package", "version": "595.91.07"},
    "pools": [{"name": "mine", "nodes": ["gpu-1", "gpu-2", "gpu-3", "gpu-4"], "gpusPerNode": 4}],
}


def test_only_what_differs_is_written_and_declared_names_stay() -> None:
    written = differing(DECLARED, propose(by_helm(), "prod"))
    assert set(written) == {"adopted", "pools"}
    (pool,) = written["pools"]
    assert (pool["name"], pool["gpusPerNode"]) == ("mine", 8)
    assert pool["nodes"] == DECLARED["pools"][0]["nodes"]
    assert differing({**DECLARED, **written}, propose(by_helm(), "prod")) == {}


def test_what_a_stack_manages_already_is_left_to_its_file() -> None:
    observed = by_helm()
    managed = replace(
        observed,
        nodes=tuple(replace(node, is_ours=True) for node in observed.nodes),
        releases=tuple(replace(each, is_ours=True) for each in observed.releases),
    )
    assert differing(DECLARED, propose(managed, "prod")) == {}


def test_a_plugin_of_kubespray_is_kept_and_one_of_gke_is_refused() -> None:
    # kubespray, roles/container_engine_accelerator/nvidia_gpu: the manifest has the label of an
    # addon manager, which a cluster of kubespray doesn't run.
    labels = {"k8s-app": "nvidia-gpu-device-plugin", "addonmanager.kubernetes.io/mode": "Reconcile"}
    item = plugin(name="nvidia-gpu-device-plugin", labels=labels)
    for managed, refused in ((False, False), (True, True)):
        owner = owner_of(item, "DaemonSet", Deliverers(addon_manager=managed))
        workload = parse.workload(item, "DaemonSet", KUBESPRAY, owner)
        proposal = propose(cluster(machine("gpu-1"), workloads=(workload,)), "prod")
        assert bool(proposal.refused) is refused
        assert proposal.settings["adopted"]["objects"]


def test_what_hosts_have_is_named_and_they_are_left_alone() -> None:
    labels = {"nvidia.com/cuda.driver-version.full": "580.95.05"}
    proposal = propose(by_manifest(machine("gpu-1", labels=labels)), "prod")
    assert any("containerd 2.2.9, driver 580.95.05" in note for note in proposal.notes)
    assert load(proposal.settings).hosts == ()


def test_a_manifest_beside_a_release_is_refused_and_two_manifests_are_kept() -> None:
    observed = by_helm()
    other = parse.workload(plugin(name="other"), "DaemonSet", PLUGIN, NOBODY)
    both = replace(observed, workloads=(*observed.workloads, other))
    assert "two device plugins would give the same GPU to two pods" in reasons(
        propose(both, "prod")
    )
    alone = by_manifest()
    two = propose(replace(alone, workloads=(*alone.workloads, other)), "prod")
    assert two.refused == ()
    assert len(two.settings["adopted"]["objects"]) == 2


def test_a_secret_in_a_variable_of_a_manifest_is_not_written_into_the_stack_file() -> None:
    item = plugin()
    container = item["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "API_TOKEN", "value": "hunter2"}, {"name": "A", "value": "b"}]
    workload = parse.workload(item, "DaemonSet", PLUGIN, NOBODY)
    proposal = propose(cluster(machine("gpu-1"), workloads=(workload,)), "prod")
    assert "containers[0].env[0].value" in reasons(proposal)
    assert "hunter2" not in reasons(proposal)
    assert len(proposal.refused) == 1


def test_values_nested_without_end_are_refused() -> None:
    deep: Json = {}
    for _ in range(60):
        deep = {"a": deep}
    with pytest.raises(IllFormed):
        release(config=deep)
