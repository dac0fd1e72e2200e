"""A stack adopts a running cluster, and later leaves it, without restarting its pods."""

from __future__ import annotations

import copy
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.helm import Helm
from tests.proofs.e2e.project import Project, figures, started
from tests.proofs.platform import ways

Json = dict[str, Any]
SECONDS = 120
NAMES = ["gpu-1", "gpu-2", "gpu-3"]
HOSTS = ("gpu-1", "gpu-2")
# A runtime that a person configured: NVIDIA container toolkit's documentation, "Configuring
# containerd (for Kubernetes)".
BY_HAND = """\
version = 2

[plugins."io.containerd.grpc.v1.cri".containerd]
  default_runtime_name = "nvidia"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
  BinaryName = "/usr/bin/nvidia-container-runtime"
"""
TRACKED = "argocd.argoproj.io/tracking-id"
"""Annotation with which Argo CD marks the objects of an Application."""
HANDOVERS: dict[str, Json] = {
    "Argo CD by annotation": {
        "annotations": {
            TRACKED: "gpu:apps/DaemonSet:kube-system/nvidia-device-plugin-daemonset",
            "argocd.argoproj.io/installation-id": "prod",
            "example.com/owner": "ml",
        }
    },
    "Argo CD by label": {"labels": {"argocd.argoproj.io/instance": "gpu", "team": "ml"}},
    "Flux": {
        "labels": {
            "kustomize.toolkit.fluxcd.io/name": "gpu",
            "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
            "team": "ml",
        },
        "annotations": {"kustomize.toolkit.fluxcd.io/prune": "disabled"},
    },
    "Fleet": {
        "labels": {"objectset.rio.cattle.io/hash": "c35d8a4e136ecaab66ba320fcc233a0659968a07"},
        "annotations": {"objectset.rio.cattle.io/id": "default-gpu", "example.com/owner": "ml"},
    },
}
"""Metadata of objects that other programs deliver, with labels and annotations of people.

Sources: Argo CD v3 util/argo/resource_tracking.go; fluxcd/pkg ssa/manager.go; Fleet
internal/helmdeployer/postrender.go and internal/cmd/agent/deployer/desiredset.
"""
UNMARK = re.compile(r"`kubectl (label|annotate) -n (\S+) (\S+) (\S+) ([^`]+)`")
TAINT = {"key": "gpu-team", "value": "ml", "effect": "NoSchedule"}
EVERYWHERE = [{"operator": "Exists"}]
# Source: the device plugin's published manifest, NVIDIA/k8s-device-plugin v0.17.1,
# deployments/static/nvidia-device-plugin.yml.
PLUGIN = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "nvidia-device-plugin-daemonset", "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"name": "nvidia-device-plugin-ds"}},
        "updateStrategy": {"type": "RollingUpdate"},
        "template": {
            "metadata": {"labels": {"name": "nvidia-device-plugin-ds"}},
            "spec": {
                "tolerations": [
                    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
                ],
                "priorityClassName": "system-node-critical",
                "containers": [
                    {
                        "name": "nvidia-device-plugin-ctr",
                        "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1",
                        "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "false"}],
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "capabilities": {"drop": ["ALL"]},
                        },
                        "volumeMounts": [
                            {
                                "name": "device-plugin",
                                "mountPath": "/var/lib/kubelet/device-plugins",
                            }
                        ],
                    }
                ],
                "volumes": [
                    {
                        "name": "device-plugin",
                        "hostPath": {"path": "/var/lib/kubelet/device-plugins"},
                    }
                ],
            },
        },
    },
}


def pods(project: Project, *namespaces: str) -> dict[str, tuple[str, str]]:
    """Return UID and start time of all pods in a namespace, by pod name."""
    found = {}
    for namespace in namespaces:
        for item in project.request("GET", f"namespaces/{namespace}/pods")["items"]:
            metadata, status = item["metadata"], item["status"]
            name = f"{metadata['namespace']}/{metadata['name']}"
            found[name] = (metadata["uid"], status.get("startTime", ""))
    return found


