"""The least roles for previews and deployments, from what the program was seen to ask for.

An API server's audit log says who asked for what. Requests of this program and its plugins become
a ClusterRole each for previews and deployments: nothing that no request needed is in them, but for
`bind` and `escalate`, which a log doesn't show (`BEYOND`). A preview reads Secrets by a Role in
each release's namespace.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import yaml

Json = dict[str, Any]

#: How the parts call themselves: the program's client, Pulumi's plugin, Helm inside of it.
AGENTS = ("gpu-cluster/", "pulumi-kubernetes/", "Helm/")
RBAC = "rbac.authorization.k8s.io"
#: A preview's: without the right to them Pulumi's plugin compares on its own, as
#: tests/e2e/test_stack.py shows. Deployments ask for the same in earnest.
DRY_RUN = "dryRun=All"
#: Who writes roles and bindings must hold all that they give, or these, both on roles: `escalate`
#: to write one, `bind` to bind one (Kubernetes documentation, "Privilege escalation prevention and
#: bootstrapping"). Charts bring roles of their own.
ROLES = ("clusterroles", "roles")
BEYOND = frozenset({"bind", "escalate"})
#: What an applied object that wasn't there is answered with. The API server asks its authorizer for
#: `create` then, in addition to the patch that a log shows (k8s.io/apiserver v0.34.4
#: pkg/endpoints/handlers/patch.go, createValidation).
CREATED = 201
_WRITES = ("create", "update", "patch")


@dataclass(frozen=True, order=True)
class Request:
    """One kind of request: by resource, or by path where it asks for none (``/version``)."""

    group: str = ""
    resource: str = ""
    verb: str = ""
    path: str = ""


def requests(lines: Iterable[str]) -> set[Request]:
    """What the program asked for in an audit log, a JSON object a line."""
    asked_for = set()
    for line in lines:
        event = json.loads(line)
        if not event.get("userAgent", "").startswith(AGENTS) or DRY_RUN in event["requestURI"]:
            continue
        asked = event.get("objectRef")
        if asked and "resource" in asked:
            parts = filter(None, (asked["resource"], asked.get("subresource")))
            kind = Request(asked.get("apiGroup", ""), "/".join(parts), event["verb"])
            asked_for.add(kind)
            if event["verb"] == "patch" and event.get("responseStatus", {}).get("code") == CREATED:
                asked_for.add(replace(kind, verb="create"))
        elif not asked:
            asked_for.add(Request(verb=event["verb"], path=event["requestURI"].partition("?")[0]))
    return asked_for


def _discovery(path: str) -> str:
    """Versions come and go with the cluster: all of an API's are one rule."""
    return next((f"{root}/*" for root in ("/apis", "/api", "/openapi") if path.startswith(root)),
                path)  # fmt: skip


def rules(asked: Iterable[Request]) -> list[Json]:
    """The rules of a role that allows these requests and, of what a log shows, nothing else."""
    verbs: dict[tuple[str, str], set[str]] = defaultdict(set)
    paths: dict[str, set[str]] = defaultdict(set)
    for request in asked:
        if request.path:
            paths[_discovery(request.path)].add(request.verb)
        else:
            verbs[request.group, request.resource].add(request.verb)
    for (group, resource), resource_verbs in verbs.items():
        if group == RBAC and resource in ROLES and resource_verbs & set(_WRITES):
            resource_verbs |= BEYOND
    together: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource), resource_verbs in sorted(verbs.items()):
        together[group, tuple(sorted(resource_verbs))].append(resource)
    result: list[Json] = [
        {"apiGroups": [group], "resources": resources, "verbs": list(allowed)}
        for (group, allowed), resources in sorted(together.items())
    ]
    by_verbs: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for path, resource_verbs in sorted(paths.items()):
        by_verbs[tuple(sorted(resource_verbs))].append(path)
    result += [{"nonResourceURLs": urls, "verbs": list(v)} for v, urls in sorted(by_verbs.items())]
    return result


def role(name: str, asked: Iterable[Request]) -> Json:
    """The ClusterRole of that name."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"gpu-cluster-{name}"},
        "rules": rules(asked),
    }


def allows(declared: Json, asked: Request) -> bool:
    """Whether a role allows a request, as the API server judges (plugin/pkg/auth, RBAC)."""
    return any(_matches(rule, asked) for rule in declared["rules"])


def _matches(rule: Json, asked: Request) -> bool:
    if not {asked.verb, "*"} & set(rule["verbs"]):
        return False
    if asked.path:
        return any(
            asked.path == url or (url.endswith("*") and asked.path.startswith(url[:-1].rstrip("/")))
            for url in rule.get("nonResourceURLs", [])
        )
    return bool(
        {asked.group, "*"} & set(rule.get("apiGroups", []))
        and {asked.resource, "*"} & set(rule.get("resources", []))
    )


def text(declared: Iterable[Json], head: str) -> str:
    """Return roles as their committed file holds them."""
    comment = "".join(f"# {line}\n" for line in head.splitlines())
    return comment + yaml.safe_dump_all(declared, sort_keys=False)
