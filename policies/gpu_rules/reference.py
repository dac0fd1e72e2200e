"""Generate docs/rules.md, the reference page of all GPU rules, from the rules' Python objects.

`python -m gpu_rules.reference` writes the page. A test checks that the page is up to date.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Mapping
from pathlib import Path

import yaml

from . import kinds
from .admission import TARGETS, Target
from .kube.vendor_resources import VENDORS
from .parameters import PROPERTIES, context_by
from .rules import (
    EXAMPLES,
    RULES,
    TWINS,
    Context,
    Need,
    Rule,
    Violation,
    evaluate,
    evaluate_stack,
)
from .rules.example import Example
from .rules.links import anchor
from .rules.rule import Declared
from .rules.twin import NoTwin, Scope, Twin
from .settings_file import complete

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def context_for(example: Example) -> Context:
    """Return the cluster facts for checking an example of a rule.

    They are the example's settings and a pool with 8 GPUs per node. The pool has the taint
    `nvidia.com/gpu`, as GPU nodes have by default.
    """
    return context_by(example.settings, kinds.FACTS)


def violations(manifest: Mapping[str, object], context: Context) -> list[Violation]:
    """Return all rule violations of a manifest, as if the manifest were a whole stack."""
    return [*evaluate(manifest, context), *evaluate_stack([manifest], context)]


def checked_with(rule: Rule) -> str:
    """Return a phrase that says which manifests a rule checks, and which facts the rule needs."""
    scope = "all manifests of a stack" if rule.across else "one manifest"
    needs = [str(need) for need in Need if need in rule.needs]
    return f"{scope}, with {' and '.join(needs)}" if needs else scope


def admission(rule: Rule) -> str:
    """Return a phrase that says whether a rule also applies at admission, and if not, why."""
    twin = TWINS[rule.id]
    if isinstance(twin, Twin):
        only = ", which only warns" if twin.scopes == {Scope.NODES} else ""
        return f"by a ValidatingAdmissionPolicy{only}"
    return f"by the API server itself: {twin.reason}" if twin.enforced else f"no: {twin.reason}"


def _severity_text(rule: Rule) -> str:
    """Return the default severity of a rule, and when it is another."""
    if rule.opinions:
        return f"{rule.severity}; for {rule.opinions}: advisory, unless {Declared.CLUSTER}"
    if rule.mandatory_if is None:
        return str(rule.severity)
    return f"{rule.severity}; mandatory if {rule.mandatory_if}"


_UNLESS_OBSERVED = (
    " In objects that were read from a cluster, it judges only what the author wrote: the system "
    "writes this field, too."
)


def _as_observed(context: Context) -> Context:
    return dataclasses.replace(context, observed=True)


def section(rule: Rule) -> str:
    """Return the Markdown section of a rule, with an HTML anchor for links to the rule."""
    return f'<a id="{anchor(rule.id)}"></a>\n\n{described(rule)}'


def described(rule: Rule) -> str:
    """Return the Markdown description of a rule: reason, scope, examples and source."""
    example = EXAMPLES[rule.id]
    patches = (
        " Patches are not checked, because the object may have what a patch lacks."
        if rule.whole
        else ""
    )
    failing, context = yaml.safe_load(example.failing), context_for(example)
    broken = violations(failing, context)
    of_rule = {violation.rule.id for violation in violations(failing, _as_observed(context))}
    system = "" if rule.id in of_rule else _UNLESS_OBSERVED
    messages = "\n".join(violation.message for violation in broken)
    settings_note = (
        f" with the settings `{json.dumps(dict(example.settings))}`" if example.settings else ""
    )
    if Need.POOLS in rule.needs and "pools" not in example.settings:
        settings_note += " in a cluster with the pool a100: 8 GPUs per node, and the taint "
        settings_note += "nvidia.com/gpu=present:NoSchedule"
    return f"""### {rule.id}: {rule.title}

Severity: {_severity_text(rule)}. Checked with {checked_with(rule)}.{patches}{system}

{rule.why}

At admission: {admission(rule).rstrip(".")}.

Passes{settings_note}:

```yaml
{example.passing.rstrip()}
```

Fails:

{_failing_block(example)}

with

```text
{messages}
```

