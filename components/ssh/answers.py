"""Channels: each thing that a host prints and the program reads, with its bound and its parser.

A host may be somebody else's by now, so its output is input like any other. There is no way to the
text of an answer but a channel (`components.ssh.client.run`, `components.hosts.command.answer`),
and each channel is known to the fuzzer by its name (`tests/attacks/targets.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from policies.printable import printable

P = ParamSpec("P")
T = TypeVar("T")

ANSWER = 256 * 1024
"""Bytes of the longest answer; that of a host with 500 files of ours has some 60 KiB."""
SHORT = 4096
"""Bytes of an answer of a few lines."""
ERROR_LINES, ERROR_LINE = 8, 1024
"""The last lines of a script's errors that are kept, and characters of each."""

CHANNELS: dict[str, Channel[..., Any]] = {}
"""All channels by name."""


class Unreadable(ValueError):
    """An answer isn't what its channel takes. Its text repeats nothing of the answer."""


class Channel(Generic[P, T]):
    """One thing that a host prints."""

    def __init__(self, name: str, limit: int, parse: Callable[Concatenate[str, P], T]) -> None:
        """Register the channel.

        Args:
            name: in errors, and in the fuzzer.
            limit: characters, and bytes on the wire.
            parse: makes a value of the text, or raises what `read` does.
        """
        if name in CHANNELS:
            raise ValueError(f"channel {name}: there are two")
        self.name, self.limit, self._parse = name, limit, parse
        CHANNELS[name] = self

    def read(self, text: str, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the value of an answer.

        Raises:
            Unreadable: it isn't one; or what the channel's own parser raises.
        """
        if len(text) > self.limit:
            raise Unreadable(f"{self.name}: found more than {self.limit} characters")
        return self._parse(text, *args, **kwargs)


def exactly(name: str, pattern: str, wanted: str) -> Callable[[str], str]:
    """Return a parser of an answer that is one text of a pattern, with or without a line end."""
    expression = re.compile(f"({pattern})\n?")

    def parse(text: str) -> str:
        match = expression.fullmatch(text)
        if match is None:
            raise Unreadable(f"{name}: found another text (not repeated here); wanted: {wanted}")
        return match[1]

    return parse


def last_lines(errors: str) -> list[str]:
    """Return the last lines of what a script wrote to standard error, fit to be shown."""
    lines = [line for line in errors.splitlines() if line.strip()]
    return [printable(line, ERROR_LINE) for line in lines[-ERROR_LINES:]]


BOOT_ID_FORM = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""Linux, drivers/char/random.c (proc_do_uuid)."""
BOOT_ID = Channel("boot-id", SHORT, exactly("boot id", BOOT_ID_FORM, "a UUID"))
NOTHING: Channel[[], None] = Channel("nothing", ANSWER, lambda _: None)
"""Of scripts whose status alone counts: what they print is for people who run them by hand."""
