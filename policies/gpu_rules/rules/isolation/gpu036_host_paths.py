"""Rule GPU036: a pod with GPUs, or near them, mounts only host paths that are allowed."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.gpu_resources import GPU
from .. import cel
from ..agents import IS_AGENT, is_agent
from ..each import each_pod
from ..example import Example, pod
from ..gpus import gpus_of
from ..host_paths import driver_paths, driver_paths_cel, mounted
from ..pod_spec import Pod
from ..pools import candidate_pools, hard_taints, reached
from ..rule import Finding, Rule, Subject
from ..signs import VOLUMES, Sign
from ..twin import pods
from ..unknown import sequence
from .paths import DIRECT, direct_cel, gives_gpus, gives_gpus_cel, is_allowed, is_allowed_cel


def on_gpu_nodes(subject: Subject, pod: Pod, context: Context) -> bool:
    """Return whether the pod requests GPUs or can be scheduled to GPU nodes.

    A pod can be scheduled to GPU nodes if it tolerates their taint, or if a pool has no taint and
    the pod's node selector and affinity don't exclude it.
    """
    if gpus_of(subject, context).may_have:
        return True
    if any(not hard_taints(pool) for pool in candidate_pools(pod, context)):
        return True
    return bool(reached(pod, context))


def _no_host_paths(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    yield from _driver_paths(pod)
    paths = list(mounted(pod))
    if not paths:
        return
    agent = is_agent(subject, context)
    near = not agent and on_gpu_nodes(subject, pod, context)
    for index, path, written in paths:
        gives = written and path.startswith(DIRECT) if agent else gives_gpus(path)
        if gives or (near and not is_allowed(path, context)):
            yield _path_finding(pod.under(f"spec.volumes[{index}].hostPath.path"), path)


def _driver_paths(pod: Pod) -> Iterator[Finding]:
    for index, volume in enumerate(sequence(pod.spec.get("volumes"))):
        for place, path in driver_paths(volume):
            if gives_gpus(path):
                yield _path_finding(pod.under(f"spec.volumes[{index}].{place}"), path)


def _path_finding(place: str, path: str) -> Finding:
    if gives_gpus(path):
        return Finding(
            path=place,
            found=path[:80],
            wanted="no host path that gives access to GPUs without a request for them",
            cure=f"Remove the volume; request {GPU} in limits.",
        )
    return Finding(
        path=place,
        found=path[:80],
        wanted="a folder that allowedHostPaths lists",
        cure="Use a PersistentVolumeClaim, or add the folder to allowedHostPaths.",
        is_opinion=True,
    )


RULE = Rule(
    id="GPU036",
    title="No host path gives access to GPUs",
    severity=Severity.MANDATORY,
    check=each_pod(_no_host_paths, when=Subject.is_workload),
    opinions="paths that give no access to GPUs and that allowedHostPaths does not list",
    why="Device files, the folders of the driver and of the kubelet, and the socket of the "
    "container runtime give access to GPUs without the device plugin. The same files have many "
    "other names: below /proc, by symbolic links, and in the folders of each distribution. So a "
    "pod that requests GPUs, or can be scheduled to GPU nodes by a toleration or because these "
    "nodes have no taint, may mount only the folders that the setting allowedHostPaths lists. In "
    "a listed folder, and in the folders directly below one that ends with /*, a symbolic link "
    "can't lead out of the volume. As long as nobody declares which namespaces have node agents "
    "(DaemonSets without GPUs), this rule rejects only device files that an agent may write, and "
    "GPU078 gives advice about the other paths.",
    source="kubescape controls C-0045, C-0048; kubernetes v1.34.4 pkg/kubelet/cm/devicemanager; "
    "Kubernetes documentation, Pod Security Policies, AllowedHostPaths (links in writable folders)",
)

NEAR_GPUS = (
    "(variables.mayHaveGpus || size(variables.reachedPools) > 0 || "
    'variables.pools.exists(p, variables.facts[p + ".taints"] == ""))'
)

TWIN = pods(
    cel.in_workloads(
        f"({IS_AGENT} ? variables.writtenPaths.filter(h, {direct_cel('h')}) : "
        f"variables.hostPaths.filter(h, {gives_gpus_cel('h')} || "
        f'({NEAR_GPUS} && !{is_allowed_cel("h")}))).map(h, "found host path " + h) + '
        f"variables.volumes.filter(v, {driver_paths_cel('v')}.exists(h, {gives_gpus_cel('h')}))"
        '.map(v, "found a host path in volume " + v.name)'
    ),
    on_update=cel.PLACE_CHANGED,
    signs=(Sign(f"{VOLUMES}.exists(v, has(v.hostPath) || has(v.csi) || has(v.flexVolume))"),),
)

EXAMPLE = Example.edited(
    pod("volumes: [{name: data, hostPath: {path: /data}}]"),
    ("path: /data", "path: /run/systemd"),
)
