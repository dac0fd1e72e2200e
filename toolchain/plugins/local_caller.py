"""Who calls a plugin: the engine, or another user of this machine.

A plugin listens on a port of 127.0.0.1, which every local user can dial, and does what it is told
with its own user's rights. The engine can't be asked for a password, but the kernel knows whose
socket a call comes from (proc_net_tcp.rst in the kernel's documentation). A system without that
table, such as macOS, isn't protected.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

TABLES = {Path("/proc/net/tcp"): "", Path("/proc/net/tcp6"): "0000000000000000FFFF0000"}
"""Each with what stands before an IPv4 address: Go dials by IPv4, gRPC's C core by IPv6 sockets."""
_ESTABLISHED = "01"
_NONE = "0"
"""Inode of a socket that its process has closed, whose user is shown as root."""


def refusal(peer: str, port: int) -> str:
    """Why a call isn't answered; empty where it is.

    Args:
        peer: as gRPC names who calls, such as ``ipv4:127.0.0.1:40000``.
        port: the plugin's own, on 127.0.0.1.
    """
    if not any(table.exists() for table in TABLES):
        return ""
    family, _, address = peer.partition(":")
    host, _, number = address.rpartition(":")
    if family != "ipv4" or not (number.isascii() and number.isdigit()):
        return f"found a call from {peer[:64]!r}, which is none of this machine"
    ends = [_entry(host, int(number)), _entry("127.0.0.1", port)]
    for table, prefix in TABLES.items():
        wanted = [prefix + end for end in ends]
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            words = line.split()
            if words[1:3] == wanted and words[3] == _ESTABLISHED and words[9] != _NONE:
                return "" if int(words[7]) == os.geteuid() else f"found a call by user {words[7]}"
    return f"found a call from {peer}, whose user is unknown"


def _entry(host: str, port: int) -> str:
    """An address as the table writes it: the word as the machine reads it, in hexadecimal."""
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"


def message(reason: str) -> str:
    """What a refused caller is told."""
    return f"{reason}; wanted: the engine's, by user {os.geteuid()}; nothing was run"
