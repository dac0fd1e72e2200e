"""Cures of a takeover are followed: afterwards the cluster's software is taken over.

A row has the cluster that is refused, words of the cure, and the cluster after it. Commands that a
cure names are applied to the objects: `kubectl label` and `kubectl annotate` remove keys.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.commands import adopt, leave
from gpu_cluster.commands import stack as stacks
from gpu_cluster.commands.adoption import parse
from gpu_cluster.commands.adoption.leave import Handed, unready
from gpu_cluster.commands.adoption.observed import NOBODY, ManagedBy, ManagerKind, ObservedCluster
from gpu_cluster.commands.adoption.owners import Deliverers, owner_of
from gpu_cluster.commands.adoption.propose import KUBESPRAY, OPERATOR, PLUGIN, propose
from gpu_cluster.commands.adoption.read import observed_release, release_edits
from gpu_cluster.commands.adoption.stack_text import settings_of, with_sections
from gpu_cluster.commands.stack import Stack
from gpu_cluster.kubernetes.grammar import IllFormed
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes.inspect import CORDONED
from gpu_cluster.nodes.startup_taint import TAINT
from gpu_rules.faults import FaultError, InputError
from tests.error_texts import ROOT
from tests.fixtures.documents import stack_document
from tests.fixtures.running_clusters import (
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
from tests.proofs.advice.rows import Record, note

Json = dict[str, Any]
FOLDER = "components/gpu_cluster/commands/adoption"
PROPOSE = f"{FOLDER}/propose.py"
_UNMARK = re.compile(r"kubectl (label|annotate) -n \S+ \S+ \S+ ([^`]+)`")
OPERATED = {"metadata": {"name": "gpu-operator", "version": "v26.7.0"}, "values": {}}


def _operator(**config: Any) -> ObservedCluster:
    """Return a cluster with the GPU Operator as a Helm release."""
    item = plugin(name="gpu-operator", annotations=RELEASED)
    workload = parse.workload(item, "Deployment", OPERATOR, owner_of(item, "x", Deliverers()))
    made = release(chart=OPERATED, config=config)
    return cluster(machine("gpu-1"), workloads=(workload,), releases=(made,))


def _with(observed: ObservedCluster, what: str, name: str = "other") -> ObservedCluster:
    other = parse.workload(plugin(name=name), "DaemonSet", what, NOBODY)
    return replace(observed, workloads=(*observed.workloads, other))


def _hami_by_hand() -> ObservedCluster:
    found = by_hami()
    (hami,) = found.workloads
    return replace(found, releases=(), workloads=(replace(hami, release=None),))


def _edited() -> ObservedCluster:
    found = by_helm()
    live = plugin()
    old = "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"
    edits = release_edits(_manifest(old), {("DaemonSet", live["metadata"]["name"]): live})
    return replace(found, releases=(replace(found.releases[0], edits=edits),))


def _manifest(image: str) -> str:
    return (
        "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: nvidia-device-plugin-daemonset}\n"
        "spec: {template: {spec: {containers: [{name: nvidia-device-plugin-ctr, "
        f"image: {image}}}]}}}}}}\n"
    )


def _upgraded() -> ObservedCluster:
    """Return the cluster after the running image was written into the release."""
    found = by_helm()
    live = plugin()
    image = live["spec"]["template"]["spec"]["containers"][0]["image"]
    edits = release_edits(_manifest(image), {("DaemonSet", live["metadata"]["name"]): live})
    return replace(found, releases=(replace(found.releases[0], edits=edits),))


def _secret(by_name: bool) -> ObservedCluster:
    item = plugin()
    container = item["spec"]["template"]["spec"]["containers"][0]
    named = {"valueFrom": {"secretKeyRef": {"name": "api", "key": "token"}}}
    container["env"] = [{"name": "API_TOKEN", **(named if by_name else {"value": "hunter2"})}]
    workload = parse.workload(item, "DaemonSet", PLUGIN, NOBODY)
    return cluster(machine("gpu-1"), workloads=(workload,))


ROWS: dict[str, tuple[str, Callable[[], ObservedCluster], Callable[[], ObservedCluster]]] = {
    "another vendor's plugin": (
        "or replace it",
        lambda: _with(cluster(machine("gpu-1")), "a plugin of another vendor"),
        by_manifest,
    ),
    "two plugins": ("remove one of them", lambda: _with(by_helm(), PLUGIN), by_helm),
    "a change that did not end": (
        "and roll it back",
        lambda: by_helm(info={"status": "pending-upgrade"}),
        by_helm,
    ),
    "an umbrella chart": (
        "install this chart as a separate release, with the same values",
        lambda: by_helm(chart={"metadata": {"name": "site", "version": "1.0.0"}, "values": {}}),
        by_helm,
    ),
    "an operator with a GPUCluster": (
        "or remove it, declare `platform: dra`",
        lambda: _operator(gpuCluster={"deployCR": True}, clusterPolicy={"deployCR": False}),
        lambda: cluster(machine("gpu-1")),
    ),
    "an edit": ("write it into the release (`helm upgrade --reuse-values", _edited, _upgraded),
    "an edit that is undone": ("or undo the edit", _edited, by_helm),
    "a node that HAMi splits otherwise": (
        "remove devicesplitcount of this node from devicePlugin.nodeConfiguration",
        lambda: by_hami(hami_machine("gpu-1"), hami_machine("gpu-2", split=4)),
        lambda: by_hami(hami_machine("gpu-1"), hami_machine("gpu-2")),
    ),
    "a secret in values": (
        "put it into a Secret and name that Secret here",
        lambda: by_helm(config={"auth": {"password": "hunter2"}}),
        lambda: by_helm(config={"auth": {"existingSecretName": "auth"}}),
    ),
    "a secret in a variable": (
        "put it into a Secret and name that Secret here",
        lambda: _secret(by_name=False),
        lambda: _secret(by_name=True),
    ),
}


@pytest.mark.promise("A cure of a takeover removes the fault and brings no new one.")
@pytest.mark.advice("several")
@pytest.mark.parametrize("name", ROWS)
def test_a_cluster_is_taken_over_after_the_cure(name: str, record_property: Record) -> None:
    cure, refused, mended = ROWS[name]
    (fault,) = propose(refused(), "prod").refused
    proposal = propose(mended(), "prod")
    assert proposal.refused == ()
    load({**proposal.settings, **({"platform": "dra"} if "platform: dra" in cure else {})})
    note(record_property, PROPOSE, fault, cure)


@pytest.mark.advice("several")
def test_a_release_by_take_ownership_is_taken_over(record_property: Record) -> None:
    (fault,) = propose(_hami_by_hand(), "prod").refused
    assert propose(by_hami(), "prod").refused == ()
    note(record_property, f"{FOLDER}/handover.py", fault, "--take-ownership")


FLUX = {"helm.toolkit.fluxcd.io/name": "nvdp", "helm.toolkit.fluxcd.io/namespace": "flux-system"}
KUSTOMIZED = {
    "kustomize.toolkit.fluxcd.io/name": "gpu",
    "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
}
MARKED: dict[str, tuple[str, Json]] = {
    "Argo CD": (
        "`argocd app delete gpu --cascade=false`",
        {"annotations": {"argocd.argoproj.io/tracking-id": "gpu:apps/DaemonSet:kube-system/x"}},
    ),
    "Argo CD by a label": (
        "`argocd app delete gpu --cascade=false`",
        {"labels": {"argocd.argoproj.io/instance": "gpu"}},
    ),
    "Flux's HelmRelease": (
        "`flux suspend helmrelease -n flux-system nvdp`",
        {"labels": FLUX},
    ),
    "Flux's Kustomization": ("remove it from the repository of", {"labels": KUSTOMIZED}),
    "Fleet": (
        "set keepResources: true",
        {
            "labels": {"objectset.rio.cattle.io/hash": "c35d8a"},
            "annotations": {"objectset.rio.cattle.io/id": "default-gpu"},
        },
    ),
}


@pytest.mark.advice("several")
@pytest.mark.parametrize("name", MARKED)
def test_software_without_the_marks_of_its_owner_is_taken_over(
    name: str, record_property: Record
) -> None:
    cure, metadata = MARKED[name]
    (fault,) = propose(by_manifest(**metadata), "prod").refused
    left = copy.deepcopy(metadata)
    for verb, keys in _UNMARK.findall(fault.cure):
        for key in keys.split():
            assert key.endswith("-")
            del left["labels" if verb == "label" else "annotations"][key[:-1]]
    assert propose(by_manifest(**left), "prod").refused == ()
    note(record_property, f"{FOLDER}/handover.py", fault, cure)


def _owned(kind: ManagerKind, what: str = KUBESPRAY) -> ObservedCluster:
    owner = ManagedBy(kind=kind, name="gpu", namespace="kube-system")
    workload = parse.workload(plugin(), "DaemonSet", what, owner)
    return cluster(machine("gpu-1"), workloads=(workload,))


OWNERS = {
    ManagerKind.HELM_CONTROLLER: "helmcharts.helm.cattle.io/unmanaged=true",
    ManagerKind.LIFECYCLE_MANAGER: "`kubectl delete csv -n kube-system gpu`",
    ManagerKind.ADDON_MANAGER: "switch the provider's GPU add-on off",
    ManagerKind.THIS_PROGRAM: "run `gpu-cluster leave` in the checkout of that stack",
}


@pytest.mark.advice("several")
@pytest.mark.parametrize("kind", OWNERS, ids=lambda kind: kind.name)
def test_software_that_its_owner_gave_up_is_taken_over(
    kind: ManagerKind, record_property: Record
) -> None:
    (fault,) = propose(_owned(kind), "prod").refused
    gone = cluster(machine("gpu-1"))
    is_deleted = kind in (ManagerKind.LIFECYCLE_MANAGER, ManagerKind.ADDON_MANAGER)
    after = gone if is_deleted else _owned(ManagerKind.NOBODY)
    assert propose(after, "prod").refused == ()
    note(record_property, f"{FOLDER}/handover.py", fault, OWNERS[kind])


@pytest.mark.advice("several")
@pytest.mark.parametrize("cause", ["the start-up taint", "a cordon"])
def test_a_node_without_an_unfinished_change_is_handed_back(
    cause: str, record_property: Record
) -> None:
    record = '{"stack": "prod", "pool": "a100", "gpus": 8, "labels": {}, "taints": []}'
    annotations = {"gpu-cluster/applied.a100": record}
    if cause == "a cordon":
        annotations[CORDONED] = "x"
    taints = [TAINT] if cause != "a cordon" else []
    node = {"metadata": {"name": "gpu-1", "annotations": annotations}, "spec": {"taints": taints}}
    handed = Handed(stack="prod", managers=frozenset())
    (fault,) = unready([node], handed)
    # `gpu-cluster up` removes the start-up taint and the cordon of an earlier run.
    metadata: Json = {"name": "gpu-1", "annotations": {"gpu-cluster/applied.a100": record}}
    assert unready([{"metadata": metadata, "spec": {}}], handed) == []
    note(record_property, f"{FOLDER}/leave.py", fault, "run `gpu-cluster up --stack prod` first")


@pytest.mark.advice("several")
def test_flat_values_of_a_release_are_read(record_property: Record) -> None:
    deep: Json = {"gfd": {"enabled": True}}
    for _ in range(60):
        deep = {"a": deep}
    with pytest.raises(IllFormed) as refused:
        release(config={**deep, "gfd": {"enabled": True}})
    (fault,) = refused.value.faults
    found = observed_release({"config": {"gfd": {"enabled": True}}}, "nvdp", "kube-system")
    assert found.values == {"gfd": {"enabled": True}}
    cure = "`helm get values -n kube-system nvdp` prints them"
    note(record_property, f"{FOLDER}/read.py", fault, cure)


@pytest.mark.advice("several")
def test_a_mapping_as_the_committed_stack_file_has_it_is_edited(record_property: Record) -> None:
    with pytest.raises(InputError) as refused:
        with_sections("config: {gpu-cluster:cluster: {version: v1}}\n", {"maintenance": ["gpu-1"]})
    text = (ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8")
    edited = with_sections(text, {"maintenance": ["gpu-1"]})
    assert settings_of(edited)["maintenance"] == ["gpu-1"]
    cure = "write the mapping as Pulumi.dev.yaml does"
    note(record_property, f"{FOLDER}/stack_text.py", refused.value, cure)


@pytest.mark.advice("several")
def test_a_named_context_is_the_one_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    monkeypatch.setattr(stacks, "ROOT", tmp_path)
    with pytest.raises(FaultError) as refused:
        adopt.context_of(Stack("prod"), "")
    assert adopt.context_of(Stack("prod"), "site") == "site"
    cure = "`gpu-cluster adopt --stack prod --context NAME`"
    note(record_property, "components/gpu_cluster/commands/adopt.py", refused.value, cure)


PARTS: tuple[tuple[tuple[str, str], tuple[str, str], int, str], ...] = (
    (("h100", ""), ("t4", ""), 2, "correct the name of the pool"),
    (("a100", ""), ("", ""), 1, "leave --pool out to hand back everything"),
    (("", "gpu-1,gpu-9"), ("", "gpu-1"), 2, 'take "gpu-9" out of --hosts'),
)


@pytest.mark.advice("several")
@pytest.mark.parametrize(("wrong", "right", "count", "cure"), PARTS)
def test_a_part_of_the_stack_is_handed_back(
    wrong: tuple[str, str],
    right: tuple[str, str],
    count: int,
    cure: str,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Record,
) -> None:
    pools = [
        {"name": name, "nodes": [f"gpu-{number}"], "gpusPerNode": 8}
        for number, name in enumerate(("a100", "t4")[:count], start=1)
    ]
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEfxFSAF45h/u4FWcTpIO9dleHVOhDTjHvn4WRhQJDYQ"
    hosts = [{"name": "gpu-1", "address": "192.0.2.1", "hostKey": key}]
    declared = load(stack_document(pools=pools, hosts=hosts))
    monkeypatch.setattr(Stack, "cluster", property(lambda _: declared))
    with pytest.raises(FaultError) as refused:
        leave.chosen(Stack("prod"), *wrong)
    part = leave.chosen(Stack("prod"), *right)
    assert (part.pool, part.is_all) == (right[0], right == ("", ""))
    note(record_property, "components/gpu_cluster/commands/leave.py", refused.value, cure)
