"""Rule GPU078: a node agent should mount no host path that gives access to GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..agents import IS_AGENT, is_agent
from ..each import each_pod
from ..example import Example
from ..host_paths import mounted
from ..pod_spec import Pod
from ..rule import Finding, Rule, Subject
from ..signs import VOLUMES, Sign
from ..twin import pods
from .gpu036_host_paths import NEAR_GPUS, on_gpu_nodes
from .paths import DIRECT, PARENTS, direct_cel, gives_gpus, gives_gpus_cel


def _is_workload_agent(subject: Subject, context: Context) -> bool:
    return subject.is_workload(context) and is_agent(subject, context)


def _check_paths(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    near = on_gpu_nodes(subject, pod, context)
    for index, path, written in mounted(pod):
        refused = written and path.startswith(DIRECT)
        if not refused and (gives_gpus(path) or (near and written and path in PARENTS)):
            yield Finding(
                path=pod.under(f"spec.volumes[{index}].hostPath.path"),
                found=path[:80],
                wanted="the agent's own folder, or a read-only folder without sockets",
                cure="If the agent needs the path, add an exemption with a reason and an end date.",
            )


RULE = Rule(
    id="GPU078",
    title="A node agent's host paths give no access to GPUs",
    severity=Severity.ADVISORY,
    check=each_pod(_check_paths, when=_is_workload_agent),
    why="Agents for metrics, storage, network and security are DaemonSets that read folders of "
    "their nodes, and some of these folders give access to GPUs. GPU036 rejects such paths "
    "in other pods. As long as nobody declares which namespaces have agents, this rule gives "
    "advice about them instead. It ignores a folder above such "
    "paths that is mounted read-only, but not a socket or a device file, because a "
    "read-only mount does not prevent their use.",
    source="charts of prometheus-node-exporter, falco, node-feature-discovery, aws-ebs-csi-driver; "
    "linux fs/namei.c sb_permission (read-only mounts)",
)

TWIN = pods(
    cel.in_workloads(
        f"!{IS_AGENT} ? [] : (variables.hostPaths.filter(h, {gives_gpus_cel('h')} && "
        f"!({direct_cel('h')} && h in variables.writtenPaths)) + "
        f"variables.writtenPaths.filter(h, !{gives_gpus_cel('h')} && {NEAR_GPUS} && "
        f'h in {cel.texts(PARENTS)})).map(h, "found host path " + h)'
    ),
    on_update=cel.PLACE_CHANGED,
    signs=(Sign(f"{VOLUMES}.exists(v, has(v.hostPath))"),),
)

EXAMPLE = Example.edited(
    """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: node-metrics, namespace: monitoring}
spec:
  selector: {matchLabels: {app: node-metrics}}
  template:
    metadata: {labels: {app: node-metrics}}
    spec:
      tolerations: [{operator: Exists, effect: NoSchedule}]
      volumes: [{name: root, hostPath: {path: /}}]
      containers:
        - name: exporter
          image: registry.example.com/exporter:1.0
          volumeMounts: [{name: root, mountPath: /host, readOnly: true}]
""",
    (", readOnly: true", ""),
)
