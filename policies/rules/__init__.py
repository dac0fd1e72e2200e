"""The rulebook: pure functions over plain manifests, without Pulumi.

The public face, used by the pack, the checker, admission and the program; it only grows:

- `RULES`: every rule by its id; `Rule.severity` is its default level, `Rule.whole` says that it
  judges what is missing, `Rule.needs` what must be known of the cluster.
- `TWINS`, `EXAMPLES`: the CEL twin of each rule, or why it has none, and its example.
- `Context`: what is known of the cluster; every field has a default that means "not known".
- `evaluate(manifest, context, partial=False)`: the violations of one manifest (or `List`).
- `evaluate_stack(manifests, context)`: the violations that need more than one manifest to see, by
  the rules with `Rule.across`; `evaluate` is for the rest.
- `Violation`: rule, severity in this context, subject, container, path, found, wanted, cure, and
  `message`, all of them in one line. Where an annotation exempts the object, `severity` is
  advisory and `exemption` says until when and why (`policies.rules.exemptions`).
- `UNKNOWN`: stands in a manifest for a value that is not known yet.

Everything else (`policies.rules.<module>`) is the rulebook's own. A rule is one module with its
twin, its signs and its example: `<topic>/gpuNNN_<what>.py`. There is nothing else to register.
"""

from .context import Context, Mig, PluginFacts, PoolFacts, Severity, Sharing, TaintFacts
from .registry import EXAMPLES, RULES, TWINS, evaluate, evaluate_stack
from .rule import Finding, Need, Rule, Subject, Violation
from .unknown import UNKNOWN

__all__ = [
    "EXAMPLES",
    "RULES",
    "TWINS",
    "UNKNOWN",
    "Context",
    "Finding",
    "Mig",
    "Need",
    "PluginFacts",
    "PoolFacts",
    "Rule",
    "Severity",
    "Sharing",
    "Subject",
    "TaintFacts",
    "Violation",
    "evaluate",
    "evaluate_stack",
]
