"""The GPU rules at admission, and GPU quotas of namespaces.

Owns the ValidatingAdmissionPolicies with their bindings and their parameter, and a ResourceQuota in
each namespace that has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from components.kubernetes.labels import LABELS
from components.manifest import Manifest
from components.settings.guardrails import GuardrailMode, GuardrailsSettings, Quota
from policies.admission import Enforcement, manifests
from policies.rules import Context, Severity
from policies.rules.claims import OF_A_CLASS

QUOTA: Final = "gpu-cluster"
_ACTIONS: Final[Mapping[GuardrailMode, Mapping[Severity, Sequence[str]]]] = {
    GuardrailMode.ENFORCE: {
        Severity.MANDATORY: ("Deny", "Audit"),
        Severity.ADVISORY: ("Warn", "Audit"),
    },
    GuardrailMode.WARN: dict.fromkeys((Severity.MANDATORY, Severity.ADVISORY), ("Warn", "Audit")),
    GuardrailMode.AUDIT: dict.fromkeys((Severity.MANDATORY, Severity.ADVISORY), ("Audit",)),
}


@dataclass(frozen=True, kw_only=True)
class GuardrailsArgs:
    """What `Guardrails` needs.

    Attributes:
        context: what the rules know of the stack.
        own: namespaces of the stack whose pods are privileged.
        guardrails: the section `guardrails`.
    """

    context: Context
    own: frozenset[str]
    guardrails: GuardrailsSettings


def enforcement(args: GuardrailsArgs) -> Enforcement:
    """How the policies act, and which namespaces they leave alone.

    Those are the declared ones, Kubernetes' own, and those of what the stack itself deploys: its
    pods are privileged and see all GPUs.
    """
    declared = args.guardrails
    excluded = {"kube-system", *args.own, *declared.excluded_namespaces}
    return Enforcement(
        actions=_ACTIONS[declared.mode],
        failure_policy=declared.failure_policy.capitalize(),
        excluded=tuple(sorted(excluded)),
    )


def quota(declared: Quota) -> dict[str, Any]:
    """The ResourceQuota of a namespace.

    Kubernetes counts extended resources under `requests.` only, devices of claims by their class
    under its own name (v1.34.4 pkg/quota/v1/evaluator/core/{pods,resource_claims}.go).
    """
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {
            "name": QUOTA,
            "namespace": declared.namespace,
            "labels": LABELS,
        },
        "spec": {
            "hard": {
                name if name.endswith(OF_A_CLASS) else f"requests.{name}": str(count)
                for name, count in sorted(declared.resources.items())
            }
        },
    }


class Guardrails(pulumi.ComponentResource):
    """Policies, bindings, parameter, quotas."""

    TYPE = "gpucluster:index:Guardrails"

    def __init__(
        self, name: str, args: GuardrailsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        made: list[pulumi.Resource] = []
        for manifest in manifests(args.context, enforcement(args)):
            part = f"{name}-{manifest['metadata']['name']}"
            needed: list[pulumi.Resource] = []
            match manifest["kind"]:
                case "ConfigMap":
                    part = f"{name}-parameter"  # its own name follows from its content
                case "ValidatingAdmissionPolicyBinding":
                    # Objects are judged while the binding is there: what it names comes before it
                    # and goes after it.
                    part, needed = f"{part}-binding", list(made)
            options = pulumi.ResourceOptions(parent=self, depends_on=needed)
            made.append(Manifest(part, manifest, options))
        for declared in args.guardrails.quotas:
            Manifest(
                f"{name}-quota-{declared.namespace}",
                quota(declared),
                pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({})
