"""Channels: the kinds of output read from hosts, each with a size limit and a parser.

A host may have been compromised, so its output is untrusted input. The only way to the text of an
output is a channel (`gpu_cluster.ssh.client.run`, `gpu_cluster.hosts.command.answer`), and the
fuzzer tests each channel by its name (`tests/proofs/attacks/targets.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from gpu_rules.faults import PartError
from gpu_rules.printable import printable

P = ParamSpec("P")
T = TypeVar("T")

ANSWER = 256 * 1024
"""Maximum number of bytes of an output.

The probe's output for a host with 500 placed files has about 60 KiB.
"""
SHORT = 4096
"""Maximum number of bytes of an output of a few lines."""
ERROR_LINES, ERROR_LINE = 8, 1024
"""Number of lines kept of the end of a script's error output, and of characters per line."""

CHANNELS: dict[str, Channel[..., Any]] = {}
"""All registered channels, by name."""


class Unreadable(ValueError):
    """Error: a channel rejects a host's output. The message contains no part of the output."""


class Channel(Generic[P, T]):
    """A kind of output that hosts print, with its size limit and its parser."""

    def __init__(self, name: str, limit: int, parse: Callable[Concatenate[str, P], T]) -> None:
        """Register a kind of output that the program reads from hosts.

        The tests feed random text to each registered kind.

        Args:
            name: Name of the kind in error messages and in tests.
            limit: Maximum number of characters of the text, and of bytes on the connection.
            parse: Parses the text, or raises `Unreadable`.

        Raises:
            ValueError: Another kind of output has this name.
        """
        if name in CHANNELS:
            raise PartError(f"channel {name}: there are two")
        self.name, self.limit, self._parse = name, limit, parse
        CHANNELS[name] = self

    def read(self, text: str, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the value parsed from an output.

        Raises:
            Unreadable: The output is too long or not valid. The parser may raise other errors.
        """
        if len(text) > self.limit:
            raise Unreadable(f"{self.name}: found more than {self.limit} characters")
        return self._parse(text, *args, **kwargs)


def exactly(name: str, pattern: str, wanted: str) -> Callable[[str], str]:
    """Return a parser of output that matches one pattern, with an optional line end."""
    expression = re.compile(f"({pattern})\n?")

    def parse(text: str) -> str:
        match = expression.fullmatch(text)
        if match is None:
            raise Unreadable(f"{name}: found another text (not repeated here); wanted: {wanted}")
        return match[1]

    return parse


def last_lines(errors: str) -> list[str]:
    """Return the last lines of a script's standard error, made safe to display."""
    lines = [line for line in errors.splitlines() if line.strip()]
    return [printable(line, ERROR_LINE) for line in lines[-ERROR_LINES:]]


BOOT_ID_FORM = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""Pattern of a boot ID (Linux, drivers/char/random.c, proc_do_uuid)."""
BOOT_ID = Channel("boot-id", SHORT, exactly("boot id", BOOT_ID_FORM, "a UUID"))
NOTHING: Channel[[], None] = Channel("nothing", ANSWER, lambda _: None)
"""Channel of scripts for which only the exit status counts.

Their output is for people who run the scripts by hand.
"""