Source: {rule.source}.
"""


def _failing_block(example: Example) -> str:
    """Return the failing manifest of an example as a Markdown code block.

    If at most half of its lines differ from the passing manifest, only these lines are shown.
    """
    passing, failing = example.passing.splitlines(), example.failing.splitlines()
    lines = [line for line in difflib.ndiff(passing, failing) if line[0] in "-+"]
    if len(lines) * 2 > len(failing):
        return f"```yaml\n{example.failing.rstrip()}\n```"
    return "\n".join(("```diff", *(f"{line[0]}{line[2:]}" for line in lines), "```"))


_CONFIGURATION = {
    "gpu-rules-mandatory": {
        "rules": {"GPU050": "mandatory", "GPU026": "off"},
        "maxGpusPerPod": 8,
        "infrastructureNamespaces": ["monitoring"],
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
        f"| [{rule.id}](#{anchor(rule.id)}) | {rule.title} | {rule.severity} | "
        f"{checked_with(rule)} | {admission(rule).partition(':')[0]} |"
        for rule in RULES.values()
    )
    settings = "\n".join(
        f"| `{name}` | {schema['description']} |" for name, schema in PROPERTIES.items()
    )
    sections = "\n".join(map(section, RULES.values()))
    exports = "\n".join(map(_export, TARGETS.values()))
    return f"""# GPU rules

The same rules check what a program declares, in `pulumi preview` (policy pack
`components/gpu_cluster/guardrails/pack`) and inside the program. A violation of a `mandatory` rule
stops the preview; a violation of an `advisory` rule is only printed. Values that are not known in a
preview are skipped.

The configuration of the policy pack can change the severity of each rule. The facts about the
cluster come from the stack's `gpu-cluster:cluster`, unless the configuration sets them. Example of
a file for `--policy-pack-config`:

```json
{json.dumps(_CONFIGURATION, indent=2)}
```

A stack declares severities, resource names, namespaces and exemptions once, as `guardrails` in
`gpu-cluster:cluster`. The policy pack, the checker (`--stack`) and the admission policies read them
from there. An exemption in the settings applies until its end date to all objects that match every
field that it sets. Whoever writes the object chooses its labels, images and host paths, and whoever
may create namespaces chooses a name that a pattern with `*` matches: where these are no trusted
people, set `namespaces` without `*`, too. The API server checks again, with ephemeral containers,
when a change of labels or images ends an exemption.

Node agents, which are DaemonSets without GPUs, are judged by who deploys them: in a namespace that
the stack or `infrastructureNamespaces` trusts, the rules about workloads don't apply; in all others
a DaemonSet is judged like a pod. Without a stack and without `infrastructureNamespaces`, agents get
only advice about host paths and privileges for which other pods are refused.

For the rules, a pod has GPUs, has none, or is unknown. GPU resources prove it, and so does a claim
for devices (DRA) whose manifest is checked together with the pod, or that the setting `otherClaims`
lists. Any other claim, and a resource whose name only resembles that of a GPU, prove nothing,
because the author of the pod chooses the names. An unknown pod must not do what pods with GPUs must
not do, nor what pods without GPUs must not do. It may tolerate the taint of GPU nodes, unless the
name is that of other devices, such as `nic`.

