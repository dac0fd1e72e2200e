"""List the parts of an object that may request GPUs but that no rule reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..context import Context
from ..kube.names import is_extended_resource
from ..kube.vendor_resources import vendor_of
from . import custom
from .helm import GPU_CHARTS, releases
from .pod_spec import Container
from .resource_names import NETWORK, is_gpu, meant, sounds_like_gpu
from .rule import Subject
from .unknown import at, mapping, text

_DEVICE_CLASS: Final = "device-class"
"""Suffix of annotations for which a controller adds a claim to pods: kserve/kserve
pkg/constants, exp-dra-device-class.
"""


_ELSEWHERE: Final = (
    "values of the chart stand in another object or file, which the rules don't read"
)


@dataclass(frozen=True, slots=True)
class Unread:
    """A field that may request GPUs but that no rule reads.

    Attributes:
        reason: Why no rule reads it, and what to do; empty if the form of the request is the cause.
    """

    path: str
    reason: str = ""


def unread(subjects: Sequence[Subject], context: Context) -> Iterator[Unread]:
    """Yield the fields of an object that may request GPUs but that no rule reads.

    That is a request in a form that no rule reads, such as an annotation, a request for a resource
    whose name resembles a GPU's but that neither the rules nor the settings know, or values of a
    GPU chart in another file or object.

    Args:
        subjects: The object, as `Subject.all_of` returns it.
    """
    manifest = subjects[0].manifest
    yield from map(Unread, custom.unread(manifest))
    for release in releases(subjects[0]):
        if release.elsewhere and release.chart in GPU_CHARTS:
            yield Unread(release.elsewhere, _ELSEWHERE)
    for key, value in mapping(at(manifest, "metadata", "annotations")).items():
        if key.endswith(_DEVICE_CLASS) and sounds_like_gpu(text(value)):
            yield Unread(f"metadata.annotations[{key}]")
    unknown_names: dict[str, str] = {}
    for subject in subjects:
        for container in subject.pod.resource_containers if subject.pod else ():
            unknown_names |= _unknown_names(container, context)
    for path, name in unknown_names.items():
        yield Unread(path, _reason(name))


def _reason(name: str) -> str:
    """Return the reason why no rule checks a resource, and the cure."""
    if vendor := vendor_of(name):
        return (
            f"{name[:80]} is a resource of {vendor.name} that the rules don't judge "
            f"({vendor.why}); to judge it like a GPU, add the name to resourceNames"
        )
    return (
        f"{name[:80]} may be a GPU of a vendor that the rules don't know; if it is one, add the "
        "name to resourceNames"
    )


def _unknown_names(container: Container, context: Context) -> dict[str, str]:
    """Return the names of the requested resources that may be GPUs, by the path of the request."""
    return {
        resource.path: name
        for name in sorted(container.asked_names)
        if _may_be_a_gpu(name, context) and (resource := container.effective(name))
    }


def _may_be_a_gpu(name: str, context: Context) -> bool:
    """Return whether a resource may be a GPU, although no rule counts it.

    GPU014 reports a name that resembles a known one, so such a name is not listed again.
    """
    local = name.rpartition("/")[2].lower()
    return (
        is_extended_resource(name)
        and (sounds_like_gpu(name) or vendor_of(name) is not None)
        and not is_gpu(name, context)
        and meant(name, context) is None
        and ("gpu" in local or re.search(NETWORK, local) is None)
    )
