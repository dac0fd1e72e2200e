"""What a watch has told of last, by name."""

from __future__ import annotations

from typing import Protocol, TypeVar


class Versioned(Protocol):
    """An object as the API server had it at ``version``, which its equality leaves out."""

    version: int
    name: str


V = TypeVar("V", bound=Versioned)


def is_changed(seen: dict[str, V], item: V) -> bool:
    """Keeps an object unless a newer one is known; whether it differs from the one before.

    The answer to a change can come after the watch has told of a newer one.
    """
    known = seen.get(item.name)
    if known and known.version >= item.version:
        return False
    seen[item.name] = item
    return item != known
