"""Enforce the GPU rules inside a Pulumi program, for runs of Pulumi without the policy pack."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import pulumi

from .declared import PREFIXES, judge
from .rules import UNKNOWN, Context, Severity

# Names of mappings whose keys the user chooses, such as labels. Keys of all other mappings are
# field names: in snake_case they are Python's spelling of Kubernetes' camelCase names.
# `_FREE_BELOW` has the mappings in which the user chooses the keys at all levels: Helm values.
_FREE = frozenset(
    {"labels", "annotations", "limits", "requests", "nodeSelector", "matchLabels", "hard", "max"}
    | {"min", "default", "defaultRequest", "overhead", "data", "stringData", "environment"}
    | {"capacity", "allocatable"}
)
_FREE_BELOW = frozenset({"values"})


class _Names(Enum):
    """Kind of a mapping's keys: field names of Kubernetes, or keys that the user chooses."""

    OURS = "camelCase or snake_case"
    FREE = "the user's, but not below"
    ALL_FREE = "the user's, and all below"


class RuleBroken(pulumi.RunError):
    """A resource of the Pulumi program breaks a mandatory GPU rule."""


_broken: weakref.WeakKeyDictionary[pulumi.Resource, RuleBroken] = weakref.WeakKeyDictionary()
"""The first refusal of each program, by the resource of its stack."""


def enforce(context: Context) -> None:
    """Check each resource that the Pulumi program registers later against the mandatory GPU rules.

    The check is a stack transformation, so it needs no extra call to the Pulumi engine. A resource
    that breaks a rule raises `RuleBroken` at the line that creates the resource.
    """
    pulumi.runtime.register_stack_transformation(judging(context))


def judging(context: Context) -> pulumi.ResourceTransformation:
    """Return a Pulumi transformation that checks resources against the mandatory GPU rules.

    Use it for the children of one component:
    `pulumi.ResourceOptions(transformations=[judging(context)])`.
    """

    def check(
        args: pulumi.ResourceTransformationArgs,
    ) -> pulumi.ResourceTransformationResult | None:
        try:
            check_declared(args.type_, args.name, args.props, context)
        except RuleBroken as error:
            if root := pulumi.runtime.get_root_resource():
                _broken.setdefault(root, error)
            raise
        return None

    return check


async def all_judged() -> list[pulumi.Resource]:
    """Return no resource; raise an error if a resource of the program breaks a rule.

    A resource that `depends_on` the result is not created in a program that breaks a rule, wherever
    the program declares what breaks it. The SDK sends resources to the engine only when the program
    has declared all of them, also after an error (pulumi 3.250.0, runtime/stack.py,
    run_pulumi_func); without this check the engine creates those that were declared before.

    Raises:
        RuleBroken: A resource of the program breaks a mandatory rule.
    """
    root = pulumi.runtime.get_root_resource()
    if root is not None and (error := _broken.get(root)):
        asyncio.get_running_loop().set_exception_handler(_report)
        raise RuleBroken(str(error))
    return []


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report an error of the event loop, except those of resources that are not created."""
    if not isinstance(context.get("exception"), RuleBroken):
        loop.default_exception_handler(context)


def check_declared(
    type_: str, name: str, props: Mapping[str, object] | object, context: Context
) -> None:
    """Raise an error with one line for each violation of a mandatory rule by a resource.

    Args:
        type_: Type token of the resource.
        name: Pulumi name of the resource.
        props: Arguments of the resource as the program passed them. Each Pulumi output counts as an
            unknown value. The policy pack runs later, when more outputs have values.

    Raises:
        RuleBroken: The resource breaks at least one mandatory rule.
    """
    if not type_.startswith(PREFIXES):
        return
    plain = _plain_arguments(props)
    if not isinstance(plain, dict):
        return
    broken = [
        violation
        for violation in judge(type_, plain, context)
        if violation.severity is Severity.MANDATORY
    ]
    if broken:
        lines = "\n".join(f"  {violation.message}" for violation in broken)
        raise RuleBroken(f"{type_} {name}: rejected by the GPU rules\n{lines}")


def _plain_arguments(value: object, names: _Names = _Names.OURS) -> object:
    """Return a resource's arguments as plain data with Kubernetes' field names.

    Each Pulumi output becomes `UNKNOWN`.
    """
    if isinstance(value, pulumi.Output) or inspect.isawaitable(value):
        return UNKNOWN
    if isinstance(value, Mapping) or hasattr(type(value), "_pulumi_input_type"):
        items = value if isinstance(value, Mapping) else vars(value)
        result: dict[str, object] = {}
        for key, item in items.items():
            if item is not None and isinstance(key, str):
                name = _field_name(key) if names is _Names.OURS else key
                result[name] = _plain_arguments(item, _names_below(name, names))
        return result
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_plain_arguments(item, names) for item in value]
    return value


def _names_below(name: str, names: _Names) -> _Names:
    if names is _Names.OURS and name in _FREE:
        return _Names.FREE
    if names is _Names.ALL_FREE or (names is _Names.OURS and name in _FREE_BELOW):
        return _Names.ALL_FREE
    return _Names.OURS


def _field_name(name: str) -> str:
    head, *further_words = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in further_words)
