"""Check that the manifest fields that the rules read have the right types.

The API server rejects a manifest with a field of a wrong type, so the checker reports the manifest
as unreadable. Without this check, a manifest whose `containers` is a string would pass, because
rules skip fields of a wrong type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from ..faults import InputError
from ..rules.custom import is_custom, pods
from ..rules.pod_spec import template_path
from ..rules.unknown import UNKNOWN
from .problem import show

_Shape = Mapping[str, object]
# A shape describes the type of a value: a Python type stands for a scalar, [shape] for a list, and
# {key: shape} for a mapping with these fields; the key * stands for all fields. Fields that a shape
# doesn't name are not checked. The rules themselves check the amounts in resource limits. Source of
# the types: kubernetes v1.34.4 pkg/apis/core/types.go.
_ANY: Final[_Shape] = {}
_RESOURCES: Final[_Shape] = {
    "requests": _ANY,
    "limits": _ANY,
    "claims": [{"name": str, "request": str}],
}
_TEXTS: Final[_Shape] = {"*": str}
_METADATA: Final[_Shape] = {
    "name": str,
    "namespace": str,
    "labels": _TEXTS,
    "annotations": _TEXTS,
}
_CONTAINER: Final[_Shape] = {
    "name": str,
    "image": str,
    "restartPolicy": str,
    "env": [{"name": str, "value": str, "valueFrom": _ANY}],
    "envFrom": [_ANY],
    "resources": _RESOURCES,
    "resizePolicy": [{"resourceName": str}],
    "securityContext": {"privileged": bool},
    "volumeMounts": [{"name": str, "mountPath": str}],
}
_POD: Final[_Shape] = {
    "metadata": _METADATA,
    "spec": {
        "containers": [_CONTAINER],
        "initContainers": [_CONTAINER],
        "ephemeralContainers": [_CONTAINER],
        "nodeSelector": _TEXTS,
        "nodeName": str,
        "overhead": _ANY,
        "resources": _RESOURCES,
        "resourceClaims": [
            {"name": str, "resourceClaimName": str, "resourceClaimTemplateName": str}
        ],
        "runtimeClassName": str,
        "affinity": {"nodeAffinity": _ANY},
        "tolerations": [{"key": str, "operator": str, "value": str, "effect": str}],
        "volumes": [{"name": str, "hostPath": {"path": str}, "emptyDir": {"medium": str}}],
    },
}
_LIMITS: Final[_Shape] = {
    "type": str,
    **dict.fromkeys(("max", "min", "default", "defaultRequest"), _ANY),
}
_KINDS: Final[Mapping[str, _Shape]] = {
    "LimitRange": {"metadata": _METADATA, "spec": {"limits": [_LIMITS]}},
    "ResourceQuota": {"metadata": _METADATA, "spec": {"hard": _ANY}},
    "Node": {"metadata": _METADATA, "spec": {"taints": [{"key": str, "effect": str}]}},
    "Namespace": {"metadata": _METADATA},
}
_OF_A_TEMPLATE: Final = ".template.spec"
_WANTED: Final[Mapping[object, str]] = {str: "text", bool: "true or false"}
_CURE: Final = "Correct the manifest: the API server could not decode it."


def mistakes(manifest: Mapping[str, object]) -> Iterator[tuple[str, InputError]]:
    """Yield the path and error of each field of a wrong type; only for kinds that rules check."""
    kind, version = manifest.get("kind"), manifest.get("apiVersion", "")
    if not isinstance(kind, str):
        yield "kind", _error("kind", kind, "text")
    elif not isinstance(version, str):
        yield "apiVersion", _error("apiVersion", version, "text")
    elif not isinstance(manifest.get("items") or [], list):
        yield "items", _error("items", manifest["items"], "a list")
    elif (shape := _shape(version, kind)) is not None:
        yield from _fields(manifest, shape, "")
    elif is_custom(manifest):
        yield from _selectors(manifest)


def _selectors(manifest: Mapping[str, object]) -> Iterator[tuple[str, InputError]]:
    """Yield the mistakes in the node selectors of the pod templates in a custom object.

    Only these fields are checked: the schemas of custom kinds take their types from Kubernetes, and
    an unquoted number or `true` is a common mistake in them.
    """
    for pod in pods(manifest):
        if pod.spec_path.endswith(_OF_A_TEMPLATE) and "nodeSelector" not in pod.inherited:
            selector = pod.spec.get("nodeSelector")
            if selector is not None:
                yield from _fields(selector, _TEXTS, f"{pod.spec_path}.nodeSelector")


@lru_cache(maxsize=1024)
def _shape(version: str, kind: str) -> _Shape | None:
    if kind in _KINDS:
        return _KINDS[kind] if version == "v1" else None
    path = template_path(version, kind)
    if path is None:
        return None
    shape = _POD
    for key in reversed(path):
        shape = {key: shape}
    return {**shape, "metadata": _METADATA}


def _fields(value: object, shape: object, path: str) -> Iterator[tuple[str, InputError]]:
    """Yield path and error of each field of a wrong type inside a value; null fields are valid."""
    if value is UNKNOWN:
        return
    if isinstance(shape, list):
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _fields(item, shape[0], f"{path}[{index}]")
        else:
            yield path, _error(path, value, "a list")
    elif isinstance(shape, dict):
        if isinstance(value, dict):
            fields = dict.fromkeys(value, shape["*"]) if "*" in shape else shape
            for key, inner in fields.items():
                if (item := value.get(key)) is not None:
                    yield from _fields(item, inner, _below(path, key))
        else:
            yield path, _error(path, value, "a mapping")
    elif type(value) is not shape:
        yield path, _error(path, value, _WANTED[shape])


def _below(path: str, key: str) -> str:
    """Return the path of a field inside the value at a path, such as `spec.limits[a/b]`."""
    if not key.isidentifier():
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def _error(path: str, value: object, wanted: str) -> InputError:
    return InputError(f"{show(value)} at {path}", wanted, _CURE)
