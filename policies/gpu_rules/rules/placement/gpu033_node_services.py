"""Rule GPU033: a DaemonSet with a device plugin or network plugin must tolerate the GPU taint."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..each import each_object, each_pod
from ..example import Example
from ..host_paths import host_paths
from ..pod_spec import Pod
from ..pools import candidate_pools, untolerated
from ..rule import Finding, Need, Rule, Subject
from ..twin import pods
from ..unknown import holds_unknown, mapping

# Sources: kubernetes v1.34.4 pkg/kubelet/cm/devicemanager; conventions of containernetworking CNI.
NODE_SERVICES = ("/var/lib/kubelet/device-plugins", "/opt/cni/bin", "/etc/cni/net.d")


def _may_serve(subject: Subject, context: Context) -> bool:
    """Return whether GPU032 lets a DaemonSet tolerate the taint, as this rule wants it to."""
    return not (context.trust_is_declared and subject.is_workload(context))


def _node_service(pod: Pod, _: Subject, context: Context) -> Iterator[Finding]:
    service = next((p for _, p in host_paths(pod) if p.startswith(NODE_SERVICES)), None)
    if service is None:
        return
    selector_known = not holds_unknown(mapping(pod.spec.get("nodeSelector")))
    for pool in candidate_pools(pod, context) if selector_known else ():
        if taints := untolerated(pod, pool, (), context):
            yield Finding(
                path=pod.under("spec.tolerations"),
                found=f"no toleration for {taints[0]} of pool {pool.name}",
                wanted=f"a toleration, because the DaemonSet serves its node through {service}",
                cure=f"Add {{key: {taints[0].key}, operator: Exists}}.",
            )
            return


RULE = Rule(
    id="GPU033",
    title="A DaemonSet that provides a node service also runs on GPU nodes",
    severity=Severity.MANDATORY,
    check=each_object(each_pod(_node_service, when=_may_serve), "DaemonSet"),
    why="If a device plugin or network plugin does not tolerate the GPU taint, the GPU nodes "
    "are without these devices or without network.",
    source="METR hawk issue 91 (a network plugin kept off tainted nodes); kubernetes v1.34.4 "
    "pkg/kubelet/cm/devicemanager",
    needs=frozenset({Need.POOLS}),
    whole=True,
)

_SERVES_NODES = " || ".join(f'h.startsWith("{prefix}")' for prefix in sorted(NODE_SERVICES))

TWIN = pods(
    cel.unless_empty(
        f"(!{cel.TRUST_IS_DECLARED} || variables.trusted) && "
        f"variables.hostPaths.exists(h, {_SERVES_NODES}) && "
        f'variables.pools.exists(p, {cel.POOL_TAINTS}.exists(t, t != "" && !{cel.TOLERATED}))',
        '"found no toleration for the taint of a GPU pool"',
    ),
    "DaemonSet",
)

EXAMPLE = Example.edited(
    """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: network, namespace: kube-system}
spec:
  selector: {matchLabels: {app: network}}
  template:
    metadata: {labels: {app: network}}
    spec:
      tolerations: [{operator: Exists}]
      containers:
        - {name: agent, image: registry.example.com/network:1.0}
      volumes:
        - name: cni
          hostPath: {path: /etc/cni/net.d}
""",
    ("\n      tolerations: [{operator: Exists}]", ""),
)