An annotation on an object or on its pod template exempts the object from one rule, until a date and
for a reason. Violations of this rule are then printed as advice. An exemption after its end date is
a violation itself ([GPU062](#gpu062)):

```yaml
metadata:
  annotations:
    exempt.gpu-cluster/GPU022: "2030-12-31 the profiler reads counters of all devices"
```

The annotations by which kube-linter and checkov skip one check count too, if they name a rule and a
reason: `ignore-check.kube-linter.io/GPU022: "the reason"` and `checkov.io/skip1: "GPU022=the
reason"`. They have no end date, and no effect at admission. `kube-linter.io/ignore-all` names no
rule and exempts from none.

At admission, an exemption applies only if the namespace grants it for this rule, and only until
the end date of the grant. Grants, and the label `gpu-cluster/guardrails: exempt`, which excludes a
namespace, can be set by users that RBAC permits the verb `grant` on the resource `exemptions` of
the group `guardrails.gpu-cluster`. Only these users may also create a namespace with a name that
the rules trust: the namespaces that the stack creates or has adopted, `infrastructureNamespaces`,
`excludedNamespaces`, and each name without `*` in an exemption. Of an adopted device plugin, only
the DaemonSets are trusted, by name and in their namespace; only these users may write them, and
only the DaemonSet controller makes their pods. The API server's audit log contains what was
exempted.

Only schedulers may bind pods to nodes and allocate devices to claims: users that may create
`pods/binding`, or update `resourceclaims/status`, in all namespaces. For an allocation, Kubernetes
1.36 and later also require the right to update `resourceclaims/binding`.

```yaml
kind: Namespace
metadata:
  annotations:
    grant.gpu-cluster/GPU022: "2030-12-31 agreed with the platform team"
```

This page is written by `python -m gpu_rules.reference`.

| rule | title | severity | checked with | at admission |
| --- | --- | --- | --- | --- |
{rows}

## Settings

| setting | meaning |
| --- | --- |
{settings}

`gpu-rules settings` prints this file, `gpu-rules settings --schema` its JSON schema for editors,
and `kubectl get nodes -o json | gpu-rules settings -` the pools of a cluster:

```yaml
{complete().rstrip()}
```

## Exports

`gpu-rules export vap`, `export kyverno` and `export gatekeeper` write the rules that are judged at
admission. No target judges these:

{_reasons_list()}

| target | judged in part | differs for all rules |
| --- | --- | --- |
{exports}

## Kinds

Pods are found in objects of every kind by their fields. This table is the result of judging each
rule's example in the place where the kind has its pods. Rules without a cure in an object that
another object completes, such as a TrainingRuntime, don't speak there. Rules about Helm releases
judge Pulumi's Release and Chart, Flux' HelmRelease, Argo CD's Application, a kustomization's
helmCharts, values files of the GPU Operator, ClusterPolicy and NVIDIADriver alike. Rules that need
settings are listed as with these settings.

{kinds.table()}

## Vendors

Resources of GPUs that the rules judge, besides NVIDIA's, and resources of accelerators that they
only know by name: a pod that requests such a resource is listed as not judged.

{_vendors()}

## Two levels

Some rules are pairs, because the two levels have different conditions, and an exemption from one
must not lift the other: {_PAIRS}. In the public repositories that the rules were tried
on, both levels speak of two objects: agents that may write device files and see other paths. Of the
other rules, only [GPU029](#gpu029) and [GPU060](#gpu060) always speak of
the same objects there: Namespaces with GPUs that have neither a quota nor a Pod Security level.

## Rules

{sections}"""


def _reasons_list() -> str:
    """Return a list of the rules that no export has, by reason."""
    rules: dict[str, list[str]] = {}
    for id_, twin in TWINS.items():
        if isinstance(twin, NoTwin):
            rules.setdefault(twin.reason, []).append(f"[{id_}](#{anchor(id_)})")
    return "\n".join(f"- {', '.join(ids)}: {reason}" for reason, ids in rules.items())


_PAIRS = (
    "[GPU036](#gpu036) refuses paths of pods with GPUs or near them, [GPU078](#gpu078) advises on "
    "the device folders of node agents; [GPU022](#gpu022) is about pods that request GPUs, "
    "[GPU079](#gpu079) about those that only run near them and needs pools; [GPU026](#gpu026) "
    "judges one Deployment without pools, [GPU039](#gpu039) its update against the free GPUs of "
    "the pools; [GPU028](#gpu028) holds a cap that the site has set, [GPU007](#gpu007) what a node "
    "has"
)
"""Why rules that speak of one matter with two levels are two rules."""


def _vendors() -> str:
    """Return the table of the vendors' resources."""
    rows = [
        "| vendor | judged as GPUs | DeviceClasses | known, not judged | source |",
        "|" + " --- |" * 5,
    ]
    for vendor in VENDORS:
        judged = ", ".join(f"`{name}`" for name in (*vendor.devices, *vendor.parts)) or "-"
        classes = ", ".join(f"`{name}`" for name in vendor.classes) or "-"
        pattern = vendor.unjudged.replace("|", "\\|")
        known = f"`{pattern}`: {vendor.why}" if vendor.unjudged else "-"
        rows.append(
            f"| {vendor.name} | {judged} | {classes} | {known} | {vendor.source}, {vendor.read} |"
        )
    return "\n".join(rows)


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
