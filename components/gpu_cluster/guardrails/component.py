"""Component that enforces the GPU rules at admission, and sets GPU quotas of namespaces.

The component owns the ValidatingAdmissionPolicies with their bindings, and one ResourceQuota in
each namespace with a declared quota.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pulumi

from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.manifest import Manifest
from gpu_cluster.settings.guardrails import GuardrailsSettings, Quota
from gpu_rules.admission import ACTIONS, Enforcement, manifests
from gpu_rules.context import Context
from gpu_rules.kube.gpu_resources import HAMI_CORES, HAMI_MEMORY
from gpu_rules.rules.claims import OF_A_CLASS

QUOTA: Final = "gpu-cluster"


@dataclass(frozen=True, kw_only=True)
class GuardrailsArgs:
    """Arguments of the component `Guardrails`.

    Attributes:
        context: Facts about the stack that the rules use.
        own: Namespaces of the stack and its platform whose pods are privileged.
        guardrails: Section `guardrails` of the settings.
    """

    context: Context
    own: frozenset[str]
    guardrails: GuardrailsSettings


def enforcement(args: GuardrailsArgs) -> Enforcement:
    """Return the settings of the policies: their action and the namespaces that they exempt.

    Exempt are the declared namespaces, kube-system, and the namespaces of the stack's own
    components, whose pods are privileged and see all GPUs.
    """
    declared = args.guardrails
    excluded = {"kube-system", *args.own, *declared.excluded_namespaces}
    return Enforcement(
        actions=ACTIONS[declared.mode],
        failure_policy=declared.failure_policy.capitalize(),
        excluded=tuple(sorted(excluded)),
    )


def quota(declared: Quota) -> dict[str, Any]:
    """Return the ResourceQuota of a namespace.

    Kubernetes counts extended resources only with the prefix `requests.`; devices of claims are
    counted by device class under a separate name (v1.34.4
    pkg/quota/v1/evaluator/core/{pods,resource_claims}.go).
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
                key: str(count)
                for name, count in sorted(declared.resources.items())
                for key in _quota_keys(name)
            }
        },
    }


def _quota_keys(resource: str) -> tuple[str, ...]:
    """Return the names of a resource in a ResourceQuota.

    The API server counts what containers request. HAMi counts what they get, under a name of its
    own: a container without a share gets the whole memory of its GPUs (Project-HAMi/HAMi v2.10.0,
    pkg/device/quota.go, managedQuotaName). Its webhook and its scheduler enforce that.
    """
    if resource.endswith(OF_A_CLASS):
        return (resource,)
    if resource in (HAMI_MEMORY, HAMI_CORES):
        return (f"limits.{resource}", f"requests.{resource}")
    return (f"requests.{resource}",)


class Guardrails(pulumi.ComponentResource):
    """The GPU rules in the cluster: admission policies, bindings and quotas."""

    TYPE = "gpucluster:index:Guardrails"

    def __init__(
        self, name: str, args: GuardrailsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Declare the policies, bindings and quotas."""
        super().__init__(self.TYPE, name, None, opts)
        resources: list[pulumi.Resource] = []
        for manifest in manifests(args.context, enforcement(args)):
            resource_name = f"{name}-{manifest['metadata']['name']}"
            needed: list[pulumi.Resource] = []
            if manifest["kind"] == "ValidatingAdmissionPolicyBinding":
                # A binding enforces its policy, so all policies are created before the binding and
                # deleted after it.
                resource_name, needed = f"{resource_name}-binding", list(resources)
            options = pulumi.ResourceOptions(parent=self, depends_on=needed)
            resources.append(Manifest(resource_name, manifest, options))
        for declared in args.guardrails.quotas:
            Manifest(
                f"{name}-quota-{declared.namespace}",
                quota(declared),
                pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({})
