"""Find pods and other GPU requests inside custom resources.

Each kind of custom resource has its pods at another path. So this module finds pods by their fields
and not by the kind. Exceptions are the few kinds that use the same field names with another meaning
(`gpu_rules.rules.custom_kinds`). An object is read like this:

- A mapping with containers is a pod.
- Any other mapping whose limits, requests, claims or count field names a GPU is read as a pod with
  one container.
- A pod inherits fields from the mappings around it: tolerations, node selection and other fields of
  a pod. The replica counts of these mappings are multiplied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..kube.pod_resources import ContainerRole
from . import custom_kinds
from .asks import Asked, asked
from .embedded import embedded
from .patches import patched
from .placeholders import with_unknowns
from .pod_spec import Container, Pod, container_at, containers_of
from .replicas_above import copies
from .resource_names import sounds_like_gpu
from .unknown import at, mapping, number, sequence, text

_DEEPEST: Final = 24
_MOST: Final = 20_000
"""Maximum number of values that are visited in one object; the API server accepts about 1.5 MiB."""

_NOT_CUSTOM: Final = frozenset(
    f"{group}.k8s.io"
    for group in (
        *("admissionregistration", "apiextensions", "apiregistration", "authentication"),
        *("authorization", "certificates", "coordination", "discovery", "events", "flowcontrol"),
        *("internal.apiserver", "metrics", "networking", "node", "rbac.authorization", "resource"),
        *("scheduling", "storage", "storagemigration"),
    )
) | {"helm.sh"}
"""Kubernetes' own API groups, and the group of Helm releases, which have their own rules."""

_LISTS: Final[Mapping[str, ContainerRole]] = {
    "initContainers": ContainerRole.INIT,
    "containers": ContainerRole.APP,
    "sidecars": ContainerRole.APP,
    "steps": ContainerRole.APP,
}
_SINGLE: Final = ("container", "script")
_OF_CONTAINERS: Final = frozenset({*_LISTS, *_SINGLE, "containerSet", "resources", "overhead"})
_CLAIMS: Final = "resourceClaims"
_OF_A_POD: Final[tuple[str, ...]] = (
    *("tolerations", "nodeSelector", "affinity", "runtimeClassName", "nodeName", "hostPID"),
    *("volumes", _CLAIMS, "activeDeadlineSeconds"),
)
"""Pod fields that also apply to pods nested below the mapping with the fields."""
_TEMPLATES: Final = (
    *(("template", "spec"), ("podTemplate", "spec"), ("podTemplateSpec", "spec"), ("podSpec",)),
    *(("extraPodSpec",), ("podTemplate",), ("pod",), ("taskRunTemplate", "podTemplate")),
    ("defaultPodOptions",),
)
"""Where a mapping may have fields of its pods, besides in itself."""
_REQUEST_IN_TEXT: Final = re.compile(
    r"(nvidia\.com/(gpu|mig-)|amd\.com/gpu|gpu\.intel\.com/|tencent\.com/vcuda)[^\n:]*:\s*"
    r"""(?![ \t"']*0["']?\s*([,}\n#]|$))\S|deviceClassName:"""
)
"""Pattern of a request for GPUs in a text with YAML or JSON."""
_MANIFEST_IN_TEXT: Final = re.compile(r"^[ \t]*kind:[ \t]*\S", re.MULTILINE)
_SAYS_NOTHING: Final = frozenset(
    {"labels", "annotations", "nodeLabels", "matchLabels", "nodeSelector", "selector", "affinity"}
    | {
        "tolerations",
        "taints",
        "env",
        "envFrom",
        "metadata",
        "status",
        "volumes",
        "args",
        "command",
    }
    | {"rayStartParams", "minResources", "validation", "openAPIV3Schema", "parameters"}
    | {"resourceClaims", "volumeMounts", "topologySpreadConstraints", "metrics", "priorityClass"}
    | {"hard", "capacity", "allocatable", "capability", "guarantee", "deserved", "quota", "max"}
    | {"quotas", "resourceQuota", "resourceQuotas", "min"}
)
"""Fields in which the name of a GPU resource is not a request for GPUs."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A mapping in a custom object, with the mappings that contain it, innermost first."""

    path: str
    value: Mapping[str, object]
    above: tuple[tuple[str, Mapping[str, object]], ...]
    is_pod: bool
    asked: Asked

    @classmethod
    def of(
        cls,
        path: str,
        value: Mapping[str, object],
        above: tuple[tuple[str, Mapping[str, object]], ...],
    ) -> _Place:
        is_pod = _is_pod(value)
        return cls(path, value, above, is_pod, Asked() if is_pod else asked(value, path))


def is_custom(manifest: Mapping[str, object]) -> bool:
    """Return whether a manifest is of a custom kind, which is not a part of Kubernetes itself."""
    group = text(manifest.get("apiVersion")).rpartition("/")[0]
    return "." in group and group not in _NOT_CUSTOM


