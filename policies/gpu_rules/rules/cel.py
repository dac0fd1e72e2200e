"""Builders of CEL expressions that several rules share. Arguments and results are CEL source text.

The expressions are promised for Kubernetes 1.34 and later: 1.34.4 is the oldest version on which
they were run. By the source they need 1.33, for two-variable comprehensions (k8s.io/apiserver
v0.34.4 pkg/cel/environment/base.go).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from ..kube.gpu_resources import BY_CLASS, DEVICES, GPU, GPU_SHARED, KNOWN, MIG, VCUDA_CORE
from .resource_names import CHANNELS, OTHER_DEVICES, SOUNDS_LIKE_GPU

CAP = 1_000_000_000
"""Largest amount that is counted, so that a sum of amounts fits an integer. No node has as many
devices.
"""


# The API server writes some empty lists as null, such as the requests of a ResourceClaim without
# any, and a manifest that other programs judge may have null anywhere.
_PRESENT: Final = ".optFlatMap(present, optional.ofNonZeroValue(present))"
OR_LIST: Final = f"{_PRESENT}.orValue([])"
"""CEL that makes the list of an optional field, which is empty if the field is missing or null."""
OR_MAP: Final = f"{_PRESENT}.orValue({{}})"
"""CEL that makes the map of an optional field, which is empty if the field is missing or null."""


def text(value: str) -> str:
    """Return a text as a CEL string literal."""
    return json.dumps(value, ensure_ascii=False)


def texts(values: Iterable[str]) -> str:
    """Return a CEL list of string literals, sorted."""
    return f"[{', '.join(map(text, sorted(values)))}]"


def parameter(key: str) -> str:
    """Return CEL for a fact about the cluster that is a list of strings.

    Args:
        key: Name of the fact.
    """
    return f'variables.facts["{key}"].split(",").filter(x, x != "")'


def resources(owner: str, field: str) -> str:
    """Return CEL for a map of resources, which is empty if the field is missing.

    `dyn` is needed because the type check does not know maps of quantities and would warn of a
    missing field (seen on an API server 1.34.4).
    """
    return f"dyn({owner}).?{field}{OR_MAP}"


def limits(container: str) -> str:
    """Return CEL for the limits of a container.

    The API server accepts an extended resource only if its request equals its limit. For a name
    with kubernetes.io/, which it takes for its own, the request may be less, and the limit missing.
    """
    return resources(container, "resources.?limits")


def requests(container: str) -> str:
    """Return CEL for the requests of a container.

    In a pod template, the API server has not yet copied limits into requests.
    """
    return resources(container, "resources.?requests")


LIMITS: Final = limits("c")
REQUESTS: Final = requests("c")
POOL_TAINTS: Final = 'variables.facts[p + ".taints"].split(",")'


def named(condition: str, container: str = "c") -> str:
    """Return CEL that is true if a container names a resource `n` that meets a condition."""
    return (
        f"({limits(container)}.exists(n, {condition}) || "
        f"{requests(container)}.exists(n, {condition}))"
    )


def asks_for(condition: str, container: str = "c") -> str:
    """Return CEL that is true if a container requests more than 0 of a resource `n`.

    A limit counts only without a request. The two are equal for extended resources, but not for
    those of DeviceClasses, whose names the API server takes for its own.

    Args:
        condition: CEL that selects a resource by its name `n`.
        container: CEL of the container.
    """
    limited, requested = limits(container), requests(container)
    alone = f"!(n in {requested}) && {positive(f'{limited}[n]')}"
    return (
        f"({limited}.exists(n, {condition} && {alone}) || "
        f"{requested}.exists(n, {condition} && {positive(f'{requested}[n]')}))"
    )


def asked_names(condition: str, container: str = "c") -> str:
    """Return CEL for the list of a container's resources of more than 0 that meet a condition.

    Args:
        condition: CEL that selects a resource by its name `n`.
        container: CEL of the container.
    """
    limited, requested = limits(container), requests(container)
    meets = f"({condition}) && {positive(effective('n', container))}"
    return f"({limited}.filter(n, {meets}) + {requested}.filter(n, !(n in {limited}) && {meets}))"


def amount(quantity: str) -> str:
    """Return CEL for a whole quantity as an integer; quantities above `CAP` become `CAP`."""
    return (
        f'(quantity({quantity}).isGreaterThan(quantity("{CAP}")) ? {CAP} : '
        f"quantity({quantity}).asInteger())"
    )


def positive(quantity: str) -> str:
    """Return CEL that is true if a quantity is more than 0."""
    return f"sign(quantity({quantity})) > 0"


def hundreds(quantity: str) -> str:
    """Return CEL that is true if a whole quantity is a multiple of 100.

    For a quantity that is too large for an integer, the expression tests the text that the API
    server writes: it must end in 00 or in a decimal suffix.
    """
    return (
        f"(quantity({quantity}).isInteger() ? quantity({quantity}).asInteger() % 100 == 0 : "
        f'string({quantity}).matches("(00|[kMGTPE]|e[0-9]+)$"))'
    )


def asked(container: str, name: str) -> str:
    """Return CEL for the amount of an extended resource that a container requests, or 0."""
    return amount(f'{limits(container)}[?{name}].orValue("0")')


def requested(container: str, name: str) -> str:
    """Return CEL for the amount of any resource that a container requests, or 0."""
    return amount(effective(name, container))


def effective(name: str, container: str = "c") -> str:
    """Return CEL for the amount of a resource that a container requests, as a quantity.

    A limit without a request is also the request (`Container.effective`).
    """
    return f'{requests(container)}[?{name}].orValue({limits(container)}[?{name}].orValue("0"))'


def is_gpu(name: str) -> str:
    """Return CEL that is true if a name is that of a GPU resource."""
    by_class = (
        f"{name}.startsWith({text(BY_CLASS)}) && "
        f"{name}.lowerAscii().matches({text(SOUNDS_LIKE_GPU)}) && "
        f"!{names_other_devices(_class_of(name))}"
    )
    return f"({name} in variables.gpuResources || {name}.startsWith({text(MIG)}) || ({by_class}))"


def _class_of(name: str) -> str:
    return f"{name}.substring({len(BY_CLASS)}).lowerAscii()"


def may_be_gpu(name: str) -> str:
    """Return CEL that is true if a resource may be a GPU (`resource_names.may_be_gpu`)."""
    return (
        f"({name}.lowerAscii().matches({text(SOUNDS_LIKE_GPU)}) || "
        f"({name}.startsWith({text(BY_CLASS)}) && {may_be_of_gpus(_class_of(name))}))"
    )


def names_other_devices(name: str) -> str:
    """Return CEL that is true if a claim's or DeviceClass's name says that it is not for GPUs."""
    return (
        f"({name}.matches({text(f'^({CHANNELS})$')}) || "
        f"({name}.matches({text(OTHER_DEVICES)}) && !{name}.matches({text(SOUNDS_LIKE_GPU)})))"
    )


def listed_as_other(name: str) -> str:
    """Return CEL that is true for a name that the settings list as one without GPUs."""
    listed = 'variables.facts[?"otherClaims"].orValue("").split(",").filter(x, x != "")'
    return f"({name} in {listed})"


def of_gpus(name: str) -> str:
    """Return CEL that is true if a DeviceClass has GPUs, by its name or the settings."""
    return (
        f"(({name}.matches({text(SOUNDS_LIKE_GPU)}) && !{names_other_devices(name)}) || "
        f"{name} in {parameter('resourceNames')})"
    )


def may_be_of_gpus(name: str) -> str:
    """Return CEL that is true if nothing says that a DeviceClass is for other devices."""
    is_for_others = f'({name} == "" || {names_other_devices(name)} || {listed_as_other(name)})'
    return f"({of_gpus(name)} || !{is_for_others})"


def claim_name(claim: str) -> str:
    """Return CEL for the name of the ResourceClaim or template that a pod's claim references."""
    return f'{claim}.?resourceClaimTemplateName.orValue({claim}.?resourceClaimName.orValue(""))'


