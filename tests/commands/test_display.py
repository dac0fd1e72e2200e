"""Output of a run: few plain lines, no unrequested details, and every error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pulumi.automation import EngineEvent

from gpu_cluster.commands.difference import MOST, differences
from gpu_cluster.commands.display import Display
from gpu_cluster.commands.failure import condensed
from gpu_cluster.commands.waiting import EVERY, FIRST, Reminder

COMMAND = "command:local:Command"
JOB = "kubernetes:batch/v1:Job"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"


def urn(name: str, kind: str = COMMAND) -> str:
    return f"urn:pulumi:dev::gpu-cluster::{kind}::{name}"


def step(kind: str, name: str, op: str, resource: str = COMMAND, **more: Any) -> EngineEvent:
    """Return a Pulumi event about a resource.

    The kind is `resourcePreEvent` for the start of a step, `resOutputsEvent` for its end, or a
    failure.
    """
    custom = not resource.startswith("gpucluster:")
    state = {
        "type": resource, "urn": urn(name, resource), "custom": custom, "id": "", "parent": "",
        "provider": "", "inputs": more.get("new", {}), "outputs": {},
    }  # fmt: skip
    old = {**state, "inputs": more["old"]} if "old" in more else None
    metadata = {
        "op": op, "urn": urn(name, resource), "type": resource, "provider": "", "old": old,
        "new": state, "keys": None, "diffs": None, "logical": True, "detailedDiff": None,
    }  # fmt: skip
    content = {"metadata": metadata, "planning": False}
    if kind == "resOpFailedEvent":
        content |= {"status": 1, "steps": 1}
    return event(kind, content)


def event(kind: str, content: dict[str, Any]) -> EngineEvent:
    return EngineEvent.from_json({"sequence": 1, "timestamp": 1, kind: content})


def message(text: str, severity: str = "info", name: str = "", **more: Any) -> EngineEvent:
    told = {"message": text, "color": "never", "severity": severity, "urn": name and urn(name)}
    return event("diagnosticEvent", {**told, **more})


def advice(name: str, level: str = "advisory") -> EngineEvent:
    return event(
        "policyEvent",
        {
            "message": f"GPU rules that it should keep as a whole.\nGPU049 about {name}",
            "color": "never", "policyName": "gpu-rules",
            "policyPackName": "gpu-rules", "policyPackVersion": "1", "policyPackVersionTag": "1",
            "enforcementLevel": level, "resourceUrn": urn(name, JOB),
        },
    )  # fmt: skip


def shown(*events: EngineEvent, preview: bool = False) -> list[str]:
    lines: list[str] = []
    display = Display(lines.append, preview=preview, clock=lambda: 0.0)
    for item in events:
        display.show(item)
    display.finish()
    return lines


REPLACED = {
    "created first": ("create-replacement", "replace", "delete-replaced"),
    "deleted first": ("delete-replaced", "replace", "create-replacement"),
}


@pytest.mark.parametrize("steps", REPLACED.values(), ids=REPLACED)
@pytest.mark.parametrize("preview", [True, False], ids=["preview", "up"])
def test_a_replaced_object_counts_once(steps: tuple[str, ...], preview: bool) -> None:
    lines: list[str] = []
    display = Display(lines.append, preview=preview, clock=lambda: 0.0)
    inputs = {"old": {"data": {"a": "1"}}, "new": {"data": {"a": "2"}}}
    for op in steps:
        display.show(step("resourcePreEvent", "config", op, CONFIG_MAP, **inputs))
        display.show(step("resOutputsEvent", "config", op, CONFIG_MAP, **inputs))
    (found,) = display.resources
    assert (found.operation, found.name, found.details) == ("replace", "config", ("data.a: 1 → 2",))
    assert lines == ([] if preview else [f"± replaced  {CONFIG_MAP}  config"])


def test_an_object_that_goes_with_a_replaced_one_and_does_not_come_back_is_deleted() -> None:
    display = Display(print, preview=True)
    display.show(step("resourcePreEvent", "config", "delete-replaced", CONFIG_MAP))
    assert [found.operation for found in display.resources] == ["delete"]


def test_what_the_engine_says_of_plugins_and_what_programs_answer_is_not_shown() -> None:
    assert (
        shown(
            message(
                "<{%reset%}>using pulumi-resource-command from $PATH at /x<{%reset%}>", "warning"
            ),
            message(
                '{"changed":4,"nodes":4,"pools":["a100"],"released":0}\n',
                name="gpu-cluster-node-scheduling.pools",
            ),
            message("Skipping await logic", "info#err", "a", ephemeral=True),
            message("trace", "debug"),
        )
        == []
    )


def test_warnings_errors_and_drift_are_shown_once_and_without_control_characters() -> None:
    drift = message("drift: node gpu-3 lacks label nvidia.com/gpu=true")
    lines = shown(
        drift,
        drift,
        message("<{%fg 3%}>beware\x1b[2J<{%reset%}>", "warning"),
        message("bad", "error"),
    )
    assert lines == [
        "drift: node gpu-3 lacks label nvidia.com/gpu=true",
        "warning: beware\\x1b[2J",
        "error: bad",
    ]


def test_only_things_in_the_world_that_change_have_a_line() -> None:
    lines = shown(
        step("resourcePreEvent", "a", "create"),
        step("resOutputsEvent", "a", "create"),
        step("resourcePreEvent", "b", "same"),
        step("resOutputsEvent", "b", "same"),
        step("resourcePreEvent", "group", "create", "gpucluster:index:Validation"),
        step("resOutputsEvent", "group", "create", "gpucluster:index:Validation"),
        step("resourcePreEvent", "c", "delete"),
        step("resOpFailedEvent", "c", "delete"),
    )
    assert lines == [f"+ created  {COMMAND}  a", f"! failed to delete  {COMMAND}  c"]


def test_a_preview_keeps_which_property_of_an_object_changes_and_prints_no_resource() -> None:
    placeholder = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
    old = {"data": {"file": json.dumps({"mig": "none"})}, "key": "[secret]", "revision": 1}
    new = {"data": {"file": json.dumps({"mig": "single"})}, "key": "other", "revision": placeholder}
    events = [
        step("resourcePreEvent", "a", "update", "kubernetes:core/v1:ConfigMap", old=old, new=new),
        step("resourcePreEvent", "b", "update", old={"stdin": "a"}, new={"stdin": "b"}),
    ]
    said: list[str] = []
    display = Display(said.append, preview=True)
    for item in events:
        display.show(item)
    display.finish()
    assert said == []
    assert [each.details for each in display.resources] == [
        ("data.file.mig: none → single", "revision: 1 → known after the run"),
        (),
    ]


def test_eight_hundred_resources_and_messages_stay_below_two_hundred_lines() -> None:
    steps = [
        step(kind, f"host-{number}", "create")
        for number in range(800)
        for kind in ("resourcePreEvent", "resOutputsEvent")
    ]
    table = message("\n".join(f"gpu-{number}" for number in range(800)))
    lines = shown(*steps, table)
    assert len(lines) < 60
    assert f"… and 780 more: 780 create {COMMAND}" in lines


def test_rules_advise_on_what_others_own_and_refuse_everything() -> None:
    ours = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "gpu-cluster"}}}
    lines = shown(
        advice("ours"),
        advice("theirs"),
        advice("ours-but-refused", "mandatory"),
        step("resourcePreEvent", "ours", "create", JOB, new=ours),
        step("resourcePreEvent", "theirs", "create", JOB, new={"metadata": {}}),
    )
    assert lines == ["error: GPU049 about ours-but-refused", "warning: GPU049 about theirs"]


def test_a_wait_names_what_it_waits_for_and_the_last_that_it_said() -> None:
    now = 0.0
    display = Display([].append, clock=lambda: now)
    now = 5.0
    assert display.waits_for() == ("the inspection of hosts and cluster", 5.0)
    for number in range(5):
        display.show(step("resourcePreEvent", f"host-{number}", "create"))
    display.show(message("24 of 32 GPUs", name="host-0", ephemeral=True))
    now = 16.0
    assert display.waits_for() == ("host-0 (24 of 32 GPUs), host-1, host-2 and 2 more", 11.0)
    for number in range(5):
        display.show(step("resOutputsEvent", f"host-{number}", "create"))
    assert display.waits_for()[1] == 0.0


def test_the_engines_own_words_do_not_stand_around_a_cause() -> None:
    lines: list[str] = []
    display = Display(lines.append)
    hook = 'before hook "gpu-cluster-steps" failed:\n  host gpu-3: no answer; cure: look at it'
    display.show(message(hook, severity="error"))
    display.show(message("failed to run remediation: context canceled", severity="error"))
    assert lines == ["error: host gpu-3: no answer; cure: look at it"]
    assert len(display.errors) == 1


def test_nothing_waits_for_an_inspection_whose_result_is_printed() -> None:
    display = Display([].append)
    display.show(message("GPUs 32 as before"))
    assert display.waits_for()[0] == "the Pulumi engine"


def test_a_wait_is_named_from_second_ten_on_and_then_seldom() -> None:
    reminder = Reminder()
    due = [second for second in range(80) if reminder.due(float(second))]
    assert due == [FIRST, FIRST + EVERY, FIRST + 2 * EVERY]
    reminder.reset()
    assert reminder.due(FIRST)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ({"a": 1}, {}, "a: 1 → none"),
        ({}, {"a": {"b": [True]}}, "a.b[0]: none → true"),
        ({"a": "x\ny"}, {"a": "x" * 100}, f"a: 2 lines → {'x' * 59}…"),
        ({"a": "{no json"}, {"a": []}, "a: {no json → []"),
        ({"a": "x\ny"}, {"a": "x\nz"}, "a: another text"),
    ],
)
def test_differences(old: dict[str, Any], new: dict[str, Any], line: str) -> None:
    assert differences(old, new) == [line]


def test_many_differences_are_counted() -> None:
    lines = differences({}, {str(number): number for number in range(MOST + 5)})
    assert len(lines) == MOST + 1
    assert lines[-1] == "and 5 more"


def test_a_traceback_of_the_program_is_one_line() -> None:
    text = "Traceback (most recent call last):\n  File \"x\", line 1\nKeyError: 'a'\n"
    said: list[str] = []
    Display(said.append).show(message(f"Program failed:\n{text}", severity="error"))
    assert said == [f"error: {condensed(text)}"]