def pods(manifest: Mapping[str, object]) -> Iterator[Pod]:
    """Yield the pods inside a custom object; a GPU request outside of pods also becomes a pod."""
    if custom_kinds.offers(manifest):
        return
    whole = not custom_kinds.is_completed(manifest)
    joined: set[str] = set()
    claim_paths: set[str] = set()
    claiming: list[_Place] = []
    for place in _walk_places(manifest):
        if place.path in joined:
            continue
        claims = _claims_in_field(place.value, custom_kinds.CLAIMS)
        pod = _pod_at(place) if place.is_pod else _requesting_pod(place, claims)
        if pod:
            joined.add(pod.spec_path)
            claim_paths.add(pod.inherited.get(_CLAIMS, ""))
            yield replace(pod, copies=_copies_of(place, manifest), whole=whole)
        elif _claims_in_field(place.value, _CLAIMS):
            claiming.append(place)
    # An object may list claims for its pods. If none of the pods in the object uses a claim, the
    # claim is for a pod that the object's controller makes later.
    for place in claiming:
        pod = (
            _requesting_pod(place, _claims_in_field(place.value, _CLAIMS))
            if place.path not in claim_paths
            else None
        )
        if pod:
            yield replace(pod, copies=_copies_of(place, manifest), whole=whole)


def _copies_of(place: _Place, manifest: Mapping[str, object]) -> int:
    return copies([place.value, *(value for _, value in place.above)], manifest)


def unread(manifest: Mapping[str, object]) -> Iterator[str]:
    """Yield the paths in an object that may request GPUs in a form that no rule reads.

    In a custom resource, that is text such as a patch or a file with the name of a GPU resource in
    it, and a field that is named after GPUs and has an amount. In a ConfigMap, it is a manifest.
    """
    if manifest.get("kind") == "ConfigMap" and manifest.get("apiVersion") == "v1":
        for key, value in mapping(manifest.get("data")).items():
            if isinstance(value, str) and _is_manifest_with_gpus(value):
                yield f"data[{key}]"
    if not is_custom(manifest) or custom_kinds.offers(manifest):
        return
    for place in _walk_places(manifest):
        if not place.is_pod:
            for key, value in place.value.items():
                if key not in _SAYS_NOTHING | place.asked.fields and _may_request(key, value):
                    yield f"{place.path}.{key}" if place.path else key
        elif _is_unread_patch(place.value.get(custom_kinds.PATCH)):
            yield f"{place.path}.{custom_kinds.PATCH}"


def _is_manifest_with_gpus(written: str) -> bool:
    kind, request = _MANIFEST_IN_TEXT.search(written), _REQUEST_IN_TEXT.search(written)
    return kind is not None and request is not None


def _may_request(key: str, value: object) -> bool:
    if key == custom_kinds.PATCH:
        return _is_unread_patch(value)
    if key == custom_kinds.PROFILE:
        return sounds_like_gpu(text(value))
    if isinstance(value, str) and _REQUEST_IN_TEXT.search(value):
        return True
    return sounds_like_gpu(key) and not isinstance(value, str) and bool(number(value))


def _is_unread_patch(value: object) -> bool:
    written = isinstance(value, str) and _REQUEST_IN_TEXT.search(value) is not None
    return written and not embedded(value)


def _walk_places(manifest: Mapping[str, object]) -> Iterator[_Place]:
    """Yield every mapping inside an object that may contain pods or requests, outermost first."""
    waiting = [(_Place.of("", manifest, ()), 0)]
    visited = 0
    while waiting and visited < _MOST:
        place, depth = waiting.pop()
        visited += 1
        yield place
        if depth < _DEEPEST:
            waiting += [(inner, depth + 1) for inner in reversed(list(_places_inside(place)))]


def _places_inside(place: _Place) -> Iterator[_Place]:
    """Yield the nearest mappings inside a mapping: its values, and the items of its lists."""
    skipped = _SAYS_NOTHING | (_OF_CONTAINERS if place.is_pod else place.asked.fields)
    waiting = [
        (key, value) for key, value in reversed(list(place.value.items())) if key not in skipped
    ]
    for _ in range(_MOST):
        if not waiting:
            return
        key, value = waiting.pop()
        if isinstance(value, Mapping):
            path = f"{place.path}.{key}" if place.path else key
            yield _Place.of(path, mapping(value), ((place.path, place.value), *place.above))
        elif key.count("[") < _DEEPEST:
            listed = [(f"{key}[{index}]", item) for index, item in enumerate(sequence(value))]
            waiting += reversed(listed)


def _is_pod(value: Mapping[str, object]) -> bool:
    """Return whether a mapping has a list of containers or a single container."""
    listed = [*sequence(value.get("containers")), *sequence(value.get("steps"))]
    return any(map(_is_container, [*listed, *(value.get(key) for key in _SINGLE)])) or any(
        map(_is_container, sequence(at(value, "containerSet", "containers")))
    )


