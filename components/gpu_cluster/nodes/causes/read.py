"""Read the objects that explain why pods do not run, as far as the user's RBAC role allows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from gpu_cluster.kubernetes.api import Client, Json, Refused
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.kubernetes.managers import NFD, daemon_set
from gpu_cluster.nodes.causes import containers
from gpu_cluster.nodes.causes.cause import LOG_LINES, Around, Cause, Kind
from gpu_cluster.nodes.causes.node_fit import barred
from gpu_cluster.nodes.causes.offers import allocates_gpus, is_ready
from gpu_cluster.nodes.causes.pod import CREATE, cause_of, explain_refusal, refusals_of
from gpu_cluster.nodes.causes.scheduling import KUEUE
from gpu_cluster.nodes.drain import owner_of
from gpu_cluster.nodes.gpu_holders import list_pods
from gpu_rules.context import KUBE_SYSTEM
from gpu_rules.kube.pod_resources import device_requests
from gpu_rules.printable import printable

FORBIDDEN, ABSENT = 403, 404
"""HTTP statuses: 403 (RBAC forbids the request), and 404 (no such object or kind)."""
LOG_BYTES = 16 * 1024
"""Maximum number of bytes of a container's log that are read."""
NO_LOG = "unable to retrieve container logs for "
"""Words of a kubelet in place of the log of a container that it removed (kubernetes v1.36.3,
pkg/kubelet/kuberuntime/kuberuntime_container.go).
"""
CAUSES = 3
"""Maximum number of pods that one message explains."""
CONTROLLERS = {
    "/apis/apps": {
        "daemonsets": "DaemonSet",
        "deployments": "Deployment",
        "replicasets": "ReplicaSet",
        "statefulsets": "StatefulSet",
    },
    "/apis/batch": {"jobs": "Job"},
}
"""Kinds of objects that create pods, by API group and name of the resource."""


@dataclass
class Reader:
    """Reader of events, logs and lists; it notes the requests that the user's role forbids.

    Attributes:
        refused: What the API server refused to show.
        cluster: Nodes and pods of the cluster, which several pods of one answer share.
    """

    client: Client
    refused: list[str] = field(default_factory=list)
    cluster: dict[str, tuple[Json, ...]] = field(default_factory=dict)

    async def listed(self, url: str, *, base: str = "", **params: str) -> tuple[Json, ...]:
        """List objects; return an empty list if RBAC forbids it or the kind does not exist."""
        try:
            if url == "pods" and not params:
                return tuple(await list_pods(self.client))
            return tuple(await self.client.list(url, base=base, **params))
        except Refused as error:
            if error.code not in (FORBIDDEN, ABSENT):
                raise
            if error.code == FORBIDDEN:
                self._note(url.rpartition("/")[2])
            return ()

    async def events(self, namespace: str, **selected: str) -> tuple[Json, ...]:
        """Return events of one namespace, or of all namespaces if `namespace` is empty.

        Args:
            selected: Field selector: names of event fields, with `_` for `.`, and their values.
        """
        fields = ",".join(f"{key.replace('_', '.')}={value}" for key, value in selected.items())
        url = f"namespaces/{namespace}/events" if namespace else "events"
        return await self.listed(url, **({"fieldSelector": fields} if fields else {}))

    async def log(self, pod: Json, container: str, *, ended: bool = True) -> str:
        """Return the end of the log of a container; empty if there is no log.

        Args:
            ended: Whether the container ended, so that the log of its last run comes first.
        """
        meta = pod["metadata"]
        url = f"namespaces/{meta['namespace']}/pods/{meta['name']}/log"
        query = {
            "container": container,
            "tailLines": str(LOG_LINES),
            "limitBytes": str(LOG_BYTES),
        }
        for params in ({**query, "previous": "true"}, query) if ended else (query,):
            try:
                text = str(await self.client.request("GET", url, params=params, parse=False))
            except Refused as error:
                if error.code == FORBIDDEN:
                    self._note("logs of containers")
                    return ""
                continue
            if text.strip() and not text.startswith(NO_LOG):
                return text
        return ""

    def _note(self, resource: str) -> None:
        if resource not in self.refused:
            self.refused.append(resource)

    async def around(self, pod: Json) -> Around:
        """Return a pod's events, and logs of containers that ended or that the pod waits for."""
        meta = pod["metadata"]
        events = await self.events(meta["namespace"], involvedObject_uid=str(meta.get("uid") or ""))
        ended = [str(status["name"]) for status in containers.crashed(pod)]
        logs = {name: await self.log(pod, name) for name in ended[:CAUSES]}
        for status in containers.waiting_inside(pod)[:CAUSES]:
            name = str(status["name"])
            logs[name] = await self.log(pod, name, ended=False)
        return Around(events=events, logs=logs, now=datetime.now(UTC))

    async def with_cluster(self, namespace: str, around: Around, pod: Json | None = None) -> Around:
        """Return `around` with more objects of the cluster.

        Args:
            namespace: Namespace whose ResourceQuotas are read, in addition to all nodes and pods.
            around: The objects that were read already.
            pod: The pod; its claims, the devices of DRA drivers and its Workload are read if it
                needs them. None: the controllers of the namespace are read.
        """
        slices: tuple[Json, ...] = ()
        claims: tuple[Json, ...] = ()
        workloads: tuple[Json, ...] = ()
        controllers: tuple[Json, ...] = ()
        space, devices = f"namespaces/{namespace}", "/apis/resource.k8s.io"
        spec = pod["spec"] if pod else {}
        if spec.get("resourceClaims"):
            claims = await self.listed(f"{space}/resourceclaims", base=devices)
        if pod and (spec.get("resourceClaims") or device_requests(pod)):
            slices = await self.listed("resourceslices", base=devices)
        if any(gate.get("name") == KUEUE for gate in spec.get("schedulingGates") or []):
            listed = await self.listed(f"{space}/workloads", base="/apis/kueue.x-k8s.io")
            workloads = tuple(
                workload for workload in listed if pod and _is_workload_of(workload, pod)
            )
        if pod is None:
            controllers = await self.controllers(namespace)
        return replace(
            around,
            nodes=await self._listed_once("nodes"),
            pods=await self._listed_once("pods"),
            quotas=await self.listed(f"{space}/resourcequotas"),
            slices=slices,
            claims=claims,
            workloads=workloads,
            controllers=controllers,
        )

    async def _listed_once(self, url: str) -> tuple[Json, ...]:
        if url not in self.cluster:
            self.cluster[url] = await self.listed(url)
        return self.cluster[url]

    async def controllers(self, namespace: str) -> tuple[Json, ...]:
        """Return the objects of a namespace that create pods, each with its kind."""
        # In lists of the API server, items have no field `kind`.
        return tuple(
            [
                {**item, "kind": kind}
                for base, kinds in CONTROLLERS.items()
                for resource, kind in kinds.items()
                for item in await self.listed(f"namespaces/{namespace}/{resource}", base=base)
            ]
        )


