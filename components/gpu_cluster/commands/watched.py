"""Run the engine and print short output, or its own output, or data.

With ``--output json`` standard output contains one JSON document, and everything else is printed on
standard error.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, NoReturn, TextIO, TypeVar

from pulumi import automation

from gpu_cluster.commands import waiting
from gpu_cluster.commands.display import Display
from gpu_cluster.commands.failure import annotate, cause, errors_of, summary
from gpu_cluster.commands.interrupts import left_to_the_engine
from gpu_rules.printable import printable
from toolchain import ToolchainError, cache_dir

T = TypeVar("T")

# The JSON document that a command prints with ``--output json``.
Answer = dict[str, Any]


class Failed(Exception):
    """An operation of the engine failed and its errors were printed; the text summarises them."""


def verbose() -> bool:
    """Return whether the user wants the engine's own output (``--verbose``)."""
    return os.environ.get("VERBOSE") == "1"


def color() -> str:
    """Return the engine's setting for colours: on only if the output is a terminal."""
    return "always" if sys.stdout.isatty() else "never"


def say(text: str) -> None:
    """Print a piece of output immediately."""
    print(text, end="" if text.endswith("\n") else "\n", flush=True)


REFUSED = (errno.EACCES, errno.EDQUOT, errno.ENOSPC, errno.EPERM, errno.EROFS)
"""Error codes of the system that mean that this machine does not allow a file to be written.

Such an error is not a bug of the program.
"""


@contextmanager
def refusals() -> Iterator[None]:
    """Exit with a one-line message if a file can't be written or a tool is not available."""
    try:
        yield
    except ToolchainError as error:
        _refuse(f"toolchain: {error}")
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        place = error.filename2 or error.filename
        where = f" {printable(os.fsdecode(place))}" if isinstance(place, str | bytes) else ""
        _refuse(
            f"cannot write{where or ' a file'}: {error.strerror}; cure: make room or allow "
            f"writing there, or set GPU_CLUSTER_CACHE (now {cache_dir()}) to another folder"
        )


def _refuse(text: str) -> NoReturn:
    annotate(text)
    sys.exit(text)


@contextmanager
def apart() -> Iterator[TextIO | None]:
    """Yield standard output for the command's JSON document, or None without ``--output json``.

    While the context is open with ``--output json``, everything else is printed on standard error.
    """
    output = sys.stdout if os.environ.get("JSON") == "1" else None
    with redirect_stdout(sys.stderr if output else sys.stdout), refusals():
        yield output


@contextmanager
def answering(command: str) -> Iterator[Answer]:
    """Yield the JSON document of a command to fill, and print it with ``--output json``."""
    answer: Answer = {"command": command, "succeeded": False}
    with apart() as output:
        try:
            yield answer
            answer["succeeded"] = True
        finally:
            if output:
                json.dump(answer, output, indent=2, default=str)
                output.write("\n")


def watched(
    operation: Callable[..., T],
    answer: Answer,
    *,
    display: Display | None = None,
    preview: bool = False,
    **options: Any,
) -> T:
    """Run an operation of the engine and print what happens.

    Args:
        operation: A method of the automation API's stack, for example its `up`.
        answer: The JSON document of the command; gets ``resources`` and ``messages``.
        display: Object that turns the engine's events into lines. None: a new `Display`.
        preview: Whether the operation only shows what would change.
        options: Keyword arguments for the operation.

    Raises:
        Failed: The operation failed; its errors were printed.
    """
    with left_to_the_engine() as interrupts:
        if verbose():
            return _verbose(operation, {"diff": True} if preview else {}, options)

        def unless_interrupted(text: str) -> None:
            if not interrupts.count:
                say(text)

        display = display or Display(say, preview=preview)
        display.say = unless_interrupted
        errors: list[str] = []
        try:
            with waiting.named(display.waits_for, unless_interrupted):
                result = operation(
                    on_event=display.show, on_error=errors.append, color="never", **options
                )
        except automation.CommandError as error:
            display.finish()
            shown = display.errors
            if not shown:
                shown = errors_of("\n".join(errors)) or cause(error)
                for line in shown:
                    unless_interrupted(line)
            raise Failed(summary(shown)) from error
        finally:
            answer["resources"] = [each.model_dump() for each in display.resources]
            answer["messages"] = display.messages
        display.finish()
        return result


def _verbose(operation: Callable[..., T], shown: dict[str, bool], options: dict[str, Any]) -> T:
    """Run an operation with the engine's own output; print the cause if the engine printed none."""
    errors: list[str] = []

    def show(text: str) -> None:
        say(text)
        if "error:" in text:
            errors.append(f"{text}\n")

    try:
        return operation(on_output=show, on_error=show, color=color(), **shown, **options)
    except automation.CommandError as error:
        causes = errors_of("".join(errors)) or cause(error)
        for line in causes:
            say(line)
        raise Failed(summary(causes)) from error
