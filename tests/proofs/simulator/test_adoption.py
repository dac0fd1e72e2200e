"""Reading a running cluster before its adoption, on a real API server.

The CRDs of Argo CD and Flux are installed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from gpu_cluster.commands.adoption.observed import ManagerKind, ObservedCluster
from gpu_cluster.commands.adoption.propose import propose
from gpu_cluster.commands.adoption.read import read_cluster
from gpu_cluster.kubernetes.api import connect
from lab.benchmarks.api_server import ApiServer, await_true, running

pytestmark = pytest.mark.slow

Json = dict[str, Any]
SETS = "/apis/apps/v1/namespaces/default/daemonsets"
PLUGINS = "/var/lib/kubelet/device-plugins"
# Groups, versions, kinds and plural names of the CRDs of Argo CD v3 and Flux v2.
KINDS = (
    ("argoproj.io", "v1alpha1", "Application", "applications"),
    ("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases"),
    ("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations"),
)


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with running("adoption") as started:
        yield started


def post(server: ApiServer, path: str, body: Json) -> None:
    response: httpx.Response = server.client.post(path, json=body)
    assert response.is_success, response.text


def define(server: ApiServer, group: str, version: str, kind: str, plural: str) -> None:
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True}
    post(
        server,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": names,
                "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
            },
        },
    )
    path = f"/apis/{group}/{version}/{plural}"
    await_true(f"{path} is served", lambda: server.client.get(path).is_success)


def daemon_set(name: str, **metadata: Any) -> Json:
    labels = {"name": name}
    mount = {"name": "plugins", "mountPath": PLUGINS}
    container = {
        "name": "nvidia-device-plugin-ctr",
        "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1",
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, **metadata},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{**container, "volumeMounts": [mount]}],
                    "volumes": [{"name": "plugins", "hostPath": {"path": PLUGINS}}],
                },
            },
        },
    }


def read(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> ObservedCluster:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    context = yaml.safe_load(server.kubeconfig.read_text())["current-context"]

    async def run() -> ObservedCluster:
        async with connect(context) as client:
            return await read_cluster(client)

    return asyncio.run(run())


def owners(observed: ObservedCluster) -> dict[str, str]:
    return {each.name: str(each.managed_by) for each in observed.workloads}


def test_the_owner_of_each_plugin_is_read_with_and_without_argo_cd_and_flux(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked = {"argocd.argoproj.io/tracking-id": "gpu:apps/DaemonSet:default/tracked"}
    flux = {"helm.toolkit.fluxcd.io/name": "hr", "helm.toolkit.fluxcd.io/namespace": "default"}
    post(server, SETS, daemon_set("plain"))
    post(server, SETS, daemon_set("tracked", annotations=tracked))
    post(server, SETS, daemon_set("listed"))
    post(server, SETS, daemon_set("released", labels=flux))
    # Argo CD and Flux may run in another cluster. So their labels and annotations on objects count
    # as long as their CRDs are absent here.
    remote = owners(read(server, monkeypatch))
    assert remote["plain"] == remote["listed"] == str(ManagerKind.NOBODY)
    assert remote["tracked"] == "Argo CD (Application gpu)"
    assert remote["released"] == "Flux (HelmRelease default/hr)"

    for kind in KINDS:
        define(server, *kind)
    # The CRDs exist, but there is no Application or HelmRelease. So only outdated labels and
    # annotations are left, and nothing manages the objects.
    assert set(owners(read(server, monkeypatch)).values()) == {str(ManagerKind.NOBODY)}

    resources = [{"kind": "DaemonSet", "namespace": "default", "name": "listed"}]
    application = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "gpu"},
        "status": {"resources": resources},
    }
    post(server, "/apis/argoproj.io/v1alpha1/namespaces/default/applications", application)
    release = {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease"}
    path = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/default/helmreleases"
    post(server, path, {**release, "metadata": {"name": "hr"}})
    observed = read(server, monkeypatch)
    assert owners(observed) == {
        "listed": "Argo CD (Application default/gpu)",
        "plain": str(ManagerKind.NOBODY),
        "released": "Flux (HelmRelease default/hr)",
        "tracked": "Argo CD (Application default/gpu)",
    }
    refused = "\n".join(map(str, propose(observed, "c").refused))
    assert "argocd app delete gpu --cascade=false" in refused
    assert "flux suspend helmrelease -n default hr" in refused
