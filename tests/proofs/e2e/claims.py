"""Edits of a stack file, and the quantities that a preview claims and a run is measured by.

A measurement reads the API server and the hosts, never the product's own records of GPUs or pods.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gpu_cluster.change.document import Document, Loss
from gpu_cluster.nodes import record
from gpu_rules.kube.gpu_resources import GPU
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import Json, Project

Change = Callable[[Json], None]
NAMESPACE = "namespaces/claims"
PODS = f"{NAMESPACE}/pods"
SETTLED = 3
"""Number of equal readings in a row after which a cluster has settled."""
PAUSE = 5.0
"""Seconds between two readings."""
LIMIT = 120.0
"""Seconds within which a cluster must settle, and a workload must run."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A Deployment with one pod.

    Attributes:
        name: Name of the Deployment.
        node: Node of the pod.
        gpus: Number of GPUs that the pod requests.
    """

    name: str
    node: str
    gpus: int = 0

    @property
    def manifest(self) -> Json:
        """Return the Deployment."""
        labels = {"app": self.name}
        limits = {GPU: str(self.gpus)} if self.gpus else {}
        container = {"name": "main", "image": "sample", "resources": {"limits": limits}}
        tolerations = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
        spec = {
            "nodeSelector": {"kubernetes.io/hostname": self.node},
            "tolerations": tolerations,
            "containers": [container],
        }
        template = {"metadata": {"labels": labels}, "spec": spec}
        return {
            "metadata": {"name": self.name},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }


@dataclass(frozen=True, kw_only=True)
class Edit:
    """An edit of a stack file.

    Attributes:
        kind: Kind of the edit, of which each sample has at least one.
        before: Change of the project's first stack file that gives the deployed one.
        after: Change of the deployed stack file.
        workloads: Workloads that run when the stack file is edited.
    """

    kind: str
    after: Change
    before: Change = lambda _: None
    workloads: tuple[Workload, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Quantities:
    """Effects of a run, as a preview claims them or as they were measured.

    Attributes:
        succeeds: Whether the run succeeds.
        before: Amount of each extended resource that the nodes of each pool advertise before.
        after: The same after the run.
        evicted: Names of the workloads whose pod was evicted.
        drained: Nodes that were cordoned during the run.
        validated: Nodes that the run validated.
        files: Configuration files that the run may change (claimed) or changed, by host.
        resources: The engine's resources that change: operation, type and name.
        down: Largest number of GPUs that new pods get none of at the same time during the run. A
            claim is a bound: a restart may be shorter than the time between two readings.
        is_full_outage: Whether all GPUs are claimed to be out of use at the same time. Then the
            claim is no bound but must be measured, because a platform is removed for seconds.
    """

    succeeds: bool
    before: Mapping[str, Mapping[str, int]]
    after: Mapping[str, Mapping[str, int]]
    evicted: Collection[str] = ()
    drained: Collection[str] = ()
    validated: Collection[str] = ()
    files: Mapping[str, Collection[str]] = field(default_factory=dict)
    resources: Collection[tuple[str, str, str]] = ()
    down: int = 0
    is_full_outage: bool = False


def claimed(document: Document) -> Quantities:
    """Return the quantities that a change document claims; a failed run changes nothing."""
    (cluster,) = document.clusters
    before = {p.pool: {r.name: r.before or 0 for r in p.resources} for p in cluster.pools}
    if not document.succeeded:
        return Quantities(succeeds=False, before=_positive(before), after=_positive(before))
    files: dict[str, set[str]] = {}
    for statement in cluster.files:
        for host in statement.names:
            files.setdefault(host, set()).add(statement.what.removeprefix("/"))
    evicted = {pod.name for pod in cluster.pods if pod.loss is Loss.EVICTED}
    return Quantities(
        succeeds=True,
        before=_positive(before),
        after=_positive({p.pool: {r.name: r.after for r in p.resources} for p in cluster.pools}),
        evicted={name.rsplit("-", 2)[0] for name in evicted},
        drained={node.node for node in cluster.nodes if node.drained},
        validated={node.node for node in cluster.nodes if node.validated},
        files=files,
        resources={(each.operation, each.type, each.name) for each in document.resources},
        down=cluster.down.at_most if cluster.down else 0,
        is_full_outage=cluster.is_full_outage,
    )


def differences(claim: Quantities, measured: Quantities) -> Iterator[str]:
    """Yield the quantities that differ from what was claimed, as text."""
    for name in ("succeeds", "before", "after", "evicted", "drained", "validated", "resources"):
        said, was = getattr(claim, name), getattr(measured, name)
        if isinstance(said, set | frozenset | tuple):
            said, was = sorted(said), sorted(was)
        if said != was:
            yield f"{name}: claimed {said}, measured {was}"
    if measured.down > claim.down or (claim.is_full_outage and measured.down < claim.down):
        yield f"down: claimed at most {claim.down} GPUs at the same time, measured {measured.down}"
    for host, paths in measured.files.items():
        if more := set(paths) - set(claim.files.get(host, ())):
            yield f"files of {host}: changed without a claim: {sorted(more)}"


def _positive(amounts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Return the amounts without zeros and without pools that have none."""
    found = {pool: {name: n for name, n in each.items() if n} for pool, each in amounts.items()}
    return {pool: each for pool, each in found.items() if each}


