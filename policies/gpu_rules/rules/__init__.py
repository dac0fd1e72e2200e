"""The GPU rules: pure functions over Kubernetes manifests as plain data, without Pulumi.

The policy pack, the checker, the admission policies and the program use the names below. Names are
added, but never removed:

- `RULES`: every rule by its id. `Rule.severity` is the default severity. `Rule.whole` says that the
  rule reports missing fields, so it needs the whole object. `Rule.needs` says which facts about the
  cluster the rule needs.
- `TWINS`: for every rule the CEL expression for admission policies (its twin), or the reason why
  there is none.
- `EXAMPLES`: for every rule a manifest that passes and a manifest that fails.
- `Context`: facts about the cluster; the default of every field means "not known".
- `evaluate(manifest, context, partial=False)`: the violations of one manifest or `List`.
- `evaluate_stack(manifests, context)`: the violations that only several manifests together show
  (rules with `Rule.across`). It does not include the violations that `evaluate` returns.
- `Violation`: rule, severity in this context, object, container, path, found, wanted and cure, and
  `message`, which has all of them in one line. If an annotation exempts the object, `severity` is
  advisory, and `exemption` has the end date and the reason (`gpu_rules.rules.exemptions`).
- `UNKNOWN`: stands in a manifest for a value that is not known yet.

Other modules (`gpu_rules.rules.<module>`) are internal. A rule is one module
`<topic>/gpuNNN_<what>.py` with the rule, its twin and its example; it is found by its file name.
"""

from ..context import Context, Mig, PluginFacts, PoolFacts, Severity, Sharing
from ..kube.taints import NodeTaint
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
    "NodeTaint",
    "PluginFacts",
    "PoolFacts",
    "Rule",
    "Severity",
    "Sharing",
    "Subject",
    "Violation",
    "evaluate",
    "evaluate_stack",
]