def nodes(project: Project) -> dict[str, tuple[Json, list[Json]]]:
    """Return labels and taints of all nodes."""
    return ways.look(project)


def label_by_hand(project: Project, names: list[str], labels: Json, taints: list[Json]) -> None:
    """Set labels and taints as a person does with kubectl."""
    for name in names:
        project.request(
            "PATCH",
            f"nodes/{name}",
            body={"metadata": {"labels": labels}, "spec": {"taints": taints}},
            content_type="application/merge-patch+json",
            params={"fieldManager": "kubectl-label"},
        )


def await_gpus(project: Project, names: list[str], gpus: int) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found = [project.request("GET", f"nodes/{name}")["status"] for name in names]
        if all(each["allocatable"].get("nvidia.com/gpu") == str(gpus) for each in found):
            return
        time.sleep(1)
    raise AssertionError(f"{names} don't offer {gpus} GPUs each")


@contextmanager
def running(folder: Path, **sections: Any) -> Iterator[Project]:
    """Run a cluster of three GPU nodes for a project that has no stack file yet."""
    project = Project.make(folder, f"adopt-{os.getpid()}")
    project.write({**ways.declared(project.stack, "device-plugin"), **sections})
    with started(project):
        project.file.unlink()
        yield project


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Project]:
    """Yield a project with a running cluster of three GPU nodes, and without a stack file."""
    with running(tmp_path) as project:
        yield project


@pytest.fixture
def prepared(tmp_path: Path) -> Iterator[Project]:
    """Yield the same, with two SSH hosts whose runtime somebody configured by hand."""
    hosts = Project.make(tmp_path / "hosts", "hosts").declared()["hosts"]
    with running(tmp_path / "project", hosts=hosts) as project:
        for host in HOSTS:
            file = project.host_root(host) / "etc/containerd/config.toml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(BY_HAND)
        yield project


def adopt(project: Project, **environment: str) -> str:
    """Run `gpu-cluster adopt`, which must succeed; return its output."""
    given = {"CONTEXT": f"gpu-cluster-{project.stack}", "KUBECONFIG": str(project.kubeconfig)}
    done = project.command("adopt", **given, **environment)
    assert done.returncode == 0, done.stdout
    return done.stdout


def install(
    project: Project, folder: Path, release: str, chart: str, values: Json, namespace: str
) -> None:
    """Install a chart with Helm, as a person without this program does.

    It is the same chart as the stack's: a real one if `GPU_CHARTS` names a folder of them.
    """
    charts = project.root / project.environment["GPU_CHARTS"]
    helm = Helm(folder, project.kubeconfig)
    try:
        helm.install(release, charts / chart, values, namespace)
    finally:
        helm.close()


def generations(project: Project, namespace: str) -> dict[str, int]:
    """Return each DaemonSet's generation: how often its specification was changed."""
    url = f"namespaces/{namespace}/daemonsets"
    found = project.request("GET", url, base="/apis/apps")["items"]
    return {item["metadata"]["name"]: item["metadata"]["generation"] for item in found}


def notes_on_nodes(project: Project) -> set[str]:
    """Return all annotations and field managers that this program has left on nodes."""
    found = set()
    for node in project.request("GET", "nodes")["items"]:
        metadata = node["metadata"]
        managers = [entry["manager"] for entry in metadata.get("managedFields", [])]
        names = [*metadata.get("annotations", {}), *managers]
        found |= {name for name in names if name.startswith(("gpu-cluster/", "gpu-cluster-"))}
    return found


def hand_back(project: Project, **part: str) -> str:
    """Run `gpu-cluster leave`, which must succeed; return its last line."""
    done = project.command("leave", **part)
    assert done.returncode == 0, done.stdout
    return done.stdout.strip().splitlines()[-1]


def written_by_new(project: Project) -> None:
    """Run `gpu-cluster new` on the cluster; `adopt`, which previews, must find nothing to add."""
    context = f"gpu-cluster-{project.stack}"
    done = project.command("new", FROM_CLUSTER=context, KUBECONFIG=str(project.kubeconfig))
    assert done.returncode == 0, done.stdout
    written = project.file.read_bytes()
    assert "nothing written" in adopt(project)
    assert project.file.read_bytes() == written


