"""Readers of what commands get from API servers, forges, registries and repositories."""

from __future__ import annotations

import asyncio
import io
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from copy import deepcopy
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from gpu_cluster.charts import availability, oci
from gpu_cluster.commands import package_versions, usage, who, why
from gpu_cluster.commands.adoption.propose import propose
from gpu_cluster.commands.adoption.read import read_cluster
from gpu_cluster.commands.adoption.stack_text import new_text
from gpu_cluster.commands.forges.comment_markdown import mark, outdated
from gpu_cluster.commands.forges.forge import Forge, publish
from gpu_cluster.commands.forges.github import GitHub, pull_of
from gpu_cluster.commands.forges.gitlab import GitLab, change_document, forks, open_merge_requests
from gpu_cluster.commands.refused_workloads import violations_of, workloads_of
from gpu_cluster.desired.pool import Members
from gpu_cluster.settings.hosts.repository import Repositories, Repository
from gpu_rules.check import baseline
from gpu_rules.rules import Context, PoolFacts
from tests.fixtures.api import client
from tests.proofs.attacks import fuzz

Json = dict[str, Any]
Shape = Callable[[int], Any]
NOW = datetime(2026, 1, 4, tzinfo=UTC)
TEAM = "team"
GROUPS = {"argoproj.io"}
"""Groups of the API that a fake API server serves."""
EMPTY = {
    *("pods", "events", "nodes", "namespaces", "resourcequotas", "limitranges", "secrets"),
    *("daemonsets", "deployments", "replicasets", "statefulsets", "jobs", "applications"),
    *("priorityclasses", "runtimeclasses", "resourceclaims", "poddisruptionbudgets"),
}
"""Resources of which a fake API server serves an empty list if it has no objects of them."""


def rows(number: int, make: Callable[[int], Any]) -> list[Any]:
    """Return as many items, each made from its number."""
    return [make(row) for row in range(number)]


def api(objects: Mapping[str, list[Json]]) -> Callable[[httpx.Request], httpx.Response]:
    """Return a function that serves lists of objects, by the name of their resource."""

    def respond(request: httpx.Request) -> httpx.Response:
        name = request.url.path.rstrip("/").rpartition("/")[2]
        if name == "version":
            return httpx.Response(200, json={"gitVersion": "v1.36.3"})
        if name == "apis":
            return httpx.Response(200, json={"groups": []})
        if name in GROUPS:
            return httpx.Response(200, json={"preferredVersion": {"version": "v1"}})
        if name in objects:
            return httpx.Response(200, json={"metadata": {}, "items": objects[name]})
        if name in EMPTY:
            return httpx.Response(200, json={"metadata": {}, "items": []})
        status = {"kind": "Status", "code": 404, "message": "not found", "reason": "NotFound"}
        return httpx.Response(404, json=status)

    return respond


# --- who ---------------------------------------------------------------------------------------


