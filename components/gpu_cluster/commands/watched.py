"""Run the engine and print short output, or its own output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pulumi import automation

from gpu_cluster.commands import waiting
from gpu_cluster.commands.display import Display
from gpu_cluster.commands.failure import cause, errors_of, summary
from gpu_cluster.commands.interrupts import left_to_the_engine
from gpu_cluster.commands.output import Answer, color, say, verbose

T = TypeVar("T")


class Failed(Exception):
    """An operation of the engine failed and its errors were printed; the text summarises them."""


def watched(
    operation: Callable[..., T],
    json_output: Answer,
    *,
    display: Display | None = None,
    preview: bool = False,
    **options: Any,
) -> T:
    """Run an operation of the engine and print what happens.

    Args:
        operation: A method of the automation API's stack, for example its `up`.
        json_output: The JSON document of the command; gets ``resources`` and ``messages``.
        display: Object that turns the engine's events into lines. None: a new `Display`.
        preview: Whether the operation only shows what would change.
        options: Keyword arguments for the operation.

    Raises:
        Failed: The operation failed; its errors were printed.
    """
    with left_to_the_engine() as interrupts:
        if verbose():
            return _run_verbosely(operation, {"diff": True} if preview else {}, options)

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
            error_lines = display.errors
            if not error_lines:
                error_lines = errors_of("\n".join(errors)) or cause(error)
                for line in error_lines:
                    unless_interrupted(line)
            raise Failed(summary(error_lines)) from error
        finally:
            json_output["resources"] = [resource.model_dump() for resource in display.resources]
            json_output["messages"] = display.messages
        display.finish()
        return result


def _run_verbosely(
    operation: Callable[..., T], engine_options: dict[str, bool], options: dict[str, Any]
) -> T:
    """Run an operation with the engine's own output; print the cause if the engine printed none."""
    errors: list[str] = []

    def show(text: str) -> None:
        say(text)
        if "error:" in text:
            errors.append(f"{text}\n")

    try:
        return operation(on_output=show, on_error=show, color=color(), **engine_options, **options)
    except automation.CommandError as error:
        causes = errors_of("".join(errors)) or cause(error)
        for line in causes:
            say(line)
        raise Failed(summary(causes)) from error
