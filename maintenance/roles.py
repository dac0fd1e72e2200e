"""Minimal ClusterRoles for previews and deployments, made from an API server's audit log.

The audit log records which client requested what. The requests of this program and its plugins
become two ClusterRoles, one for previews and one for deployments. They contain only what a request
needed, plus `bind` and `escalate`, which an audit log doesn't show (`BEYOND`). Reading Secrets in
previews is allowed by a separate Role in the namespace of each release.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import yaml

Json = dict[str, Any]

# Prefixes of the user agents of the program's own client, Pulumi's Kubernetes plugin, and Helm in
# that plugin.
AGENTS = ("gpu-cluster/", "pulumi-kubernetes/", "Helm/")
RBAC = "rbac.authorization.k8s.io"
# Part of the URL of dry-run requests, which are left out. Without the permission for them, Pulumi's
# plugin compares objects itself in a preview, as tests/proofs/e2e/test_deployed_stack.py shows.
# Deployments send the same requests without dry run.
DRY_RUN = "dryRun=All"
# A client that writes roles and bindings must have all permissions that they grant, or these verbs:
# `escalate` to write a role, `bind` to bind it (Kubernetes documentation, "Privilege escalation
# prevention and bootstrapping"). Helm charts contain roles, so deployments need both verbs.
ROLES = ("clusterroles", "roles")
BEYOND = frozenset({"bind", "escalate"})
# HTTP status of a server-side apply that created the object. The API server then also requires the
# permission `create`, in addition to `patch`, which is all that the log shows (k8s.io/apiserver
# v0.34.4 pkg/endpoints/handlers/patch.go, createValidation).
CREATED = 201
_WRITES = ("create", "update", "patch")


@dataclass(frozen=True, order=True)
class Request:
    """One kind of request: a verb on a resource, or on another path such as ``/version``."""

    group: str = ""
    resource: str = ""
    verb: str = ""
    path: str = ""


def requests(lines: Iterable[str]) -> set[Request]:
    """Return the kinds of requests that the program sent, from the lines of an audit log (JSON)."""
    asked_for = set()
    for line in lines:
        event = json.loads(line)
        if not event.get("userAgent", "").startswith(AGENTS) or DRY_RUN in event["requestURI"]:
            continue
        resource_reference = event.get("objectRef")
        if resource_reference and "resource" in resource_reference:
            path_parts = filter(
                None, (resource_reference["resource"], resource_reference.get("subresource"))
            )
            kind = Request(
                resource_reference.get("apiGroup", ""), "/".join(path_parts), event["verb"]
            )
            asked_for.add(kind)
            if event["verb"] == "patch" and event.get("responseStatus", {}).get("code") == CREATED:
                asked_for.add(replace(kind, verb="create"))
        elif not resource_reference:
            asked_for.add(Request(verb=event["verb"], path=event["requestURI"].partition("?")[0]))
    return asked_for


def _discovery_pattern(path: str) -> str:
    """Return the pattern that covers an API discovery path.

    API versions differ between clusters, so one rule covers all versions of an API.
    """
    return next((f"{root}/*" for root in ("/apis", "/api", "/openapi") if path.startswith(root)),
                path)  # fmt: skip


def rules(requests_sent: Iterable[Request]) -> list[Json]:
    """Return the rules of a role that allows these requests, plus `bind` and `escalate`.

    The two verbs are only added if the requests write roles.
    """
    verbs: dict[tuple[str, str], set[str]] = defaultdict(set)
    paths: dict[str, set[str]] = defaultdict(set)
    for request in requests_sent:
        if request.path:
            paths[_discovery_pattern(request.path)].add(request.verb)
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


def role(name: str, requests_sent: Iterable[Request]) -> Json:
    """Return the ClusterRole ``gpu-cluster-<name>`` that allows the requests."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"gpu-cluster-{name}"},
        "rules": rules(requests_sent),
    }


def text(declared: Iterable[Json], head: str) -> str:
    """Return roles as the text of their committed YAML file, with a comment at the top."""
    comment = "".join(f"# {line}\n" for line in head.splitlines())
    return comment + yaml.safe_dump_all(declared, sort_keys=False)
