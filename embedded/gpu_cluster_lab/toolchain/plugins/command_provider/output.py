"""Output of a command: collect it, show it while the command runs, and quote it in errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

MAX_LINE = 4096
"""Maximum number of characters of a line that is shown while a command runs."""

MAX_KEPT = 16 << 20
"""Maximum number of bytes of an output stream; a command that prints more fails."""

_BUFFER = 65536
_TAIL_BYTES = 65536
_TAIL_CHARACTERS = 4096
_SHORTEST_SECRET = 4
"""Minimum length in characters of a secret that is replaced in texts.

Replacing shorter values would also replace parts of ordinary words.
"""

Show = Callable[[str], None]


class CommandError(Exception):
    """Error: a command or connection failed.

    The message is meant for the user and contains no secret.
    """


_NAMED = re.compile(
    r"""(?=(?<!\\)(?P<quote>\\*")(?P<key>[^"\\\n]{1,80})(?P=quote)\s*:"""
    r"""\s*(?P=quote)(?P<value>.*?)(?P=quote))"""
)
"""A pattern for a member of a JSON object, also of a JSON text inside a JSON string.

It is a lookahead that consumes no text, so that each quote can start a member. Otherwise, in a JSON
text inside a string, a value that is a colon would make the quotes around it look like those of a
name.
"""
_ASSIGNED = re.compile(
    r"""^[^\S\n]*(?:export )?(?P<key>\w{1,80})=['"]?(?P<value>[^'"\n]*)""", re.MULTILINE
)
_CONFIDENTIAL = re.compile(r"private_?key|passw|passphrase|token|secret|credential|auth", re.I)


def _named(text: str) -> Iterator[str]:
    """Yield the confidential values in a document, such as JSON, that is secret as a whole.

    A value is confidential if its key suggests it, for example `token`. A command may print such a
    value without the rest of the document.
    """
    for pattern in (_NAMED, _ASSIGNED):
        for match in pattern.finditer(text):
            if _CONFIDENTIAL.search(match["key"]):
                yield _LINE_END.sub("\n", match["value"])


_LINE_END = re.compile(r"(?<!\\)\\+[nr]")


_COMMAND = re.compile(r"^\s*:(?=:)|##(?=\[)")
"""A pattern for texts that GitHub's runner would execute as a workflow command.

Source: src/Runner.Common/ActionCommand.cs.
"""


def visible(line: str) -> str:
    """Escape a line, so that neither a terminal nor a GitHub workflow executes it as a command."""

    def escaped(match: re.Match[str]) -> str:
        return f"{match[0][:-1]}\\x{ord(match[0][-1]):02x}"

    escaped_text = "".join(
        character
        if character.isprintable() or character == "\t"
        else character.encode("unicode_escape").decode()
        for character in line
    )
    return _COMMAND.sub(escaped, escaped_text)


class Redactor:
    """Replaces secret values in texts by ``[secret]``.

    A value of several lines is replaced line by line. If a value is a document, such as JSON, its
    confidential values are also replaced individually.
    """

    def __init__(self, hidden: Iterable[str]) -> None:
        """Store the secret values that will be replaced."""
        texts = [part for value in hidden for part in (value, *_named(value))]
        lines = {line.strip() for text in texts for line in text.splitlines()}
        self._hidden = sorted(
            (line for line in lines if len(line) >= _SHORTEST_SECRET), key=len, reverse=True
        )

    def __call__(self, text: str) -> str:
        """Return the text with each secret value replaced by ``[secret]``."""
        for value in self._hidden:
            text = text.replace(value, "[secret]")
        return text


class _Lines:
    """Splits a byte stream into lines, and limits the memory for a line of any length."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._line = bytearray()
        self._length = 0

    def feed(self, data: bytes) -> None:
        first, *further_pieces = data.split(b"\n")
        self._extend(first)
        for piece in further_pieces:
            self._emit()
            self._extend(piece)

    def close(self) -> None:
        if self._length:
            self._emit()

    def _extend(self, piece: bytes) -> None:
        self._length += len(piece)
        self._line += piece[: max(0, _BUFFER - len(self._line))]

    def _emit(self) -> None:
        text = visible(self._line.decode("utf-8", "replace").rstrip("\r"))
        dropped = self._length - len(self._line)
        self._show(text if not dropped else f"{text}… ({dropped} bytes more)")
        self._line.clear()
        self._length = 0


class Output:
    """Collects standard output and standard error of one command."""

    def __init__(self, logging: str | None, show: Show, redact: Redactor) -> None:
        """Start with empty output.

        Args:
            logging: The input `logging`, which selects the streams to show; by default both.
            show: Function that shows one line.
            redact: Function that replaces secrets in shown lines.
        """

        def shown(line: str) -> None:
            line = redact(line)
            if len(line) > MAX_LINE:
                line = f"{line[:MAX_LINE]}… ({len(line) - MAX_LINE} characters more)"
            show(line)

        logging = logging or "stdoutAndStderr"
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._length = dict.fromkeys(self._kept, 0)
        self._lines = {
            stream: _Lines(shown) for stream in self._kept if logging in (stream, "stdoutAndStderr")
        }
        self._tail = bytearray()

    def feed(self, stream: str, data: bytes) -> None:
        """Add data of one stream; its name is ``stdout`` or ``stderr``."""
        self._length[stream] += len(data)
        self._kept[stream] += data[: max(0, MAX_KEPT - len(self._kept[stream]))]
        self._tail += data
        if len(self._tail) > 2 * _TAIL_BYTES:
            del self._tail[:-_TAIL_BYTES]
        if stream in self._lines:
            self._lines[stream].feed(data)

    def close(self) -> None:
        """Show each stream's last line if it has no final newline."""
        for lines in self._lines.values():
            lines.close()

    def properties(self) -> dict[str, Any]:
        """Return the outputs `stdout` and `stderr` as UTF-8 text, without the final newline."""
        return {
            stream: data.decode("utf-8", "replace").removesuffix("\n")
            for stream, data in self._kept.items()
        }

    @property
    def failure(self) -> str:
        """Return the names of the streams whose output is too long, as text; empty if none is."""
        return "; ".join(
            f"found {length} bytes of {stream}, wanted at most {MAX_KEPT}"
            for stream, length in self._length.items()
            if length > MAX_KEPT
        )

    def tail(self, redact: Redactor) -> str:
        """Return the last 4096 characters of the output, both streams in order of arrival."""
        lines = redact(self._tail.decode("utf-8", "replace")).rstrip("\n").split("\n")
        text = "\n".join(visible(line.rstrip("\r")) for line in lines)
        if len(text) > _TAIL_CHARACTERS:
            text = (
                f"… ({len(text) - _TAIL_CHARACTERS} characters before)\n" + text[-_TAIL_CHARACTERS:]
            )
        return text
