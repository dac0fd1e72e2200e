"""Read the configuration that a running container engine reports over its CRI socket.

Neither SSH nor a configuration file is used for this. The two CRI messages are encoded by hand
(k8s.io/cri-api, runtime/v1, api.proto): `StatusRequest{bool verbose = 1}` and `StatusResponse{...,
map<string, string> info = 2}`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc

LIMIT = 20.0
"""Seconds to wait for the container engine's response."""


def runtime_config(socket: Path) -> dict[str, Any]:
    """Return the configuration of the CRI plugin in the running container engine."""
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        call = channel.unary_unary("/runtime.v1.RuntimeService/Status")
        answer: bytes = call(b"\x08\x01", timeout=LIMIT, wait_for_ready=True)
    config: dict[str, Any] = json.loads(_information(answer)["config"])
    return config


def _information(message: bytes) -> dict[str, str]:
    entries = (_fields(entry) for number, entry in _fields_of(message) if number == 2)
    return {entry[1].decode(): entry[2].decode() for entry in entries}


def _fields(message: bytes) -> dict[int, bytes]:
    return dict(_fields_of(message))


def _fields_of(message: bytes) -> list[tuple[int, bytes]]:
    fields, at = [], 0
    while at < len(message):
        tag, at = _number(message, at)
        assert tag & 7 == 2, "only length-delimited fields are used here"
        size, at = _number(message, at)
        fields.append((tag >> 3, message[at : at + size]))
        at += size
    return fields


def _number(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