def _is_container(value: object) -> bool:
    fields = mapping(value)
    return isinstance(fields.get("image"), str) or any(
        isinstance(fields.get(key), Mapping) for key in ("resources", "computeResources")
    )


def _pod_at(place: _Place) -> Pod:
    """Return the pod that a mapping with containers describes."""
    spec, inherited = _with_fields_above(place)
    spec = patched(spec, _pod_patches(place))
    containers: list[Container] = []
    for key, role in _LISTS.items():
        containers += containers_of(spec, place.path, key, role)
    inner = mapping(spec.get("containerSet"))
    containers += containers_of(
        inner, f"{place.path}.containerSet", "containers", ContainerRole.APP
    )
    for key in _SINGLE:
        if container := mapping(spec.get(key)):
            containers.append(container_at(container, f"{place.path}.{key}"))
    path, template = place.path, place.value
    if place.path.rpartition(".")[2] == "spec":
        path, template = place.above[0]
    return Pod(
        path,
        mapping(template.get("metadata")),
        spec,
        tuple(containers),
        place.path,
        inherited=inherited,
    )


def _requesting_pod(place: _Place, claims: list[dict[str, object]]) -> Pod | None:
    """Return a pod for a mapping that requests GPUs outside of containers, or else None.

    Args:
        place: The mapping.
        claims: Claims of the mapping for devices, as entries of `resourceClaims`.
    """
    listed = sequence(at(place.value, "resources", "claims"))
    if not (place.asked.fields or claims or listed):
        return None
    fields, inherited = _with_fields_above(place)
    spec = {name: fields[name] for name in _OF_A_POD if name in fields}
    if claims:
        spec = {**spec, _CLAIMS: claims}
        inherited[_CLAIMS] = place.path
    elif _CLAIMS not in spec:
        listed = ()
    if not (place.asked.fields or claims or listed):
        return None
    used = {"claims": [*({"name": claim["name"]} for claim in claims), *listed]}
    main = mapping(at(place.value, *custom_kinds.MAIN))
    container = Container(
        name=text(place.value.get("name")) or place.path.rpartition(".")[2],
        path=place.path,
        role=ContainerRole.APP,
        spec={**place.value, **main, "resources": used},
        requests=place.asked.requests,
        limits=place.asked.limits,
        requests_known=True,
        limits_known=True,
    )
    if template := _template_at(place):
        pod = _pod_at(template)
        return replace(pod, containers=(container, *pod.containers), loose=True)
    return Pod(place.path, {}, spec, (container,), place.path, inherited=inherited, loose=True)


def _template_at(place: _Place) -> _Place | None:
    """Return the pod template in a mapping that requests GPUs; the request counts for that pod."""
    for steps in _TEMPLATES:
        path, value, above = place.path, place.value, place.above
        for step in steps:
            path, value, above = f"{path}.{step}", mapping(value.get(step)), ((path, value), *above)
        if _is_pod(value):
            return _Place.of(path, value, above)
    return None


def _claims_in_field(value: Mapping[str, object], field: str) -> list[dict[str, object]]:
    """Return the device claims in a field of a mapping, as entries of `resourceClaims`."""
    claims: list[dict[str, object]] = []
    for index, raw in enumerate(sequence(value.get(field))):
        claim = mapping(raw)
        claim_source = {key: claim[key] for key in custom_kinds.CLAIM_NAMES if claim.get(key)}
        if not claim_source and (devices := custom_kinds.claimed_devices(claim)):
            claim_source = {"resourceClaimTemplateName": devices}
        if claim_source:
            claims.append({"name": text(claim.get("name")) or f"claim-{index}", **claim_source})
    return claims


def _with_fields_above(place: _Place) -> tuple[dict[str, object], dict[str, str]]:
    """Return a mapping completed with pod fields of the mappings around it.

    The second result has the path of the mapping that each such field is from.
    """
    spec, inherited = dict(place.value), dict[str, str]()
    around = (above for above in place.above if not _is_pod(above[1]))
    for path, value in ((place.path, place.value), *around):
        for steps in ((), *_TEMPLATES):
            fields = mapping(at(value, *steps))
            for field in _OF_A_POD:
                if field in fields and field not in spec:
                    spec[field] = fields[field]
                    inherited[field] = ".".join(filter(None, (path, *steps)))
    return spec, inherited


def _pod_patches(place: _Place) -> list[Mapping[str, object]]:
    """Return the pod spec patches (`podSpecPatch`) that Argo Workflows applies, outermost first."""
    around = (place.value, *(value for _, value in place.above))
    patch_texts = (value.get(custom_kinds.PATCH) for value in around)
    return [mapping(with_unknowns(patch)) for patch in map(embedded, patch_texts) if patch][::-1]