def refused_as_delivered(project: Project, way: str) -> None:
    """Run `gpu-cluster adopt`, which must refuse, name the way to hand over, and write no file."""
    given = {"CONTEXT": f"gpu-cluster-{project.stack}", "KUBECONFIG": str(project.kubeconfig)}
    done = project.command("adopt", **given)
    assert done.returncode != 0, done.stdout
    assert way in done.stdout
    assert not project.file.exists()


def taken_over_and_left(
    project: Project,
    namespace: str,
    end: str,
    write: Callable[[Project], object] = adopt,
    replicas: int = 1,
) -> None:
    """Adopt the cluster, run `up` twice, and destroy or leave the stack; no pod may restart.

    Args:
        project: The project, without a stack file.
        namespace: Namespace of the cluster's GPU software.
        end: The command that ends the stack.
        write: Function that writes the stack file.
        replicas: How many times each GPU is advertised.
    """
    await_gpus(project, NAMES, 8 * replicas)
    before = pods(project, namespace), generations(project, namespace)
    marked = nodes(project)
    write(project)
    assert figures(project.up())[:2] == (24, 24)
    assert (pods(project, namespace), generations(project, namespace)) == before
    taints = {name: taints for name, (_, taints) in nodes(project).items()}
    assert taints == {name: taints for name, (_, taints) in marked.items()}
    assert figures(project.up()) == (24, 24, 0)
    assert "nothing written" in adopt(project)
    done = project.command(end)
    assert done.returncode == 0, done.stdout
    assert (pods(project, namespace), generations(project, namespace)) == before
    assert nodes(project) == marked
    assert notes_on_nodes(project) == set()


@pytest.mark.clusters("adopted", "release")
@pytest.mark.clusters("left", "release")
@pytest.mark.clusters("adopted", "labels of others")
@pytest.mark.clusters("left", "labels of others")
@pytest.mark.slow
@pytest.mark.promise(
    "`gpu-cluster adopt` and `gpu-cluster up` take over a device plugin that Helm installed "
    "under another name "
    "in kube-system or a namespace of its own: no pod restarts, no node gets a taint, and "
    "`gpu-cluster destroy` leaves it."
)
@pytest.mark.parametrize("space", ["kube-system", "nvidia"])
def test_a_release_under_another_name_is_taken_over_in_place(
    foreign: Project, tmp_path: Path, space: str
) -> None:
    label_by_hand(foreign, NAMES, {"nvidia.com/gpu.present": "true", "team": "ml"}, [TAINT])
    values = {
        "gfd": {"enabled": True},
        "podAnnotations": {"example.com/owner": "ml"},
        "tolerations": EVERYWHERE,
        "nfd": {"worker": {"tolerations": EVERYWHERE}},
    }
    install(foreign, tmp_path, "nvdp", "nvidia-device-plugin", values, space)
    taken_over_and_left(foreign, space, "destroy")


@pytest.mark.clusters("adopted", "manifest")
@pytest.mark.clusters("left", "manifest")
@pytest.mark.clusters("adopted", "delivered")
@pytest.mark.clusters("left", "delivered")
@pytest.mark.slow
@pytest.mark.promise(
    "`gpu-cluster adopt` and `gpu-cluster up` take over a device plugin that a plain manifest "
    "made: no pod "
    "restarts, and `gpu-cluster leave` hands it back. While Argo CD delivers it, `gpu-cluster "
    "adopt` refuses and "
    "says how it is handed over."
)
def test_a_plain_manifest_is_taken_over_in_place(foreign: Project) -> None:
    url, base = "namespaces/kube-system/daemonsets", "/apis/apps"
    name = PLUGIN["metadata"]["name"]
    tracked = {TRACKED: f"gpu:apps/DaemonSet:kube-system/{name}"}
    made = {**PLUGIN, "metadata": {**PLUGIN["metadata"], "annotations": tracked}}
    foreign.request("POST", url, base=base, body=made, params={"fieldManager": "kubectl-create"})
    refused_as_delivered(foreign, "argocd app delete gpu --cascade=false")
    # This is what remains after that command.
    foreign.request(
        "PATCH",
        f"{url}/{name}",
        base=base,
        body={"metadata": {"annotations": {TRACKED: None}}},
        content_type="application/merge-patch+json",
    )
    taken_over_and_left(foreign, "kube-system", "leave", written_by_new)


