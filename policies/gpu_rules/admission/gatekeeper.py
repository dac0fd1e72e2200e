"""The admission policies as ConstraintTemplates and Constraints of Gatekeeper, in the same CEL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ..rules.cel import texts
from .objects import Bound, Json

ENGINE: Final = "K8sNativeValidation"
TARGET: Final = "admission.k8s.gatekeeper.sh"
_ACTIONS: Final = {"Deny": "deny", "Warn": "warn", "Audit": "dryrun"}
_KINDS: Final[Mapping[str, str]] = {
    "configmaps": "ConfigMap",
    "cronjobs": "CronJob",
    "daemonsets": "DaemonSet",
    "deployments": "Deployment",
    "jobs": "Job",
    "limitranges": "LimitRange",
    "namespaces": "Namespace",
    "nodes": "Node",
    "persistentvolumes": "PersistentVolume",
    "pods": "Pod",
    "podtemplates": "PodTemplate",
    "replicasets": "ReplicaSet",
    "replicationcontrollers": "ReplicationController",
    "resourceclaims": "ResourceClaim",
    "resourceclaimtemplates": "ResourceClaimTemplate",
    "resourcequotas": "ResourceQuota",
    "secrets": "Secret",
    "statefulsets": "StatefulSet",
}


def rendered(policies: Sequence[Bound]) -> list[Json]:
    """Return a ConstraintTemplate for each admission policy, and then a Constraint for each.

    The API server knows the kind of a Constraint only after Gatekeeper has read its template.
    """
    return [*map(_constraint_template, policies), *map(_constraint_object, policies)]


def _constraint_kind(bound: Bound) -> str:
    return "".join(word.capitalize() for word in bound.name.split("-"))


def _constraint_template(bound: Bound) -> Json:
    spec = bound.policy["spec"]
    source = {
        "failurePolicy": spec["failurePolicy"],
        # Gatekeeper calls the list by this name in the singular.
        "matchCondition": [_request_condition(spec), *spec.get("matchConditions", [])],
        "variables": spec["variables"],
        "validations": [
            {key: text for key, text in validation.items() if key != "reason"}
            for validation in spec["validations"]
        ],
        "generateVAP": False,
    }
    code = {"engine": ENGINE, "source": source}
    return {
        "apiVersion": "templates.gatekeeper.sh/v1",
        "kind": "ConstraintTemplate",
        "metadata": {**bound.policy["metadata"], "name": _constraint_kind(bound).lower()},
        "spec": {
            "crd": {"spec": {"names": {"kind": _constraint_kind(bound)}}},
            "targets": [{"target": TARGET, "code": [code]}],
        },
    }


def _request_condition(spec: Json) -> Json:
    """Return the match condition that is true for the operations and subresources of a policy.

    A Constraint names kinds only. An audit has objects without an operation.
    """
    rules = spec["matchConstraints"]["resourceRules"]
    operations = {operation for rule in rules for operation in rule["operations"]}
    below = {name.partition("/")[2] for rule in rules for name in rule["resources"]}
    audited = {""} if "CREATE" in operations else set()
    return {
        "name": "operation-and-subresource",
        "expression": f"request.operation in {texts(operations | audited)} && "
        f'request.?subResource.orValue("") in {texts(below)}',
    }


def _constraint_object(bound: Bound) -> Json:
    binding = bound.binding["spec"]
    rules = bound.policy["spec"]["matchConstraints"]["resourceRules"]
    kinds = [
        {
            "apiGroups": rule["apiGroups"],
            "kinds": sorted({_KINDS[name.partition("/")[0]] for name in rule["resources"]}),
        }
        for rule in rules
    ]
    return {
        "apiVersion": "constraints.gatekeeper.sh/v1beta1",
        "kind": _constraint_kind(bound),
        "metadata": bound.policy["metadata"],
        "spec": {
            "enforcementAction": _ACTIONS[binding["validationActions"][0]],
            "match": {"kinds": kinds, **binding.get("matchResources", {})},
        },
    }