def _is_workload_of(workload: Json, pod: Json) -> bool:
    """Return whether a Workload of Kueue is that of a pod, or of the pod's controller."""
    meta = pod["metadata"]
    uids = {meta.get("uid"), *(owner.get("uid") for owner in meta.get("ownerReferences") or [])}
    return any(
        owner.get("uid") in uids for owner in workload["metadata"].get("ownerReferences") or []
    )


async def explained(
    client: Client, pod: Json, *, shared: Reader | None = None, trusted: bool = True
) -> Cause | None:
    """Return the cause why a pod of the platform does not run, or None.

    For a pod without a node,
    nodes and pods are read as `gpu-cluster why` reads them: the scheduler's words alone don't say
    whether waiting can help.

    Args:
        shared: Reader that keeps the lists of nodes and pods for several pods; None: a new one.
        trusted: Whether only people whom the stack trusts can write events in the pod's namespace;
            their words then choose the cure.
    """
    reader = shared or Reader(client)
    around = await reader.around(pod)
    if not pod["spec"].get("nodeName"):
        around = await reader.with_cluster(pod["metadata"]["namespace"], around, pod)
    return cause_of(pod, replace(around, trusted_events=trusted))


async def lines(
    client: Client, pods: Collection[Json], shared_spaces: Collection[str] = ()
) -> list[str]:
    """Return one line with cause and cure for each pod that does not run, up to a maximum.

    Args:
        shared_spaces: As of `lines_of_node`.
    """
    waiting = [pod for pod in pods if not is_ready(pod)][:CAUSES]
    reader = Reader(client)

    async def cause_of_pod(pod: Json) -> Cause | None:
        trusted = pod["metadata"]["namespace"] not in shared_spaces
        return await explained(client, pod, shared=reader, trusted=trusted)

    causes = await gather(cause_of_pod, waiting)
    return [
        f"pod {printable(pod['metadata']['namespace'], 63)}/"
        f"{printable(pod['metadata']['name'], 253)}: {cause}"
        for pod, cause in zip(waiting, causes, strict=True)
        if cause
    ]


