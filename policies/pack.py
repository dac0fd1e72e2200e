"""The policy pack: one policy by level of enforcement, for resources and for the whole stack.

The SDK reads a resource again for each policy and enforcement is per policy, so there are as few
policies as there are levels. The first of a pair judges by all rules, reports what is mandatory
and leaves the rest to the second. All have the settings of the first.
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
from .declared import PREFIXES, is_partial, judge, manifest_of
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
Judgement = tuple[list[Violation], list[str]]
"""What is violated, and remarks on what could not be judged."""

_judged = threading.local()
_settings: dict[str, Any] = {}
"""What `gpu-rules-mandatory` was configured with; the engine judges resources before the stack."""


def plain(value: object, secrets: bool = False) -> object:
    """What a policy is given, as plain data: `UNKNOWN` stands for each value not known yet.

    Reading an unknown value raises, and the SDK then reduces the whole policy to a remark
    (pulumi-policy 1.21.0 policy.py Analyze); so each value is read on its own. `secrets`: keep
    the marks of secrets.
    """
    if isinstance(value, Mapping):
        result = {key: _item(value, key, secrets) for key in value}
        return reveal(result) if is_secret(result) and not secrets else result
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_item(value, index, secrets) for index in range(len(value))]
    return value


def _item(container: Any, key: object, secrets: bool) -> object:
    try:
        return plain(container[key], secrets)
    except UnknownValueError:
        return UNKNOWN


def _properties(resource_type: str, props: Mapping[str, Any]) -> dict[str, object]:
    keep = not resource_type.startswith("kubernetes:")
    return {key: _item(props, key, keep) for key in props}


def judge_resource(args: ResourceValidationArgs) -> Judgement:
    """All violations of a resource, by the pack's settings and the stack's pools."""
    if not args.resource_type.startswith(PREFIXES):
        return [], []
    props = _properties(args.resource_type, args.props)
    context = context_for(_settings)
    violations = judge(args.resource_type, props, context)
    if args.resource_type == _RELEASE:
        try:
            violations += judge_rendered(props, context)
        except NotRendered as error:
            remark = (
                f"the chart's objects are not judged, only the release's values: {error}; "
                "cure: `helm template` shows the chart's own faults"
            )
            return violations, [remark]
    return violations, []


def judge_stack(args: StackValidationArgs) -> list[Violation]:
    """The violations that only the whole stack shows; patches tell too little to count."""
    manifests = (
        manifest_of(resource.resource_type, _properties(resource.resource_type, resource.props))
        for resource in args.resources
        if resource.resource_type.startswith(PREFIXES) and not is_partial(resource.resource_type)
    )
    return evaluate_stack(filter(None, manifests), context_for(_settings))


def _report(violations: Iterable[Violation], severity: Severity, report: ReportViolation) -> None:
    for violation in violations:
        if violation.severity is severity:
            report(violation.message, None)


def _first(subject: object, find: Callable[[], Judgement], report: ReportViolation) -> None:
    _judged.subject = None
    try:
        violations, remarks = find()
    except ValueError as error:
        report(str(error), None)
        return
    _judged.subject, _judged.violations, _judged.remarks = subject, violations, remarks
    _report(violations, Severity.MANDATORY, report)


def _second(subject: object, report: ReportViolation) -> None:
    if getattr(_judged, "subject", None) == subject:
        _report(_judged.violations, Severity.ADVISORY, report)
        for remark in _judged.remarks:
            report(remark, None)


def _mandatory(args: ResourceValidationArgs, report: ReportViolation) -> None:
    _settings.clear()
    _settings.update(args.get_config())
    _first(args.urn, lambda: judge_resource(args), report)


def _advisory(args: ResourceValidationArgs, report: ReportViolation) -> None:
    _second(args.urn, report)


def _stack_mandatory(args: StackValidationArgs, report: ReportViolation) -> None:
    _first(STACK_MANDATORY, lambda: (judge_stack(args), []), report)


def _stack_advisory(_: StackValidationArgs, report: ReportViolation) -> None:
    _second(STACK_MANDATORY, report)


def policies() -> list[Policy]:
    """The policies of the pack; each second depends on the one before it."""
    must, should = "GPU rules that a deployment must keep", "GPU rules that it should keep"
    return [
        ResourceValidationPolicy(
            name=MANDATORY,
            description=f"{must}.",
            enforcement_level=EnforcementLevel.MANDATORY,
            validate=_mandatory,
            config_schema=SCHEMA,
        ),
        ResourceValidationPolicy(
            name=ADVISORY,
            description=f"{should}.",
            enforcement_level=EnforcementLevel.ADVISORY,
            validate=_advisory,
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
    """Serve the pack to the engine that runs this process.

    Args:
        read_stack: reads what the stack declares as `gpu-cluster:cluster`; without it the pack
            knows of the cluster what its configuration says.
    """
    receive_stack_configuration()
    mark_secrets()
    if read_stack:
        read_stacks_by(read_stack)
    PolicyPack(NAME, policies())
