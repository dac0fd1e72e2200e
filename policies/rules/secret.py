"""Values that are secrets of the stack, as a manifest of a Pulumi resource shows them."""

from __future__ import annotations

from typing import Final

from .unknown import mapping

#: The mark of a secret, as in Pulumi YAML: `{"fn::secret": value}`.
SECRET: Final = "fn::secret"  # noqa: S105  the mark, not a secret


def is_secret(value: object) -> bool:
    """Whether a value is marked as a secret."""
    return SECRET in mapping(value)


def reveal(value: object) -> object:
    """A value without its mark; `UNKNOWN` for a secret whose value is not shown."""
    while is_secret(value):
        value = mapping(value)[SECRET]
    return value