def unmark(project: Project, printed: str) -> None:
    """Remove exactly the labels and annotations that a refusal's commands remove."""
    found = UNMARK.findall(printed)
    assert found
    for verb, namespace, kind, name, keys in found:
        assert all(key.endswith("-") for key in keys.split())
        marks = {key.removesuffix("-"): None for key in keys.split()}
        project.request(
            "PATCH",
            f"namespaces/{namespace}/{kind}s/{name}",
            base="/apis/apps",
            body={"metadata": {"labels" if verb == "label" else "annotations": marks}},
            content_type="application/merge-patch+json",
        )


@pytest.mark.slow
@pytest.mark.logins("several")
@pytest.mark.promise(
    "The refusal to adopt what Argo CD, Flux or Fleet delivers names each label and annotation to "
    "remove; without these `make adopt` and `make up` take the software over."
)
def test_the_marks_that_a_refusal_names_are_all_that_go(
    foreign: Project, record_property: Callable[[str, object], None]
) -> None:
    url, base = "namespaces/kube-system/daemonsets", "/apis/apps"
    for node in NAMES:
        label_by_hand(foreign, [node], {"example.com/plugin": node}, [])
    for (owner, metadata), node in zip(HANDOVERS.items(), (*NAMES, "gpu-9"), strict=True):
        name = owner.lower().replace(" ", "-")
        made = copy.deepcopy(PLUGIN)
        made["metadata"] |= {"name": name, **metadata}
        # The simulator knows the plugin of the published manifest by the pods' label `name`.
        labels = {"name": "nvidia-device-plugin-ds", "example.com/owner": name}
        made["spec"]["selector"] = {"matchLabels": labels}
        made["spec"]["template"]["metadata"]["labels"] = labels
        made["spec"]["template"]["spec"]["nodeSelector"] = {"example.com/plugin": node}
        foreign.request("POST", url, base=base, body=made, params={"fieldManager": "applier"})
    await_gpus(foreign, NAMES, 8)
    before = pods(foreign, "kube-system"), generations(foreign, "kube-system")
    given = {"CONTEXT": f"gpu-cluster-{foreign.stack}", "KUBECONFIG": str(foreign.kubeconfig)}
    refused = foreign.command("adopt", **given)
    assert refused.returncode != 0, refused.stdout
    for owner in HANDOVERS:
        name = owner.lower().replace(" ", "-")
        manager = owner.partition(" by ")[0]
        assert f"kube-system/{name}: found software that {manager} (" in refused.stdout
    unmark(foreign, refused.stdout)
    adopt(foreign)
    assert figures(foreign.up())[:2] == (24, 24)
    assert (pods(foreign, "kube-system"), generations(foreign, "kube-system")) == before
    for owner, metadata in HANDOVERS.items():
        name = owner.lower().replace(" ", "-")
        found = foreign.request("GET", f"{url}/{name}", base=base)["metadata"]
        kept = {**found.get("labels", {}), **found.get("annotations", {})}
        # What people wrote stays.
        for key, value in {**metadata.get("labels", {}), **metadata.get("annotations", {})}.items():
            assert (kept.get(key) == value) is key.startswith(("team", "example.com/"))
        record_property("logins", ("handover", owner, True))
    hand_back(foreign)


@pytest.mark.clusters("adopted", "operator")
@pytest.mark.clusters("left", "operator")
@pytest.mark.clusters("adopted", "prepared hosts")
@pytest.mark.clusters("left", "prepared hosts")
@pytest.mark.slow
@pytest.mark.promise(
    "`gpu-cluster adopt` and `gpu-cluster up` take over a GPU Operator that Helm installed with "
    "a generated "
    "name, as Cloud Native Stack does: no pod restarts, no host's file changes, and `gpu-cluster "
    "leave` "
    "hands it back."
)
def test_an_operator_with_a_generated_name_is_taken_over_in_place(
    prepared: Project, tmp_path: Path
) -> None:
    space, values = "nvidia-gpu-operator", {"driver": {"enabled": False}}
    before = {host: files(prepared, host) for host in HOSTS}
    install(prepared, tmp_path, "gpu-operator-1764150000", "gpu-operator", values, space)
    taken_over_and_left(prepared, space, "leave")
    assert {host: files(prepared, host) for host in HOSTS} == before
    assert not any(backups(prepared, host) for host in HOSTS)


