"""Rule GPU012: a LimitRange must not give GPUs to containers that request none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...context import Context, Severity
from .. import cel
from ..each import limit_items
from ..example import Example
from ..pod_spec import Resource, resource_list
from ..resource_names import is_gpu
from ..rule import Finding, Rule, Subject
from ..twin import Scope, Twin
from ..unknown import UNKNOWN

_FIELDS = ("max", "default", "defaultRequest", "min")


def _hands_out(lists: Mapping[str, Mapping[str, Resource]], name: str) -> Resource | None:
    """Return the entry of a Container limit that gives GPUs to containers that request none.

    In SetDefaults_LimitRangeItem, the default limit is `max`, and the default request is the limit
    or `min`.

    Args:
        lists: Entries of the limit's fields, by field.
        name: Name of the GPU resource.
    """
    limit = lists["default"].get(name) or lists["max"].get(name)
    for entry in (limit, lists["defaultRequest"].get(name), lists["min"].get(name)):
        if entry and entry.quantity and entry.quantity.milli > 0:
            return entry
    return None


def _limit_range(subject: Subject, context: Context) -> Iterator[Finding]:
    for path, raw in limit_items(subject):
        lists = {key: resource_list(raw.get(key), f"{path}.{key}") for key in _FIELDS}
        names = sorted({n for limits in lists.values() for n in limits if is_gpu(n, context)})
        if any(raw.get(key) is UNKNOWN for key in _FIELDS):
            continue
        for name in names:
            if raw.get("type") == "Container" and (entry := _hands_out(lists, name)):
                yield Finding(
                    path=entry.path,
                    found=f"{entry.quantity}, the default of every container that requests none",
                    wanted=f"no {name} in a LimitRange",
                    cure=f"Limit GPUs with a ResourceQuota for requests.{name}.",
                )
            if raw.get("type") == "Pod" and (lists["max"].get(name) or lists["min"].get(name)):
                yield Finding(
                    path=path,
                    found=f"{name} in limits of type Pod",
                    wanted=f"no {name} in a LimitRange",
                    cure="Remove it: the API server would reject every pod without GPUs.",
                )


RULE = Rule(
    id="GPU012",
    title="A LimitRange gives no GPUs to containers",
    severity=Severity.MANDATORY,
    check=_limit_range,
    why="A maximum of 8 for containers is also their default: a container that requests nothing "
    "gets 8 GPUs. A minimum or maximum for pods makes the API server reject every pod "
    "without GPUs.",
    source="kubernetes v1.34.4 pkg/apis/core/v1/defaults.go SetDefaults_LimitRangeItem, "
    "plugin/pkg/admission/limitranger/admission.go; run on an API server 1.34.4",
    whole=True,
)


_MAX = cel.resources("i", "max")


def _gives_cel(field: str) -> str:
    """Return CEL that is true if a field of limit item `i` has more than 0 of a GPU resource."""
    listed = cel.resources("i", field)
    return f"{listed}.exists(n, {cel.is_gpu('n')} && {cel.positive(f'{listed}[n]')})"


def _names_cel(field: str) -> str:
    return f"{cel.resources('i', field)}.exists(n, {cel.is_gpu('n')})"


# The API server has already copied `max` to `default`, and `default` to `defaultRequest`. A
# manifest that it has not read yet may have `max` alone.
_GIVES = (
    *map(_gives_cel, ("default", "defaultRequest", "min")),
    f"{_MAX}.exists(n, {cel.is_gpu('n')} && !(n in {cel.resources('i', 'default')}) && "
    f"{cel.positive(f'{_MAX}[n]')})",
)
TWIN = Twin(
    f'object.spec.?limits{cel.OR_LIST}.filter(i, (i.type == "Container" && ('
    + " || ".join(_GIVES)
    + ')) || (i.type == "Pod" && ('
    + " || ".join(map(_names_cel, ("max", "min")))
    + '))).map(i, "found GPUs in limits of type " + i.type)',
    scopes=frozenset({Scope.LIMIT_RANGES}),
)

EXAMPLE = Example.edited(
    """\
apiVersion: v1
kind: LimitRange
metadata: {name: limits}
spec:
  limits:
    - type: Container
      max: {memory: 64Gi}
""",
    ("max: {memory: 64Gi}", "max: {nvidia.com/gpu: 8}"),
)
