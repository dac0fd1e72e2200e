"""Runs that the settings, the inspection or the rules refuse, each with what makes it so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import yaml

from gpu_cluster.kubernetes.labels import LABELS, MANAGER
from lab.simulator.hosts import processes
from lab.simulator.hosts.model import hosts_dir
from tests.proofs.e2e.project import Json, Project

GPU = "nvidia.com/gpu"
Edit = Callable[[Json], None]
World = Callable[[Project], AbstractContextManager[None]]


@dataclass(frozen=True)
class Refusal:
    """A run that is refused.

    Attributes:
        edit: Edit of the stack file.
        says: Pattern of the error.
        world: Change of cluster or hosts by somebody else, undone afterwards.
        variables: Variables of the run.
    """

    edit: Edit
    says: str
    world: World = lambda _: nullcontext()
    variables: Callable[[Project], dict[str, str]] = lambda _: {}


def section(**changes: object) -> Edit:
    return lambda cluster: cluster.update(changes)


def pool(**changes: object) -> Edit:
    return lambda cluster: cluster["pools"][0].update(changes)


def host(**changes: object) -> Edit:
    return lambda cluster: cluster["hosts"][1].update(changes)


def swapped(cluster: Json) -> None:
    first, second = cluster["hosts"]
    first["port"], second["port"] = second["port"], first["port"]


def made(place: str, body: Json, base: str = "") -> World:
    """Return a world in which somebody has created an object."""

    @contextmanager
    def world(project: Project) -> Iterator[None]:
        project.request("POST", place, base=base, body=body)
        try:
            yield
        finally:
            project.request("DELETE", f"{place}/{body['metadata']['name']}", base=base)

    return world


def pod(**spec: object) -> World:
    """Return a world with a pod with GPUs on gpu-1 that no controller creates again."""
    container = {"name": "c", "image": "train", "resources": {"limits": {GPU: "4"}}}
    tolerations = [{"operator": "Exists"}]
    body = {"nodeName": "gpu-1", "tolerations": tolerations, "containers": [container], **spec}
    return made("namespaces/default/pods", {"metadata": {"name": "bare"}, "spec": body})


def space(name: str, **metadata: object) -> World:
    return made("namespaces", {"metadata": {"name": name, **metadata}})


def foreign_plugin(project: Project) -> AbstractContextManager[None]:
    labels = {"app": "other-plugin"}
    container = {"name": "c", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    body = {
        "metadata": {"name": "other-plugin"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    return made("namespaces/kube-system/daemonsets", body, base="/apis/apps")(project)


def broken_record(project: Project) -> AbstractContextManager[None]:
    """Return a world in which somebody has written a record of the release that is none."""
    name = "nvidia-device-plugin"
    body = {
        "metadata": {
            "name": f"sh.helm.release.v1.{name}.v99",
            "labels": {"owner": "helm", "name": name},
        },
        "type": "helm.sh/release.v1",
        "data": {"release": "bm8="},
    }
    return made(f"namespaces/{name}/secrets", body)(project)


@contextmanager
def silent_host(project: Project) -> Iterator[None]:
    """Stop the SSH server of gpu-2 while the context lasts."""
    processes.end(hosts_dir(project.stack) / "gpu-2")
    try:
        yield
    finally:
        assert project.command("start").returncode == 0


def file_on_host(path: str, text: str) -> World:
    @contextmanager
    def world(project: Project) -> Iterator[None]:
        file = project.host_root("gpu-1") / path
        kept = file.read_bytes()
        file.write_text(text)
        try:
            yield
        finally:
            file.write_bytes(kept)

    return world


def kubeconfig(change: Callable[[Json], None]) -> Callable[[Project], dict[str, str]]:
    """Return the variable that names a changed copy of the cluster's kubeconfig."""

    def variables(project: Project) -> dict[str, str]:
        content = yaml.safe_load(project.kubeconfig.read_text())
        change(content)
        path = project.root / "changed.kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return {"KUBECONFIG": str(path)}

    return variables


