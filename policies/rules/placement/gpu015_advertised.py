"""GPU015: The cluster's platform advertises the GPU resource."""

from __future__ import annotations

from collections.abc import Iterator

from policies.rules import cel
from policies.rules.context import Context, Severity
from policies.rules.example import Example
from policies.rules.resource_names import GPU, VCUDA_CORE, VCUDA_MEMORY
from policies.rules.rule import Finding, Rule, Subject
from policies.rules.signs import NAMES
from policies.rules.twin import pods
from policies.rules.vcuda.asked import (
    NAMES_OF_VCUDA,
)

_NVIDIA_PLATFORMS = frozenset({"device-plugin", "gpu-operator"})


def _advertised(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.pod is None or context.platform is None:
        return
    foreign = {VCUDA_CORE, VCUDA_MEMORY} if context.platform in _NVIDIA_PLATFORMS else {GPU}
    for container in subject.pod.containers:
        for name in sorted((foreign & container.resource_names) - context.resource_names):
            yield Finding(
                path=f"{container.path}.resources",
                found=name,
                wanted=f"a resource that {context.platform} advertises",
                cure="Without a node that has it, the pod stays Pending.",
                container=container.name,
            )


RULE = Rule(
    id="GPU015",
    title="The cluster's platform advertises the GPU resource",
    severity=Severity.ADVISORY,
    check=_advertised,
    why="NVIDIA's device plugin advertises nvidia.com/gpu, gpu-manager advertises "
    "tencent.com/vcuda-core and vcuda-memory; neither has the other's.",
    source="NVIDIA k8s-device-plugin; tkestack gpu-manager pkg/types/types.go",
)

_FOREIGN = (
    '(!("platform" in params.data) ? [] : '
    'params.data.platform in ["device-plugin", "gpu-operator"] ? '
    f"{NAMES_OF_VCUDA} : [{cel.text(GPU)}])"
    f".filter(n, !(n in {cel.parameter('resourceNames')}))"
)

TWIN = pods(
    cel.each_container(
        f"{_FOREIGN}.exists(f, {cel.named('n == f')})",
        f"{_FOREIGN}.filter(f, {cel.named('n == f')})[0]",
    ),
    signs=(NAMES,),
)

EXAMPLE = Example(
    settings={"platform": "device-plugin"},
    passing="""\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  containers:
    - name: cuda
      image: registry.example.com/cuda:13.0
      resources:
        requests: {cpu: 4, memory: 32Gi}
        limits: {memory: 32Gi, nvidia.com/gpu: 1}
""",
    failing="""\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  containers:
    - name: cuda
      image: registry.example.com/cuda:13.0
      resources:
        requests: {cpu: 4, memory: 32Gi}
        limits: {memory: 32Gi, tencent.com/vcuda-core: 100}
""",
)
