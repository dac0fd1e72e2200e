"""The rulebook at admission: the same rules as ValidatingAdmissionPolicies in CEL."""

from policies.admission.grants import OPT_OUT
from policies.admission.manifests import Enforcement, manifests

__all__ = ["OPT_OUT", "Enforcement", "manifests"]
