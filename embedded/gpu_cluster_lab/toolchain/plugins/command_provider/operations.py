"""Run the operations of each resource type: create, update and delete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gpu_cluster import property_values as values

from . import inputs, local_command
from .output import CommandError, Output, Redactor

PREVIOUS = {"stdout": "PULUMI_COMMAND_STDOUT", "stderr": "PULUMI_COMMAND_STDERR"}
MAX_VARIABLE = 128 * 1024
"""Maximum size in bytes of `NAME=value`, with its final NUL, that Linux passes to a process.

Source: MAX_ARG_STRLEN (execve(2)).
"""


class Log(Protocol):
    """Interface for sending messages about one resource to the Pulumi engine."""

    def status(self, line: str) -> None:
        """Send a line of a command's output to the engine as a status message."""
        ...

    def warning(self, text: str) -> None:
        """Send a warning to the engine."""
        ...


@dataclass(frozen=True)
class Job:
    """Execution of the command of one resource.

    Attributes:
        token: The resource type.
        properties: The inputs as the engine sent them.
        previous: The outputs of the previous run.
        log: Receives messages about the resource.
    """

    token: str
    properties: Mapping[str, Any]
    previous: Mapping[str, Any]
    log: Log

    def get(self, name: str) -> Any:
        """Return an input's value without secret marks; None if the input is absent."""
        return values.reveal(self.properties.get(name))

    def redactors(self) -> tuple[Redactor, Redactor]:
        """Return a redactor for lines of output, and a redactor for error texts.

        The redactor for error texts also replaces the values of `environment`.
        """
        secret = [*_hidden(self.properties), *_hidden(self.previous)]
        return Redactor(secret), Redactor(
            [*secret, *values.strings(self.properties.get("environment"))]
        )


def _hidden(properties: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts that no message may contain: all secret values of the inputs.

    The engine marks a whole connection as secret. The addresses and user names in it are not
    hidden, because messages about a host would be useless without them.
    """
    for name, value in properties.items():
        if name != "connection":
            yield from values.secret_strings(value)
            continue
        ends = [values.reveal(value) or {}]
        while ends:
            end = ends.pop()
            ends += [end["proxy"]] if isinstance(end.get("proxy"), dict) else []
            secret_fields = {key: end[key] for key in end.keys() - {"host", "user", "proxy"}}
            yield from values.strings(secret_fields)


def command_of(properties: Mapping[str, Any], step: str) -> str | None:
    """Return the command for an operation (`create`, `update`, `delete`), or None.

    Without an `update` command, the `create` command is run for an update.
    """
    command = values.reveal(properties.get(step))
    if command is None and step == "update":
        command = values.reveal(properties.get("create"))
    return None if command is None else str(command)


async def run_command(job: Job, step: str) -> values.Properties:
    """Run the command for an operation and return its outputs.

    If the operation has no command, return the outputs of the previous run.

    Raises:
        CommandError: The command could not be run, or it failed.
    """
    command = command_of(job.properties, step)
    if command is None:
        return {name: job.previous.get(name, "") for name in PREVIOUS}
    shown, quoted = job.redactors()
    output = Output(job.get("logging"), job.log.status, shown)
    run = _run_remote if job.token == inputs.REMOTE_COMMAND else _run_local
    try:
        place, failure = await run(job, command, output)
        failure = failure or output.failure
    finally:
        output.close()
    if failure:
        tail = output.tail(quoted)
        raise CommandError(f"{place}: {failure}\n{tail}" if tail else f"{place}: {failure}")
    return output.properties()


async def _run_local(job: Job, command: str, output: Output) -> tuple[str, str]:
    failure = await local_command.run(
        command,
        output,
        interpreter=job.get("interpreter"),
        directory=job.get("dir"),
        stdin=job.get("stdin") or "",
        environment={**(job.get("environment") or {}), **_previous_outputs(job)},
    )
    return "local command", failure


async def _run_remote(job: Job, command: str, output: Output) -> tuple[str, str]:
    # Import AsyncSSH only for remote commands, because the import is slow.
    from . import connection, remote_command

    parameters = job.get("connection")
    async with connection.connect(parameters, job.log.status) as host:
        place = str(connection.endpoint(parameters))
        failure, refused = await remote_command.run(
            host,
            place,
            command,
            output,
            stdin=job.get("stdin") or "",
            environment=job.get("environment") or {},
            previous=_previous_outputs(job),
        )
    for name in refused:
        job.log.warning(
            f"{place}: the SSH server refuses {name}; set `AcceptEnv {name}` in sshd_config, or "
            "addPreviousOutputInEnv to false if the command does not need it."
        )
    return place, failure


def _previous_outputs(job: Job) -> dict[str, str]:
    if job.get("addPreviousOutputInEnv") is False:
        return {}
    outputs = {}
    for name, variable in PREVIOUS.items():
        text = values.reveal(job.previous.get(name)) or ""
        if len(variable) + len(text.encode()) + 2 > MAX_VARIABLE:
            job.log.warning(
                f"{variable} is not set: the {name} of the run before is longer than "
                f"{MAX_VARIABLE // 1024} KiB, the most that Linux passes in one variable."
            )
        elif text:
            outputs[variable] = text
    return outputs
