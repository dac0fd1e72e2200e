"""Property values in the format of the messages between engine and plugin.

A value is plain Python data (the content of a protobuf `Struct`). A secret is a mapping with a
special key (the signature). A value that is not known yet is represented by a reserved string.
Source: pulumi/pulumi v3.250.0, sdk/go/common/resource/sig and plugin/rpc.go. The Pulumi SDK can
only read these values inside a program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf import struct_pb2

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105

Properties = dict[str, Any]


def decode(struct: struct_pb2.Struct) -> Properties:
    """Return a protobuf `Struct` as a dict; whole numbers become int."""
    from google.protobuf import json_format

    decoded: Properties = json_format.MessageToDict(struct)
    return decoded


def encode(properties: Mapping[str, Any]) -> struct_pb2.Struct:
    """Return a mapping as a protobuf `Struct`."""
    from google.protobuf import struct_pb2

    struct = struct_pb2.Struct()
    struct.update(dict(properties))
    return struct


def is_secret(value: Any) -> bool:
    """Return True if a value is marked as secret."""
    return isinstance(value, dict) and value.get(SIGNATURE) == SECRET


def secret(value: Any) -> Any:
    """Return a value marked as secret; a value that is already marked is returned unchanged."""
    return value if is_secret(value) else {SIGNATURE: SECRET, "value": value}


def reveal(value: Any) -> Any:
    """Return a value without the secret marks in it, at any depth."""
    while is_secret(value):
        value = value.get("value")
    if isinstance(value, dict):
        return {key: reveal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [reveal(item) for item in value]
    return value


def has_unknown(value: Any) -> bool:
    """Return True if a value contains, at any depth, a value that is not known yet."""
    if isinstance(value, dict):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return bool(value == UNKNOWN)


def strings(value: Any) -> Iterator[str]:
    """Yield every string in a value, at any depth."""
    value = reveal(value)
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def secret_strings(value: Any) -> Iterator[str]:
    """Yield every string inside the secrets in a value, at any depth."""
    if is_secret(value):
        yield from strings(value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from secret_strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from secret_strings(item)