def advertised(project: Project, pools: Mapping[str, Collection[str]]) -> dict[str, dict[str, int]]:
    """Return the amount of each GPU resource that the nodes of each pool advertise.

    Args:
        project: The project.
        pools: Names of each pool's nodes.
    """
    nodes = {n["metadata"]["name"]: n for n in project.request("GET", "nodes")["items"]}
    found: dict[str, dict[str, int]] = {}
    for pool, names in pools.items():
        into = found.setdefault(pool, {})
        for name in names:
            for resource, amount in nodes[name]["status"].get("allocatable", {}).items():
                if resource.startswith("nvidia.com/"):
                    into[resource] = into.get(resource, 0) + int(amount)
    return _positive(found)


def records(project: Project) -> dict[str, str]:
    """Return the time of each node's last validation."""
    found = (
        (n["metadata"]["name"], record.decode(n)) for n in project.request("GET", "nodes")["items"]
    )
    return {name: kept.since for name, kept in found if kept is not None}


def settled(read: Callable[[], Any]) -> Any:
    """Return what a function reads as soon as it reads the same several times in a row."""
    deadline = time.monotonic() + LIMIT
    found: list[Any] = []
    while time.monotonic() < deadline:
        found.append(read())
        if len(found) >= SETTLED and all(each == found[-1] for each in found[-SETTLED:]):
            return found[-1]
        time.sleep(PAUSE)
    raise AssertionError(f"the cluster did not settle within {LIMIT:.0f} s: {found[-SETTLED:]}")


@dataclass
class Outages:
    """What was out of use at any moment of a run.

    Attributes:
        cordoned: Nodes that were cordoned.
        down: Largest number of GPUs on nodes that were cordoned, or advertised no GPU, at the same
            time.
    """

    cordoned: set[str] = field(default_factory=set)
    down: int = 0

    def see(self, nodes: Collection[Json], gpus: Mapping[str, int]) -> None:
        """Add the state of the nodes at one moment.

        Args:
            gpus: Number of GPUs of each node that has GPUs before and after the run.
        """
        cordoned = {n["metadata"]["name"] for n in nodes if n["spec"].get("unschedulable")}
        self.cordoned |= cordoned
        down = cordoned | {n["metadata"]["name"] for n in nodes if not _devices(n)}
        self.down = max(self.down, sum(gpus.get(name, 0) for name in down))


def _devices(node: Json) -> int:
    allocatable = node["status"].get("allocatable", {})
    return sum(int(n) for name, n in allocatable.items() if name.startswith("nvidia.com/"))


@contextmanager
def outages(project: Project, gpus: Mapping[str, int]) -> Iterator[Outages]:
    """Record in a thread what is out of use at any moment while the context lasts.

    Args:
        gpus: Number of GPUs of each node that has GPUs before and after the run.
    """
    seen = Outages()
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.2):
            seen.see(project.request("GET", "nodes")["items"], gpus)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def running(project: Project) -> dict[str, str]:
    """Return the UID of each running pod of the workloads, by the Deployment's name."""
    return {
        pod["metadata"]["labels"]["app"]: pod["metadata"]["uid"]
        for pod in project.request("GET", PODS)["items"]
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    }


@contextmanager
def workloads(project: Project, wanted: Collection[Workload]) -> Iterator[None]:
    """Run workloads while the context lasts."""
    url = f"{NAMESPACE}/deployments"
    try:
        for each in wanted:
            project.request("POST", url, base="/apis/apps", body=each.manifest)
        _until(lambda: running(project).keys() == {each.name for each in wanted}, "workloads run")
        yield
    finally:
        for each in wanted:
            project.request("DELETE", f"{url}/{each.name}", base="/apis/apps")
        _until(lambda: not project.request("GET", PODS)["items"], "the workloads are gone")


def _until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not is_so():
        assert time.monotonic() < deadline, f"not within {LIMIT:.0f} s: {what}"
        time.sleep(0.5)


def pools_of(
    document: Json, names: Callable[[Json], Collection[str]]
) -> dict[str, Collection[str]]:
    """Return the names of each pool's nodes in a stack file."""
    return {pool["name"]: names(pool) for pool in document["pools"]}


def files(project: Project, hosts: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the configuration files of hosts: those below /etc, with their digests."""
    return {
        host: {
            path: text
            for path, text in snapshot.host(project.host_root(host)).items()
            if path.startswith("etc/")
        }
        for host in hosts
    }


def changed_files(
    before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]
) -> dict[str, set[str]]:
    """Return the files that differ, without folders, by host."""
    return {
        host: {
            path
            for path in before[host].keys() | after[host].keys()
            if before[host].get(path) != after[host].get(path)
            and not _is_folder(before[host].get(path) or after[host][path])
        }
        for host in before
    }


def _is_folder(text: str) -> bool:
    return text.startswith("0o4")


def resources(answer: str) -> set[tuple[str, str, str]]:
    """Return the resources that the engine changed, from the JSON document of `gpu-cluster up`."""
    return {
        (each["operation"], each["type"], each["name"]) for each in json.loads(answer)["resources"]
    }
