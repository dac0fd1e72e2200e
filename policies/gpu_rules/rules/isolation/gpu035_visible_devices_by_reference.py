"""Rule GPU035: a ConfigMap or Secret must not contain a variable that selects devices."""

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
from .variable import CHANNELS, NO_DEVICES, VARIABLES


def _not_by_reference(subject: Subject, context: Context) -> Iterator[Finding]:
    if not subject.is_workload(context):
        return
    for name in VARIABLES:
        reference_path, value = _by_reference(subject, name)
        if reference_path and value is not UNKNOWN and value not in NO_DEVICES:
            yield Finding(
                path=f"{reference_path}[{name}]",
                found=f"{name} in an object that containers can take their environment from",
                wanted="no such key",
                cure=f"Remove it; containers request {GPU} in limits.",
                is_opinion=name == CHANNELS,
            )


def _by_reference(subject: Subject, name: str) -> tuple[str, object]:
    """Return the field that sets a variable, and its value.

    Without such a field, return an empty string and None. Values in a Secret's `data`
    are base64, and `stringData` overrides them (kubernetes v1.34.4
    pkg/apis/core/v1/conversion.go Convert_v1_Secret_To_core_Secret).
    """
    if subject.kind == "Secret":
        plain = at(subject.manifest, "stringData")
        if plain is UNKNOWN or name in mapping(plain):
            return "stringData", at(plain, name)
    data = mapping(at(subject.manifest, "data"))
    if name not in data:
        return "", None
    value = data[name]
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
    title="No ConfigMap or Secret selects devices by variables such as NVIDIA_VISIBLE_DEVICES",
    severity=Severity.MANDATORY,
    check=each_object(_not_by_reference, "ConfigMap", "Secret"),
    opinions=CHANNELS,
    why="A container that takes its environment from such an object (envFrom) gets the devices "
    "that the variable names (GPU017), and the manifest of the container does not show it.",
    source="kubernetes v1.34.4 pkg/kubelet/kubelet_pods.go makeEnvironmentVariables",
)

_ENCODED = cel.texts(b64encode(value.encode()).decode() for value in NO_DEVICES)

_VALUES = f"dyn(object).?data{cel.OR_MAP}"

_NONE = f'(dyn(object).kind == "Secret" ? {_ENCODED} : {cel.texts(NO_DEVICES)})'

TWIN = Twin(
    cel.in_workloads(
        f"{cel.texts(VARIABLES)}.filter(v, v in {_VALUES} && !({_VALUES}[v] in {_NONE}))"
        '.map(v, "found " + v)'
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
