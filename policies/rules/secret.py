"""The mark of a secret value in the inputs of a Pulumi resource."""

from __future__ import annotations

from typing import Final

from .unknown import mapping

# The mark of a secret, as in Pulumi YAML: `{"fn::secret": value}`.
SECRET: Final = "fn::secret"  # noqa: S105  the mark, not a secret


def is_secret(value: object) -> bool:
    """Return whether a value is marked as a secret."""
    return SECRET in mapping(value)


def reveal(value: object) -> object:
    """Return a value without its mark, or `UNKNOWN` for a secret whose value is hidden."""
    while is_secret(value):
        value = mapping(value)[SECRET]
    return value
