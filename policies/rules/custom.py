"""Find pods inside custom resources such as PyTorchJob, RayCluster, JobSet and Workflow.

Each kind has its pod templates in another place, so a pod is found by its form: a mapping with a
list of `containers`, or with one `container`, that have an image.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from .pod_spec import Pod, pod_at
from .resource_names import SOUNDS_LIKE_GPU
from .unknown import mapping, sequence, text

_DEEPEST: Final = 16
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

_SOUNDS: Final = re.compile(SOUNDS_LIKE_GPU)
_Found = tuple[tuple[str, ...], Mapping[str, object]]


def is_custom(manifest: Mapping[str, object]) -> bool:
    """Return whether a manifest is of a custom kind, which is not a part of Kubernetes itself."""
    group = text(manifest.get("apiVersion")).rpartition("/")[0]
    return "." in group and group not in _NOT_CUSTOM


def pods(manifest: Mapping[str, object]) -> Iterator[Pod]:
    """Yield the pods inside a custom object, with their paths."""
    for path, value in _mappings(manifest.get("spec")):
        if _is_pod(value):
            yield pod_at(manifest, ("spec", *path), value)


def unread(manifest: Mapping[str, object]) -> str:
    """Return the kind of a custom object that may request GPUs in an unknown way, or ""."""
    if not is_custom(manifest) or next(pods(manifest), None):
        return ""
    sounds = any(
        _SOUNDS.search(key.lower()) or _SOUNDS.search(text(value).lower())
        for _, fields in _mappings(manifest.get("spec"))
        for key, value in fields.items()
    )
    return f"{text(manifest.get('kind'))} ({text(manifest.get('apiVersion'))})" if sounds else ""


def _is_pod(value: Mapping[str, object]) -> bool:
    containers = [*sequence(value.get("containers")), value.get("container")]
    return any(text(mapping(container).get("image")) for container in containers)


def _mappings(root: object) -> Iterator[_Found]:
    """Yield every mapping inside a value with its path, without the content of pods."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), root)]
    looked_at = 0
    while waiting and looked_at < _MOST:
        path, value = waiting.pop()
        looked_at += 1
        if own := mapping(value):
            yield path, own
            if _is_pod(own):
                continue
            inner = [((*path, key), item) for key, item in own.items()]
        else:
            last, before = path[-1:] or ("",), path[:-1]
            inner = [
                ((*before, f"{last[0]}[{index}]"), item)
                for index, item in enumerate(sequence(value))
            ]
        if len(path) < _DEEPEST:
            waiting += reversed([pair for pair in inner if not isinstance(pair[1], str)])