async def lines_of_node(
    client: Client, node: str, namespaces: Collection[str], shared_spaces: Collection[str] = ()
) -> list[str]:
    """Return the causes why the platform's DaemonSets have no running pod on a node.

    Pods come first. Without a pod on the node, the causes why the DaemonSets want or create none.

    Args:
        namespaces: Namespaces of the DaemonSets that provide GPUs; those of `kube-system` count,
            too.
        shared_spaces: Those of the namespaces in which others than the stack may write events, such
            as that of an adopted device plugin. Their events are quoted and choose no cure.
    """
    if wanted := await lines_of_wanted(client, node, namespaces, shared_spaces):
        return wanted
    return await unwanted_daemons(client, node, sorted(namespaces))


async def lines_of_wanted(
    client: Client, node: str, namespaces: Collection[str], shared_spaces: Collection[str] = ()
) -> list[str]:
    """Return the causes why pods of the platform's DaemonSets don't run on a node.

    Pods of device plugins come first. If no pod is on the node, the causes why the DaemonSets can't
    create pods. A DaemonSet of a tenant isn't named, whatever its image.

    Args:
        namespaces: As of `lines_of_node`.
        shared_spaces: As of `lines_of_node`.
    """
    spaces = sorted({*namespaces, KUBE_SYSTEM})
    pods = await client.list("pods", fieldSelector=f"spec.nodeName={node}")
    daemons = [
        pod
        for pod in pods
        if pod["metadata"]["namespace"] in spaces
        and (owner_of(pod) or {}).get("kind") == "DaemonSet"
    ]
    first_plugins = sorted(daemons, key=lambda pod: not allocates_gpus(pod))
    if cause_lines := await lines(client, first_plugins, shared_spaces):
        return cause_lines
    causes = [
        await refused_daemons(client, namespace, trusted=namespace not in shared_spaces)
        for namespace in sorted(namespaces)
    ]
    return [str(cause) for of_one in causes for cause in of_one][:CAUSES]


async def unwanted_daemons(client: Client, name: str, namespaces: Collection[str]) -> list[str]:
    """Return why DaemonSets that allocate GPUs want no pod on a node; empty if one wants it.

    The DaemonSet controller judges as the scheduler does, and writes no event.
    """
    reader, lines_of_sets = Reader(client), []
    nodes = await reader.listed("nodes", fieldSelector=f"metadata.name={name}")
    for namespace in namespaces if nodes else ():
        url = f"namespaces/{namespace}/daemonsets"
        for item in await reader.listed(url, base="/apis/apps"):
            manager = daemon_set(item)
            if manager is None or manager.what == NFD:
                continue
            cause = barred(item["spec"]["template"], nodes[0])
            if cause is None or cause.kind is Kind.CORDON:
                return []
            owner = f"DaemonSet {printable(namespace, 63)}/{printable(manager.name, 253)}"
            wanted = item.get("status", {}).get("desiredNumberScheduled", 0)
            lines_of_sets.append(
                f"{owner} wants no pod on the node ({wanted} in all): the node {cause.text}; "
                f"cure: {cause.cure.replace('the pod', 'the DaemonSet')}"
            )
    return lines_of_sets[:CAUSES]


async def refused_daemons(client: Client, namespace: str, *, trusted: bool = True) -> list[Cause]:
    """Return the causes why DaemonSets of a namespace of the platform can't create pods.

    Args:
        trusted: Whether only people whom the stack trusts can write events there.
    """
    chosen = {"involvedObject_kind": "DaemonSet", "reason": CREATE}
    reader = Reader(client)
    sets = await reader.listed(f"namespaces/{namespace}/daemonsets", base="/apis/apps")
    events = await reader.events(namespace, **chosen) if sets else ()
    refusals = refusals_of(events, trusted=trusted)
    causes = [
        replace(cause, text=f"in namespace {namespace}, {cause.text}")
        for item in sets
        if (cause := explain_refusal({**item, "kind": "DaemonSet"}, refusals))
    ]
    return causes[:CAUSES]


async def refused_jobs(client: Client, namespace: str, jobs: Collection[Json]) -> dict[str, str]:
    """Return the newest reason why each Job of a namespace can't create pods, by the Job's UID."""
    chosen = {"involvedObject_kind": "Job", "reason": CREATE}
    refusals = refusals_of(await Reader(client).events(namespace, **chosen), trusted=True)
    return {
        str(job["metadata"]["uid"]): str(cause)
        for job in jobs
        if (cause := explain_refusal({**job, "kind": "Job"}, refusals))
    }
