"""The rulebook at admission: the same rules as ValidatingAdmissionPolicies in CEL."""

from policies.admission.manifests import OPT_OUT, Enforcement, manifests

__all__ = ["OPT_OUT", "Enforcement", "manifests"]
