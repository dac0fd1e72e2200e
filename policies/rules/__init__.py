"""The rulebook: pure functions over plain manifests, without Pulumi."""

from policies.rules.context import Context, Pool, Severity, Taint
from policies.rules.registry import RULES, evaluate
from policies.rules.rule import Finding, Need, Rule, Subject, Violation
from policies.rules.unknown import UNKNOWN

__all__ = [
    "RULES",
    "UNKNOWN",
    "Context",
    "Finding",
    "Need",
    "Pool",
    "Rule",
    "Severity",
    "Subject",
    "Taint",
    "Violation",
    "evaluate",
]
