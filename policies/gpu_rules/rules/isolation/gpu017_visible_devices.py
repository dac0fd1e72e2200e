"""Rule GPU017: a pod must not set the variables by which the NVIDIA runtime selects devices."""

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
from .variable import CHANNELS, NO_DEVICES, VARIABLES


def _devices_not_forced(container: Container, _: Context) -> Iterator[Finding]:
    for place, name, value in _named_devices(container):
        yield Finding(
            path=f"{container.path}.{place}",
            found=value,
            wanted="none or void, or no such variable",
            cure=f"Remove it and request {GPU} in limits: the device plugin sets the variable.",
            is_opinion=name == CHANNELS,
        )


def _named_devices(container: Container) -> Iterator[tuple[str, str, str]]:
    """Yield each field by which a container may set one of `VARIABLES`: place, variable, text.

    A prefix in envFrom can make a ConfigMap's key with another name into such a variable.
    """
    for index, raw in enumerate(sequence(container.spec.get("env"))):
        env = mapping(raw)
        name, value = text(env.get("name")), env.get("value")
        if name not in VARIABLES or value is UNKNOWN:
            continue
        if env.get("valueFrom") is not None or (value or "") not in NO_DEVICES:
            yield f"env[{index}]", name, f"{name} set by the pod"
    for index, source in enumerate(sequence(container.spec.get("envFrom"))):
        prefix = text(at(source, "prefix"))
        named = [name for name in VARIABLES if prefix and name.startswith(prefix)]
        if named:
            found = f"{prefix}, with which a key can become {named[-1]}"
            yield f"envFrom[{index}].prefix", named[-1], found


RULE = Rule(
    id="GPU017",
    title="Only the device plugin selects devices by variables such as NVIDIA_VISIBLE_DEVICES",
    severity=Severity.MANDATORY,
    check=each_container(_devices_not_forced, when=Subject.is_workload),
    opinions=f"{CHANNELS}, which public jobs across nodes set",
    why="The NVIDIA runtime gives a container the GPUs that NVIDIA_VISIBLE_DEVICES names, even if "
    "the scheduler does not count them. The value in the pod overrides the value of the device "
    "plugin. NVIDIA_IMEX_CHANNELS gives channels to the memory of GPUs on other nodes, and "
    "NVIDIA_NVSWITCH the switches between all GPUs. With a prefix in envFrom, a key of a ConfigMap "
    "with another name can become such a variable.",
    source="kubernetes v1.34.4 pkg/kubelet/kubelet_pods.go; nvidia-container-toolkit v1.20.2 "
    "api/config/v1/toml.go accept-nvidia-visible-devices-envvar-when-unprivileged, "
    "internal/config/image/cuda_image.go, internal/modifier/cdi.go",
)

PREFIXED: Final = (
    f'c.?envFrom{cel.OR_LIST}.exists(e, e.?prefix.orValue("") != "" && '
    f"{cel.texts(VARIABLES)}.exists(v, v.startsWith(e.prefix)))"
)

_SIGN = Sign(
    f"c.?env{cel.OR_LIST}.exists(e, e.name in {cel.texts(VARIABLES)}) || {PREFIXED}", On.CONTAINER
)

TWIN = pods(
    cel.in_workloads(
        cel.each_container(
            f"c.?env{cel.OR_LIST}.exists(e, e.name in {cel.texts(VARIABLES)} && (has(e.valueFrom) "
            f'|| !(e.?value.orValue("") in {cel.texts(NO_DEVICES)}))) || {PREFIXED}',
            '"a variable that selects devices, set by the pod"',
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