def unreachable(content: Json) -> None:
    for each in content["clusters"]:
        each["cluster"]["server"] = "https://127.0.0.1:1"


def forbidden(content: Json) -> None:
    for each in content["users"]:
        each["user"] = {"token": "no such token"}


def elsewhere(content: Json) -> None:
    for each in content["contexts"]:
        each["name"] = "elsewhere"


CHANGED = section(system={"sysctl": {"vm.max_map_count": "262144"}})
"""Edit that changes each host."""
ROLLED = section(runtime={"devicesByEnvironment": True})
"""Edit for which nodes are drained."""

REFUSALS: dict[str, Refusal] = {
    # The settings.
    "a misspelled section": Refusal(section(platfrom="dra"), "platfrom"),
    "a node in two pools": Refusal(
        lambda cluster: cluster["pools"].append(
            {"name": "b", "nodes": ["gpu-4"], "gpusPerNode": 8}
        ),
        "gpu-4",
    ),
    "hosts without a key": Refusal(
        CHANGED,
        "private_key: found none",
        variables=lambda _: {"GPU_CLUSTER_SSH_PRIVATE_KEY_FILE": ""},
    ),
    # Hosts.
    "a host that gives no answer": Refusal(
        CHANGED, "host gpu-2: found .*a reachable host, because this run changes it", silent_host
    ),
    "a wrong port": Refusal(host(port=1), "host gpu-2: found .*wanted: a reachable host"),
    "the ports of two hosts exchanged": Refusal(swapped, "host gpu-1: found .*key"),
    "another user": Refusal(host(user="somebody"), "host gpu-2: found"),
    "another system": Refusal(
        CHANGED, "host gpu-1: found", file_on_host("etc/os-release", "ID=plan9\nVERSION_ID=4\n")
    ),
    # Pods.
    "a pod without a controller": Refusal(ROLLED, "pods that no controller creates again", pod()),
    "a pod with local data": Refusal(
        ROLLED,
        "rollout.evict",
        pod(volumes=[{"name": "v", "emptyDir": {}}]),
    ),
    "a reboot without permission": Refusal(
        section(kernel={"release": "6.1.0-99-amd64"}), "reboot.when: required|kernel"
    ),
    # The cluster.
    "a node that does not exist": Refusal(
        pool(nodes=["gpu-[1-6]"]), "node gpu-6: found no such node|gpu-5"
    ),
    "a cluster that gives no answer": Refusal(
        CHANGED, "found no response from the API server", variables=kubeconfig(unreachable)
    ),
    "a cluster that refuses the user": Refusal(
        CHANGED, "Unauthorized|not accept", variables=kubeconfig(forbidden)
    ),
    "a context that does not exist": Refusal(
        CHANGED, "wanted: .*context|elsewhere", variables=kubeconfig(elsewhere)
    ),
    "a namespace of somebody else": Refusal(
        section(validation={"timeoutSeconds": 120, "namespace": "theirs"}),
        "namespace theirs: found one that this program did not create",
        space("theirs"),
    ),
    "a namespace of another stack": Refusal(
        section(validation={"timeoutSeconds": 120, "namespace": "shared"}),
        "namespace shared: found one of another stack, gpu-cluster-other",
        space("shared", labels=LABELS, annotations={MANAGER: "gpu-cluster-other"}),
    ),
    "another device plugin": Refusal(
        CHANGED, "DaemonSet kube-system/other-plugin: found NVIDIA's device plugin", foreign_plugin
    ),
    "a record of the release that is none": Refusal(
        CHANGED, "nvidia-device-plugin.*no record|what Helm records", broken_record
    ),
    # The chart.
    "a chart that does not exist": Refusal(
        lambda cluster: cluster.update(devicePlugin={"version": "0.99.9"}), "0.99.9"
    ),
    "a folder without charts": Refusal(
        section(charts={"directory": "docs"}), "chart nvidia-device-plugin"
    ),
}
