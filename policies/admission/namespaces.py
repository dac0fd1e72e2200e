"""The twins of the rules about namespaces and their limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policies.admission.cel import is_gpu, parameter, positive, resources, texts, unless_empty
from policies.admission.twin import Scope, Twin

_HAMI = texts(("limits.nvidia.com/gpumem", "limits.nvidia.com/gpucores"))
_LEVEL = 'object.metadata.?labels[?"pod-security.kubernetes.io/enforce"].orValue("")'


def _gives(field: str) -> str:
    """Whether a list of item `i` gives a container more than no GPUs, by defaulting or as such."""
    listed = resources("i", field)
    return f"{listed}.exists(n, {is_gpu('n')} && {positive(f'{listed}[n]')})"


def _names(field: str) -> str:
    return f"{resources('i', field)}.exists(n, {is_gpu('n')})"


TWINS: Final[Mapping[str, Twin]] = {
    # The API server has filled `default` from `max`, and `defaultRequest` from `default`.
    "GPU012": Twin(
        'object.spec.limits.filter(i, (i.type == "Container" && ('
        + " || ".join(map(_gives, ("default", "defaultRequest", "min")))
        + ')) || (i.type == "Pod" && ('
        + " || ".join(map(_names, ("max", "min")))
        + '))).map(i, "found GPUs in limits of type " + i.type)',
        scopes=frozenset({Scope.LIMIT_RANGES}),
    ),
    "GPU013": Twin(
        f"{resources('object.spec', 'hard')}.filter(k, !(k in {_HAMI}) && "
        f'({is_gpu("k")} || (k.startsWith("limits.") && {is_gpu("k.substring(7)")})))'
        '.map(k, "found " + k + ", which nothing counts")',
        scopes=frozenset({Scope.RESOURCE_QUOTAS}),
    ),
    "GPU060": Twin(
        unless_empty(
            f"!(object.metadata.name in {parameter('infrastructureNamespaces')}) && "
            f'!({_LEVEL} in ["baseline", "restricted"])',
            f'"found level " + ({_LEVEL} == "" ? "none" : {_LEVEL})',
        ),
        scopes=frozenset({Scope.NAMESPACES}),
    ),
}
