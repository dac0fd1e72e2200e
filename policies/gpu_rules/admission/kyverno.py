"""The admission policies as ValidatingPolicies of Kyverno, which evaluates the same CEL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .objects import Bound, Json

API_VERSION: Final = "policies.kyverno.io/v1"


def rendered(policies: Sequence[Bound]) -> list[Json]:
    """Return a ValidatingPolicy for each admission policy with its binding.

    Kyverno has no bindings, so the policy itself has the actions and the selector of namespaces.
    """
    return [_kyverno_policy(bound) for bound in policies]


def _kyverno_policy(bound: Bound) -> Json:
    spec, binding = bound.policy["spec"], bound.binding["spec"]
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingPolicy",
        "metadata": bound.policy["metadata"],
        "spec": {
            **spec,
            "matchConstraints": {**binding.get("matchResources", {}), **spec["matchConstraints"]},
            "validationActions": binding["validationActions"],
            # There is a separate policy for pod templates, so Kyverno must not generate one.
            "autogen": {"podControllers": {"controllers": []}},
        },
    }