def is_device(name: str) -> str:
    """Return CEL that is true if a resource is a device or a share of a device.

    A resource that is only a part of a device's memory or cores does not count.
    """
    return (
        f"({name} in {texts(DEVICES)} || {name}.startsWith({text(MIG)}) || "
        f"{name} in variables.ownDevices)"
    )


OWN_DEVICES: Final = (
    f"{parameter('resourceNames')}.filter(n, !(n in {texts(KNOWN)}) && "
    f"!n.startsWith({text(BY_CLASS)}))"
)
"""CEL for the names of devices that the settings add; the CEL variable `ownDevices`."""


def device_names(container: str) -> str:
    """Return CEL for the devices that a container names in its limits or requests, as a list."""
    limited, requested = limits(container), requests(container)
    device = is_device("n")
    return f"({limited}.filter(n, {device}) + {requested}.filter(n, !(n in {limited}) && {device}))"


def _is_integer(written: str) -> str:
    """Return CEL that is true for the canonical text of a 64-bit integer.

    A label value, and so the value of a taint, has no sign.
    """
    digits = f'{written}.matches("^(0|[1-9][0-9]{{0,18}})$")'
    return f'({digits} && (size({written}) < 19 || {written} <= "{2**63 - 1}"))'


def tolerates(toleration: str, taint: str) -> str:
    """Return CEL that is true if a toleration tolerates a taint, written as key=value:effect.

    `gpu_rules.kube.taints` does the same in Python.
    """
    o, t = toleration, taint
    operator, bound = f'{o}.?operator.orValue("")', f'{o}.?value.orValue("")'
    greater, less = (
        f"quantity(v).{name}(quantity({bound}))" for name in ("isGreaterThan", "isLessThan")
    )
    compared = f'{operator} == "Gt" ? {greater} : {less}'
    return (
        f'(({o}.?effect.orValue("") == "" || {t}.endsWith(":" + {o}.effect)) && '
        f'({o}.?key.orValue("") == "" || {t}.startsWith({o}.key + "=")) && '
        f'({operator} == "Exists" || '
        f'({operator} in ["", "Equal"] && {t}.contains("=" + {bound} + ":")) || '
        f'({operator} in ["Gt", "Lt"] && {o}.?key.orValue("") != "" && '
        f'[{t}.split("=")[1].split(":")[0]].exists(v, '
        f"{_is_integer('v')} && {_is_integer(bound)} && ({compared})))))"
    )


