"""A policy matches every API request that can change a field that a rule reads.

The possible requests come from the discovery of a real API server.
"""

from __future__ import annotations

import dataclasses

import httpx
import pytest

from lab.benchmarks.api_server import ApiServer
from tests.policies.admission import cluster
from tests.policies.admission.surface import (
    FIELDS,
    SAMPLES,
    STORES_NOTHING,
    Change,
    Endpoint,
    Trial,
    endpoints,
    matched,
)

UNMATCHED = {
    "deployments/scale",
    "replicasets/scale",
    "replicationcontrollers/scale",
    "statefulsets/scale",
}
"""Subresources that only change a number of pods.

No rule limits the number of replicas: each pod is checked when it is created, and quotas count it.
"""

POLICIES = cluster.policies(cluster.WARN)


def _judged(rule: cluster.Json) -> set[tuple[str, str]]:
    return {
        (group, resource)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if "/" not in resource and resource != "bindings"
    }


def test_there_is_a_sample_of_each_resource_that_a_policy_matches() -> None:
    rules = [rule for policy in POLICIES for rule in _rules(policy)]
    assert set().union(*map(_judged, rules)) == set(SAMPLES) == set(FIELDS)


def _rules(policy: cluster.Json) -> list[cluster.Json]:
    rules: list[cluster.Json] = policy["spec"]["matchConstraints"]["resourceRules"]
    return rules


@pytest.mark.parametrize("verb", ["update", "patch"])
def test_an_endpoint_is_matched_by_group_resource_subresource_and_operation(verb: str) -> None:
    status = Endpoint("", "v1", "namespaces", "status", verb, "Namespace", "v1", False, True)
    assert matched(POLICIES, status)
    for other in (
        {"group": "apps"},
        {"resource": "services"},
        {"subresource": "other"},
        {"verb": "create", "subresource": "scale"},
    ):
        assert not matched(POLICIES, dataclasses.replace(status, **other))


@pytest.mark.full
@pytest.mark.promise(
    "Every verb of every resource and subresource that a Kubernetes API server lists, and that can "
    "change what a rule at admission reads, is matched by a policy."
)
def test_whatever_changes_what_a_rule_reads_is_matched(alone: ApiServer) -> None:
    trial = Trial(alone.client)
    found = trial.changes()
    _tries_enough(trial, found)
    missed = [change for change in found if not matched(POLICIES, change.endpoint)]
    opened = [str(change) for change in missed if change.endpoint.full not in UNMATCHED]
    assert not opened, "\n".join(["Changes that no policy matches:", *opened])
    assert {change.endpoint.full for change in missed} == UNMATCHED
    assert {change.field for change in missed} == {("spec", "replicas")}


def _tries_enough(trial: Trial, found: list[Change]) -> None:
    """Check that the requests covered all sample objects and all known ways to change a field."""
    known = {
        "bindings": ("spec", "nodeName"),
        "namespaces/finalize": ("metadata", "annotations"),
        "namespaces/status": ("metadata", "labels"),
        "pods": ("spec", "nodeSelector"),
        "pods/binding": ("metadata", "annotations"),
        "pods/ephemeralcontainers": ("spec", "ephemeralContainers"),
        "pods/resize": ("spec", "containers", 0, "resources"),
        "pods/status": ("metadata", "annotations"),
        "resourceclaims/status": ("status", "allocation"),
    }
    seen = {(change.endpoint.full, change.field) for change in found}
    assert set(known.items()) <= seen
    assert {resource for _, resource in SAMPLES} <= {change.resource[1] for change in found}
    assert set(STORES_NOTHING) <= {endpoint.kind for endpoint in trial.endpoints}


@pytest.mark.slow
def test_policies_match_only_what_an_api_server_lists(api: httpx.Client) -> None:
    listed = {(each.group, each.full, each.operation) for each in endpoints(api)}
    named = {
        (group, resource)
        for policy in POLICIES
        for rule in _rules(policy)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert named <= {(group, full) for group, full, _ in listed}
