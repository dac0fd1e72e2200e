"""Rule GPU035: a ConfigMap or Secret must not contain NVIDIA_VISIBLE_DEVICES."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.gpu_resources import GPU
from .. import cel
from ..each import each_object
from ..example import Example
from ..rule import Finding, Rule, Subject
from ..twin import Scope, Twin
from ..unknown import UNKNOWN, at, mapping, text
from .variable import NO_DEVICES, VARIABLE


def _not_by_reference(subject: Subject, context: Context) -> Iterator[Finding]:
    reference_path, value = _by_reference(subject) if subject.is_workload(context) else ("", None)
    if reference_path and value is not UNKNOWN and value not in NO_DEVICES:
        yield Finding(
            path=f"{reference_path}[{VARIABLE}]",
            found=f"{VARIABLE} in an object that containers can take their environment from",
            wanted="no such key",
            cure=f"Remove it; containers request {GPU} in limits.",
        )


def _by_reference(subject: Subject) -> tuple[str, object]:
    """Return the field that sets NVIDIA_VISIBLE_DEVICES, and its value.

    Without such a field, return an empty string and None. Values in a Secret's `data`
    are base64, and `stringData` overrides them (kubernetes v1.34.4
    pkg/apis/core/v1/conversion.go Convert_v1_Secret_To_core_Secret).
    """
    if subject.kind == "Secret":
        plain = at(subject.manifest, "stringData")
        if plain is UNKNOWN or VARIABLE in mapping(plain):
            return "stringData", at(plain, VARIABLE)
    data = mapping(at(subject.manifest, "data"))
    if VARIABLE not in data:
        return "", None
    value = data[VARIABLE]
    return "data", _decode_secret(value) if subject.kind == "Secret" else value


def _decode_secret(value: object) -> object:
    """Return the decoded text of a base64 value as Go reads it, or None if it is invalid."""
    if value is UNKNOWN or not isinstance(value, str):
        return value if value is UNKNOWN else None
    try:
        return b64decode(re.sub(r"[\r\n]", "", text(value)), validate=True).decode()
    except ValueError:
        return None


RULE = Rule(
    id="GPU035",
    title="No ConfigMap or Secret sets NVIDIA_VISIBLE_DEVICES",
    severity=Severity.MANDATORY,
    check=each_object(_not_by_reference, "ConfigMap", "Secret"),
    why="A container that takes its environment from such an object (envFrom) gets the GPUs "
    "that the variable names, and the manifest of the container does not show it.",
    source="kubernetes v1.34.4 pkg/kubelet/kubelet_pods.go makeEnvironmentVariables",
)

_ENCODED = cel.texts(b64encode(value.encode()).decode() for value in NO_DEVICES)

_VALUES = f"dyn(object).?data{cel.OR_MAP}"

_NONE = f'(dyn(object).kind == "Secret" ? {_ENCODED} : {cel.texts(NO_DEVICES)})'

TWIN = Twin(
    cel.in_workloads(
        cel.unless_empty(
            f'"{VARIABLE}" in {_VALUES} && !({_VALUES}["{VARIABLE}"] in {_NONE})',
            f'"found {VARIABLE}"',
        )
    ),
    scopes=frozenset({Scope.VALUES}),
)

EXAMPLE = Example.edited(
    """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {NVIDIA_DRIVER_CAPABILITIES: compute}
""",
    ("data: {NVIDIA_DRIVER_CAPABILITIES: compute}", "data: {NVIDIA_VISIBLE_DEVICES: all}"),
)
