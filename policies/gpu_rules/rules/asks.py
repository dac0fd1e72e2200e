"""Read GPU requests outside of containers, such as `limits` of a whole service."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..kube.gpu_resources import GPU
from .custom_kinds import GPU_TYPE
from .pod_spec import Resource, resource_list
from .resource_names import sounds_like_gpu
from .unknown import UNKNOWN, mapping, sequence, text

_LISTS: Final = ("limits", "requests")
_SHORT: Final = frozenset({"gpu", "gpus"})
"""Names that count GPUs without a domain, which custom kinds accept in the place of a resource."""
_COUNTED: Final = re.compile(
    "(num|number_?of_?)?_?gpus?(_?(count|num|limits?|requests?))?(_?per_?(node|worker|pod|replica))?"
)
"""Pattern of the fields that are a number of GPUs, in lower case."""
_NUMBERS: Final = ("quantity", "count", "number", "amount")
_NAMED: Final = ("name", "resourceName", "deviceName", "type")
_QUANTITY: Final = re.compile(r"[0-9]+(\.[0-9]+)?[a-zA-Z]*")


@dataclass(frozen=True, slots=True)
class Asked:
    """GPU requests of a mapping that has no containers.

    Attributes:
        limits: Limits by the resource's name.
        requests: Requests by the resource's name.
        fields: Fields of the mapping that contain the requests.
    """

    limits: dict[str, Resource] = field(default_factory=dict)
    requests: dict[str, Resource] = field(default_factory=dict)
    fields: frozenset[str] = frozenset()


def asked(value: Mapping[str, object], path: str) -> Asked:
    """Return the GPU requests of a mapping that has no containers.

    Args:
        path: Path of the mapping in the manifest.
    """
    limits: dict[str, Resource] = {}
    requests: dict[str, Resource] = {}
    fields: set[str] = set()
    for key, listed, entries, resource_path in _resource_lists(value, path):
        if any(map(_names_gpus, entries)):
            fields.add(key)
            kind = _type_name(value) or _type_name(mapping(value.get(key)))
            into = limits if listed == "limits" else requests
            into |= {
                resource.name: resource
                for resource in _read_resources(entries, resource_path, kind or GPU)
            }
    for key, name, amount, resource_path in _gpu_counts(value, path):
        if key not in fields or name not in limits:
            fields.add(key)
            limits |= resource_list({name: amount}, path)
            limits[name] = Resource(name, resource_path, limits[name].amount, limits[name].error)
    return Asked(limits, requests, frozenset(fields))


def _names_gpus(name: str) -> bool:
    return name.lower() in _SHORT or ("/" in name and sounds_like_gpu(name))


def _type_name(value: Mapping[str, object]) -> str:
    """Return the resource that a field names as the type of the GPUs; empty for a model's name.

    BenchmarkJob of sgl-project/ome has the name of a model there, such as H100.
    """
    kind = text(value.get(GPU_TYPE))
    return kind if "/" in kind else ""


def _resource_lists(
    value: Mapping[str, object], path: str
) -> Iterator[tuple[str, str, Mapping[str, object], str]]:
    """Yield each list of resources in a mapping.

    Each result has the field's name, `limits` or `requests`, the list's entries and its path.
    """
    for key, inner in value.items():
        if not isinstance(inner, Mapping):
            continue
        list_path = f"{path}.{key}" if path else key
        if key in _LISTS:
            yield key, key, mapping(inner), list_path
            continue
        for listed in _LISTS:
            if entries := mapping(inner.get(listed)):
                yield key, listed, entries, f"{list_path}.{listed}"
        if key.lower().endswith("resources"):
            plain = {name: amount for name, amount in inner.items() if _is_amount(amount)}
            yield key, "limits", mapping(plain), list_path


def _read_resources(entries: Mapping[str, object], path: str, gpu: str) -> Iterator[Resource]:
    """Yield the GPU resources of a list; short names such as `gpus` become the argument `gpu`."""
    for name, resource in resource_list(entries, path).items():
        if not _names_gpus(name):
            continue
        right = gpu if name.lower() in _SHORT else name
        yield Resource(right, resource.path, resource.amount, resource.error)


def _gpu_counts(value: Mapping[str, object], path: str) -> Iterator[tuple[str, str, object, str]]:
    """Yield the numbers of GPUs in a mapping: field, resource, amount and path."""
    for key, inner in value.items():
        count_path = f"{path}.{key}" if path else key
        if _is_amount(inner) and _COUNTED.fullmatch(_snake_case(key)):
            yield key, _type_name(value) or GPU, inner, count_path
        elif isinstance(inner, Mapping) and (resource_amount := _described_amount(mapping(inner))):
            yield key, *resource_amount, count_path
        elif key.lower() in _SHORT and (amount := _amount_of(mapping(inner))) is not None:
            yield key, GPU, amount, count_path
        else:
            devices = [_described_amount({"count": 1, **mapping(item)}) for item in sequence(inner)]
            for index, device in enumerate(devices):
                if device:
                    yield key, *device, f"{count_path}[{index}]"


def _described_amount(value: Mapping[str, object]) -> tuple[str, object] | None:
    """Return the resource and the amount of a mapping such as {name: nvidia.com/gpu, quantity: 1}.

    A mapping that only names a device has no amount, so the result is None. The caller adds a count
    of 1 to the items of a list, such as KubeVirt's {deviceName: nvidia.com/GA102GL_A10}.
    """
    names = (text(value.get(key)) for key in _NAMED)
    name = next((name for name in names if "/" in name and sounds_like_gpu(name)), "")
    amount = _amount_of(value)
    return (name, amount) if name and amount is not None else None


def _amount_of(value: Mapping[str, object]) -> object:
    """Return the amount that a mapping such as {type: A100, count: 1} has, or None."""
    amounts = (value[key] for key in _NUMBERS if key in value)
    return next((amount for amount in amounts if _is_amount(amount)), None)


def _is_amount(value: object) -> bool:
    if isinstance(value, str):
        return _QUANTITY.fullmatch(value) is not None
    return value is UNKNOWN or (isinstance(value, int | float) and not isinstance(value, bool))


def _snake_case(name: str) -> str:
    """Return a field's name in lower case, with `_` between its words."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", name).replace("-", "_").lower()
