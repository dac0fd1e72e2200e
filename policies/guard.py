"""The same rules inside the program, for runs that load no policy pack."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from enum import Enum

import pulumi

from .declared import PREFIXES, judge
from .rules import UNKNOWN, Context, Severity

# Below these keys the names are the user's own, at the first level or at all of them; elsewhere
# snake_case is Python's way of writing camelCase.
_FREE = frozenset(
    {"labels", "annotations", "limits", "requests", "nodeSelector", "matchLabels", "hard", "max"}
    | {"min", "default", "defaultRequest", "overhead", "data", "stringData", "environment"}
    | {"capacity", "allocatable"}
)
_FREE_BELOW = frozenset({"values"})


class _Names(Enum):
    """Whose the keys of a mapping are."""

    OURS = "camelCase or snake_case"
    FREE = "the user's, but not below"
    ALL_FREE = "the user's, and all below"


class RuleBroken(pulumi.RunError):
    """What a program declares breaks a mandatory rule."""


def enforce(context: Context) -> None:
    """Hold every resource that the program registers from now on against the mandatory rules.

    Registers a stack transformation, so it costs no call to the engine. A resource that breaks a
    rule raises `RuleBroken` where it is made. `context`: what is known of the cluster.
    """
    pulumi.runtime.register_stack_transformation(judging(context))


def judging(context: Context) -> pulumi.ResourceTransformation:
    """Return a transformation that holds each resource against the mandatory rules, as `enforce`.

    For one component's children: `pulumi.ResourceOptions(transformations=[judging(context)])`.
    """

    def check(
        args: pulumi.ResourceTransformationArgs,
    ) -> pulumi.ResourceTransformationResult | None:
        check_declared(args.type_, args.name, args.props, context)
        return None

    return check


def check_declared(
    type_: str, name: str, props: Mapping[str, object] | object, context: Context
) -> None:
    """Raise `RuleBroken` with the text of each mandatory rule that a resource breaks.

    `type_`: the resource's type token; `name`: its Pulumi name; `props`: its arguments as the
    program gave them. Outputs in them count as unknown: the policy pack sees more of them.
    """
    if not type_.startswith(PREFIXES):
        return
    plain = _plain(props)
    if not isinstance(plain, dict):
        return
    broken = [
        violation
        for violation in judge(type_, plain, context)
        if violation.severity is Severity.MANDATORY
    ]
    if broken:
        lines = "\n".join(f"  {violation.message}" for violation in broken)
        raise RuleBroken(f"{type_} {name}: refused by the GPU rules\n{lines}")


def _plain(value: object, names: _Names = _Names.OURS) -> object:
    """Arguments as plain data with Kubernetes' names; outputs and promises become `UNKNOWN`."""
    if isinstance(value, pulumi.Output) or inspect.isawaitable(value):
        return UNKNOWN
    if isinstance(value, Mapping) or hasattr(type(value), "_pulumi_input_type"):
        items = value if isinstance(value, Mapping) else vars(value)
        result: dict[str, object] = {}
        for key, item in items.items():
            if item is not None and isinstance(key, str):
                name = _camel(key) if names is _Names.OURS else key
                result[name] = _plain(item, _below(name, names))
        return result
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_plain(item, names) for item in value]
    return value


def _below(name: str, names: _Names) -> _Names:
    if names is _Names.OURS and name in _FREE:
        return _Names.FREE
    if names is _Names.ALL_FREE or (names is _Names.OURS and name in _FREE_BELOW):
        return _Names.ALL_FREE
    return _Names.OURS


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)