@pytest.mark.clusters("adopted", "hami")
@pytest.mark.clusters("left", "hami")
@pytest.mark.slow
@pytest.mark.promise(
    "`gpu-cluster adopt` and `gpu-cluster up` take over a HAMi that Helm installed under another "
    "name: no pod restarts, cards are counted once, and `gpu-cluster destroy` and `gpu-cluster "
    "leave` leave it."
)
@pytest.mark.parametrize("end", ["destroy", "leave"])
def test_a_hami_under_another_name_is_taken_over_in_place(
    foreign: Project, tmp_path: Path, end: str
) -> None:
    label_by_hand(foreign, NAMES, {"gpu": "on", "team": "ml"}, [TAINT])
    values = {
        "devicePlugin": {"deviceSplitCount": 4, "tolerations": EVERYWHERE},
        "scheduler": {"tolerations": EVERYWHERE},
    }
    install(foreign, tmp_path, "shares", "hami", values, "kube-system")
    taken_over_and_left(foreign, "kube-system", end, replicas=4)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Project]:
    """Yield a project with four GPU nodes in two pools, two of them hosts.

    Its stack is deployed.
    """
    project = Project.make(tmp_path, f"leave-{os.getpid()}")
    declared = project.declared()
    declared["pools"] = [
        {"name": "a100", "nodes": ["gpu-[1-3]"], "gpusPerNode": 8, "labels": {"team": "ml"}},
        {"name": "spare", "nodes": ["gpu-4"], "gpusPerNode": 8},
    ]
    project.write(declared)
    with started(project):
        assert figures(project.up())[:2] == (32, 32)
        yield project


def files(project: Project, host: str) -> dict[str, bytes]:
    """Return the contents of a host's files in /etc, by path."""
    root = project.host_root(host) / "etc"
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def backups(project: Project, host: str) -> bool:
    return (project.host_root(host) / "var/lib/gpu-cluster").exists()


@pytest.mark.slow
@pytest.mark.promise(
    "`gpu-cluster leave` hands back a pool, hosts or the whole stack: pods, releases, labels, "
    "taints and "
    "files on hosts stay; state, annotations and backups are removed."
)
def test_a_stack_is_left_in_parts_and_as_a_whole(own: Project) -> None:
    space = "nvidia-device-plugin"
    before, marked = pods(own, space), nodes(own)
    held = {host: files(own, host) for host in HOSTS}
    assert before
    assert backups(own, "gpu-1")

    assert "pool spare handed back: 1 node" in hand_back(own, POOL="spare")
    assert [pool["name"] for pool in own.read()["pools"]] == ["a100"]
    assert figures(own.up())[:2] == (24, 24)
    assert (pods(own, space), nodes(own)) == (before, marked)

    assert "1 host" in hand_back(own, HOSTS="gpu-2")
    assert not backups(own, "gpu-2")
    assert figures(own.up())[:2] == (24, 24)
    assert files(own, "gpu-2") == held["gpu-2"]

    assert "the whole stack handed back: 3 nodes, 1 host" in hand_back(own)
    assert (pods(own, space), nodes(own)) == (before, marked)
    assert {host: files(own, host) for host in held} == held
    assert not backups(own, "gpu-1")
    assert notes_on_nodes(own) == set()
    (made,) = [
        item
        for item in own.request("GET", "namespaces")["items"]
        if item["metadata"]["name"] == space
    ]
    assert made["metadata"]["labels"].get("app.kubernetes.io/managed-by") is None
    assert not [*(own.state / ".pulumi" / "stacks").rglob(f"{own.stack}.json")]
