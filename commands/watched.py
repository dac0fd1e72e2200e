"""Runs the engine and shows what a person wants; ``VERBOSE=1`` its own output, ``JSON=1`` data.

With ``JSON=1`` standard output holds one JSON document, and everything else goes to standard error.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, NoReturn, TypeVar

from pulumi import automation

from commands import waiting
from commands.display import Display
from commands.failure import annotate, cause, errors_of, summary
from commands.interrupts import left_to_the_engine
from policies.printable import printable
from toolchain import ToolchainError, cache_dir

T = TypeVar("T")

#: The document of ``JSON=1``.
Answer = dict[str, Any]


class Failed(Exception):
    """An operation of the engine failed, and its errors were shown; the text is their summary."""


def verbose() -> bool:
    """Whether the engine's own output is asked for."""
    return os.environ.get("VERBOSE") == "1"


def color() -> str:
    """The engine's colours: only for a person's terminal."""
    return "always" if sys.stdout.isatty() else "never"


def say(text: str) -> None:
    """Prints one piece of output as it comes."""
    print(text, end="" if text.endswith("\n") else "\n", flush=True)


REFUSED = (errno.EACCES, errno.EDQUOT, errno.ENOSPC, errno.EPERM, errno.EROFS)
"""Reasons of the system why a file can't be written: the machine's, not the program's."""


@contextmanager
def refusals() -> Iterator[None]:
    """End the program with one line if a file can't be written or a tool can't be had."""
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
def answering(command: str) -> Iterator[Answer]:
    """Collects the answer of a command; prints it where ``JSON=1`` asks for it."""
    answer: Answer = {"command": command, "succeeded": False}
    if os.environ.get("JSON") != "1":
        with refusals():
            yield answer
        return
    output = sys.stdout
    try:
        with redirect_stdout(sys.stderr), refusals():
            yield answer
        answer["succeeded"] = True
    finally:
        json.dump(answer, output, indent=2, default=str)
        output.write("\n")


def watched(
    operation: Callable[..., T], answer: Answer, *, preview: bool = False, **options: Any
) -> T:
    """Runs one of the engine's operations and shows it.

    Args:
        operation: a method of the automation API's stack.
        answer: gets ``resources`` and ``messages``.
        preview: whether it only shows what would change.
        options: of the operation.

    Raises:
        Failed: it failed; the cause was shown.
    """
    with left_to_the_engine() as interrupts:
        if verbose():
            return _verbose(operation, {"diff": True} if preview else {}, options)

        def unless_interrupted(text: str) -> None:
            if not interrupts.count:
                say(text)

        display = Display(unless_interrupted, preview=preview)
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
            answer["resources"], answer["messages"] = display.resources, display.messages
        display.finish()
        return result


def _verbose(operation: Callable[..., T], shown: dict[str, bool], options: dict[str, Any]) -> T:
    """Run an operation with the engine's own output; say why it failed if the engine didn't."""
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
