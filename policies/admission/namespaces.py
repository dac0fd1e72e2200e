"""The twins of the rules about limits of namespaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policies.admission.cel import is_gpu, resources, texts
from policies.admission.twin import NoTwin, Scope, Twin

_HAMI = texts(("limits.nvidia.com/gpumem", "limits.nvidia.com/gpucores"))


def _gives(field: str) -> str:
    """Whether a list of item `i` gives a container more than no GPUs, by defaulting or as such."""
    listed = resources("i", field)
    return f"{listed}.exists(n, {is_gpu('n')} && sign(quantity({listed}[n])) > 0)"


def _names(field: str) -> str:
    return f"{resources('i', field)}.exists(n, {is_gpu('n')})"


TWINS: Final[Mapping[str, Twin | NoTwin]] = {
    # The API server has filled `default` from `max`, and `defaultRequest` from `default`.
    "GPU012": Twin(
        Scope.LIMIT_RANGES,
        'object.spec.limits.filter(i, (i.type == "Container" && ('
        + " || ".join(map(_gives, ("default", "defaultRequest", "min")))
        + ')) || (i.type == "Pod" && ('
        + " || ".join(map(_names, ("max", "min")))
        + '))).map(i, "found GPUs in limits of type " + i.type)',
    ),
    "GPU013": Twin(
        Scope.RESOURCE_QUOTAS,
        f"{resources('object.spec', 'hard')}.filter(k, !(k in {_HAMI}) && "
        f'({is_gpu("k")} || (k.startsWith("limits.") && {is_gpu("k.substring(7)")})))'
        '.map(k, "found " + k + ", which nothing counts")',
    ),
}
