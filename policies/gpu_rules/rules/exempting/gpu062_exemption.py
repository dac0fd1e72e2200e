"""Rule GPU062: an exemption must name an existing rule, an end date and a reason."""

from __future__ import annotations

from ...context import Severity
from .. import cel
from ..example import POD, Example, edited
from ..exemptions import PREFIX, RULE_ID
from ..rule import Rule
from ..signs import ANNOTATIONS, Sign
from ..twin import Scope, Twin

# The rule has no check function: the registry checks exemptions, because only the registry knows
# all rule ids.
RULE = Rule(
    id=RULE_ID,
    title="An exemption names its rule, its end date and its reason",
    severity=Severity.MANDATORY,
    why="An exemption turns off one rule for one object until a date. An exemption that is over "
    "or invalid has no effect, and it is reported until somebody removes or corrects it.",
    source="the rulebook's own convention: policies/gpu_rules/rules/exemptions.py",
)

TWIN = Twin(
    "variables.exemptions.filter(e, !(e in variables.holding))"
    '.map(e, "found an exemption without effect: " + e)',
    scopes=frozenset(Scope),
    on_update=cel.annotation_set(PREFIX),
    signs=(Sign(f"{ANNOTATIONS}.exists(k, k.startsWith({cel.text(PREFIX)}))"),),
)

EXAMPLE = Example.edited(
    edited(
        POD,
        (
            "metadata: {name: train}",
            "metadata:\n  name: profile\n  annotations:\n    exempt.gpu-cluster/GPU022: "
            '"2030-12-31 the profiler reads counters of all devices"',
        ),
    ),
    ("2030-12-31", "2024-12-31"),
)
