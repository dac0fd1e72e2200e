"""Decide whether an RBAC role allows a request, as the API server does."""

from __future__ import annotations

from maintenance.roles import Json, Request


def allows(declared: Json, asked: Request) -> bool:
    """Check whether an RBAC role allows a request, by the API server's rules (plugin/pkg/auth)."""
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
