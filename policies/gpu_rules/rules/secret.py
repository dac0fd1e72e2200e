"""Secret values in the inputs of a Pulumi resource: detect and unwrap them."""

from __future__ import annotations

from typing import Final

from .unknown import mapping

# Key of a mapping that wraps a secret value, as in Pulumi YAML: `{"fn::secret": value}`.
SECRET: Final = "fn::secret"  # noqa: S105  a key, not a secret


def is_secret(value: object) -> bool:
    """Return whether a value is a mapping that wraps a secret."""
    return SECRET in mapping(value)


def reveal(value: object) -> object:
    """Return the value inside a `fn::secret` mapping; `UNKNOWN` if Pulumi hides the secret's value.

    Other values are returned unchanged.
    """
    while is_secret(value):
        value = mapping(value)[SECRET]
    return value