def _node(number: int, resource: str = "nvidia.com/gpu") -> Json:
    return {
        "metadata": {"name": f"n{number}", "labels": {"a": "b"}},
        "spec": {},
        "status": {
            "allocatable": {resource: "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(number: int, node: str, namespace: str = TEAM, resource: str = "nvidia.com/gpu") -> Json:
    limits = {"resources": {"limits": {resource: "1"}}}
    return {
        "metadata": {
            "name": f"p{number}",
            "namespace": namespace,
            "uid": f"u{number}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "a", **limits}]},
        "status": {"phase": "Running" if node else "Pending"},
    }


def _claim(number: int, user: int, node: int) -> Json:
    result = {"driver": "gpu.nvidia.com", "pool": f"n{node}", "device": f"gpu-{number}"}
    return {
        "metadata": {"name": f"c{number}", "namespace": TEAM, "uid": f"c{number}"},
        "status": {
            "allocation": {"devices": {"results": [{"request": "a", **result}]}},
            "reservedFor": [{"resource": "pods", "name": f"p{user}", "uid": f"u{user}"}],
        },
    }


def _slice(number: int) -> Json:
    pool = {"name": f"n{number}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": f"n{number}", "pool": pool}
    return {"spec": {**spec, "devices": [{"name": f"gpu-{each}"} for each in range(8)]}}


WHO: Mapping[str, Shape] = {
    "nodes and pods": lambda n: {
        "nodes": rows(n, _node), "pods": rows(n, lambda i: _pod(i, f"n{i}")),
    },
    "pods of a node": lambda n: {"nodes": [_node(0)], "pods": rows(n, lambda i: _pod(i, "n0"))},
    "pods of namespaces": lambda n: {
        "nodes": [_node(0)],
        "pods": rows(n, lambda i: _pod(i, "n0", f"team-{i}")),
    },
    "pods that wait": lambda n: {"nodes": [_node(0)], "pods": rows(n, lambda i: _pod(i, ""))},
    "resources of nodes": lambda n: {
        "nodes": rows(n, lambda i: _node(i, f"nvidia.com/mig-{i}g.5gb")),
        "pods": [],
    },
    "resources of pods": lambda n: {
        "nodes": [_node(0)],
        "pods": rows(n, lambda i: _pod(i, "n0", resource=f"nvidia.com/mig-{i}g.5gb")),
    },
    "claims of a pod": lambda n: {
        "nodes": [_node(0)],
        "pods": [_pod(0, "n0")],
        "resourceclaims": rows(n, lambda i: _claim(i, 0, 0)),
        "resourceslices": [_slice(0)],
    },
    "claims, pods and slices": lambda n: {
        "nodes": rows(n, _node),
        "pods": rows(n, lambda i: _pod(i, f"n{i}")),
        "resourceclaims": rows(n, lambda i: _claim(i, i, i)),
        "resourceslices": rows(n, _slice),
    },
}  # fmt: skip
"""Objects that `gpu-cluster who` lists, by what grows."""


def _who(objects: Mapping[str, list[Json]]) -> None:
    """Find and print who holds GPUs."""

    async def read() -> usage.Usage:
        connected = client(api(objects))
        listed = await usage.listed(connected)
        pool = Members(
            context="c", pool="a", nodes=tuple(node["metadata"]["name"] for node in listed.nodes)
        )
        return usage.usage("dev", (pool,), {"nvidia.com/gpu"}, listed)

    with redirect_stdout(io.StringIO()):
        who.show(asyncio.run(read()), NOW)


# --- adopt -------------------------------------------------------------------------------------

_CLUSTER: Json = fuzz.corpus()["cluster"][0]
_MOUNT = "/var/lib/kubelet/device-plugins"


def _daemon_set(number: int, **metadata: Any) -> Json:
    """Return a device plugin's DaemonSet, which a release of its own created."""
    made = deepcopy(_CLUSTER["set"])
    notes = {
        "meta.helm.sh/release-name": f"r{number}",
        "meta.helm.sh/release-namespace": "kube-system",
    }
    made["metadata"] = {
        "name": f"d{number}", "namespace": "kube-system", "annotations": notes, **metadata,
    }  # fmt: skip
    pod = made["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "plugins", "hostPath": {"path": _MOUNT}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "plugins", "mountPath": _MOUNT}]
    return {**made, "kind": "DaemonSet"}


def _observed_node(number: int, **labels: str) -> Json:
    made: Json = deepcopy(_CLUSTER["node"])
    made["metadata"]["name"] = f"gpu-{number}"
    made["metadata"]["labels"] |= labels
    return made


def _operator(number: int) -> Json:
    pod = {"containers": [{"name": "c", "image": "nvcr.io/nvidia/gpu-operator:v1"}]}
    metadata = {"name": f"o{number}", "namespace": f"s{number}"}
    return {"metadata": metadata, "spec": {"template": {"spec": pod}}}


def _application(number: int) -> Json:
    metadata = {"name": f"a{number}", "namespace": "argocd", "uid": f"a{number}"}
    resources = [{"kind": "DaemonSet", "group": "apps", "name": f"d{number}"}]
    return {"metadata": metadata, "spec": {}, "status": {"resources": resources}}


ADOPTED: Mapping[str, Shape] = {
    "nodes": lambda n: {"nodes": rows(n, _observed_node)},
    "nodes with labels of their own": lambda n: {
        "nodes": rows(n, lambda i: _observed_node(i, **{f"l{i}": "a"}))
    },
    "kinds of nodes": lambda n: {
        "nodes": rows(n, lambda i: _observed_node(i, **{"nvidia.com/gpu.product": f"P{i}"}))
    },
    "nodes and releases": lambda n: {
        "nodes": rows(n, _observed_node), "daemonsets": rows(n, _daemon_set),
    },
    "device plugins of one release": lambda n: {
        "nodes": [_observed_node(0)],
        "daemonsets": rows(n, lambda i: {**_daemon_set(0), "metadata": {
            **_daemon_set(0)["metadata"], "name": f"d{i}"}}),
    },
    "device plugins without a release": lambda n: {
        "nodes": [_observed_node(0)],
        "daemonsets": rows(n, lambda i: _daemon_set(i, annotations={})),
    },
    "operators": lambda n: {
        "nodes": [_observed_node(0)], "deployments": rows(n, _operator),
        "daemonsets": rows(n, lambda i: _daemon_set(i, namespace=f"s{i}")),
    },
    "runtime classes": lambda n: {
        "nodes": [_observed_node(0)],
        "runtimeclasses": rows(n, lambda i: {"metadata": {"name": f"c{i}"}, "handler": "h"}),
    },
    "applications": lambda n: {
        "nodes": [_observed_node(0)], "daemonsets": rows(n, _daemon_set),
        "applications": rows(n, _application),
    },
}  # fmt: skip
"""Objects that `gpu-cluster adopt` lists, by what grows."""


def _adopt(objects: Mapping[str, list[Json]]) -> None:
    """Read a cluster and write the stack file that adopts it."""
    observed = asyncio.run(read_cluster(client(api(objects))))
    proposal = propose(observed, "test")
    str(proposal.refused), str(proposal.notes)
    new_text(proposal.settings)


# --- why ---------------------------------------------------------------------------------------


def _why(objects: Mapping[str, list[Json]]) -> None:
    """Explain why the first pod doesn't run."""
    asyncio.run(why.found(client(api(objects)), TEAM, "p0", {}))


def _waiting(number: int) -> Json:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
    }
    made = _pod(number, "")
    return {**made, "status": {"phase": "Pending", "conditions": [condition]}}


def _event(number: int) -> Json:
    involved = {"kind": "Pod", "name": "p0", "namespace": TEAM, "uid": "u0"}
    return {
        "metadata": {"name": f"e{number}", "namespace": TEAM},
        "reason": "FailedScheduling",
        "message": f"0/{number} nodes are available",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "involvedObject": involved,
    }


def _refusal(number: int) -> Json:
    """Return an event about pods that a controller which is gone could not create."""
    event = _event(number)
    about = {**event["involvedObject"], "kind": "Job", "uid": f"gone{number}"}
    return {**event, "reason": "FailedCreate", "involvedObject": about}


def _quota(number: int) -> Json:
    amount = {"requests.nvidia.com/gpu": "1"}
    return {"metadata": {"name": f"q{number}"}, "status": {"hard": amount, "used": amount}}


WHY: Mapping[str, Shape] = {
    "events": lambda n: {"pods": [_waiting(0)], "events": rows(n, _event)},
    "quotas": lambda n: {"pods": [_waiting(0)], "resourcequotas": rows(n, _quota)},
    "nodes": lambda n: {"pods": [_waiting(0)], "nodes": rows(n, _node)},
    "nodes and pods": lambda n: {
        "pods": [_waiting(0), *rows(n, lambda i: _pod(i + 1, f"n{i}"))],
        "nodes": rows(n, _node),
    },
    "pods of a node": lambda n: {
        "pods": [_waiting(0), *rows(n, lambda i: _pod(i + 1, "n0"))],
        "nodes": [_node(0)],
    },
    "controllers of a missing pod, and events": lambda n: {
        "jobs": rows(n, lambda i: {"metadata": {"name": f"p0-{i}", "uid": f"u{i}"}}),
        "events": rows(n, _refusal),
    },
}
"""Objects that `gpu-cluster why` lists, by what grows."""


# --- running workloads that guardrails refuse --------------------------------------------------

_RULES = Context(pools=(PoolFacts("a", 8, nodes=1),), max_gpus_per_pod=8)


def _refused(pods: list[Json]) -> None:
    workloads_of([pod for pod in pods if violations_of(pod, _RULES)], _RULES)


def _privileged(number: int, **metadata: Any) -> Json:
    made = _pod(number, "n0")
    made["metadata"] |= metadata
    made["spec"]["hostPID"] = True
    return made


RUNNING: Mapping[str, Shape] = {
    "pods": lambda n: rows(n, _privileged),
    "pods of a workload": lambda n: rows(
        n,
        lambda i: _privileged(
            i, ownerReferences=[{"kind": "ReplicaSet", "name": "a-5d", "controller": True}]
        ),
    ),
    "containers": lambda n: [
        {**_privileged(0), "spec": {"hostPID": True, "containers": rows(
            n, lambda i: {"name": f"c{i}", "image": "a",
                          "resources": {"limits": {"nvidia.com/gpu": "1"}}})}}
    ],
}  # fmt: skip
"""Running pods, by what grows."""


# --- forges ------------------------------------------------------------------------------------

ME = 7
"""Number of the user whose token reads a forge."""


def _forge(answers: Mapping[str, Any]) -> Callable[[httpx.Request], httpx.Response]:
    """Return a function that serves a forge: lists by the end of their path, in pages."""

    def respond(request: httpx.Request) -> httpx.Response:
        if request.method != "GET":
            return httpx.Response(200, json={})
        value = answers.get(request.url.path.rpartition("/")[2], {})
        if isinstance(value, list) and "page" in request.url.params:
            size = int(request.url.params["per_page"])
            start = (int(request.url.params["page"]) - 1) * size
            return httpx.Response(200, json=value[start : start + size])
        return httpx.Response(200, json=value)

    return respond


def _note(number: int, body: str, author: int = ME) -> Json:
    login = "github-actions[bot]" if author == ME else "mallory"
    named = {"id": author, "login": login}
    return {"id": number, "body": body, "author": named, "user": named}


def _commented(notes: list[Json]) -> None:
    """Read the notes of a pull request at both forges, and update the comment."""
    answers = {"user": {"id": ME}, "notes": notes, "comments": notes, "labels": [],
               "1": {"labels": []}}  # fmt: skip
    with httpx.Client(
        transport=httpx.MockTransport(_forge(answers)), base_url="https://forge"
    ) as session:
        forges: tuple[Forge, ...] = (GitLab(session, "a/b", 1), GitHub(session, "a/b", 1))
        for forge in forges:
            publish(forge, "dev", f"{mark('dev', ())}\nnew", outdated)
            publish(forge, "dev", None, outdated)


def notes(pieces: Iterable[str]) -> Iterator[tuple[str, Shape]]:
    """Yield notes of pull requests, by what grows."""
    own = mark("dev", ("gpus",))
    yield "notes of others", lambda n: rows(n, lambda i: _note(i, f"{own} x", ME + 1 + i))
    yield "notes of ours", lambda n: rows(n, lambda i: _note(i, f"{own}\nx"))
    yield "stacks", lambda n: rows(n, lambda i: _note(i, f"{mark(f's{i}', ('gpus',))}\nx"))
    yield "labels", lambda n: [_note(0, own.replace("gpus", "gpus," * n))]
    for piece in pieces:
        yield f"{piece!a} again", partial(_repeated_note, own, piece)
        yield f"{piece!a} in place of a mark", partial(_repeated_note, "<!-- gpu-cluster ", piece)


def _repeated_note(start: str, piece: str, number: int) -> list[Json]:
    text = (piece * number).encode("utf-8", "replace").decode()
    return [_note(0, f"{start}{text}"), _note(1, f"{start}\n{text}")]


def _requests(answers: Mapping[str, Any]) -> None:
    """Find pull requests, and the change document of each one."""
    with httpx.Client(
        transport=httpx.MockTransport(_forge(answers)), base_url="https://forge"
    ) as session:
        pull_of(session, "a/b", "ann:branch", "a" * 40)
        forks(session, "a/b", "main")
        for number, commit in open_merge_requests(session, "a/b")[:1]:
            change_document(session, "a/b", number, commit, "preview dev")


def _merge_request(number: int) -> Json:
    return {"iid": number + 1, "sha": "a" * 40, "number": number, "target_branch": "main",
            "head": {"label": f"ann:b{number}", "sha": "a" * 40}}  # fmt: skip


def _requested(requests: int = 1, pipelines: int = 1, jobs: int = 1) -> Json:
    return {
        "merge_requests": rows(requests, _merge_request),
        "pulls": rows(requests, _merge_request),
        "pipelines": rows(
            pipelines, lambda i: {"id": i, "project_id": 5, "sha": ("b" if i else "a") * 40}
        ),
        "jobs": rows(jobs, lambda i: {"id": i, "name": "preview dev"}),
    }


REQUESTS: Mapping[str, Shape] = {
    "requests": lambda n: _requested(requests=n),
    "pipelines": lambda n: _requested(pipelines=n),
    "jobs": lambda n: _requested(jobs=n),
    "words": lambda n: {
        **_requested(),
        "merge_requests": [{**_merge_request(0), "title": "a " * n}],
    },
}
"""Pull requests of a forge, by what grows."""


# --- charts, packages, reports -----------------------------------------------------------------


def _index(text: str) -> None:
    availability._archive_url(text.encode("utf-8", "replace"), "https://a/", "chart", "9")


def indices(texts: Mapping[str, Shape]) -> Mapping[str, Shape]:
    """Return indices of a chart repository, by what grows."""
    entry = "  - {{version: 1.{}, urls: [a.tgz]}}"
    return {
        **texts,
        "versions": lambda n: "entries:\n  chart:\n" + "\n".join(rows(n, entry.format)),
        "charts": lambda n: "entries:\n" + "\n".join(
            rows(n, lambda i: f"  c{i}:\n  - {{version: 1, urls: [a.tgz]}}")),
        "addresses": lambda n: "entries:\n  chart:\n  - {version: 9, urls: [" + "a/../" * n + "]}",
    }  # fmt: skip


def _packages(text: str) -> None:
    """Find the versions of packages in the index of a repository, for both package managers."""
    content = zlib.compress(text.encode("utf-8", "replace"), wbits=31)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "repodata").mkdir()
        Path(folder, "repodata/repomd.xml").write_text('<location href="primary.xml.gz"')
        for name in ("Packages.gz", "primary.xml.gz"):
            Path(folder, name).write_bytes(content)
        url = f"file://{folder}"
        declared = Repository.model_construct(url=url, suite="/", components="")
        for manager in ("apt", "dnf"):
            made: dict[str, Any] = {"apt": None, "dnf": None, manager: declared}
            list(package_versions.listing(Repositories.model_construct(**made), "*"))


def packages(texts: Mapping[str, Shape]) -> Mapping[str, Shape]:
    """Return indices of a package repository, by what grows."""
    rpm = '<name>a{}</name><arch>noarch</arch><version epoch="0" ver="1.{}" rel="1"/>\n'
    return {
        **texts,
        "packages": lambda n: "\n".join(rows(n, lambda i: f"Package: a{i}\nVersion: 1.{i}")),
        "versions": lambda n: "\n".join(rows(n, lambda i: f"Package: a\nVersion: 1.{i}~b")),
        "long versions": lambda n: "Package: a\nVersion: " + "1." * n,
        "packages of dnf": lambda n: "".join(rows(n, lambda i: rpm.format(i, i))),
        "open elements": lambda n: "<name>" * n,
        "open versions": lambda n: '<version epoch="' * n,
    }


def _registry(text: str) -> None:
    """Read the manifest of a chart in a registry, and the challenge of the registry."""
    content = text.encode("utf-8", "replace")
    before = oci._read_registry
    try:
        oci._read_registry = lambda url, token: content
        for read in (
            lambda: oci.chart("https://a", "b", "1"),
            lambda: oci._request_token(f'Bearer realm="https://a/",{text}', "https://a"),
        ):
            try:
                read()
            except ValueError:
                continue
    finally:
        oci._read_registry = before


def manifests(texts: Mapping[str, Shape], written: Callable[[Shape, int], str]) -> dict[str, Shape]:
    """Return responses of a registry, by what grows."""

    def layers(number: int) -> Json:
        return {"layers": rows(number, lambda i: {"digest": f"sha256:{i}", "mediaType": oci.CHART})}

    return {**texts, "layers": partial(written, layers)}


def _known(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.json")
        file.write_text(text, errors="replace")
        baseline.read(file)


def reports(texts: Mapping[str, Shape], written: Callable[[Shape, int], str]) -> dict[str, Shape]:
    """Return reports of an earlier check, by what grows."""

    def violations(number: int) -> Json:
        def found(row: int) -> Json:
            texts_of_row = dict.fromkeys(baseline._TEXTS, f"a{row}")
            return {**texts_of_row, "path": "a[0]" * 9, "exemption": ""}

        return {"version": 1, "violations": rows(number, found)}

    return {**texts, "violations": partial(written, violations)}
