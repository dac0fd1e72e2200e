"""Check that a call to a plugin comes from a process of the same user.

A plugin listens on a port of 127.0.0.1, which every local user can connect to, and executes
commands with its own user's rights. The engine has no way to send a password. But the kernel knows
which user owns the socket at the other end of a connection. That user is read with a request for
this one socket (sock_diag(7)). If that is not available, the user is read from the table of all
sockets (proc_net_tcp.rst in the kernel's documentation), which takes a hundred times as long. A
system that has neither, such as macOS, is not protected.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from pathlib import Path

TABLES = {Path("/proc/net/tcp"): "", Path("/proc/net/tcp6"): "0000000000000000FFFF0000"}
"""The kernel's socket tables, each with the prefix of an IPv4 address in that table.

Go uses IPv4 sockets for 127.0.0.1; gRPC's C core uses IPv6 sockets.
"""
_ESTABLISHED = "01"
_NONE = "0"
"""Inode number of a socket that its process has closed; the table shows root as its user."""

_SOCK_DIAG, _REQUEST, _BY_FAMILY = 4, 1, 20
"""The values of NETLINK_SOCK_DIAG, NLM_F_REQUEST and SOCK_DIAG_BY_FAMILY.

Source: linux/netlink.h, linux/sock_diag.h.
"""
_HEADER = struct.Struct("=IHHII")
"""The struct nlmsghdr: length, type, flags, sequence number, port id."""
_QUESTION = struct.Struct("=4BI4s16s16sI8s")
"""The struct inet_diag_req_v2, a request for information about one socket.

Its fields (linux/inet_diag.h): family, protocol, extensions, padding, states; then ports, the two
addresses, interface and cookie of the socket.
"""
_ANSWER = struct.Struct("=BB2x48x12xII")
"""The struct inet_diag_msg; only family, state, user id and inode number are read."""


def refusal(peer: str, port: int) -> str:
    """Return why a gRPC call must be rejected; empty if the call is allowed.

    Args:
        peer: The caller's address as gRPC writes it, for example ``ipv4:127.0.0.1:40000``.
        port: The port of the plugin on 127.0.0.1.
    """
    if not any(table.exists() for table in TABLES):
        return ""
    family, _, address = peer.partition(":")
    host, _, number = address.rpartition(":")
    if family != "ipv4" or not (number.isascii() and number.isdigit()):
        return f"found a call from {peer[:64]!r}, which is none of this machine"
    if (user := _socket_owner((host, int(number)), ("127.0.0.1", port))) is not None:
        return _judge_user(user)
    ends = [_table_entry(host, int(number)), _table_entry("127.0.0.1", port)]
    for table, prefix in TABLES.items():
        ends_of_call = [prefix + end for end in ends]
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            words = line.split()
            if words[1:3] == ends_of_call and words[3] == _ESTABLISHED and words[9] != _NONE:
                return _judge_user(int(words[7]))
    return f"found a call from {peer}, whose user is unknown"


def _judge_user(user: int) -> str:
    return "" if user == os.geteuid() else f"found a call by user {user}"


def _socket_owner(near: tuple[str, int], far: tuple[str, int]) -> int | None:
    """Return the user id that owns a connected socket; None if the kernel doesn't return it.

    Args:
        near: Address and port of this end of the connection.
        far: Address and port of the other end.
    """
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
            message = kernel.recv(8192)
    # This system is not Linux, or its kernel does not support sock_diag.
    except (AttributeError, OSError):
        return None
    if len(message) < _HEADER.size + _ANSWER.size or _HEADER.unpack_from(message)[1] != _BY_FAMILY:
        return None
    _, state, user, inode = _ANSWER.unpack_from(message, _HEADER.size)
    return int(user) if state == int(_ESTABLISHED, 16) and inode != int(_NONE) else None


def _table_entry(host: str, port: int) -> str:
    """Return an address as the kernel's socket table writes it.

    The IPv4 address is a hexadecimal number in the byte order of this machine.
    """
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"


def message(reason: str) -> str:
    """Return the error message for a caller that was rejected."""
    return f"{reason}; wanted: the engine's, by user {os.geteuid()}; nothing was run"
