"""The rulebook: pure functions over plain manifests, without Pulumi.

The public face, used by the pack, the checker, admission and the program; it only grows:

- `RULES`: every rule by its id; `Rule.severity` is its default level, `Rule.whole` says that it
  judges what is missing, `Rule.needs` what must be known of the cluster.
- `Context`: what is known of the cluster; every field has a default that means "not known".
- `evaluate(manifest, context, partial=False)`: the violations of one manifest (or `List`).
- `Violation`: rule, severity in this context, subject, container, path, found, wanted, cure, and
  `message`, all of them in one line.
- `UNKNOWN`: stands in a manifest for a value that is not known yet.

Everything else (`policies.rules.<module>`) is the rulebook's own.
"""

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
