"""The Pulumi policy pack `gpu-rules`, with four policies that together apply all GPU rules.

A mandatory and an advisory policy check single resources; another such pair checks the stack as a
whole. There is not a policy for each rule, because the SDK deserializes a resource again for each
policy. The mandatory policy of a pair runs all rules and reports the mandatory violations. The
advisory policy reports the advisory violations that the mandatory policy has found. All policies
use the settings of the policy `gpu-rules-mandatory`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError

from .charts import NotRendered, judge_rendered
from .declared import PREFIXES, is_partial, judge, manifest_of, unjudged
from .rules import UNKNOWN, Severity, Violation, evaluate_stack
from .rules.secret import is_secret, reveal
from .settings import (
    SCHEMA,
    StackReader,
    context_for,
    mark_secrets,
    read_stacks_by,
    receive_stack_configuration,
)

NAME = "gpu-rules"
MANDATORY = "gpu-rules-mandatory"
ADVISORY = "gpu-rules-advisory"
STACK_MANDATORY = "gpu-rules-stack-mandatory"
STACK_ADVISORY = "gpu-rules-stack-advisory"

_RELEASE = "kubernetes:helm.sh/v3:Release"
_UNREAD = "GPUs may be requested here in a way that no rule reads"
Judgement = tuple[list[Violation], list[str]]
"""Rule violations, and remarks on parts of a resource that could not be checked."""

_judged = threading.local()
_settings: dict[str, Any] = {}
"""Configuration of the policy `gpu-rules-mandatory`.

The Pulumi engine checks resources before the stack, so the stack policies find this set.
"""


def plain(value: object, secrets: bool = False) -> object:
    """Return a policy's input as plain data, with `UNKNOWN` for each value that is not known yet.

    pulumi-policy raises an error if an unknown value is read. If the policy does not catch the
    error, the SDK skips the policy for this resource (pulumi-policy 1.21.0 policy.py Analyze).
    So each value is read separately.

    Args:
        value: A resource's properties, or a part of them.
        secrets: Whether to keep the marks that say which values are Pulumi secrets.
    """
    if isinstance(value, Mapping):
        result = {key: _plain_item(value, key, secrets) for key in value}
        return reveal(result) if is_secret(result) and not secrets else result
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_plain_item(value, index, secrets) for index in range(len(value))]
    return value


def _plain_item(container: Any, key: object, secrets: bool) -> object:
    try:
        return plain(container[key], secrets)
    except UnknownValueError:
        return UNKNOWN


def _plain_properties(resource_type: str, props: Mapping[str, Any]) -> dict[str, object]:
    keep = not resource_type.startswith("kubernetes:")
    return {key: _plain_item(props, key, keep) for key in props}


def judge_resource_by(settings: Mapping[str, Any], args: ResourceValidationArgs) -> Judgement:
    """Return all rule violations of a resource, and remarks on what could not be checked.

    Args:
        settings: Settings of the policy pack.
        args: The resource, as pulumi-policy passes it to a policy.
    """
    if not args.resource_type.startswith(PREFIXES):
        return [], []
    props = _plain_properties(args.resource_type, args.props)
    context = context_for(settings)
    violations = judge(args.resource_type, props, context)
    remarks = [
        f"{unread_field.path}: not checked: {unread_field.reason or _UNREAD}"
        for unread_field in unjudged(args.resource_type, props, context)
    ]
    if args.resource_type == _RELEASE:
        try:
            violations += judge_rendered(props, context)
        except NotRendered as error:
            remarks.append(
                f"the chart's objects are not checked, only the release's values: {error}; "
                "cure: `helm template` shows the chart's own faults"
            )
    return violations, remarks


def judge_stack_by(settings: Mapping[str, Any], args: StackValidationArgs) -> list[Violation]:
    """Return the violations of rules that compare several resources of a stack.

    Patch resources are left out, because they declare only some fields of an object.

    Args:
        settings: Settings of the policy pack.
        args: All resources of the stack.
    """
    manifests = (
        manifest_of(
            resource.resource_type, _plain_properties(resource.resource_type, resource.props)
        )
        for resource in args.resources
        if resource.resource_type.startswith(PREFIXES) and not is_partial(resource.resource_type)
    )
    return evaluate_stack(filter(None, manifests), context_for(settings))


def _report_violations(
    violations: Iterable[Violation], severity: Severity, report: ReportViolation
) -> None:
    for violation in violations:
        if violation.severity is severity:
            report(violation.message, None)


def _report_first(subject: object, find: Callable[[], Judgement], report: ReportViolation) -> None:
    _judged.subject = None
    try:
        violations, remarks = find()
    except ValueError as error:
        report(str(error), None)
        return
    _judged.subject, _judged.violations, _judged.remarks = subject, violations, remarks
    _report_violations(violations, Severity.MANDATORY, report)


def _report_second(subject: object, report: ReportViolation) -> None:
    if getattr(_judged, "subject", None) == subject:
        _report_violations(_judged.violations, Severity.ADVISORY, report)
        for remark in _judged.remarks:
            report(remark, None)


def _judge_mandatory(args: ResourceValidationArgs, report: ReportViolation) -> None:
    _settings.clear()
    _settings.update(args.get_config())
    _report_first(args.urn, lambda: judge_resource_by(_settings, args), report)


def _judge_advisory(args: ResourceValidationArgs, report: ReportViolation) -> None:
    _report_second(args.urn, report)


def _stack_mandatory(args: StackValidationArgs, report: ReportViolation) -> None:
    _report_first(STACK_MANDATORY, lambda: (judge_stack_by(_settings, args), []), report)


def _stack_advisory(_: StackValidationArgs, report: ReportViolation) -> None:
    _report_second(STACK_MANDATORY, report)


def policies() -> list[Policy]:
    """Return the four policies; a mandatory policy must run before its advisory policy."""
    must, should = "GPU rules that a deployment must keep", "GPU rules that it should keep"
    return [
        ResourceValidationPolicy(
            name=MANDATORY,
            description=f"{must}.",
            enforcement_level=EnforcementLevel.MANDATORY,
            validate=_judge_mandatory,
            config_schema=SCHEMA,
        ),
        ResourceValidationPolicy(
            name=ADVISORY,
            description=f"{should}.",
            enforcement_level=EnforcementLevel.ADVISORY,
            validate=_judge_advisory,
        ),
        StackValidationPolicy(
            name=STACK_MANDATORY,
            description=f"{must} as a whole.",
            enforcement_level=EnforcementLevel.MANDATORY,
            validate=_stack_mandatory,
        ),
        StackValidationPolicy(
            name=STACK_ADVISORY,
            description=f"{should} as a whole.",
            enforcement_level=EnforcementLevel.ADVISORY,
            validate=_stack_advisory,
        ),
    ]


def start(read_stack: StackReader | None = None) -> None:
    """Serve the policy pack to the Pulumi engine that started this process.

    Args:
        read_stack: Function that parses the stack's configuration key `gpu-cluster:cluster`. If
            None, the facts about the cluster come only from the policy pack's configuration.
    """
    receive_stack_configuration()
    mark_secrets()
    if read_stack:
        read_stacks_by(read_stack)
    PolicyPack(NAME, policies())
