"""Pieces of CEL that several twins share. Each function gives text; its arguments are CEL, too.

All of it is CEL of Kubernetes 1.33: optional types and quantities are older, comprehensions of two
variables came with 1.32 and can be used by the version after (k8s.io/apiserver v0.34.4
pkg/cel/environment/base.go).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from .resource_names import DEVICES, GPU, GPU_SHARED, KNOWN, MIG, VCUDA_CORE

CAP = 1_000_000_000
"""Amounts count up to here, so that their sum fits an integer; no node has as many devices."""


def text(value: str) -> str:
    """A CEL string literal."""
    return json.dumps(value)


def texts(values: Iterable[str]) -> str:
    """A CEL list of string literals, sorted."""
    return f"[{', '.join(map(text, sorted(values)))}]"


def parameter(key: str) -> str:
    """A list of texts from the parameter, as `policies.admission.parameters` writes it."""
    return f'params.data["{key}"].split(",").filter(x, x != "")'


def resources(owner: str, field: str) -> str:
    """A map of resources, empty where it is not there.

    Without the owner's type: the type check knows no map of quantities and would warn of a field
    that is not there (seen on an API server 1.34.4).
    """
    return f"dyn({owner}).?{field}.orValue({{}})"


def limits(container: str) -> str:
    """The limits of a container.

    The API server lets no extended resource through whose request is not equal to a limit, so
    limits say everything.
    """
    return resources(container, "resources.?limits")


def requests(container: str) -> str:
    """The requests of a container; in a template without what the limits imply."""
    return resources(container, "resources.?requests")


LIMITS: Final = limits("c")
REQUESTS: Final = requests("c")
POOL_TAINTS: Final = 'params.data[p + ".taints"].split(",")'


def named(condition: str, container: str = "c") -> str:
    """Whether a container has a resource `n` for which a condition holds."""
    return (
        f"({limits(container)}.exists(n, {condition}) || "
        f"{requests(container)}.exists(n, {condition}))"
    )


def asks_for(condition: str, container: str = "c") -> str:
    """Whether a container asks for more than 0 of a resource `n` for which a condition holds."""
    either = (
        f"{listed}.exists(n, {condition} && {positive(f'{listed}[n]')})"
        for listed in (limits(container), requests(container))
    )
    return f"({' || '.join(either)})"


def amount(quantity: str) -> str:
    """A whole quantity as an integer of at most `CAP`."""
    return (
        f'(quantity({quantity}).isGreaterThan(quantity("{CAP}")) ? {CAP} : '
        f"quantity({quantity}).asInteger())"
    )


def positive(quantity: str) -> str:
    """Whether a quantity is more than 0."""
    return f"sign(quantity({quantity})) > 0"


def hundreds(quantity: str) -> str:
    """Whether a whole quantity is a multiple of 100.

    One that is too large for an integer is judged by how the API server writes it: zeros or a
    decimal suffix at the end.
    """
    return (
        f"(quantity({quantity}).isInteger() ? quantity({quantity}).asInteger() % 100 == 0 : "
        f'string({quantity}).matches("(00|[kMGTPE]|e[0-9]+)$"))'
    )


def asked(container: str, name: str) -> str:
    """How much of a resource a container asks for, 0 where it names none."""
    return amount(f'{limits(container)}[?{name}].orValue("0")')


def is_gpu(name: str) -> str:
    """Whether a name is that of a GPU resource."""
    return f"({name} in variables.gpuResources || {name}.startsWith({text(MIG)}))"


def is_device(name: str) -> str:
    """Whether a name is that of a device or a share of one, not of a part of its memory."""
    return (
        f"({name} in {texts(DEVICES)} || {name}.startsWith({text(MIG)}) || "
        f"({name} in {parameter('resourceNames')} && !({name} in {texts(KNOWN)})))"
    )


def tolerates(toleration: str, taint: str) -> str:
    """Whether a toleration covers a taint that is written as key=value:effect.

    Source: k8s.io/api v0.34.4 core/v1/toleration.go ToleratesTaint.
    """
    o, t = toleration, taint
    return (
        f'(({o}.?effect.orValue("") == "" || {t}.endsWith(":" + {o}.effect)) && '
        f'({o}.?key.orValue("") == "" || {t}.startsWith({o}.key + "=")) && '
        f'({o}.?operator.orValue("") == "Exists" || '
        f'{t}.contains("=" + {o}.?value.orValue("") + ":")))'
    )


TOLERATED: Final = f"variables.tolerations.exists(o, {tolerates('o', 't')})"


def changed(*fields: str) -> str:
    """Whether an update changes one of these fields."""
    return " || ".join(f"dyn(object).?{field} != dyn(oldObject).?{field}" for field in fields)


def annotation_set(prefix: str) -> str:
    """Whether an update sets an annotation with a prefix, or sets it anew."""
    own, old = (f"{root}.metadata.?annotations.orValue({{}})" for root in ("object", "oldObject"))
    return f"{own}.exists(k, k.startsWith({text(prefix)}) && !(k in {old} && {old}[k] == {own}[k]))"


# What an update of a pod can change of its place and its images: kubernetes v1.34.4
# pkg/apis/core/validation/validation.go ValidatePodUpdate.
PLACE_CHANGED: Final = changed("spec.?tolerations", "spec.?nodeSelector", "spec.?affinity")
IMAGES_CHANGED: Final = " || ".join(
    f"object.spec{field}.map(c, c.?image) != oldObject.spec{field}.map(c, c.?image)"
    for field in (".containers", ".?initContainers.orValue([])")
)
# What a resize of a pod can change: pkg/registry/core/pod/strategy.go podResizeStrategy.
SIZES_CHANGED: Final = " || ".join(
    f"dyn(object).spec{field}.map(c, c.?resources) != "
    f"dyn(oldObject).spec{field}.map(c, c.?resources)"
    for field in (".containers", ".?initContainers.orValue([])")
)


def unless_empty(condition: str, place: str) -> str:
    """One place where a condition holds, else none."""
    return f"{condition} ? [{place}] : []"


def in_workloads(places: str) -> str:
    """Places, but none in the namespaces of the GPU stack itself."""
    listed = parameter("infrastructureNamespaces")
    return f"request.namespace in {listed} ? [] : ({places})"


def each_container(condition: str, found: str, containers: str = "variables.containers") -> str:
    """A place for each container `c` for which a condition holds; `found` is text in CEL."""
    return (
        f'{containers}.filter(c, {condition}).map(c, "container " + c.name + ": found " + {found})'
    )


NAMES: Final[Mapping[str, str]] = {"gpu": GPU, "shared": GPU_SHARED, "core": VCUDA_CORE}
"""The resources of which the parameter says how much a node has, by the variables' names."""

SIDECAR: Final = 'c.?restartPolicy.orValue("") == "Always"'


def request(name: str, starting: str, sidecars: str) -> str:
    """The pod's effective request of a resource, as `policies.rules.pod_request` counts it.

    Containers and sidecars together, or an init container with the sidecars before it (of which a
    sidecar itself is one more case), whichever is most; then the overhead. `starting`, `sidecars`:
    what each init container asks for, and each sidecar of them.
    """
    before = f"{sidecars}.transformList(j, s, j < i, s).sum()"
    return (
        f"([variables.spec.containers.map(c, {asked('c', name)}).sum() + {sidecars}.sum()] + "
        f"{starting}.transformList(i, a, a + {before})).max() + "
        + amount(f'variables.overhead[?{name}].orValue("0")')
    )
