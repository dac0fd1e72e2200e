"""Generate docs/rules.md, the reference page of all GPU rules, from the rules' Python objects.

`python -m policies.reference` writes the page. A test checks that the page is up to date.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path

import yaml

from .admission import TARGETS, Target
from .parameters import PROPERTIES, context_by
from .rules import (
    EXAMPLES,
    RULES,
    TWINS,
    Context,
    Need,
    PoolFacts,
    Rule,
    TaintFacts,
    Violation,
    evaluate,
    evaluate_stack,
)
from .rules.example import Example
from .rules.links import anchor
from .rules.twin import NoTwin, Scope, Twin

PAGE = Path(__file__).parent.parent / "docs" / "rules.md"
_KNOWN = Context(pools=(PoolFacts("a100", 8, (TaintFacts("nvidia.com/gpu", "present"),)),))


def context_for(example: Example) -> Context:
    """Return the cluster facts for checking an example of a rule.

    They are the example's settings and a pool with 8 GPUs per node. The pool has the taint
    `nvidia.com/gpu`, as GPU nodes have by default.
    """
    return context_by(example.settings, _KNOWN)


def violations(manifest: Mapping[str, object], context: Context) -> list[Violation]:
    """Return all rule violations of a manifest, as if the manifest were a whole stack."""
    return [*evaluate(manifest, context), *evaluate_stack([manifest], context)]


def judged_by(rule: Rule) -> str:
    """Return a phrase that says which manifests a rule checks, and which facts the rule needs."""
    scope = "all manifests of a stack" if rule.across else "the manifest alone"
    needs = [str(need) for need in Need if need in rule.needs]
    return f"{scope}, with {' and '.join(needs)}" if needs else scope


def admission(rule: Rule) -> str:
    """Return a phrase that says whether a rule also applies at admission, and if not, why."""
    twin = TWINS[rule.id]
    if isinstance(twin, Twin):
        only = ", which only warns" if twin.scopes == {Scope.NODES} else ""
        return f"by a ValidatingAdmissionPolicy{only}"
    return f"by the API server itself: {twin.reason}" if twin.enforced else f"no: {twin.reason}"


def section(rule: Rule) -> str:
    """Return the Markdown section of a rule, with an HTML anchor for links to the rule."""
    return f'<a id="{anchor(rule.id)}"></a>\n\n{described(rule)}'


def described(rule: Rule) -> str:
    """Return the Markdown description of a rule: reason, scope, examples and source."""
    shown = EXAMPLES[rule.id]
    patches = " Patches are not judged: what is missing in one may be there." if rule.whole else ""
    broken = violations(yaml.safe_load(shown.failing), context_for(shown))
    said = "\n".join(violation.message for violation in broken)
    told = f" with the settings `{json.dumps(dict(shown.settings))}`" if shown.settings else ""
    return f"""### {rule.id}: {rule.title}

Severity: {rule.severity}. Judged by {judged_by(rule)}.{patches}

{rule.why}

At admission: {admission(rule).rstrip(".")}.

Passes{told}:

```yaml
{shown.passing.rstrip()}
```

Fails:

{_failing(shown)}

with

```text
{said}
```

Source: {rule.source}.
"""


def _failing(shown: Example) -> str:
    """Return the failing manifest of an example as a Markdown code block.

    If at most half of its lines differ from the passing manifest, only these lines are shown.
    """
    passing, failing = shown.passing.splitlines(), shown.failing.splitlines()
    lines = [line for line in difflib.ndiff(passing, failing) if line[0] in "-+"]
    if len(lines) * 2 > len(failing):
        return f"```yaml\n{shown.failing.rstrip()}\n```"
    return "\n".join(("```diff", *(f"{line[0]}{line[2:]}" for line in lines), "```"))


_CONFIGURATION = {
    "gpu-rules-mandatory": {
        "rules": {"GPU050": "mandatory", "GPU026": "off"},
        "maxGpusPerPod": 8,
        "infrastructureNamespaces": ["kube-system", "monitoring"],
        "exemptions": [
            {
                "rules": ["GPU036"],
                "until": "2030-12-31",
                "reason": "the plugin of another vendor needs its devices",
                "namespaces": ["plugins"],
                "hostPaths": ["/dev/dri*"],
            }
        ],
    }
}


def page() -> str:
    """Return the reference page: configuration, table of rules, settings, one section per rule."""
    rows = "\n".join(
        f"| [{rule.id}](#{anchor(rule.id)}) | {rule.title} | {rule.severity} | {judged_by(rule)} | "
        f"{admission(rule).partition(':')[0]} |"
        for rule in RULES.values()
    )
    settings = "\n".join(
        f"| `{name}` | {schema['description']} |" for name, schema in PROPERTIES.items()
    )
    sections = "\n".join(map(section, RULES.values()))
    exports = "\n".join(map(_export, TARGETS.values()))
    return f"""# GPU rules

