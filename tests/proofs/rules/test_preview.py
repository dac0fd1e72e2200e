"""The policy pack in a real `pulumi preview` reports manifests that violate a rule, and no others.

Every object in these programs has a label whose value is not known during the preview.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from gpu_rules.parameters import context_by
from gpu_rules.rules import EXAMPLES, RULES, Context, Rule, Severity
from tests.proofs.rules.previews import Run

pytestmark = pytest.mark.slow

POOL = {"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8}
CLUSTER = {
    "version": "v1",
    "kubernetes": {"context": "none"},
    "platform": "device-plugin",
    "pools": [POOL],
}
PACK_POOL = {"name": "t4", "gpusPerNode": 2, "taints": ["example.com/gpu:NoSchedule"]}


def failing(rule_id: str) -> Any:
    return yaml.safe_load(EXAMPLES[rule_id].failing)


def passing(rule_id: str) -> Any:
    return yaml.safe_load(EXAMPLES[rule_id].passing)


@pytest.mark.parametrize("rule_id", ["GPU001", "GPU004"])
def test_one_bad_object_stops_the_preview(preview: Run, rule_id: str) -> None:
    done = preview({"bad": failing(rule_id), "good": passing(rule_id)}, cluster=CLUSTER)
    assert done.code != 0, done.output
    assert done.violations("mandatory") == {"bad": [rule_id]}, done.output
    assert RULES[rule_id].title in done.output


def settings_of(rule: Rule) -> str:
    """Return the policy pack's settings for the example of a rule, as JSON.

    Rules with the same settings are tested in one preview.
    """
    pool = {"name": "a100", "gpusPerNode": 8, "taints": ["nvidia.com/gpu=present:NoSchedule"]}
    shown = EXAMPLES[rule.id].settings
    return json.dumps({"pools": [pool], **shown}, sort_keys=True)


REFUSED = "GPU056"
"""Rule whose example is left out, because the project's own command plugin rejects it.

The example has no host key. The plugin's error would end the program before all resources are
checked; the official plugin accepts the example.
"""
GROUPS: dict[str, list[Rule]] = {}
for one in RULES.values():
    if not one.across and one.id != REFUSED:
        GROUPS.setdefault(settings_of(one), []).append(one)
ALONE = [rule for rule in RULES.values() if rule.across]
LARGEST = max(GROUPS, key=lambda group: len(GROUPS[group]))


def judge_group(preview: Run, group: str) -> None:
    """Each rule is reported for the object that violates it, and for no other object.

    Together, the objects also violate rules for the whole stack, which are reported for the stack.
    """
    rules = GROUPS[group]
    manifests = {rule.id.lower(): failing(rule.id) for rule in rules}
    done = preview(manifests, settings=json.loads(group))
    known = context_by(json.loads(group), Context())
    must = {rule.id for rule in rules if rule.severity_in(known) is Severity.MANDATORY}
    assert (done.code != 0) == bool(must), done.output
    for level, wanted in (("mandatory", must), ("advisory", {rule.id for rule in rules} - must)):
        across = {rule.id for rule in ALONE}
        broken = done.violations(level)
        broken = {name: ids for name, ids in broken.items() if not across.issuperset(ids)}
        assert broken == {rule.lower(): [rule] for rule in wanted}, done.output


def test_every_rule_is_reported_for_the_object_that_breaks_it(preview: Run) -> None:
    judge_group(preview, LARGEST)


def test_a_command_that_believes_any_host_is_reported(preview: Run) -> None:
    done = preview({"bad": failing(REFUSED)}, settings=json.loads(settings_of(RULES[REFUSED])))
    assert done.code != 0, done.output
    assert done.violations("mandatory") == {"bad": [REFUSED]}, done.output


@pytest.mark.full
@pytest.mark.parametrize("group", [group for group in GROUPS if group != LARGEST])
def test_every_rule_with_settings_is_reported_too(preview: Run, group: str) -> None:
    judge_group(preview, group)


@pytest.mark.full
@pytest.mark.parametrize("rule", ALONE, ids=lambda rule: rule.id)
def test_a_rule_over_the_stack_is_reported_for_the_stack(preview: Run, rule: Rule) -> None:
    done = preview({"all": failing(rule.id)}, settings=json.loads(settings_of(rule)))
    known = context_by(json.loads(settings_of(rule)), Context())
    assert (done.code != 0) == (rule.severity_in(known) is Severity.MANDATORY), done.output
    assert f"{rule.id} {rule.title}" in done.output


def test_good_objects_pass_without_a_word(preview: Run) -> None:
    manifests = {rule.id.lower(): passing(rule.id) for rule in GROUPS[LARGEST]}
    # Together, the objects break rules for the whole stack: several examples are the same release,
    # and their namespaces have no quotas.
    off = {"rules": {rule.id: "off" for rule in ALONE}}
    done = preview(manifests, settings=json.loads(LARGEST) | off)
    assert done.code == 0, done.output
    assert "GPU0" not in done.output


def test_a_rule_over_the_stack_stops_the_preview(preview: Run) -> None:
    settings = json.loads(LARGEST) | {"rules": {"GPU029": "mandatory"}}
    done = preview({"team": failing("GPU029")}, settings=settings)
    assert done.code != 0, done.output
    assert "GPU029 A namespace that uses GPUs has a quota for them: Namespace team-a" in done.output


def test_the_packs_own_settings_stand_before_the_stacks(preview: Run) -> None:
    settings: Any = {"pools": [PACK_POOL], "rules": {"GPU004": "off", "GPU007": "advisory"}}
    settings["rules"] |= {"GPU030": "off"}
    done = preview({"bad": passing("GPU007")}, cluster=CLUSTER, settings=settings)
    assert done.code == 0, done.output
    assert done.violations("advisory") == {"bad": ["GPU007"]}, done.output
    assert "at most 2, the amount of a node in pool t4" in done.output


def test_a_setting_for_a_rule_that_is_not_there_is_refused(preview: Run) -> None:
    done = preview({}, settings={"rules": {"GPU999": "off"}})
    assert done.code != 0
    assert "GPU999" in done.output


def test_a_broken_stack_file_stops_the_preview(preview: Run) -> None:
    broken = {**CLUSTER, "pools": [{**POOL, "gpusPerNode": "eight"}]}
    done = preview({"good": passing("GPU001")}, cluster=broken)
    assert done.code != 0
    assert "gpu-cluster:cluster cannot be used" in done.output
    assert "gpusPerNode" in done.output


def test_the_program_itself_refuses_what_the_pack_would(preview: Run) -> None:
    manifests = {"good": passing("GPU007"), "bad": failing("GPU007")}
    done = preview(manifests, cluster=CLUSTER, held_by="the program")
    assert done.code != 0, done.output
    assert "kubernetes:core/v1:Pod bad: rejected by the GPU rules" in done.output
    assert "GPU007 A pod requests no more GPUs than a node has" in done.output
    assert "Traceback" not in done.output
