"""The rulebook at admission: the same rules as ValidatingAdmissionPolicies in CEL."""

from policies.admission.manifests import OPT_OUT, Enforcement, manifests, twin
from policies.admission.twin import NoTwin, Scope, Twin

__all__ = ["OPT_OUT", "Enforcement", "NoTwin", "Scope", "Twin", "manifests", "twin"]
