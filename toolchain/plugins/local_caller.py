"""Who calls a plugin: the engine, or another user of this machine.

A plugin listens on a port of 127.0.0.1, which every local user can dial, and does what it is told
with its own user's rights. The engine can't be asked for a password, but the kernel knows whose
socket a call comes from: by a question for this one (sock_diag(7)), else by the table of all
(proc_net_tcp.rst in the kernel's documentation), which costs a hundred times as much. A system that
has neither, such as macOS, isn't protected.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from pathlib import Path

TABLES = {Path("/proc/net/tcp"): "", Path("/proc/net/tcp6"): "0000000000000000FFFF0000"}
"""Each with what stands before an IPv4 address: Go dials by IPv4, gRPC's C core by IPv6 sockets."""
_ESTABLISHED = "01"
_NONE = "0"
"""Inode of a socket that its process has closed, whose user is shown as root."""

_SOCK_DIAG, _REQUEST, _BY_FAMILY = 4, 1, 20
"""NETLINK_SOCK_DIAG, NLM_F_REQUEST, SOCK_DIAG_BY_FAMILY: linux/netlink.h, linux/sock_diag.h."""
_HEADER = struct.Struct("=IHHII")
"""nlmsghdr: length, type, flags, sequence, port."""
_QUESTION = struct.Struct("=4BI4s16s16sI8s")
"""inet_diag_req_v2 (linux/inet_diag.h): family, protocol, extensions, padding, states; then of the
socket its ports, its two addresses, interface and cookie."""
_ANSWER = struct.Struct("=BB2x48x12xII")
"""inet_diag_msg: family, state; then user and inode."""


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
    if (user := _owner((host, int(number)), ("127.0.0.1", port))) is not None:
        return _judged(user)
    ends = [_entry(host, int(number)), _entry("127.0.0.1", port)]
    for table, prefix in TABLES.items():
        wanted = [prefix + end for end in ends]
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            words = line.split()
            if words[1:3] == wanted and words[3] == _ESTABLISHED and words[9] != _NONE:
                return _judged(int(words[7]))
    return f"found a call from {peer}, whose user is unknown"


def _judged(user: int) -> str:
    return "" if user == os.geteuid() else f"found a call by user {user}"


def _owner(near: tuple[str, int], far: tuple[str, int]) -> int | None:
    """The user of a living socket; None where the kernel doesn't tell of it."""
    ports = struct.pack("!HH", near[1], far[1])
    ends = (socket.inet_aton(near[0]), socket.inet_aton(far[0]))
    question = _QUESTION.pack(
        *(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 1 << int(_ESTABLISHED, 16)),
        *(ports, *ends, 0, b"\xff" * 8),
    )
    header = _HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, _REQUEST, 0, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.send(header + question)
            answer = kernel.recv(8192)
    except (AttributeError, OSError):  # another system, or a kernel without it
        return None
    if len(answer) < _HEADER.size + _ANSWER.size or _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    _, state, user, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    return int(user) if state == int(_ESTABLISHED, 16) and inode != int(_NONE) else None


def _entry(host: str, port: int) -> str:
    """An address as the table writes it: the word as the machine reads it, in hexadecimal."""
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"


def message(reason: str) -> str:
    """What a refused caller is told."""
    return f"{reason}; wanted: the engine's, by user {os.geteuid()}; nothing was run"
