"""Pods, and the taints and labels of the nodes that have GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from policies.rules.context import Context, Severity
from policies.rules.host_paths import host_paths
from policies.rules.pod_request import claims_devices, gpu_requests
from policies.rules.pod_spec import Container
from policies.rules.pools import candidate_pools, gpu_pools, hard_taints, tolerates, untolerated
from policies.rules.resource_names import is_gpu, sounds_like_gpu
from policies.rules.rule import Finding, Need, Rule, Subject
from policies.rules.unknown import UNKNOWN, at, holds_unknown, mapping, sequence

# kubernetes v1.34.4 pkg/kubelet/cm/devicemanager; containernetworking CNI conventions
NODE_SERVICES = ("/var/lib/kubelet/device-plugins", "/opt/cni/bin", "/etc/cni/net.d")


def _tolerated(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.pod is None:
        return
    requests = gpu_requests(subject.pod, context)
    pools = candidate_pools(subject.pod, context)
    if not requests or not pools:
        return
    missing = {pool.name: untolerated(subject.pod, pool, requests, context) for pool in pools}
    if all(missing.values()):
        name, taints = next(iter(missing.items()))
        first = taints[0]
        yield Finding(
            path=subject.pod.under("spec.tolerations"),
            found="no toleration for " + ", ".join(map(str, taints)) + f" of pool {name}",
            wanted="a toleration for the taints of a pool with GPUs",
            cure=f"Add {{key: {first.key}, operator: Exists, effect: {first.effect}}}.",
        )


def _kept_away(subject: Subject, context: Context) -> Iterator[Finding]:
    pod = subject.pod
    if pod is None or _of_daemon_set(subject) or not subject.is_workload(context):
        return
    if claims_devices(pod) or any(_may_ask(each, context) for each in pod.containers):
        return
    taints = {str(taint): taint for pool in gpu_pools(context) for taint in hard_taints(pool)}
    for index, toleration in enumerate(sequence(pod.spec.get("tolerations"))):
        if toleration is UNKNOWN or holds_unknown(toleration):
            continue
        for taint in taints.values():
            if tolerates(toleration, taint):
                yield Finding(
                    path=pod.under(f"spec.tolerations[{index}]"),
                    found=f"a toleration of {taint} in a pod that asks for no GPU",
                    wanted="none that covers the taint of the GPU nodes",
                    cure="Remove it, or name the one taint that is meant: the pod would take "
                    "cpu and memory from GPU work.",
                )
                break


def _of_daemon_set(subject: Subject) -> bool:
    """Whether it is a DaemonSet or one's pod, as far as can be told."""
    owners = at(subject.manifest, "metadata", "ownerReferences")
    return (
        subject.kind == "DaemonSet"
        or owners is UNKNOWN
        or any(
            holds_unknown(owner)
            or (at(owner, "kind") == "DaemonSet" and at(owner, "controller") is True)
            for owner in sequence(owners)
        )
    )


def _may_ask(container: Container, context: Context) -> bool:
    """Whether a container asks for a GPU, or does for all that is known and readable."""
    if not (container.requests_known and container.limits_known):
        return True
    return any(
        (is_gpu(name, context) or sounds_like_gpu(name))
        and (resource.quantity is None or resource.quantity.milli != 0)
        for listed in (container.limits, container.requests)
        for name, resource in listed.items()
    )


def _node_service(subject: Subject, context: Context) -> Iterator[Finding]:
    pod = subject.pod
    if pod is None or subject.kind != "DaemonSet":
        return
    service = next((p for _, p in host_paths(pod) if p.startswith(NODE_SERVICES)), None)
    if service is None:
        return
    selector_known = not holds_unknown(mapping(pod.spec.get("nodeSelector")))
    for pool in candidate_pools(pod, context) if selector_known else ():
        if taints := untolerated(pod, pool, (), context):
            yield Finding(
                path=pod.under("spec.tolerations"),
                found=f"no toleration for {taints[0]} of pool {pool.name}",
                wanted=f"one, because the DaemonSet serves nodes by {service}",
                cure=f"Add {{key: {taints[0].key}, operator: Exists}}.",
            )
            return


def _reachable(subject: Subject, context: Context) -> Iterator[Finding]:
    pod = subject.pod
    if pod is None or not gpu_pools(context) or not gpu_requests(pod, context):
        return
    if candidate_pools(pod, context):
        return
    selected = mapping(pod.spec.get("nodeSelector"))
    yield Finding(
        path=pod.under("spec.nodeSelector" if selected else "spec.affinity"),
        found="labels that no pool with GPUs has",
        wanted="labels of " + " or ".join(pool.name for pool in gpu_pools(context)[:4]),
        cure="Select by a label that the pool's nodes carry, or by none.",
    )


RULES = (
    Rule(
        id="GPU004",
        title="A pod that asks for GPUs tolerates the taint of the GPU nodes",
        severity=Severity.MANDATORY,
        check=_tolerated,
        why="GPU nodes are tainted so that other work stays away. Without a toleration the pod "
        "stays Pending. The admission plugin ExtendedResourceToleration would add one, but it is "
        "off by default and helps only where the taint's key is the resource's name.",
        source="k8s.io/api v0.34.4 core/v1/toleration.go; kubernetes v1.34.4 "
        "plugin/pkg/admission/extendedresourcetoleration",
        needs=frozenset({Need.POOLS}),
        whole=True,
    ),
    Rule(
        id="GPU032",
        title="Work without GPUs keeps away from GPU nodes",
        severity=Severity.MANDATORY,
        check=_kept_away,
        why="A toleration of the GPU taint, also one of every taint, lets a pod without GPUs take "
        "the cpu and memory that GPU work on that node needs. Pods with claims for devices (DRA), "
        "DaemonSets and the namespaces of the GPU stack are free to.",
        source="k8s.io/api v0.34.4 core/v1/toleration.go; NVIDIA k8s-device-plugin issue 68",
        needs=frozenset({Need.POOLS}),
        whole=True,
    ),
    Rule(
        id="GPU033",
        title="A DaemonSet that serves nodes serves the GPU nodes too",
        severity=Severity.MANDATORY,
        check=_node_service,
        why="A device plugin or a network plugin that does not tolerate the GPU taint leaves "
        "exactly the GPU nodes without devices or network.",
        source="METR hawk issue 91 (a network plugin kept off tainted nodes); kubernetes v1.34.4 "
        "pkg/kubelet/cm/devicemanager",
        needs=frozenset({Need.POOLS}),
        whole=True,
    ),
    Rule(
        id="GPU034",
        title="A pod that asks for GPUs selects nodes that have some",
        severity=Severity.MANDATORY,
        check=_reachable,
        why="Where nodeSelector or every term of the required node affinity names a label that the "
        "stack sets to another value on all pools with GPUs, the pod stays Pending.",
        source="k8s.io/component-helpers v0.34.4 scheduling/corev1/nodeaffinity/nodeaffinity.go",
        needs=frozenset({Need.POOLS}),
    ),
)
