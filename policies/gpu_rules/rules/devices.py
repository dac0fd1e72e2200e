"""Find in a stack's manifests which claims and resources are for GPUs (DRA)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from ..context import ClaimFacts, ClaimKey, Context, DeviceFacts
from .claims import GROUP, KINDS, claim_facts, devices_path, requests
from .resource_names import names_other_devices, sounds_like_gpu
from .rule import Subject
from .unknown import at, holds_unknown, sequence, text

GROUPS: Final = (GROUP, "resource.nvidia.com")
"""API groups of claims, and of ComputeDomains, whose claims are for channels between nodes and not
for GPUs: NVIDIA/k8s-dra-driver-gpu api/nvidia.com/resource/v1beta1.
"""


def with_devices(context: Context, manifests: Iterable[Mapping[str, object]]) -> Context:
    """Return cluster facts, completed by the DeviceClasses and claims in manifests.

    Args:
        manifests: Manifests of one stack; a list of objects must be split into its items.
    """
    device_subjects = [
        Subject.of(manifest, context.namespace)
        for manifest in manifests
        if text(manifest.get("apiVersion")).partition("/")[0] in GROUPS
    ]
    if not device_subjects:
        return context
    gpu_classes = [
        subject
        for subject in device_subjects
        if subject.kind == "DeviceClass" and _for_gpus(subject)
    ]
    names = (text(at(subject.manifest, "spec", "extendedResourceName")) for subject in gpu_classes)
    facts = DeviceFacts(
        classes=frozenset(subject.name for subject in gpu_classes),
        resources=frozenset(filter(None, names)),
    )
    context_with_classes = replace(context, devices=facts)
    claims: dict[ClaimKey, ClaimFacts] = {
        (subject.namespace, subject.kind, subject.name): claim_facts(subject, context_with_classes)
        for subject in device_subjects
        if subject.kind in KINDS and _shows_devices(subject)
    }
    for subject in device_subjects:
        channels = text(at(subject.manifest, "spec", "channel", "resourceClaimTemplate", "name"))
        if subject.kind == "ComputeDomain" and channels:
            claims[subject.namespace, "ResourceClaimTemplate", channels] = ClaimFacts()
    shared = frozenset(
        (subject.namespace, subject.kind, subject.name)
        for subject in device_subjects
        if _only_shares(subject)
    )
    return replace(context, devices=replace(facts, claims=claims, shared=shared))


def _shows_devices(subject: Subject) -> bool:
    """Return whether a claim's manifest shows all of its devices.

    A claim of Kubernetes 1.30 or older has no number of devices. In a preview, requests and classes
    may be known later.
    """
    devices = at(subject.manifest, *devices_path(subject))
    return not (
        devices is None
        or holds_unknown(devices)
        or holds_unknown(at(devices, "requests"))
        or any(holds_unknown(request.raw) for request in requests(subject))
    )


def _only_shares(subject: Subject) -> bool:
    """Return whether a claim takes no device for itself: all its requests have adminAccess."""
    device_requests = list(requests(subject))
    return bool(device_requests) and all(request.admin_access for request in device_requests)


def _for_gpus(subject: Subject) -> bool:
    """Return whether a DeviceClass has GPUs, by its name, its resource or its selectors."""
    selectors = sequence(at(subject.manifest, "spec", "selectors"))
    texts = [text(at(selector, "cel", "expression")) for selector in selectors]
    texts += [subject.name, text(at(subject.manifest, "spec", "extendedResourceName"))]
    return any(map(sounds_like_gpu, texts)) and not names_other_devices(subject.name)
