"""Latest known state of watched objects, by name."""

from __future__ import annotations

from typing import Protocol, TypeVar


class Versioned(Protocol):
    """Object as stored by the API server at resource version `version`.

    Two objects that differ only in `version` are equal.
    """

    version: int
    name: str


V = TypeVar("V", bound=Versioned)


def is_changed(by_name: dict[str, V], item: V) -> bool:
    """Record an object unless a newer version is known; return True if the object has changed.

    The response to a request can arrive after the watch has already reported a newer version of the
    object.
    """
    known_item = by_name.get(item.name)
    if known_item and known_item.version >= item.version:
        return False
    by_name[item.name] = item
    return item != known_item
