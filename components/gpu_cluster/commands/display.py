"""Short output of runs, previews and destroys, made from the engine's events."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pulumi.automation import EngineEvent
from pulumi.automation.events import StepEventMetadata

from gpu_cluster.change.document import Operation, Problem, Resource
from gpu_cluster.commands.difference import differences
from gpu_cluster.commands.failure import condensed, without_hook
from gpu_cluster.commands.waiting import FIRST
from gpu_rules.printable import printable, printable_lines, shortened

# Maximum number of resources that get their own line; further resources are counted by type.
MOST = 20

# Maximum number of lines of one message, for example of the table of hosts.
MOST_LINES = 30

# Maximum number of resources that a line "waiting … for" names.
MOST_NAMED = 3

# Engine messages that are not shown, because users don't need them: that a plugin of the toolchain
# was found on PATH, and that policies were not asked after the program had failed.
NOISE = re.compile(
    r"using pulumi-\S+ from \$PATH at |^(error: )?failed to run remediation: context canceled$"
)
RULE = re.compile(r"\bGPU\d{3}\b")
OBJECTS = "kubernetes:"
"""Prefix of the resource types whose changed properties a change document lists."""
COLOR = re.compile(r"<\{%[^%]*%\}>")

SIGNS: dict[Operation, str] = {
    "create": "+",
    "update": "~",
    "delete": "-",
    "replace": "±",
    "refresh": "~",
    "import": "=",
}
DONE: dict[Operation, str] = {
    "create": "created", "update": "updated", "delete": "deleted", "replace": "replaced",
    "refresh": "refreshed", "import": "taken over",
}  # fmt: skip
OPERATIONS: dict[str, Operation] = {
    "create": "create", "update": "update", "delete": "delete", "refresh": "refresh",
    "replace": "replace", "create-replacement": "replace", "delete-replaced": "delete",
    "import": "import",
}  # fmt: skip
"""The engine's operations, mapped to the words that users read.

