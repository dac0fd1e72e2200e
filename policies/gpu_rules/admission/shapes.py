"""The API objects that each admission policy matches, and its CEL variables.

The CEL expression of a rule is the same for all kinds of objects, such as pods and pod templates.
The expression reads variables such as `spec`, which the policy for each kind computes in its own
way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ..rules.cel import CAP, OR_LIST, OR_MAP, TRUSTED, changed, parameter, texts
from ..rules.twin import Scope, Twin
from . import exemptions
from .objects import Json
from .objects import resource_rule as rule_of
from .pod_variables import POD_VARIABLES

_READ = ("activeDeadlineSeconds", "backoffLimit", "jobTemplate", "strategy", "template")
"""Fields below `spec` of a workload that rules read.

`replicas` is missing on purpose: a request that only scales a workload is not checked.
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """A group of API objects that one policy can check, such as pods or pod templates.

    Attributes:
        name: Suffix of the policies' names.
        scope: Kind of the objects, such as `PODS`; each rule names the scopes to which it applies.
        rules: `matchConstraints.resourceRules` of the policies.
        variables: CEL expressions of the variables by name. An expression may use the variables
            before it.
        changed: CEL that is true if an update changes something that rules read. Other updates of
            objects that are older than the policy pass. Empty if only creations are matched.
        ephemeral: Whether the objects are ephemeral containers that are added to a running pod.
        updates: Whether the policy matches updates of pods. A rule then checks only updates that
            change a field that the rule reads.
        templates: Whether the objects are pod templates and workload controllers.
        ordinary: Whether the policy has a match condition that skips pods that obviously break no
            rule (`gpu_rules.admission.ordinary`).
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

    def judges_again(self, twin: Twin) -> bool:
        """Return whether a rule checks updates of these objects that end an exemption from it."""
        return (self.updates or self.ephemeral) and twin.judges_pods

    @property
    def pod(self) -> str:
        """Return CEL for the object's pod or pod template; empty for objects without pods."""
        if self.scope is not Scope.PODS:
            return ""
        return "variables.template" if self.templates else "object"

    def judges(self, twin: Twin) -> bool:
        """Return whether a rule checks the objects of this shape."""
        if self.scope not in twin.scopes or (self.ephemeral and not twin.ephemeral):
            return False
        if self.updates:
            return bool(twin.on_update)
        return self.templates or not twin.kinds

    def used(self, expressions: Iterable[str]) -> dict[str, str]:
        """Return the CEL variables that expressions use directly or through other variables.

        The variables are returned in the order of their definition.
        """
        used_names: set[str] = set()
        texts = list(expressions)
        for name, expression in reversed(list(self.variables.items())):
            if any(re.search(rf"\bvariables\.{name}\b", text) for text in texts):
                used_names.add(name)
                texts.append(expression)
        return {name: text for name, text in self.variables.items() if name in used_names}


