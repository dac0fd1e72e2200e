"""The Pulumi policy pack `gpu-rules-by-rule`, with one policy for each GPU rule.

The Pulumi engine's output shows the name, title and link of each broken rule, and a policy group in
Pulumi Cloud can set the enforcement level of each rule. The other pack, `gpu_rules.pack`, has one
policy for each enforcement level. It is faster in large stacks, because the SDK deserializes a
resource again for each policy. In both packs the first policy runs all rules, and the policies
after it report the violations that the first policy has found.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)

from .check.context import ContextError, find_config, settings_of
from .pack import Judgement, judge_resource_by, judge_stack_by
from .parameters import PROPERTIES, RULE_FOLDER
from .rules import RULES, Rule, Severity, Violation
from .rules.links import link
from .settings import context_for, mark_secrets, receive_stack_configuration

NAME: Final = "gpu-rules-by-rule"
SETTINGS: Final = "gpu-rules-settings"
NOTES: Final = "gpu-rules-notes"
STACK: Final = "-stack"
"""Suffix of the names of stack policies, which compare several resources."""
LEVELS: Final = "rules"
_NOT_CONFIGURED: Final = (LEVELS, RULE_FOLDER)
"""Settings that the pack reads only from `.gpu-rules.yaml`.

They determine the policies and their levels, which must be known before the Pulumi engine sends its
configuration.
"""
_LEVELS: Final = {
    Severity.MANDATORY: EnforcementLevel.MANDATORY,
    Severity.ADVISORY: EnforcementLevel.ADVISORY,
}


@dataclass
class _Judged(threading.local):
    """Violations and remarks of the current check, for the policies that report them.

    The first policy fills them, for the current resource or for the stack.
    """

    violations: list[Violation] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


class _Pack:
    """All policies of the pack, and the settings and violations that they share."""

    def __init__(self, settings: dict[str, Any]) -> None:
        """Keep the settings from `.gpu-rules.yaml`; the Pulumi engine's settings override them."""
        self._found = settings
        self._settings = settings
        self._judged = _Judged()
        # The configurations of stack and engine arrive after the policies are registered. A
        # violation whose severity they raise is reported by the policy for the settings.
        file_context = context_for(settings, with_stack=False)
        self._levels = {rule.id: rule.severity_in(file_context) for rule in RULES.values()}

    def policies(self) -> list[Policy]:
        """Return all policies in the order in which the Pulumi engine must run them."""
        described = "Settings of the GPU rules; reports settings that cannot be used."
        properties = {key: value for key, value in PROPERTIES.items() if key not in _NOT_CONFIGURED}
        alone = [rule for rule in RULES.values() if not rule.is_only_across]
        across = [rule for rule in RULES.values() if rule.across]
        notes = "Exempted violations, and what the GPU rules could not judge."
        return [
            ResourceValidationPolicy(
                name=SETTINGS,
                description=described,
                enforcement_level=EnforcementLevel.MANDATORY,
                validate=self._judge,
                config_schema=PolicyConfigSchema(properties=properties),
            ),
            *(
                ResourceValidationPolicy(validate=self._reporter(rule), **self._shown(rule))
                for rule in alone
            ),
            ResourceValidationPolicy(
                name=NOTES,
                description=notes,
                enforcement_level=EnforcementLevel.ADVISORY,
                validate=self._report_notes,
            ),
            StackValidationPolicy(
                name=f"{SETTINGS}{STACK}",
                description=f"{described} For the whole stack.",
                enforcement_level=EnforcementLevel.MANDATORY,
                validate=self._judge_stack,
            ),
            *(
                StackValidationPolicy(validate=self._reporter(rule), **self._shown(rule, STACK))
                for rule in across
            ),
            StackValidationPolicy(
                name=f"{NOTES}{STACK}",
                description=f"{notes} For the whole stack.",
                enforcement_level=EnforcementLevel.ADVISORY,
                validate=self._report_notes,
            ),
        ]

    def _shown(self, rule: Rule, end: str = "") -> dict[str, Any]:
        level = self._levels[rule.id]
        return {
            "name": f"{rule.id}{end}",
            "display_name": rule.title,
            "description": f"{rule.title}.",
            "enforcement_level": _LEVELS.get(level, EnforcementLevel.DISABLED),
            "url": link(rule.id),
        }

    def _reporter(self, rule: Rule) -> Callable[[Any, ReportViolation], None]:
        return lambda _, report: self._report(rule, report)

    def _judge(self, args: ResourceValidationArgs, report: ReportViolation) -> None:
        self._settings = {**self._found, **args.get_config()}
        self._keep(partial(judge_resource_by, self._settings, args), report)

    def _judge_stack(self, args: StackValidationArgs, report: ReportViolation) -> None:
        self._keep(lambda: (judge_stack_by(self._settings, args), []), report)

    def _keep(self, find: Callable[[], Judgement], report: ReportViolation) -> None:
        self._judged.violations, self._judged.remarks = [], []
        try:
            self._judged.violations, self._judged.remarks = find()
        except ValueError as error:
            report(str(error), None)
        for violation in filter(self._is_raised, self._judged.violations):
            report(violation.message, None)

    def _report(self, rule: Rule, report: ReportViolation) -> None:
        for violation in self._judged.violations:
            if violation.rule.id == rule.id and violation.severity is self._levels[rule.id]:
                report(violation.message, None)

    def _report_notes(self, _: object, report: ReportViolation) -> None:
        lowered = filter(self._is_lowered, self._judged.violations)
        for message in [*(violation.message for violation in lowered), *self._judged.remarks]:
            report(message, None)

    def _is_lowered(self, violation: Violation) -> bool:
        """Return whether a violation is advice, and the policy of its rule is not."""
        advice = Severity.ADVISORY
        return violation.severity is advice is not self._levels[violation.rule.id]

    def _is_raised(self, violation: Violation) -> bool:
        """Return whether a violation is mandatory, and the policy of its rule is not."""
        mandatory = Severity.MANDATORY
        return violation.severity is mandatory is not self._levels[violation.rule.id]


def policies(settings: dict[str, Any]) -> list[Policy]:
    """Return the policies of the pack, one for each rule.

    Args:
        settings: Settings from `.gpu-rules.yaml`; the Pulumi engine's configuration overrides them.
    """
    return _Pack(settings).policies()


def found_settings() -> dict[str, Any]:
    """Return the settings in `.gpu-rules.yaml` of the Pulumi project; empty without such a file.

    The Pulumi engine starts a policy pack in the pack's folder. The environment variable `PWD`
    still names the folder in which the engine was started.

    Raises:
        ContextError: The file has faults; the error lists all of them.
    """
    folder = os.environ.get("PWD")
    name = find_config(Path(folder)) if folder else None
    return settings_of(name, trusted=False) if name else {}


def start() -> None:
    """Serve the policy pack to the Pulumi engine that started this process."""
    receive_stack_configuration()
    mark_secrets()
    try:
        settings = found_settings()
    except ContextError as error:
        raise SystemExit(str(error)) from None
    PolicyPack(NAME, policies(settings))
