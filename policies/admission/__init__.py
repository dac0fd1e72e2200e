"""The GPU rules at admission, as ValidatingAdmissionPolicies in CEL."""

from .grants import OPT_OUT
from .manifests import ACTIONS, Enforcement, manifests

__all__ = ["ACTIONS", "OPT_OUT", "Enforcement", "manifests"]
