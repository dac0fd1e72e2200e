"""Rule GPU017: a pod must not set NVIDIA_VISIBLE_DEVICES, which the device plugin sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...context import Context, Severity
from ...kube.gpu_resources import GPU
from .. import cel
from ..each import each_container
from ..example import Example, pod_without_gpus
from ..pod_spec import Container
from ..rule import Finding, Rule, Subject
from ..signs import On, Sign
from ..twin import pods
from ..unknown import UNKNOWN, at, mapping, sequence, text
from .variable import NO_DEVICES, VARIABLE


def _devices_not_forced(container: Container, _: Context) -> Iterator[Finding]:
    for place, value in _named_devices(container):
        yield Finding(
            path=f"{container.path}.{place}",
            found=value,
            wanted="none or void, or no such variable",
            cure=f"Remove it and request {GPU} in limits: the device plugin sets the variable.",
        )


def _named_devices(container: Container) -> Iterator[tuple[str, str]]:
    """Yield each field by which a container may set NVIDIA_VISIBLE_DEVICES, and what was found.

    A prefix in envFrom can make a ConfigMap's key with another name into this variable.
    """
    for index, raw in enumerate(sequence(container.spec.get("env"))):
        env = mapping(raw)
        value = env.get("value")
        if env.get("name") != VARIABLE or value is UNKNOWN:
            continue
        if env.get("valueFrom") is not None or (value or "") not in NO_DEVICES:
            yield f"env[{index}]", f"{VARIABLE} set by the pod"
    for index, source in enumerate(sequence(container.spec.get("envFrom"))):
        prefix = text(at(source, "prefix"))
        if prefix and VARIABLE.startswith(prefix):
            yield f"envFrom[{index}].prefix", f"{prefix}, with which a key can become {VARIABLE}"


RULE = Rule(
    id="GPU017",
    title="Only the device plugin sets NVIDIA_VISIBLE_DEVICES",
    severity=Severity.MANDATORY,
    check=each_container(_devices_not_forced, when=Subject.is_workload),
    why="The NVIDIA runtime gives a container the GPUs that this variable names, even if the "
    "scheduler does not count them. The value in the pod overrides the value of the device "
    "plugin. With a prefix in envFrom, a key of a ConfigMap with another name can become "
    "this variable.",
    source="kubernetes v1.34.4 pkg/kubelet/kubelet_pods.go; nvidia-container-toolkit "
    "api/config/v1/toml.go accept-nvidia-visible-devices-envvar-when-unprivileged",
)

PREFIXED: Final = (
    f'c.?envFrom{cel.OR_LIST}.exists(e, e.?prefix.orValue("") != "" && '
    f'"{VARIABLE}".startsWith(e.prefix))'
)

_SIGN = Sign(
    f"c.?env{cel.OR_LIST}.exists(e, e.name == {cel.text(VARIABLE)}) || {PREFIXED}", On.CONTAINER
)

TWIN = pods(
    cel.in_workloads(
        cel.each_container(
            f'c.?env{cel.OR_LIST}.exists(e, e.name == "{VARIABLE}" && (has(e.valueFrom) || '
            f'!(e.?value.orValue("") in {cel.texts(NO_DEVICES)}))) || {PREFIXED}',
            f'"{VARIABLE} set by the pod"',
            "variables.judged",
        )
    ),
    ephemeral=True,
    signs=(_SIGN,),
)

EXAMPLE = Example.edited(
    pod_without_gpus(
        ("resources:", "env: [{name: NVIDIA_VISIBLE_DEVICES, value: none}]\n      resources:")
    ),
    ("value: none", "value: all"),
)
