"""How each kind of object that twins judge is matched, and the variables that twins read.

Twins are written once, over variables; where those come from differs by shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ..rules.cel import changed, parameter, texts
from ..rules.twin import Scope, Twin
from . import exemptions
from .objects import Json
from .objects import resource_rule as rule_of
from .pod_variables import POD_VARIABLES

_READ = ("activeDeadlineSeconds", "backoffLimit", "jobTemplate", "strategy", "template")
"""The fields below `spec` of workloads that twins read, but `replicas`: scaling isn't a change."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Objects of one form.

    `name`: ends the policies' names. `rules`: `matchConstraints.resourceRules`. `changed`: CEL
    that is true where an update touches what twins read, so that all other updates of objects from
    before the policy pass; empty where only creations are matched. `variables`: by name, in an
    order in which each uses earlier ones only. `updates`: of pods, each twin judging only where
    what it reads has changed. `ordinary`: whether those that are in good order at
    a glance (`policies.admission.ordinary`) are not judged any further. `refused`: whether what
    breaks a mandatory rule is; else policies only warn, in every mode, need no parameter, and let
    through what they fail to judge.
    """

    name: str
    scope: Scope
    rules: tuple[Json, ...]
    variables: Mapping[str, str]
    changed: str = ""
    ephemeral: bool = False
    updates: bool = False
    templates: bool = False
    ordinary: bool = False
    refused: bool = True

    def judges(self, twin: Twin) -> bool:
        """Whether a twin is about these objects."""
        if self.scope not in twin.scopes or (self.ephemeral and not twin.ephemeral):
            return False
        if self.updates:
            return bool(twin.on_update)
        return self.templates or not twin.kinds

    def used(self, expressions: Iterable[str]) -> dict[str, str]:
        """The variables that expressions use, and those that these use, in order."""
        wanted: set[str] = set()
        texts = list(expressions)
        for name, expression in reversed(list(self.variables.items())):
            if any(re.search(rf"\bvariables\.{name}\b", text) for text in texts):
                wanted.add(name)
                texts.append(expression)
        return {name: text for name, text in self.variables.items() if name in wanted}


_BOTH = ("CREATE", "UPDATE")
_NAMESPACES = rule_of(
    "", _BOTH, "namespaces", "namespaces/finalize", "namespaces/status", scope="Cluster"
)
_OWN = {"ownAnnotations": "object.metadata.?annotations.orValue({})"}
_GRANTS = {"grants": "namespaceObject.metadata.?annotations.orValue({})"}
_BARE = {**_OWN, "annotations": "variables.ownAnnotations"}
_OBJECT = {**_BARE, **_GRANTS, **exemptions.VARIABLES}
_POD = {**_OBJECT, "spec": "object.spec", **POD_VARIABLES}
_TEMPLATE = {
    **_OWN,
    # Without types: the template lies elsewhere in each kind. The same expressions are checked
    # against the types of Pod.
    "template": 'dyn(object).kind == "PodTemplate" ? dyn(object).template : '
    'dyn(object).kind == "CronJob" ? dyn(object).spec.jobTemplate.spec.template : '
    "dyn(object).spec.template",
    "annotations": "variables.template.?metadata.?annotations.orValue({})",
    **_GRANTS,
    **exemptions.VARIABLES,
    "spec": "variables.template.spec",
    "job": 'dyn(object).kind == "CronJob" ? dyn(object).spec.jobTemplate.spec : dyn(object).spec',
    "replicas": "dyn(object).spec.?replicas.orValue(1)",
    **{
        name: f'string(dyn(object).spec.?strategy.?rollingUpdate.?{field}.orValue("25%"))'
        for name, field in (("maxSurge", "maxSurge"), ("maxUnavailable", "maxUnavailable"))
    },
    **{
        name: f'variables.{given}.endsWith("%") ? '
        f'(int(variables.{given}.replace("%", "")) * variables.replicas + {up}) / 100 : '
        f"int(variables.{given})"
        for name, given, up in (("surge", "maxSurge", 99), ("unavailable", "maxUnavailable", 0))
    },
    # What kubernetes v1.34.4 pkg/controller/deployment ResolveFenceposts makes of the strategy: new
    # pods come first where nothing may be unavailable.
    "surges": 'dyn(object).spec.?strategy.?type.orValue("") != "Recreate" && '
    "variables.unavailable == 0 && variables.surge > 0",
    **POD_VARIABLES,
}
_NEW_EPHEMERAL = (
    "object.spec.?ephemeralContainers.orValue([]).filter(c, "
    "!oldObject.spec.?ephemeralContainers.orValue([]).exists(o, o.name == c.name))"
)
_GPU_RESOURCES = {**_OBJECT, "gpuResources": parameter("gpuResources")}


# Without types: the claim lies elsewhere in a template.
_CLAIM = 'dyn(object).kind == "ResourceClaim" ? dyn(object).spec : dyn(object).spec.spec'
_REQUESTS = f"({_CLAIM}).?devices.?requests.orValue([])"

SHAPES: Final = (
    Shape(
        name="pods",
        scope=Scope.PODS,
        rules=(rule_of("", ("CREATE",), "pods"),),
        variables=_POD,
        ordinary=True,
    ),
    Shape(
        name="pod-updates",
        scope=Scope.PODS,
        # By `status` annotations can be changed, by `resize` cpu and memory.
        rules=(rule_of("", ("UPDATE",), "pods", "pods/resize", "pods/status"),),
        variables=_POD,
        updates=True,
    ),
    Shape(
        name="ephemeral-containers",
        scope=Scope.PODS,
        rules=(rule_of("", ("UPDATE",), "pods/ephemeralcontainers"),),
        variables={**_POD, "judged": _NEW_EPHEMERAL},
        ephemeral=True,
    ),
    Shape(
        name="templates",
        scope=Scope.PODS,
        rules=(
            rule_of("", _BOTH, "podtemplates", "replicationcontrollers"),
            rule_of("apps", _BOTH, "daemonsets", "deployments", "replicasets", "statefulsets"),
            rule_of("batch", _BOTH, "cronjobs", "jobs"),
        ),
        variables=_TEMPLATE,
        changed=f"{changed('template')} || {texts(_READ)}.exists(f, "
        "dyn(object).?spec[?f] != dyn(oldObject).?spec[?f])",
        templates=True,
    ),
    Shape(
        name="limitranges",
        scope=Scope.LIMIT_RANGES,
        rules=(rule_of("", _BOTH, "limitranges"),),
        variables=_GPU_RESOURCES,
        changed=changed("spec"),
    ),
    Shape(
        name="resourcequotas",
        scope=Scope.RESOURCE_QUOTAS,
        rules=(rule_of("", _BOTH, "resourcequotas"),),
        variables=_GPU_RESOURCES,
        changed=changed("spec"),
    ),
    Shape(
        name="values",
        scope=Scope.VALUES,
        rules=(rule_of("", _BOTH, "configmaps", "secrets"),),
        variables=_OBJECT,
        changed=changed("data"),
    ),
    Shape(
        name="claims",
        scope=Scope.CLAIMS,
        # Those of older versions are judged as these: matchPolicy is Equivalent.
        rules=(rule_of("resource.k8s.io", _BOTH, "resourceclaims", "resourceclaimtemplates"),),
        variables={**_OBJECT, "requests": _REQUESTS},
        changed=changed("spec"),
    ),
    Shape(
        name="persistentvolumes",
        scope=Scope.VOLUMES,
        rules=(rule_of("", _BOTH, "persistentvolumes", scope="Cluster"),),
        # They are in no namespace that could grant anything.
        variables={**_BARE, "grants": "{}", **exemptions.VARIABLES},
        changed=changed("spec"),
    ),
    Shape(
        name="nodes",
        scope=Scope.NODES,
        rules=(rule_of("", _BOTH, "nodes", "nodes/status", scope="Cluster"),),
        variables={**_BARE, "grants": "{}", **exemptions.VARIABLES},
        changed=changed("metadata.?labels"),
        # A refusal would keep the report of a fault out of the cluster, and not the fault.
        refused=False,
    ),
    Shape(
        name="namespaces",
        scope=Scope.NAMESPACES,
        rules=(_NAMESPACES,),
        # Who may set its annotations is asked by `policies.admission.grants`: its own exemptions
        # need no grant beside them.
        variables={**_BARE, "grants": exemptions.GRANTED_BY_THEMSELVES, **exemptions.VARIABLES},
        changed=changed("metadata.?labels"),
    ),
)
