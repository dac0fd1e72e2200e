"""Rule GPU062: an exemption must name an existing rule, an end date and a reason."""

from __future__ import annotations

from .. import cel
from ..context import Severity
from ..example import Example
from ..exemptions import PREFIX, RULE_ID
from ..rule import Rule
from ..signs import ANNOTATIONS, Sign
from ..twin import Scope, Twin

# The rule has no check function: the registry checks exemptions, because only the registry knows
# all rule ids.
RULE = Rule(
    id=RULE_ID,
    title="An exemption names its rule, its end date and its reason",
    severity=Severity.MANDATORY,
    why="An exemption turns off one rule for one object until a date. An exemption that is over "
    "or invalid has no effect, and it is reported until somebody removes or corrects it.",
    source="the rulebook's own convention: policies/rules/exemptions.py",
)

TWIN = Twin(
    "variables.exemptions.filter(e, !(e in variables.holding))"
    '.map(e, "found an exemption without effect: " + e)',
    scopes=frozenset(Scope),
    on_update=cel.annotation_set(PREFIX),
    signs=(Sign(f"{ANNOTATIONS}.exists(k, k.startsWith({cel.text(PREFIX)}))"),),
)

EXAMPLE = Example(
    passing="""\
apiVersion: v1
kind: Pod
metadata:
  name: profile
  annotations:
    exempt.gpu-cluster/GPU022: "2030-12-31 the profiler reads counters of all devices"
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
metadata:
  name: profile
  annotations:
    exempt.gpu-cluster/GPU022: "2024-12-31 the profiler reads counters of all devices"
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  containers:
    - name: cuda
      image: registry.example.com/cuda:13.0
      resources:
        requests: {cpu: 4, memory: 32Gi}
        limits: {memory: 32Gi, nvidia.com/gpu: 1}
""",
)
