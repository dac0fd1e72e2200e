"""The policy pack: two policies, one by level of enforcement, over one evaluation.

The SDK reads a resource again for each policy and enforcement is per policy, so there are as few
policies as there are levels. The first judges a resource by all rules, reports what is mandatory
and leaves the rest to the second.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError

from policies.declared import judge
from policies.rules import UNKNOWN, Severity, Violation
from policies.settings import SCHEMA, context_for

NAME = "gpu-rules"
MANDATORY = "gpu-rules-mandatory"
ADVISORY = "gpu-rules-advisory"

_judged = threading.local()


def plain(value: object) -> object:
    """What a policy is given, as plain data: `UNKNOWN` stands for each value not known yet.

    Reading an unknown value raises, and the SDK then reduces the whole policy to a remark
    (pulumi-policy 1.21.0 policy.py Analyze); so each value is read on its own.
    """
    if isinstance(value, Mapping):
        return {key: _item(value, key) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_item(value, index) for index in range(len(value))]
    return value


def _item(container: Any, key: object) -> object:
    try:
        return plain(container[key])
    except UnknownValueError:
        return UNKNOWN


def judge_resource(args: ResourceValidationArgs) -> list[Violation]:
    """All violations of a resource, by the pack's settings and the stack's pools."""
    if not args.resource_type.startswith("kubernetes:"):
        return []
    props = {key: _item(args.props, key) for key in args.props}
    return judge(args.resource_type, props, context_for(args.get_config()))


def _report(violations: Iterable[Violation], severity: Severity, report: ReportViolation) -> None:
    for violation in violations:
        if violation.severity is severity:
            report(violation.message, None)


def _mandatory(args: ResourceValidationArgs, report: ReportViolation) -> None:
    _judged.urn = None
    try:
        violations = judge_resource(args)
    except ValueError as error:
        report(str(error), None)
        return
    _judged.urn, _judged.violations = args.urn, violations
    _report(violations, Severity.MANDATORY, report)


def _advisory(args: ResourceValidationArgs, report: ReportViolation) -> None:
    if getattr(_judged, "urn", None) == args.urn:
        _report(_judged.violations, Severity.ADVISORY, report)


def policies() -> list[Policy]:
    """The policies of the pack; the second depends on the first, which has the settings."""
    return [
        ResourceValidationPolicy(
            name=MANDATORY,
            description="GPU rules that a deployment must keep.",
            enforcement_level=EnforcementLevel.MANDATORY,
            validate=_mandatory,
            config_schema=SCHEMA,
        ),
        ResourceValidationPolicy(
            name=ADVISORY,
            description="GPU rules that a deployment should keep.",
            enforcement_level=EnforcementLevel.ADVISORY,
            validate=_advisory,
        ),
    ]
