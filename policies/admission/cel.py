"""Pieces of CEL that several twins share. Each function gives text; its arguments are CEL, too.

All of it is CEL of Kubernetes 1.33: optional types and quantities are older, comprehensions of two
variables came with 1.32 and can be used by the version after (k8s.io/apiserver v0.34.4
pkg/cel/environment/base.go).
"""

from __future__ import annotations

import json
from collections.abc import Iterable

CAP = 1_000_000_000
"""Amounts count up to here, so that their sum fits an integer; no node has as many devices."""


def text(value: str) -> str:
    """A CEL string literal."""
    return json.dumps(value)


def texts(values: Iterable[str]) -> str:
    """A CEL list of string literals, sorted."""
    return f"[{', '.join(map(text, sorted(values)))}]"


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


def amount(quantity: str) -> str:
    """A whole quantity as an integer of at most `CAP`."""
    return (
        f'(quantity({quantity}).isGreaterThan(quantity("{CAP}")) ? {CAP} : '
        f"quantity({quantity}).asInteger())"
    )


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
    return f'({name} in variables.gpuResources || {name}.startsWith("nvidia.com/mig-"))'


def where(container: str) -> str:
    """The beginning of a place: which container."""
    return f'"container " + {container}.name'


def unless_empty(condition: str, place: str) -> str:
    """One place where a condition holds, else none."""
    return f"{condition} ? [{place}] : []"


def each_container(condition: str, found: str, containers: str = "variables.containers") -> str:
    """A place for each container `c` for which a condition holds; `found` is text in CEL."""
    return f'{containers}.filter(c, {condition}).map(c, {where("c")} + ": found " + {found})'
