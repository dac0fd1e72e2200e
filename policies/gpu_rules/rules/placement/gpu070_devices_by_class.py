"""Rule GPU070: a container must not request GPUs by the resource name of a DeviceClass."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.gpu_resources import BY_CLASS
from .. import cel
from ..each import each_container
from ..example import Example, pod, pod_with_claim
from ..pod_spec import HAVE_RESOURCES, Container
from ..resource_names import is_gpu, may_be_gpu
from ..rule import Finding, Need, Rule
from ..signs import On, Sign
from ..twin import pods


def _check_by_class(container: Container, context: Context) -> Iterator[Finding]:
    for name in sorted(container.asked_names):
        if name.startswith(BY_CLASS) and (is_gpu(name, context) or may_be_gpu(name, context)):
            yield Finding(
                path=f"{container.path}.resources",
                found=name[:80],
                wanted="a ResourceClaim, or a resource that the configured maximum counts",
                cure="Use a ResourceClaim: GPU065 limits claims, but nothing limits this resource.",
            )


RULE = Rule(
    id="GPU070",
    title="No container requests GPUs by the name of a DeviceClass",
    severity=Severity.MANDATORY,
    check=each_container(_check_by_class, HAVE_RESOURCES),
    why="From Kubernetes 1.36 on (1.34 and 1.35: only with the feature gate "
    "DRAExtendedResource), a container can request a DeviceClass as the resource "
    "deviceclass.resource.kubernetes.io/<class> and gets the devices by DRA. For the API "
    "server, this is a resource of its own, with any amount and even without a limit, so "
    "the configured maximums of GPU028 and GPU065 don't count it. Each class "
    "counts, unless its name is that of other devices, such as nic.example.com, or otherClaims "
    "lists it.",
    source="kubernetes v1.36.3 pkg/features/kube_features.go DRAExtendedResource; "
    "pkg/scheduler/framework/plugins/dynamicresources/extended/util.go; "
    "pkg/apis/core/helper/helpers.go IsNativeResource",
    needs=frozenset({Need.CAPS}),
)

_ASKED = cel.asks_for(
    f"n.startsWith({cel.text(BY_CLASS)}) && ({cel.is_gpu('n')} || {cel.may_be_gpu('n')})"
)

TWIN = pods(
    '("maxGpusPerContainer" in variables.facts || "maxGpusPerPod" in variables.facts) ? '
    f"variables.containers.filter(c, {_ASKED})"
    '.map(c, "found GPUs by their class in container " + c.name) : []',
    signs=(Sign(cel.named(f"n.startsWith({cel.text(BY_CLASS)})"), On.CONTAINER),),
)

EXAMPLE = Example(
    passing=pod_with_claim("a100-gpu"),
    failing=pod(limits="deviceclass.resource.kubernetes.io/gpu.nvidia.com: 64"),
    settings={"maxGpusPerPod": 8},
)