Operations that are not in this table, such as `same` and `read`, change nothing. A resource that is
replaced has three of them, in either order: `create-replacement`, `replace`, `delete-replaced`
(pulumi v3.274.1, pkg/resource/deploy/step_generator.go).
"""
PARTS = ("replace", "delete-replaced")
"""Operations whose end gets no line, because `create-replacement` has one for the resource."""

OURS = ("app.kubernetes.io/managed-by", "gpu-cluster")
"""The label of Kubernetes objects whose details this project generates, not the user."""


@dataclass
class _Running:
    """An operation of the engine that is running, with the last message it sent."""

    operation: Operation
    name: str
    since: float
    last: str = ""


@dataclass
class Display:
    """Turn the events of one engine run into short lines.

    Call `show` for each event and `finish` at the end.

    Attributes:
        say: Function that prints one line.
        preview: Whether the run only shows what would change.
        clock: Function that returns a time in seconds; tests replace the function.
        rules: The findings of the policy pack, each with the name of the resource.
        messages: The messages of the run, each with severity and text.
    """

    say: Callable[[str], None]
    preview: bool = False
    clock: Callable[[], float] = time.monotonic
    rules: list[tuple[Problem, str]] = field(default_factory=list)
    messages: list[dict[str, str]] = field(default_factory=list)
    _resources: dict[str, Resource] = field(default_factory=dict)
    _running: dict[str, _Running] = field(default_factory=dict)
    _advice: list[tuple[str, str]] = field(default_factory=list)
    _ours: set[str] = field(default_factory=set)
    _quiet_since: float = 0.0
    _is_inspected: bool = False

    def __post_init__(self) -> None:
        """Start the clock that measures how long no operation has been running."""
        self._quiet_since = self.clock()

    @property
    def resources(self) -> tuple[Resource, ...]:
        """Return the resources that changed or would change, each once."""
        return tuple(self._resources.values())

    def show(self, event: EngineEvent) -> None:
        """Print the lines for the next event of the engine, if the event needs any."""
        if event.resource_pre_event:
            self._begin(event.resource_pre_event.metadata)
        elif event.res_outputs_event:
            self._end(event.res_outputs_event.metadata, failed=False)
        elif event.res_op_failed_event:
            self._end(event.res_op_failed_event.metadata, failed=True)
        elif event.policy_event:
            self._judge(event.policy_event)
        elif event.diagnostic_event:
            self._message(event.diagnostic_event)

    def finish(self) -> None:
        """Print how many resources got no line, and the advice of the policy pack.

        Advice about objects that this project generates is left out, because users can't change
        those objects.
        """
        further_steps = self.resources[MOST:]
        if further_steps and not self.preview:
            counted = Counter((step.operation, step.type) for step in further_steps)
            kinds = counted.most_common()
            summary = ", ".join(f"{count} {op} {kind}" for (op, kind), count in kinds)
            self.say(f"… and {len(further_steps)} more: {summary}")
        for urn, text in self._advice:
            if urn not in self._ours:
                self._said("warning", text)
                self._note(urn, text, mandatory=False)

    @property
    def errors(self) -> list[str]:
        """Return the error messages as they were printed."""
        error_messages = [message for message in self.messages if message["severity"] == "error"]
        return [condensed(message["text"]) for message in error_messages]

    def waits_for(self) -> tuple[str, float]:
        """Return the operations that have been running longest, and for how many seconds.

        Each operation is followed by its last message. The seconds are those since the oldest of
        these operations started, or, if no operation is running, since the last one ended.
        """
        now = self.clock()
        waiting = sorted(list(self._running.values()), key=lambda step: step.since)
        if not waiting:
            # The program prints what it found as soon as the inspection has ended.
            inspection = "the inspection of hosts and cluster"
            what = "the Pulumi engine" if self._is_inspected else inspection
            return what, now - self._quiet_since
        long = [step for step in waiting if now - step.since >= FIRST]
        step_names = [f"{step.name}{f' ({step.last})' if step.last else ''}" for step in long]
        return shortened(step_names, MOST_NAMED), now - waiting[0].since

    def _begin(self, step: StepEventMetadata) -> None:
        inputs = step.new.inputs if step.new else {}
        metadata = inputs.get("metadata") if isinstance(inputs, dict) else None
        labels = (metadata or {}).get("labels") or {} if isinstance(metadata, dict | None) else {}
        if isinstance(labels, dict) and labels.get(OURS[0]) == OURS[1]:
            self._ours.add(step.urn)
        operation = OPERATIONS.get(_operation_name(step))
        if operation is None or not _is_real_resource(step):
            return
        if self.preview:
            self._record(step, operation)
        else:
            name = step.urn.rsplit("::", 1)[-1]
            self._running[step.urn] = _Running(operation, name, self.clock())

    def _end(self, step: StepEventMetadata, *, failed: bool) -> None:
        running = self._running.pop(step.urn, None)
        self._quiet_since = self.clock()
        if running is None:
            return
        if failed:
            self.say(f"! failed to {running.operation}  {step.type}  {running.name}")
            return
        self._record(step, running.operation)
        if _operation_name(step) not in PARTS and len(self._resources) <= MOST:
            took = self.clock() - running.since
            line = f"{SIGNS[running.operation]} {DONE[running.operation]}  {step.type}"
            self.say(f"{line}  {running.name}{f'  {took:.0f} s' if took >= 1 else ''}")

    def _record(self, step: StepEventMetadata, operation: Operation) -> None:
        """Remember that a resource changes; a deletion counts only without another change of it."""
        if operation == "delete" and step.urn in self._resources:
            return
        name = step.urn.rsplit("::", 1)[-1]
        details: tuple[str, ...] = ()
        if operation in ("update", "replace") and step.old and step.new:
            changed_inputs = differences(step.old.inputs or {}, step.new.inputs or {})
            details = tuple(map(printable, changed_inputs)) if step.type.startswith(OBJECTS) else ()
        self._resources[step.urn] = Resource(
            operation=operation, type=step.type, name=name, details=details
        )

    def _judge(self, event: Any) -> None:
        text = _violation(_plain_text(event.message))
        if event.enforcement_level == "advisory":
            self._advice.append((event.resource_urn or "", text))
        else:
            self._said("error", text)
            self._note(event.resource_urn or "", text, mandatory=True)

    def _note(self, urn: str, text: str, *, mandatory: bool) -> None:
        match = RULE.search(text)
        problem = Problem(text=text, rule=match[0] if match else "", mandatory=mandatory)
        self.rules.append((problem, urn.rsplit("::", 1)[-1]))

    def _message(self, event: Any) -> None:
        text = _plain_text(event.message)
        running = self._running.get(event.urn or "")
        severity = str(event.severity)
        if not text or NOISE.search(text) or severity == "debug":
            return
        if event.ephemeral or (severity.startswith("info") and _is_json(text)):
            if running and not _is_json(text):
                running.last = text.splitlines()[-1][:120]
            return
        self._said(severity.partition("#")[0], text)

    def _said(self, severity: str, text: str) -> None:
        if any(message["text"] == text for message in self.messages):
            return
        self.messages.append({"severity": severity, "text": text})
        self._is_inspected |= severity == "info"
        message_text = without_hook(condensed(text))
        lines = (message_text if severity == "info" else f"{severity}: {message_text}").splitlines()
        if severity == "info" and len(lines) > MOST_LINES:
            more = f"… and {len(lines) - MOST_LINES} more lines; --verbose shows them"
            lines = [*lines[:MOST_LINES], more]
        for line in lines:
            self.say(line)


def _operation_name(step: StepEventMetadata) -> str:
    """Return the engine's name of a step's operation."""
    return str(getattr(step.op, "value", step.op))


def _is_real_resource(step: StepEventMetadata) -> bool:
    """Check that a step is about a real resource, not about a component, a provider or a plugin."""
    state = step.new or step.old
    return bool(state and state.custom) and not step.type.startswith("pulumi:")


def _plain_text(text: str) -> str:
    return printable_lines(COLOR.sub("", text).strip())


def _violation(text: str) -> str:
    """Return a violation without the description of its policy, which the engine puts in front."""
    lines = text.splitlines()
    first = next((n for n, line in enumerate(lines) if RULE.match(line.lstrip())), 0)
    return "\n".join(lines[first:])


def _is_json(text: str) -> bool:
    if text[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