TOLERATED: Final = f"variables.tolerations.exists(o, {tolerates('o', 't')})"


def changed(*fields: str) -> str:
    """Return CEL that is true if an update changes one of the given fields."""
    return " || ".join(f"dyn(object).?{field} != dyn(oldObject).?{field}" for field in fields)


def annotation_set(prefix: str) -> str:
    """Return CEL that is true if an update adds or changes an annotation with a prefix."""
    new, old = (f"{root}.metadata.?annotations{OR_MAP}" for root in ("object", "oldObject"))
    return f"{new}.exists(k, k.startsWith({text(prefix)}) && !(k in {old} && {old}[k] == {new}[k]))"


# An update of an existing pod can change only a few fields, among them these fields for placement
# and images: kubernetes v1.34.4 pkg/apis/core/validation/validation.go ValidatePodUpdate.
PLACE_CHANGED: Final = changed("spec.?tolerations", "spec.?nodeSelector", "spec.?affinity")
LABELS_CHANGED: Final = changed("metadata.?labels")
IMAGES_CHANGED: Final = " || ".join(
    f"object.spec{field}.map(c, c.?image) != oldObject.spec{field}.map(c, c.?image)"
    for field in (".containers", f".?initContainers{OR_LIST}")
)
# The fields that a resize of a pod can change: kubernetes v1.36.3 pkg/registry/core/pod/strategy.go
# dropNonResizeUpdates.
SIZES_CHANGED: Final = " || ".join(
    (
        changed("spec.?resources"),
        *(
            f"dyn(object).spec{field}.map(c, c.?resources) != "
            f"dyn(oldObject).spec{field}.map(c, c.?resources)"
            for field in (".containers", f".?initContainers{OR_LIST}")
        ),
    )
)


def unless_empty(condition: str, place: str) -> str:
    """Return CEL for a list with the text `place` if a condition is true, else an empty list."""
    return f"{condition} ? [{place}] : []"


TRUST_IS_DECLARED: Final = '(variables.facts["trustIsDeclared"] == "true")'
# Every user can write an owner reference into a pod, so a pod counts as a DaemonSet's only if the
# DaemonSet controller creates it.
DAEMON_SETS: Final = (
    '(dyn(object).kind == "DaemonSet" ? [string(object.metadata.name)] : '
    f'request.?userInfo.?username.orValue("") in {parameter("daemonSetControllers")} ? '
    f'object.metadata.?ownerReferences{OR_LIST}.filter(o, o.kind == "DaemonSet" && '
    "o.?controller.orValue(false)).map(o, string(o.name)) : [])"
)
"""CEL for the name of the DaemonSet that the object is or that made it, in a list, or no name."""


