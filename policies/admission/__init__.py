"""The GPU rules as ValidatingAdmissionPolicies in CEL, which the API server evaluates."""

from .grants import OPT_OUT
from .manifests import ACTIONS, Enforcement, manifests

__all__ = ["ACTIONS", "OPT_OUT", "Enforcement", "manifests"]
