"""Edits by hand of a release's objects are told from what the API server and controllers write.

On a real API server with its controller manager. Helm's client writes objects as an update, under
the name of the program that it is a part of (helm.sh/helm/v3 pkg/kube/client.go,
getManagedFieldsManager).
"""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from gpu_cluster.findings import lines
from gpu_cluster.inspection.observed_cluster import _observe_platform
from gpu_cluster.kubernetes.api import connect
from gpu_cluster.kubernetes.managers import HELM_NAMESPACE, HELM_RELEASE
from gpu_cluster.platforms.requests import HelmRelease, PresenceRequest
from gpu_cluster.release import presence
from gpu_cluster.release.field_edits import field_edits, merge_patch, release_manager, repaired
from gpu_cluster.release.helm_record import TYPE, encode_release
from gpu_cluster.requests import PREVIOUS, write
from tests.proofs.simulator.running import CLUSTER, Running, until

Json = dict[str, Any]
Change = Callable[[Json], Any]

RELEASE = "pulumi-resource-kubernetes"
LABELS = {"app": "release", "app.kubernetes.io/managed-by": "Helm"}
CONTAINER = {
    "name": "main",
    "image": "plugin:1",
    "args": ["--fail-on-init-error=true"],
    "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "true"}, {"name": "MODE", "value": ""}],
    "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5}},
    "ports": [{"name": "metrics", "containerPort": 9400}],
    "securityContext": {"privileged": True, "capabilities": {"drop": ["ALL"]}},
    "volumeMounts": [{"name": "plugins", "mountPath": "/var/lib/kubelet/device-plugins"}],
}
SPEC = {
    "serviceAccountName": "default",
    "nodeSelector": {"nvidia.com/gpu.present": "true"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "priorityClassName": "system-node-critical",
    "containers": [CONTAINER],
    "volumes": [{"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
}
TEMPLATE = {"metadata": {"labels": {"app": "release"}, "annotations": {}}, "spec": SPEC}
SELECTOR = {"matchLabels": {"app": "release"}}


def named(kind: str, api_version: str, **more: Any) -> Json:
    metadata = {"name": "release", "labels": dict(LABELS)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


SPACED = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
RENDERED: Mapping[str, tuple[str, Json]] = {
    "DaemonSet": (
        f"{APPS}/daemonsets",
        named(
            "DaemonSet",
            "apps/v1",
            spec={
                "selector": SELECTOR,
                "template": TEMPLATE,
                "updateStrategy": {"type": "RollingUpdate"},
            },
        ),
    ),
    "Deployment": (
        f"{APPS}/deployments",
        named("Deployment", "apps/v1", spec={"selector": SELECTOR, "template": TEMPLATE}),
    ),
    "ConfigMap": (
        f"{SPACED}/configmaps",
        named("ConfigMap", "v1", data={"config.yaml": "version: v1\n", "empty": ""}),
    ),
    "Service": (
        f"{SPACED}/services",
        named("Service", "v1", spec={"selector": {"app": "release"}, "ports": [{"port": 9400}]}),
    ),
    "ClusterRole": (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        named(
            "ClusterRole",
            "rbac.authorization.k8s.io/v1",
            rules=[{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}],
        ),
    ),
}


def pod(item: Json) -> Json:
    found: Json = item["spec"]["template"]["spec"]
    return found


def main(item: Json) -> Json:
    found: Json = pod(item)["containers"][0]
    return found


RECONCILIATIONS = 200
"""Number of times that a controller reconciles an object."""
POD = "spec.template.spec"
MAIN = f"{POD}.containers[main]"
ENV = {"name": "EXTRA", "value": "1"}
SIDECAR = {"name": "side", "image": "side:1"}
PODS: Mapping[str, tuple[Change, str]] = {
    "another value of a variable": (
        lambda item: main(item)["env"][0].update(value="false"),
        f"{MAIN}.env[FAIL_ON_INIT_ERROR].value",
    ),
    "a value for an empty variable": (
        lambda item: main(item)["env"][1].update(value="x"),
        f"{MAIN}.env[MODE].value",
    ),
    "a variable more": (lambda item: main(item)["env"].append(dict(ENV)), f"{MAIN}.env[EXTRA]"),
    "a variable less": (
        lambda item: main(item)["env"].pop(0),
        f"{MAIN}.env[FAIL_ON_INIT_ERROR]",
    ),
    "another image": (lambda item: main(item).update(image="plugin:2"), f"{MAIN}.image"),
    "another argument": (lambda item: main(item)["args"].append("--x"), f"{MAIN}.args"),
    "no arguments": (lambda item: main(item).pop("args"), f"{MAIN}.args"),
    "a command": (lambda item: main(item).update(command=["sh"]), f"{MAIN}.command"),
    "another limit": (
        lambda item: main(item)["resources"]["limits"].update(cpu="2"),
        f"{MAIN}.resources.limits.cpu",
    ),
    "no limit": (
        lambda item: main(item)["resources"]["limits"].pop("memory"),
        f"{MAIN}.resources.limits.memory",
    ),
    "another privilege": (
        lambda item: main(item)["securityContext"].update(privileged=False),
        f"{MAIN}.securityContext.privileged",
    ),
    "another port": (
        lambda item: main(item)["ports"][0].update(name="other"),
        f"{MAIN}.ports[9400/TCP].name",
    ),
    "a container more": (
        lambda item: pod(item)["containers"].append(dict(SIDECAR)),
        f"{POD}.containers[side]",
    ),
    "another toleration": (
        lambda item: pod(item)["tolerations"].append({"operator": "Exists"}),
        f"{POD}.tolerations",
    ),
    "another selector of nodes": (
        lambda item: pod(item)["nodeSelector"].update({"nvidia.com/gpu.present": "false"}),
        f"{POD}.nodeSelector[nvidia.com/gpu.present]",
    ),
    "a selector of nodes more": (
        lambda item: pod(item)["nodeSelector"].update(rack="r1"),
        f"{POD}.nodeSelector.rack",
    ),
    "no selector of nodes": (
        lambda item: pod(item)["nodeSelector"].pop("nvidia.com/gpu.present"),
        f"{POD}.nodeSelector",
    ),
}
EDITS: Mapping[str, tuple[str, Change, str]] = {
    **{f"{name}, {kind}": (kind, *edit) for kind in ("DaemonSet", "Deployment")
       for name, edit in PODS.items()},
    "replicas": ("Deployment", lambda item: item["metadata"]["labels"].update(app="x"),
                 "metadata.labels.app"),
    "a label more": ("DaemonSet", lambda item: item["metadata"]["labels"].update(team="x"),
                     "metadata.labels.team"),
    "an annotation more": (
        "Service",
        lambda item: item["metadata"].setdefault("annotations", {}).update(note="x"),
        "metadata.annotations.note",
    ),
    "another strategy": (
        "DaemonSet",
        lambda item: item["spec"].update(updateStrategy={"type": "OnDelete"}),
        "spec.updateStrategy.type",
    ),
    "another value": (
        "ConfigMap",
        lambda item: item["data"].update({"config.yaml": "version: v2\n"}),
        "data[config.yaml]",
    ),
    "a value more": ("ConfigMap", lambda item: item["data"].update(more="x"), "data.more"),
    "a value less": (
        "ConfigMap", lambda item: item["data"].pop("config.yaml"), "data[config.yaml]"
    ),
    "another rule": (
        "ClusterRole", lambda item: item["rules"][0]["verbs"].append("delete"), "rules"
    ),
    "another selector": (
        "Service", lambda item: item["spec"]["selector"].update(app="x"), "spec.selector.app"
    ),
}  # fmt: skip


@pytest.fixture
def made(cluster: Running) -> Iterator[Callable[[str], tuple[str, Json]]]:
    """Return a function that creates an object as Helm does; delete the objects afterwards."""
    paths: list[str] = []

    def make(kind: str) -> tuple[str, Json]:
        folder, rendered = RENDERED[kind]
        body = copy.deepcopy(rendered)
        body["metadata"]["annotations"] = {HELM_RELEASE: "release", HELM_NAMESPACE: "default"}
        cluster.request("POST", folder, body, fieldManager=RELEASE)
        paths.append(f"{folder}/release")
        return paths[-1], rendered

    yield make
    for path in paths:
        cluster.request("DELETE", path, propagationPolicy="Background")
        until(lambda path=path: _names(cluster, path), lambda names: "release" not in names)


def _names(cluster: Running, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in cluster.items(path.rpartition("/")[0])]


def observed(cluster: Running, path: str, kind: str) -> Json:
    """Return an object after the controllers have seen its newest version."""

    def seen(item: Json) -> bool:
        status = item.get("status", {})
        is_seen = status.get("observedGeneration") == item["metadata"].get("generation")
        return kind not in ("DaemonSet", "Deployment") or is_seen

    return until(lambda: cluster.request("GET", path), seen)


@pytest.mark.slow
@pytest.mark.promise(
    "An edit by hand of an object of the release is named by its field, with who made it and when."
)
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_by_hand_is_one_edit_of_its_field_and_can_be_repaired(
    cluster: Running, made: Callable[[str], tuple[str, Json]], name: str
) -> None:
    kind, change, field = EDITS[name]
    path, rendered = made(kind)
    before = observed(cluster, path, kind)
    assert field_edits(rendered, before) == ()
    edited = copy.deepcopy(before)
    change(edited)
    del edited["metadata"]["resourceVersion"]
    cluster.request("PUT", path, edited, fieldManager="kubectl-edit")
    live = observed(cluster, path, kind)
    edits = field_edits(rendered, live)
    assert [edit.field for edit in edits] == [field]
    assert (edits[0].was, edits[0].now) != (None, None)
    is_removed = edits[0].now is None
    assert (edits[0].manager, bool(edits[0].time)) == ("" if is_removed else "kubectl-edit",
                                                       not is_removed)  # fmt: skip
    patch = merge_patch(live, repaired(live, edits))
    del patch["metadata"]["resourceVersion"]
    cluster.request("PATCH", path, patch, fieldManager=release_manager(live))
    after = observed(cluster, path, kind)
    assert field_edits(rendered, after) == ()
    for part in ("spec", "data", "rules"):
        assert after.get(part) == before.get(part)


def test_what_controllers_and_a_restart_write_is_no_edit(
    cluster: Running, made: Callable[[str], tuple[str, Json]]
) -> None:
    path, rendered = made("Deployment")
    annotation = {"kubectl.kubernetes.io/restartedAt": "2026-11-28T20:00:00Z"}
    template = {"metadata": {"annotations": annotation}}
    cluster.request("PATCH", path, {"spec": {"template": template}}, fieldManager="kubectl-rollout")
    live = observed(cluster, path, "Deployment")
    assert "deployment.kubernetes.io/revision" in live["metadata"]["annotations"]
    assert field_edits(rendered, live) == ()


def test_an_operator_that_adds_its_own_fields_edits_nothing(
    cluster: Running, made: Callable[[str], tuple[str, Json]]
) -> None:
    path, rendered = made("ConfigMap")
    cluster.request("PATCH", path, {"data": {"theirs": "x"}}, fieldManager="gpu-operator")
    assert field_edits(rendered, cluster.request("GET", path)) == ()


@pytest.fixture
def recorded(cluster: Running, monkeypatch: pytest.MonkeyPatch) -> Iterator[PresenceRequest]:
    """Return the request about a release whose record has the rendered objects."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.plane.kubeconfig))
    manifest = yaml.safe_dump_all([rendered for _, rendered in RENDERED.values()])
    release = {"name": "release", "manifest": manifest, "info": {"status": "deployed"}}
    name = "sh.helm.release.v1.release.v1"
    labels = {"owner": "helm", "name": "release", "status": "deployed", "version": "1"}
    metadata = {"name": name, "labels": labels}
    body = {"metadata": metadata, "type": TYPE, "data": {"release": encode_release(release)}}
    cluster.request("POST", f"{SPACED}/secrets", body)
    yield PresenceRequest(
        context=f"gpu-cluster-{CLUSTER}",
        platform="device-plugin",
        release=HelmRelease(name="release", namespace="default"),
        version="0.1.0",
        objects=(),
        revision=1,
    )
    cluster.request("DELETE", f"{SPACED}/secrets/{name}")


def test_a_run_names_each_edit_as_drift_and_repairs_it(
    cluster: Running,
    made: Callable[[str], tuple[str, Json]],
    recorded: PresenceRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paths = {kind: made(kind)[0] for kind in RENDERED}
    last = asyncio.run(presence.check(recorded))
    monkeypatch.setenv(PREVIOUS, write(last))

    def drift() -> list[str]:
        async def ask() -> list[str]:
            async with connect(recorded.context) as client:
                return lines((await _observe_platform(client, recorded, {})).findings)

        return asyncio.run(ask())

    assert drift() == []
    edit = {"data": {"config.yaml": "version: v2\n", "more": "x"}}
    cluster.request("PATCH", paths["ConfigMap"], edit, fieldManager="kubectl-patch")
    time = r"[0-9-]+T[0-9:]+Z"
    first, second = drift()
    name = "drift: object ConfigMap release: field data"
    assert re.fullmatch(
        rf"{name}\[config\.yaml\] \(kubectl-patch, {time}\) version: v1.* → version: v2.*", first
    )
    assert re.fullmatch(rf"{name}\.more \(kubectl-patch, {time}\) none → x", second)
    restored = asyncio.run(presence.restore(recorded))
    assert restored.restored == ("ConfigMap release",)
    assert cluster.request("GET", paths["ConfigMap"])["data"] == RENDERED["ConfigMap"][1]["data"]
    assert drift() == []
    cluster.request("PATCH", paths["ConfigMap"], edit, fieldManager="kubectl-patch")
    monkeypatch.setenv(PREVIOUS, write(replace(last, record=None)))
    # Nothing is taken from a record whose digest the stack's state does not have.
    assert asyncio.run(presence.restore(recorded)).restored == ()
    assert cluster.request("GET", paths["ConfigMap"])["data"]["more"] == "x"


@pytest.mark.slow
def test_no_reconciliation_of_a_deployment_is_an_edit(
    cluster: Running, made: Callable[[str], tuple[str, Json]]
) -> None:
    path, rendered = made("Deployment")
    for number in range(RECONCILIATIONS):
        wanted = number % 3
        scale = {"spec": {"replicas": wanted}}
        cluster.request("PATCH", f"{path}/scale", scale, fieldManager="autoscaler")
        live = until(
            lambda: cluster.request("GET", path),
            lambda item, wanted=wanted: (
                item["status"].get("replicas", 0) == wanted
                and item["status"].get("observedGeneration") == item["metadata"]["generation"]
            ),
        )
        assert field_edits(rendered, live) == (), number


@pytest.mark.slow
def test_no_reconciliation_of_a_daemon_set_is_an_edit(
    cluster: Running, made: Callable[[str], tuple[str, Json]]
) -> None:
    path, rendered = made("DaemonSet")
    before = observed(cluster, path, "DaemonSet")["status"]["desiredNumberScheduled"]
    node = cluster.items("/api/v1/nodes")[0]
    (key,) = SPEC["nodeSelector"]
    has = key in node["metadata"]["labels"]
    url = f"/api/v1/nodes/{node['metadata']['name']}"
    try:
        for number in range(RECONCILIATIONS):
            is_chosen = number % 2 == 0
            value = "true" if is_chosen else None
            cluster.request("PATCH", url, {"metadata": {"labels": {key: value}}})
            wanted = before - has + is_chosen
            live = until(
                lambda: cluster.request("GET", path),
                lambda item, wanted=wanted: item["status"]["desiredNumberScheduled"] == wanted,
            )
            assert field_edits(rendered, live) == (), number
    finally:
        labels = {key: "true" if has else None}
        cluster.request("PATCH", url, {"metadata": {"labels": labels}})