def trusts_daemon_set(key: str, patterns: str) -> str:
    """Return CEL that is true if a DaemonSet has a name that the rules trust.

    Args:
        key: CEL for the DaemonSet, as `namespace/name`.
        patterns: CEL for the list of trusted names, in which `*` may stand at the end.
    """
    return (
        f'{patterns}.exists(t, t.endsWith("*") ? '
        f"({key}).startsWith(t.substring(0, size(t) - 1)) : ({key}) == t)"
    )


TRUSTED: Final = (
    f"request.namespace in {parameter('trustedNamespaces')} || {DAEMON_SETS}.exists(d, "
    + trusts_daemon_set('request.namespace + "/" + d', parameter("trustedDaemonSets"))
    + ")"
)
"""CEL that is true for objects to which the rules about workloads don't apply."""


def in_workloads(places: str) -> str:
    """Return CEL that drops a list of violations for objects that the rules trust.

    Args:
        places: CEL for the list of violations in all other objects.
    """
    return f"variables.trusted ? [] : ({places})"


def each_container(condition: str, found: str, containers: str = "variables.containers") -> str:
    """Return CEL for a list with a text for each container `c` that meets a condition.

    Args:
        condition: CEL over the container `c`.
        found: CEL for the text of what was found.
        containers: CEL for the list of containers.
    """
    return (
        f'{containers}.filter(c, {condition}).map(c, "container " + c.name + ": found " + {found})'
    )


NAMES: Final[Mapping[str, str]] = {"gpu": GPU, "shared": GPU_SHARED, "core": VCUDA_CORE}
"""GPU resources by the prefix of their CEL variables; the facts have their amounts per node."""

SIDECAR: Final = 'c.?restartPolicy.orValue("") == "Always"'


def bound(name: str, value: str, expression: str) -> str:
    """Return CEL for an expression in which a name stands for a value that is computed once.

    CEL has no statement for it, so the name is the only element of a list.
    """
    return f"[{value}].map({name}, {expression})[0]"


def together(asked: str, starting: str, sidecars: str, none: str = "0") -> str:
    """Return CEL for the amount that the containers of a pod request together.

    `gpu_rules.rules.pod_request` computes the same in Python: all containers and sidecars together,
    or an init container with the sidecars that start before it, whichever is more. A sidecar also
    counts as an init container with the sidecars before it.

    Args:
        asked: CEL for the amount that the container `c` requests.
        starting: CEL for the amounts that the init containers request, as a list.
        sidecars: CEL for the same list, with 0 for init containers that are not sidecars.
        none: CEL for 0 in the type of the amounts. The sum of an empty list is always an integer.
    """
    before = f"([{none}] + {sidecars}.transformList(j, s, j < i, s)).sum()"
    all_containers = (
        f"variables.spec.containers.map(c, {asked}).sum() + ([{none}] + {sidecars}).sum()"
    )
    return f"([{all_containers}] + {starting}.transformList(i, a, a + {before})).max()"


def request(name: str, quantity: str, starting: str, sidecars: str) -> str:
    """Return CEL for the pod's effective request of a resource.

    That is what the containers request together (`together`), plus the overhead of a resource that
    a container lists, even with 0.

    Args:
        name: CEL of the resource's name.
        quantity: CEL for the amount that the container `c` requests.
        starting: CEL for the amounts that the init containers request, as a list.
        sidecars: CEL for the same list, with 0 for init containers that are not sidecars.
    """
    overhead = amount(f"variables.overhead[{name}]")
    listed = (
        f"{name} in variables.overhead && "
        f"variables.containers.exists(c, {name} in {limits('c')} || {name} in {requests('c')})"
    )
    return f"{together(quantity, starting, sidecars)} + ({listed} ? {overhead} : 0)"


def size(quantity: str) -> str:
    """Return CEL for a quantity such as 1Gi as a number, which need not be whole."""
    return f"quantity({quantity}).asApproximateFloat()"
