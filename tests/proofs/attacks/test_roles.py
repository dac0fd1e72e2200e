"""Attack: preview or deploy credentials are used for other purposes; checked without a cluster.

`requests.json` has the program's requests to an API server, taken from the audit log while a stack
was previewed, deployed, previewed again and destroyed. The committed roles are compared with it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from maintenance.roles import Request, requests, role
from tests.proofs.attacks.allowed import allows
from tests.proofs.attacks.record_requests import namespaces, preview_roles

ROOT = Path(__file__).resolve().parents[3]
RECORDED: dict[str, list[dict[str, str]]] = json.loads(
    Path(__file__).with_name("requests.json").read_text()
)
NAMES = ("preview", "deploy")


def recorded(name: str) -> set[Request]:
    return {Request(**request) for request in RECORDED[name]}


def roles(name: str) -> list[dict[str, Any]]:
    """Return the ClusterRole in a committed file, followed by its namespaced Roles."""
    return list(yaml.safe_load_all((ROOT / "policies" / "roles" / f"{name}.yaml").read_text()))


def committed(name: str) -> dict[str, Any]:
    return roles(name)[0]


def everywhere(name: str) -> set[Request]:
    """Return those recorded requests that the ClusterRole must allow."""
    secret = name == "preview"
    return {asked for asked in recorded(name) if not (secret and asked.resource == "secrets")}


@pytest.mark.parametrize("name", NAMES)
def test_a_committed_role_is_what_the_recorded_requests_need(name: str) -> None:
    assert committed(name) == role(name, everywhere(name))
    assert all(allows(committed(name), request) for request in everywhere(name))


@pytest.mark.promise("A preview's role reads Secrets in the namespaces of releases only.")
def test_a_preview_reads_secrets_in_the_namespaces_of_releases_only() -> None:
    cluster_role, *releases = roles("preview")
    assert cluster_role["kind"] == "ClusterRole"
    for verb in ("get", "list", "watch"):
        assert not allows(cluster_role, Request("", "secrets", verb))
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]
    for each in releases:
        assert each["kind"] == "Role"
        assert each["rules"] == rules
    where = [each["metadata"]["namespace"] for each in releases]
    assert where == sorted(namespaces())
    wanted = preview_roles(recorded("preview"), where)
    assert roles("preview") == wanted
    asked = recorded("preview") - everywhere("preview")
    assert asked, "Helm's records"
    assert all(allows(releases[0], request) for request in asked)


@pytest.mark.parametrize("name", NAMES)
def test_no_rule_is_without_a_request_that_needs_it(name: str, record_property: Any) -> None:
    whole = committed(name)
    unused = []
    for number, rule in enumerate(whole["rules"]):
        rest = {**whole, "rules": [*whole["rules"][:number], *whole["rules"][number + 1 :]]}
        if all(allows(rest, request) for request in everywhere(name)):
            unused.append(rule)
    record_property("role rules", len(whole["rules"]))
    record_property("role rules used", len(whole["rules"]) - len(unused))
    assert unused == []


def test_a_preview_can_only_read() -> None:
    reading = {"get", "list", "watch"}
    assert {request.verb for request in recorded("preview")} <= reading
    for rule in committed("preview")["rules"]:
        assert set(rule["verbs"]) <= reading


@pytest.mark.parametrize("name", NAMES)
def test_no_role_allows_everything(name: str) -> None:
    for rule in committed(name)["rules"]:
        assert "*" not in rule["verbs"]
        assert "*" not in rule.get("resources", [])
        assert "*" not in rule.get("apiGroups", [])
    other = Request("", "pods/exec", "create")
    assert not allows(committed(name), other)


def seen(agent: str, verb: str, uri: str, resource: str = "") -> dict[str, Any]:
    """Return one event of an API server's audit log."""
    asked = {"objectRef": {"resource": resource}} if resource else {}
    return {"userAgent": agent, "verb": verb, "requestURI": uri, **asked}


def test_a_log_s_requests_are_the_program_s_only() -> None:
    lines = [
        seen("gpu-cluster/program", "list", "/api/v1/nodes", "nodes"),
        seen("kwok/1", "delete", "/api/v1/nodes/x", "nodes"),
        seen("pulumi-kubernetes/4", "patch", "/api/v1/nodes/x?dryRun=All", "nodes"),
        seen("pulumi-kubernetes/4", "get", "/version?timeout=32s"),
    ]
    assert requests(map(json.dumps, lines)) == {
        Request("", "nodes", "list"),
        Request(verb="get", path="/version"),
    }


def test_an_object_that_is_applied_anew_needs_the_right_to_create_it() -> None:
    made = seen("pulumi-kubernetes/4", "patch", "/api/v1/namespaces/x", "namespaces")
    patch, create = Request("", "namespaces", "patch"), Request("", "namespaces", "create")
    for code, wanted in ((201, {patch, create}), (200, {patch})):
        line = json.dumps({**made, "responseStatus": {"code": code}})
        assert requests([line]) == wanted
