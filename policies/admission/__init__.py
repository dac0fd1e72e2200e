"""The GPU rules at admission, as ValidatingAdmissionPolicies in CEL."""

from .grants import OPT_OUT
from .manifests import Enforcement, manifests

__all__ = ["OPT_OUT", "Enforcement", "manifests"]