_BOTH = ("CREATE", "UPDATE")
_NAMESPACES = rule_of(
    "", _BOTH, "namespaces", "namespaces/finalize", "namespaces/status", scope="Cluster"
)
_OWN = {"ownAnnotations": f"object.metadata.?annotations{OR_MAP}"}
_GRANTS = {"grants": f"namespaceObject.?metadata.?annotations{OR_MAP}"}
_BARE = {**_OWN, "annotations": "variables.ownAnnotations"}
_TRUSTED = {"trusted": TRUSTED}
_OBJECT = {**_BARE, **_TRUSTED, **_GRANTS, **exemptions.VARIABLES}
_POD = {**_OBJECT, "spec": "object.spec", **POD_VARIABLES}
_TEMPLATE = {
    **_OWN,
    **_TRUSTED,
    # `dyn` switches off the type check, because the path of the pod template depends on the kind of
    # object. The policy for Pods uses the same expressions, and there their types are checked.
    "template": 'dyn(object).kind == "PodTemplate" ? dyn(object).template : '
    'dyn(object).kind == "CronJob" ? dyn(object).spec.jobTemplate.spec.template : '
    "dyn(object).spec.template",
    "annotations": f"variables.template.?metadata.?annotations{OR_MAP}",
    **_GRANTS,
    **exemptions.VARIABLES,
    "spec": "variables.template.spec",
    "job": 'dyn(object).kind == "CronJob" ? dyn(object).spec.jobTemplate.spec : dyn(object).spec',
    # `kyverno apply` reads each number of a file as a double.
    "replicas": "int(dyn(object).spec.?replicas.orValue(1))",
    **{
        name: f'string(dyn(object).spec.?strategy.?rollingUpdate.?{field}.orValue("25%"))'
        for name, field in (("maxSurge", "maxSurge"), ("maxUnavailable", "maxUnavailable"))
    },
    **{
        # The API server accepts a percentage of any length, which may be too large for an integer.
        name: f'variables.{given}.endsWith("%") ? '
        f'(int(size(variables.{given}) > 10 ? "{CAP}" : variables.{given}.replace("%", "")) * '
        f"variables.replicas + {up}) / 100 : int(variables.{given})"
        for name, given, up in (("surge", "maxSurge", 99), ("unavailable", "maxUnavailable", 0))
    },
    # Whether a Deployment starts new pods before it stops old ones. As in ResolveFenceposts of
    # kubernetes v1.34.4 pkg/controller/deployment, it does so if no pod may be unavailable.
    "surges": 'dyn(object).spec.?strategy.?type.orValue("") != "Recreate" && '
    "variables.unavailable == 0 && variables.surge > 0",
    **POD_VARIABLES,
}
_NEW_EPHEMERAL = (
    f"object.spec.?ephemeralContainers{OR_LIST}.filter(c, "
    f"!oldObject.spec.?ephemeralContainers{OR_LIST}.exists(o, o.name == c.name))"
)
_GPU_RESOURCES = {**_OBJECT, "gpuResources": parameter("gpuResources")}


# CEL for the spec of a device claim. `dyn` switches off the type check, because a
# ResourceClaimTemplate has the claim's spec one level deeper than a ResourceClaim.
_CLAIM = 'dyn(object).kind == "ResourceClaim" ? dyn(object).spec : dyn(object).spec.spec'
_REQUESTS = f"({_CLAIM}).?devices.?requests{OR_LIST}"

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
        # A request to `pods/status` can change annotations; a request to `pods/resize` can change
        # CPU and memory.
        rules=(rule_of("", ("UPDATE",), "pods", "pods/resize", "pods/status"),),
        variables=_POD,
        updates=True,
    ),
    Shape(
        name="ephemeral-containers",
        scope=Scope.PODS,
        rules=(rule_of("", ("UPDATE",), "pods/ephemeralcontainers"),),
        # A container that ends an exemption of its pod ends it for the other containers, too.
        variables={
            **_POD,
            "judged": f"size(variables.{exemptions.LOST}) > 0 ? variables.containers + "
            f"dyn({_NEW_EPHEMERAL}) : dyn({_NEW_EPHEMERAL})",
        },
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
        # The policy matches only v1. The API server converts claims of older API versions to v1,
        # because the default matchPolicy is Equivalent.
        rules=(rule_of("resource.k8s.io", _BOTH, "resourceclaims", "resourceclaimtemplates"),),
        variables={**_OBJECT, "requests": _REQUESTS},
        changed=changed("spec"),
    ),
    Shape(
        name="persistentvolumes",
        scope=Scope.VOLUMES,
        rules=(rule_of("", _BOTH, "persistentvolumes", scope="Cluster"),),
        # A PersistentVolume has no namespace, so no namespace can grant it an exemption.
        variables={**_BARE, "grants": "{}", **exemptions.VARIABLES},
        changed=changed("spec"),
    ),
    Shape(
        name="nodes",
        scope=Scope.NODES,
        rules=(rule_of("", _BOTH, "nodes", "nodes/status", scope="Cluster"),),
        variables={**_BARE, "grants": "{}", **exemptions.VARIABLES},
        changed=changed("metadata.?labels"),
        # The rules for nodes check labels that report facts, such as the driver version. Denying
        # the request would remove only the report, not the faulty driver.
        refused=False,
    ),
    Shape(
        name="namespaces",
        scope=Scope.NAMESPACES,
        rules=(_NAMESPACES,),
        # The policy in `gpu_rules.admission.grants` restricts who may set exemptions on a
        # namespace, so an exemption of the namespace itself needs no grant.
        variables={**_BARE, "grants": exemptions.GRANTED_BY_THEMSELVES, **exemptions.VARIABLES},
        changed=changed("metadata.?labels"),
    ),
)
