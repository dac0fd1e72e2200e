"""The GPU rules as policies in CEL for the API server, Kyverno and Gatekeeper."""

from .export import TARGETS, Target, exported, judged_partly, left_out, summary
from .grants import OPT_OUT
from .manifests import ACTIONS, Enforcement, manifests

__all__ = [
    "ACTIONS",
    "OPT_OUT",
    "TARGETS",
    "Enforcement",
    "Target",
    "exported",
    "judged_partly",
    "left_out",
    "manifests",
    "summary",
]
