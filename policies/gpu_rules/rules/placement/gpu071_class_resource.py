"""Rule GPU071: a DeviceClass for GPUs must use a resource name that the GPU limits count."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ..claims import GROUP
from ..each import each_object
from ..example import Example
from ..resource_names import is_device, sounds_like_gpu
from ..rule import Finding, Need, Rule, Subject
from ..twin import NoTwin
from ..unknown import at, text


def _check_class_resource(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.group_version.partition("/")[0] != GROUP:
        return
    name = text(at(subject.manifest, "spec", "extendedResourceName"))
    of_gpus = sounds_like_gpu(name) or sounds_like_gpu(
        text(at(subject.manifest, "metadata", "name"))
    )
    if name and of_gpus and not is_device(name, context):
        yield Finding(
            path="spec.extendedResourceName",
            found=name[:80],
            wanted="a resource that the rules count, such as nvidia.com/gpu",
            cure="Add the name to resourceNames, or use a well-known resource name.",
        )


RULE = Rule(
    id="GPU071",
    title="A DeviceClass gives GPUs under a resource name that the rules count",
    severity=Severity.MANDATORY,
    check=each_object(_check_class_resource, "DeviceClass"),
    why="A DeviceClass with extendedResourceName provides its devices to pods that request this "
    "resource. If no setting lists the name, containers get GPUs that GPU028 and all rules "
    "for GPU pods miss. A class has GPUs if its name or its resource says so.",
    source="k8s.io/api v0.34.4 resource/v1/types.go DeviceClassSpec.extendedResourceName",
    needs=frozenset({Need.CAPS}),
)

TWIN = NoTwin("Administrators create DeviceClasses; admission policies are for tenants.")

EXAMPLE = Example.edited(
    """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec:
  extendedResourceName: nvidia.com/gpu
""",
    ("extendedResourceName: nvidia.com/gpu", "extendedResourceName: example.com/accelerator"),
    settings={"maxGpusPerPod": 8},
)
