"""The API objects that each policy matches, and the CEL variables that its rules can read.

The CEL expression of a rule is written once and uses variables. The kind of object determines how
the variables are computed.
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
"""Fields below `spec` of a workload that rules read. `replicas` is missing on purpose: scaling does
not count as a change.
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """A group of API objects that one policy can check, such as pods or pod templates.

    Attributes:
        name: Suffix of the policies' names.
        scope: Kind of the objects for the rules; each rule names the scopes that it applies to.
        rules: `matchConstraints.resourceRules` of the policies.
        variables: CEL variables by name; each uses only variables before it.
        changed: CEL that is true if an update changes something that rules read. Other updates of
            objects that are older than the policy pass. Empty if only creations are matched.
        ephemeral: Whether the objects are ephemeral containers that are added to a running pod.
        updates: Whether these are updates of pods, for which each rule runs only if its fields
            change.
        templates: Whether the objects are pod templates and workload controllers.
        ordinary: Whether a match condition lets pods pass that obviously break no rule
            (`policies.admission.ordinary`).
        refused: Whether a broken mandatory rule denies the request. If False, the policies only
            warn and ignore evaluation errors.
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

    @property
    def pod(self) -> str:
        """Return CEL of the pod or the pod template, or an empty text if there is none."""
        if self.scope is not Scope.PODS:
            return ""
        return "variables.template" if self.templates else "object"

    def judges(self, twin: Twin) -> bool:
        """Return whether the CEL expression of a rule applies to these objects."""
        if self.scope not in twin.scopes or (self.ephemeral and not twin.ephemeral):
            return False
        if self.updates:
            return bool(twin.on_update)
        return self.templates or not twin.kinds

    def used(self, expressions: Iterable[str]) -> dict[str, str]:
        """Return the CEL variables that expressions use, directly or through others, in order."""
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
    # `dyn` is needed because the path of the template depends on the kind. For a Pod, the same
    # expressions are also checked with types.
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
    # The strategy as kubernetes v1.34.4 pkg/controller/deployment ResolveFenceposts reads it: new
    # pods start first if no pod may be unavailable.
    "surges": 'dyn(object).spec.?strategy.?type.orValue("") != "Recreate" && '
    "variables.unavailable == 0 && variables.surge > 0",
    **POD_VARIABLES,
}
_NEW_EPHEMERAL = (
    "object.spec.?ephemeralContainers.orValue([]).filter(c, "
    "!oldObject.spec.?ephemeralContainers.orValue([]).exists(o, o.name == c.name))"
)
_GPU_RESOURCES = {**_OBJECT, "gpuResources": parameter("gpuResources")}


# `dyn` is needed because a ResourceClaimTemplate holds the claim's spec one level deeper.
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
        # An update through `status` can change annotations, one through `resize` CPU and memory.
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
        # Claims of older API versions are converted to this version, because matchPolicy is
        # Equivalent.
        rules=(rule_of("resource.k8s.io", _BOTH, "resourceclaims", "resourceclaimtemplates"),),
        variables={**_OBJECT, "requests": _REQUESTS},
        changed=changed("spec"),
    ),
    Shape(
        name="persistentvolumes",
        scope=Scope.VOLUMES,
        rules=(rule_of("", _BOTH, "persistentvolumes", scope="Cluster"),),
        # A PersistentVolume is in no namespace that could grant an exemption.
        variables={**_BARE, "grants": "{}", **exemptions.VARIABLES},
        changed=changed("spec"),
    ),
    Shape(
        name="nodes",
        scope=Scope.NODES,
        rules=(rule_of("", _BOTH, "nodes", "nodes/status", scope="Cluster"),),
        variables={**_BARE, "grants": "{}", **exemptions.VARIABLES},
        changed=changed("metadata.?labels"),
        # Denying the request would keep the report of a fault out of the cluster, but not the
        # fault.
        refused=False,
    ),
    Shape(
        name="namespaces",
        scope=Scope.NAMESPACES,
        rules=(_NAMESPACES,),
        # `policies.admission.grants` checks who may set a namespace's annotations, so a namespace's
        # own exemptions need no separate grant.
        variables={**_BARE, "grants": exemptions.GRANTED_BY_THEMSELVES, **exemptions.VARIABLES},
        changed=changed("metadata.?labels"),
    ),
)
