"""How each kind of object that twins judge is matched, and the variables that twins read.

Twins are written once, over variables; where those come from differs by shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from policies.admission.cel import amount, asked, is_gpu, limits, resources, texts
from policies.admission.twin import Scope, Twin
from policies.rules.resource_names import GPU, VCUDA_CORE

Json = dict[str, Any]

_READ = ("template", "jobTemplate", "strategy")
"""The fields below `spec` of workloads that twins read."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Objects of one form.

    `name`: ends the policies' names. `rules`: `matchConstraints.resourceRules`. `changed`: CEL
    that is true where an update touches what twins read, so that all other updates of objects from
    before the policy pass; empty where only creations are matched. `variables`: by name, in an
    order in which each uses earlier ones only.
    """

    name: str
    scope: Scope
    rules: tuple[Json, ...]
    variables: Mapping[str, str]
    changed: str = ""
    ephemeral: bool = False
    templates: bool = False

    def judges(self, twin: Twin) -> bool:
        """Whether a twin is about these objects."""
        if twin.scope is not self.scope:
            return False
        if self.ephemeral:
            return twin.ephemeral
        return self.templates or not twin.kinds or "Pod" in twin.kinds

    def used(self, expressions: Iterable[str]) -> dict[str, str]:
        """The variables that expressions use, and those that these use, in order."""
        wanted: set[str] = set()
        texts = list(expressions)
        for name, expression in reversed(list(self.variables.items())):
            if any(re.search(rf"\bvariables\.{name}\b", text) for text in texts):
                wanted.add(name)
                texts.append(expression)
        return {name: text for name, text in self.variables.items() if name in wanted}


def _request(name: str, variable: str) -> dict[str, str]:
    """The pod's effective request of a resource, as `policies.rules.pod_request` counts it.

    Containers and sidecars together, or an init container with the sidecars before it (of which a
    sidecar itself is one more case), whichever is most; then the overhead.
    """
    quantity = asked("c", f'"{name}"')
    starting = f"variables.{variable}Starting"
    before = f"variables.{variable}Sidecars.transformList(j, s, j < i, s).sum()"
    overhead = amount(f'variables.overhead[?"{name}"].orValue("0")')
    return {
        f"{variable}Starting": f"variables.init.map(c, {quantity})",
        f"{variable}Sidecars": "variables.init.map(c, "
        f'c.?restartPolicy.orValue("") == "Always" ? {quantity} : 0)',
        variable: f"([variables.spec.containers.map(c, {quantity}).sum() + "
        f"variables.{variable}Sidecars.sum()] + "
        f"{starting}.transformList(i, a, a + {before})).max() + {overhead}",
    }


def _pod_variables(spec: Mapping[str, str]) -> dict[str, str]:
    labels = 'params.data[p + ".labels"].split(",")'
    return {
        **spec,
        "init": "variables.spec.?initContainers.orValue([])",
        # Two lists of one type, which the type check takes for two.
        "containers": "dyn(variables.spec.containers) + dyn(variables.init)",
        "judged": "variables.containers",
        "overhead": resources("variables.spec", "overhead"),
        "tolerations": "variables.spec.?tolerations.orValue([])",
        "nodeSelector": "variables.spec.?nodeSelector.orValue({})",
        "gpuResources": 'params.data.gpuResources.split(",")',
        "asksForGpus": f"variables.containers.exists(c, {limits('c')}.exists(n, {is_gpu('n')} && "
        f"(sign(quantity({limits('c')}[n])) > 0 || "
        'sign(quantity(variables.overhead[?n].orValue("0"))) > 0)))',
        "pools": 'params.data.pools.split(",").filter(p, p != "" && '
        f'variables.nodeSelector.all(k, {labels}.all(l, !l.startsWith(k + "=") || '
        'l == k + "=" + variables.nodeSelector[k])))',
        "largestPool": 'variables.pools.map(p, int(params.data[p + ".gpus"])).max()',
        **_request(GPU, "gpus"),
        **_request(VCUDA_CORE, "cores"),
    }


def _rule(group: str, operations: tuple[str, ...], *resources: str) -> Json:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": list(operations),
        "resources": list(resources),
        "scope": "Namespaced",
    }


_BOTH = ("CREATE", "UPDATE")
_POD = {
    "spec": "object.spec",
    "annotations": "object.metadata.?annotations.orValue({})",
}
_TEMPLATE = {
    # Without types: the template lies elsewhere in each kind. The same expressions are checked
    # against the types of Pod.
    "template": 'dyn(object).kind == "PodTemplate" ? dyn(object).template : '
    'dyn(object).kind == "CronJob" ? dyn(object).spec.jobTemplate.spec.template : '
    "dyn(object).spec.template",
    "spec": "variables.template.spec",
    "annotations": "variables.template.?metadata.?annotations.orValue({})",
}
_NEW_EPHEMERAL = (
    "object.spec.?ephemeralContainers.orValue([]).filter(c, "
    "!oldObject.spec.?ephemeralContainers.orValue([]).exists(o, o.name == c.name))"
)
_SPEC_CHANGED = "object.spec != oldObject.spec"
_GPU_RESOURCES = {"gpuResources": 'params.data.gpuResources.split(",")'}

SHAPES: Final = (
    Shape(
        name="pods",
        scope=Scope.PODS,
        rules=(_rule("", ("CREATE",), "pods"),),
        variables=_pod_variables(_POD),
    ),
    Shape(
        name="ephemeral-containers",
        scope=Scope.PODS,
        rules=(_rule("", ("UPDATE",), "pods/ephemeralcontainers"),),
        variables={**_pod_variables(_POD), "judged": _NEW_EPHEMERAL},
        ephemeral=True,
    ),
    Shape(
        name="templates",
        scope=Scope.PODS,
        rules=(
            _rule("", _BOTH, "podtemplates", "replicationcontrollers"),
            _rule("apps", _BOTH, "daemonsets", "deployments", "replicasets", "statefulsets"),
            _rule("batch", _BOTH, "cronjobs", "jobs"),
        ),
        variables=_pod_variables(_TEMPLATE),
        changed="dyn(object).?template != dyn(oldObject).?template || "
        f"{texts(_READ)}.exists(f, "
        "dyn(object).?spec[?f] != dyn(oldObject).?spec[?f])",
        templates=True,
    ),
    Shape(
        name="limitranges",
        scope=Scope.LIMIT_RANGES,
        rules=(_rule("", _BOTH, "limitranges"),),
        variables=_GPU_RESOURCES,
        changed=_SPEC_CHANGED,
    ),
    Shape(
        name="resourcequotas",
        scope=Scope.RESOURCE_QUOTAS,
        rules=(_rule("", _BOTH, "resourcequotas"),),
        variables=_GPU_RESOURCES,
        changed=_SPEC_CHANGED,
    ),
)