The same rules judge what a program declares at `pulumi preview` (policy pack
`components/guardrails/pack`) and
inside the program. `mandatory` stops the preview, `advisory` is printed. Values that are not known
at preview are left out; the rest is judged.

Each rule can be changed by the pack's configuration, and what the rules know of the cluster comes
from the stack's `gpu-cluster:cluster` unless the configuration says otherwise. A file for
`--policy-pack-config`:

```json
{json.dumps(_CONFIGURATION, indent=2)}
```

A stack declares levels, names, namespaces and exemptions once, as `guardrails` in
`gpu-cluster:cluster`: pack, checker (`--stack`) and admission read them alike. An exemption in the
settings holds, until its day, for all objects that match each part of it that is given. Node
agents, which are DaemonSets without GPUs, get advice where other pods are refused for their host
paths. A pod that claims devices (DRA) counts as one with GPUs, unless the manifest or the name of
its claim, or the setting `otherClaims`, says otherwise.

One object is exempted from one rule, until a day and for a reason, by an annotation on it or on its
pod template; what the rule finds is then printed as advice. One that is over is a violation
([GPU062](#gpu062)):

```yaml
metadata:
  annotations:
    exempt.gpu-cluster/GPU022: "2030-12-31 the profiler reads counters of all devices"
```

At admission an exemption holds only where the namespace grants the rule, and no longer than the
grant says. Grants, and the label `gpu-cluster/guardrails: exempt` that leaves a namespace alone,
are set by whom RBAC lets `grant` `exemptions` of the group `guardrails.gpu-cluster`. The API
server's audit log has what was exempted.

Only schedulers bind pods to nodes and allocate devices to claims: who may create `pods/binding`, or
update `resourceclaims/status`, in all namespaces. For an allocation Kubernetes 1.36 and later want
the right to update `resourceclaims/binding` besides.

```yaml
kind: Namespace
metadata:
  annotations:
    grant.gpu-cluster/GPU022: "2030-12-31 agreed with the platform team"
```

This page is written by `python -m policies.reference`.

| rule | title | severity | judged by | at admission |
| --- | --- | --- | --- | --- |
{rows}

## Settings

| setting | meaning |
| --- | --- |
{settings}

## Exports

`gpu-rules export vap`, `export kyverno` and `export gatekeeper` write the rules that are judged at
admission. No target judges these:

{_reasons()}

| target | judged in part | differs for all rules |
| --- | --- | --- |
{exports}

## Rules

{sections}"""


def _reasons() -> str:
    """Return a list of the rules that no export has, by reason."""
    rules: dict[str, list[str]] = {}
    for id_, twin in TWINS.items():
        if isinstance(twin, NoTwin):
            rules.setdefault(twin.reason, []).append(f"[{id_}](#{anchor(id_)})")
    return "\n".join(f"- {', '.join(ids)}: {why}" for why, ids in rules.items())


def _export(target: Target) -> str:
    """Return the row of the table of exports for a target."""
    partly = []
    for scope, missing in target.partly.items():
        ids = [
            f"[{id_}](#{anchor(id_)})"
            for id_, twin in TWINS.items()
            if isinstance(twin, Twin) and scope in twin.scopes
        ]
        partly.append(f"{', '.join(ids)}: {missing}")
    return f"| {target.title} | {'; '.join(partly) or '-'} | {' '.join(target.notes) or '-'} |"


def main() -> None:
    """Write docs/rules.md."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
