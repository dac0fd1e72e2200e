"""Runs that the settings or the inspection refuse, each with what makes it so."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import yaml

from gpu_cluster.inspection.extent import EXTENT
from gpu_cluster.kubernetes.labels import LABELS, MANAGER
from gpu_cluster.nodes.applied import PREFIX
from gpu_cluster.release.helm_record import MERGE
from gpu_cluster_lab.simulator.hosts import processes
from gpu_cluster_lab.simulator.hosts.model import hosts_dir
from tests.proofs.e2e.project import LIMIT, Json, Project

GPU = "nvidia.com/gpu"
Edit = Callable[[Json], None]
World = Callable[[Project], AbstractContextManager[None]]


@dataclass(frozen=True)
class Refusal:
    """A run that is refused.

    Attributes:
        edit: Edit of the stack file.
        says: Pattern of the error.
        judge: Function that finds the fault, of those that stop a run before its first resource
            (`tests.proofs.e2e.gate`). Empty: the settings are refused before the inspection.
        world: Change of cluster or hosts by somebody else, undone afterwards.
        variables: Variables of the run.
    """

    edit: Edit
    says: str
    judge: str = ""
    world: World = lambda _: nullcontext()
    variables: Callable[[Project], dict[str, str]] = lambda _: {}


def section(**changes: object) -> Edit:
    return lambda cluster: cluster.update(changes)


def pool(**changes: object) -> Edit:
    return lambda cluster: cluster["pools"][0].update(changes)


def host(**changes: object) -> Edit:
    return lambda cluster: cluster["hosts"][1].update(changes)


def quotas(*namespaces: str) -> Edit:
    each = [{"namespace": name, "resources": {GPU: 8}} for name in namespaces]
    return section(guardrails={"mode": "warn", "quotas": each})


def values(**extra: object) -> Edit:
    """Return an edit of values of the chart."""
    return section(devicePlugin={"extraValues": extra})


def feature_rule(cluster: Json) -> None:
    """Add a pool of nodes that Node Feature Discovery finds, and taints by a rule."""
    label = {"feature.node.kubernetes.io/pci-10de.present": "true"}
    cluster["scheduling"] = {"nodeFeatures": "rule"}
    cluster["pools"].append({"name": "l4", "selector": label, "count": 1, "gpusPerNode": 4})


def one_port(cluster: Json) -> None:
    first, second = cluster["hosts"]
    second["port"] = first["port"]


def without_second(cluster: Json) -> None:
    cluster["hosts"].pop()
    cluster["pools"][0]["nodes"] = ["gpu-1", "gpu-[3-4]"]


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
            url = f"{place}/{body['metadata']['name']}"
            project.request("DELETE", url, base=base)
            await_absence(project, url, base)

    return world


def await_absence(project: Project, url: str, base: str) -> None:
    """Wait until a deleted object is gone: a namespace is deleted after its objects."""
    deadline = time.monotonic() + LIMIT
    while project.ask(lambda client: client.find(url, base=base)) is not None:
        assert time.monotonic() < deadline, url
        time.sleep(0.2)


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
    folder = {"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
    spec = {"containers": [container], "volumes": [folder]}
    template = {"metadata": {"labels": labels}, "spec": spec}
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
def restricted_namespace(project: Project) -> Iterator[None]:
    """Let Pod Security enforce its strictest level in the namespace of the device plugin."""

    def label(level: str | None) -> None:
        body = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}}
        url = "namespaces/nvidia-device-plugin"
        project.request("PATCH", url, body=body, content_type=MERGE)

    label("restricted")
    try:
        yield
    finally:
        label(None)


@contextmanager
def of_other_stack(project: Project) -> Iterator[None]:
    """Annotate node gpu-4 as another stack does that has the node in a pool."""

    def annotate(value: str | None) -> None:
        body = {"metadata": {"annotations": {f"{PREFIX}theirs": value}}}
        project.request("PATCH", "nodes/gpu-4", body=body, content_type=MERGE)

    annotate(
        json.dumps({"stack": "other", "pool": "theirs", "gpus": 8, "labels": {}, "taints": []})
    )
    try:
        yield
    finally:
        annotate(None)


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
PREFLIGHT = "hosts.preflight.validate_host"
UNREACHED = "hosts.unreached.unreached_changes"
BLOCKERS = "inspection.document._drain_blockers"
SURROUNDINGS = "platforms.validate_cluster.validate_cluster"
LISTED = "inspection.observed_cluster"
"""Reader whose own errors are faults: a missing node, and an ill-formed record."""

REFUSALS: dict[str, Refusal] = {
    # The settings.
    "a misspelled section": Refusal(section(platfrom="dra"), "platfrom"),
    "a node in two pools": Refusal(
        lambda cluster: cluster["pools"].append(
            {"name": "b", "nodes": ["gpu-4"], "gpusPerNode": 8}
        ),
        "gpu-4",
    ),
    "an unknown extent of the inspection": Refusal(
        CHANGED,
        f"{EXTENT}: found 'some'",
        "inspection.extent.wanted",
        variables=lambda _: {EXTENT: "some"},
    ),
    "a number written as a text": Refusal(pool(gpusPerNode="eight"), 'found "eight"'),
    "an empty list of pools": Refusal(section(pools=[]), "pools: found an empty list"),
    "two hosts at one address": Refusal(one_port, "wanted: each address and port once"),
    "a host in no pool": Refusal(
        pool(nodes=["gpu-1", "gpu-[3-4]"]), 'found "gpu-2", which is in no pool'
    ),
    "a host key that is cut": Refusal(
        host(hostKey="ssh-ed25519 AAAA"), "hostKey: found .*wanted: the whole base64"
    ),
    "maintenance of an unknown node": Refusal(
        section(maintenance=["gpu-9"]), "maintenance.0.: found .gpu-9"
    ),
    "no node out of use at the same time": Refusal(
        section(rollout={"maxUnavailable": 0}), "rollout.maxUnavailable: found 0"
    ),
    "a taint without an effect": Refusal(pool(taints=["a=b"]), "wanted: a taint: key=value:Effect"),
    "a GPU that its node does not have": Refusal(
        pool(unhealthyDevices={"gpu-3": {"index": [9]}}), "found GPU 9 of .gpu-3"
    ),
    "two ways of sharing": Refusal(
        section(
            devicePlugin={
                "config": {
                    "sharing": {
                        way: {"resources": [{"name": GPU, "replicas": 2}]}
                        for way in ("timeSlicing", "mps")
                    }
                }
            }
        ),
        "found both timeSlicing and mps",
    ),
    "a value of the chart that a setting owns": Refusal(
        values(config={"name": "x"}), "config.name only from the stack file's own setting"
    ),
    "a value that the chart does not know": Refusal(
        values(nodeSelecter={}), "an unknown key .nodeSelecter"
    ),
    "a driver that does not exist": Refusal(
        section(driver={"source": "package", "version": "12.0"}), "driver.version: found .12.0"
    ),
    "a driver of another platform": Refusal(
        section(driver={"source": "operator"}), "found source operator with platform device-plugin"
    ),
    "a namespace of Kubernetes": Refusal(
        section(validation={"namespace": "kube-system"}), "validation.namespace: found"
    ),
    "one namespace for two features": Refusal(
        section(monitoring={"namespace": "nvidia-device-plugin"}),
        "as in devicePlugin.namespace; wanted: a separate namespace",
    ),
    "two quotas of one namespace": Refusal(
        quotas("default", "default"), "one quota for each namespace"
    ),
    "two places of charts": Refusal(
        section(charts={"directory": "docs", "oci": "oci://127.0.0.1:1/charts"}),
        "found both directory and oci",
    ),
    # Credentials and kubeconfig.
    "hosts without a key": Refusal(
        CHANGED,
        "private_key: found none",
        "hosts.credentials.refused",
        variables=lambda _: {"GPU_CLUSTER_SSH_PRIVATE_KEY_FILE": ""},
    ),
    "a context that does not exist": Refusal(
        CHANGED,
        "wanted: .*context|elsewhere",
        "kubernetes.kubeconfig_contexts.missing_context",
        variables=kubeconfig(elsewhere),
    ),
    # Hosts.
    "a host that gives no answer": Refusal(
        CHANGED,
        "host gpu-2: found .*a login that works, because this run changes it",
        UNREACHED,
        silent_host,
    ),
    "a wrong port": Refusal(
        host(port=1), "host gpu-2: found .*wanted: a login that works", UNREACHED
    ),
    "the ports of two hosts exchanged": Refusal(swapped, "host gpu-1: found .*key", UNREACHED),
    "another user": Refusal(host(user="somebody"), "host gpu-2: found", UNREACHED),
    "another system": Refusal(
        CHANGED,
        "host gpu-1: found",
        PREFLIGHT,
        file_on_host("etc/os-release", "ID=plan9\nVERSION_ID=4\n"),
    ),
    "the hosts of nodes that stay": Refusal(
        lambda cluster: cluster.pop("hosts"),
        "host gpu-\\[1-2\\]: found a host that is no longer declared, while its node stays in "
        "pool a100",
        "inspection.removed.faults",
    ),
    "a host and its busy node": Refusal(
        without_second,
        "host gpu-2: found a host that is no longer declared, while pods run on its node gpu-2: "
        "default/bare",
        "inspection.removed.undrained",
        pod(nodeName="gpu-2"),
    ),
    "the key of another host": Refusal(
        lambda cluster: cluster["hosts"][1].update(hostKey=cluster["hosts"][0]["hostKey"]),
        "host gpu-2: found .*key",
        UNREACHED,
    ),
    "a bastion that gives no answer": Refusal(
        lambda cluster: cluster.update(
            ssh={
                "bastion": {
                    "address": "127.0.0.1",
                    "port": 1,
                    "hostKey": cluster["hosts"][0]["hostKey"],
                }
            }
        ),
        "host gpu-1: found .*bastion",
        UNREACHED,
    ),
    "more GPUs than a host has": Refusal(
        pool(gpusPerNode=16), "host gpu-1: found 8 NVIDIA PCI devices", PREFLIGHT
    ),
    "a container engine that a host lacks": Refusal(
        section(runtime={"engine": "docker"}), "host gpu-1: found no docker", PREFLIGHT
    ),
    "a system without dnf": Refusal(
        CHANGED,
        "host gpu-1: found .*yum and no dnf",
        PREFLIGHT,
        file_on_host("etc/os-release", 'ID=centos\nVERSION_ID="7"\nNAME="CentOS Linux"\n'),
    ),
    # Pods.
    "a pod without a controller": Refusal(
        ROLLED, "pods that no controller creates again", BLOCKERS, pod()
    ),
    "a pod with local data": Refusal(
        ROLLED,
        "rollout.evict",
        BLOCKERS,
        pod(volumes=[{"name": "v", "emptyDir": {}}]),
    ),
    "a reboot without permission": Refusal(
        section(kernel={"release": "6.1.0-99-amd64"}), "reboot.when: required|kernel", BLOCKERS
    ),
    "a busy node that must be validated": Refusal(
        section(validation={"timeoutSeconds": 121, "busy": "fail", "command": ["sleep", "1"]}),
        "node gpu-1: found GPUs in use: .*validation.busy is fail",
        "inspection.judgement.with_busy",
        pod(),
    ),
    "pods whose GPUs another platform does not see": Refusal(
        section(platform="dra"),
        "would allocate their GPUs a second time",
        "inspection.moves.faults",
        pod(),
    ),
    # The cluster.
    "fewer GPUs than the nodes have": Refusal(
        pool(gpusPerNode=4), "4 GPUs per node declared", "inspection.surplus.faults"
    ),
    "a node that does not exist": Refusal(
        pool(nodes=["gpu-[1-6]"]), "node gpu-6: found no such node|gpu-5", LISTED
    ),
    "a node of another stack": Refusal(
        CHANGED,
        "nodes of stack other",
        "inspection.observed_cluster._of_other_stacks",
        of_other_stack,
    ),
    "a cluster that gives no answer": Refusal(
        CHANGED,
        "found no response from the API server",
        "inspection.observe._lost_cluster_fault",
        variables=kubeconfig(unreachable),
    ),
    "a cluster that refuses the user": Refusal(
        CHANGED,
        "Unauthorized|not accept",
        "inspection.observe._lost_cluster_fault",
        variables=kubeconfig(forbidden),
    ),
    "a namespace of somebody else": Refusal(
        section(validation={"timeoutSeconds": 120, "namespace": "theirs"}),
        "namespace theirs: found a namespace that this program did not create",
        SURROUNDINGS,
        space("theirs"),
    ),
    "a namespace of another stack": Refusal(
        section(validation={"timeoutSeconds": 120, "namespace": "shared"}),
        "namespace shared: found a namespace of another stack, gpu-cluster-other",
        SURROUNDINGS,
        space("shared", labels=LABELS, annotations={MANAGER: "gpu-cluster-other"}),
    ),
    "another device plugin": Refusal(
        CHANGED,
        "DaemonSet kube-system/other-plugin: found NVIDIA's device plugin",
        SURROUNDINGS,
        foreign_plugin,
    ),
    "a record of the release that is none": Refusal(
        CHANGED, "nvidia-device-plugin.*no record|what Helm records", LISTED, broken_record
    ),
    "a namespace of somebody else for the platform": Refusal(
        section(devicePlugin={"namespace": "theirs"}),
        "namespace theirs: found a namespace that this program did not create",
        SURROUNDINGS,
        space("theirs"),
    ),
    "a namespace of somebody else for the monitoring": Refusal(
        section(monitoring={"namespace": "theirs"}),
        "namespace theirs: found a namespace that this program did not create",
        SURROUNDINGS,
        space("theirs"),
    ),
    "pods that Pod Security refuses": Refusal(
        CHANGED,
        "found the label pod-security.kubernetes.io/enforce=restricted",
        SURROUNDINGS,
        restricted_namespace,
    ),
    "a quota with too few pods": Refusal(
        CHANGED,
        "ResourceQuota nvidia-device-plugin/few: found at most 1 pod",
        SURROUNDINGS,
        made(
            "namespaces/nvidia-device-plugin/resourcequotas",
            {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}},
        ),
    ),
    "a PriorityClass that the cluster lacks": Refusal(
        values(priorityClassName="none"), "found PriorityClass none, which", SURROUNDINGS
    ),
    "a label that no node has": Refusal(
        values(nodeSelector={"a": "b"}), "node gpu-1: found no label a=b", SURROUNDINGS
    ),
    "an affinity that admits no node": Refusal(
        values(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
                        ]
                    }
                }
            }
        ),
        "node gpu-1: found labels that the node affinity in extraValues does not admit",
        SURROUNDINGS,
    ),
    "rules without Node Feature Discovery": Refusal(
        feature_rule, "no Node Feature Discovery", SURROUNDINGS
    ),
    # The chart.
    "a folder of charts that does not exist": Refusal(
        section(charts={"directory": "no-such-folder"}),
        "chart nvidia-device-plugin .*correct charts.directory",
        "inspection.judgement._check_chart",
        variables=lambda _: {"GPU_CHARTS": ""},
    ),
    "a chart that does not exist": Refusal(
        lambda cluster: cluster.update(devicePlugin={"version": "0.99.9"}),
        "0.99.9",
        "inspection.judgement._check_chart",
    ),
    "a chart whose objects break a rule": Refusal(
        section(devicePlugin={"resources": {"limits": {GPU: "500m"}}}),
        "GPU001 .* of release nvidia-device-plugin",
    ),
    "a folder without charts": Refusal(
        CHANGED,
        "chart nvidia-device-plugin",
        "inspection.judgement._check_chart",
        variables=lambda _: {"GPU_CHARTS": "docs"},
    ),
}

WARNING = (
    "hosts.observed.hardware.warnings",
    "inspection.ends.outlived",
    "inspection.ends.outlived_chart",
    "inspection.judgement._cordoned_warning",
    "inspection.judgement._warn_of_deferred",
    "inspection.judgement._kept_layouts",
    "inspection.judgement._check_registries",
    "inspection.moves.warnings",
    "inspection.overruled.operand_warnings",
    "inspection.overruled.warnings",
    "inspection.upgrade_path.unsupported_kubernetes",
    "loading.warnings.warnings",
)
"""Functions whose faults are warnings, which stop nothing."""

ELSEWHERE = {
    "cluster._check": "components/hosts/kubeadm/test_kubeadm_cluster.py",
    "driver_daemonset.container.judge_all": "components/driver_daemonset/test_driver_container.py",
    "inspection.judgement._check_endpoints": "components/platforms/test_preflight.py",
    "inspection.judgement._check_lost_nodes": "components/desired/test_newcomers.py",
    "inspection.misfits.misfits": "components/change/test_document.py",
    "inspection.moves.unseen": "components/inspection/test_moves.py",
    "inspection.removed.undrained_engines": "components/inspection/test_removed.py",
    "inspection.upgrade_path.refused_upgrades": "components/inspection/test_upgrade_path.py",
    "release.clear.foreign_release": "components/inspection/test_foreign_release.py",
    "release.definitions.outdated": "components/charts/test_definitions.py",
}
"""Functions whose fault the embedded cluster can't have, with the test file that shows it.

What they find stops a run at the same place as each other fault.
"""
