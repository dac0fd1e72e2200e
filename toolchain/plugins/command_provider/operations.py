"""What each resource type does when it is created, updated, deleted or invoked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from . import globs, inputs, local_command, values
from .output import CommandError, Output, Redactor

PREVIOUS = {"stdout": "PULUMI_COMMAND_STDOUT", "stderr": "PULUMI_COMMAND_STDERR"}
MAX_VARIABLE = 128 * 1024
"""Bytes of `NAME=value` with its final NUL that Linux passes on: MAX_ARG_STRLEN (execve(2))."""


class Log(Protocol):
    """Messages to the engine about one resource."""

    def status(self, line: str) -> None: ...
    def warning(self, text: str) -> None: ...


@dataclass(frozen=True)
class Job:
    """One command: inputs as the engine sent them, and the outputs of the run before."""

    token: str
    properties: Mapping[str, Any]
    previous: Mapping[str, Any]
    log: Log

    def get(self, name: str) -> Any:
        return values.reveal(self.properties.get(name))

    def redactors(self) -> tuple[Redactor, Redactor]:
        """For lines shown while a command runs; and for its error text, without environment."""
        secret = [*_hidden(self.properties), *_hidden(self.previous)]
        return Redactor(secret), Redactor(
            [*secret, *values.strings(self.properties.get("environment"))]
        )


def _hidden(properties: Mapping[str, Any]) -> Iterator[str]:
    """What no text may show: secrets, but of a connection, which is one whole, not where it goes.

    An address and a user's name are in each host's messages, which would be of no use without.
    """
    for name, value in properties.items():
        if name != "connection":
            yield from values.secret_strings(value)
            continue
        ends = [values.reveal(value) or {}]
        while ends:
            end = ends.pop()
            ends += [end["proxy"]] if isinstance(end.get("proxy"), dict) else []
            rest = {key: end[key] for key in end.keys() - {"host", "user", "proxy"}}
            yield from values.strings(rest)


def command_of(token: str, properties: Mapping[str, Any], step: str) -> str | None:
    """The command of a step (`create`, `update`, `delete`); `update` falls back to `create`."""
    if token == inputs.LOCAL_RUN:
        return str(values.reveal(properties["command"]))
    command = values.reveal(properties.get(step))
    if command is None and step == "update":
        command = values.reveal(properties.get("create"))
    return None if command is None else str(command)


async def run_command(job: Job, step: str) -> values.Properties:
    """Runs the step's command; returns its outputs, or those of the run before if there is none.

    Raises:
        CommandError: the command could not run or failed.
    """
    command = command_of(job.token, job.properties, step)
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
    outputs = output.properties()
    if job.token != inputs.REMOTE_COMMAND:
        outputs |= _collected(job)
    return outputs


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
    from . import connection, remote_command  # AsyncSSH is loaded when first needed

    parameters = job.get("connection")
    async with connection.connect(parameters, os.environ, job.log.status) as host:
        place = str(connection.endpoint(parameters, os.environ))
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


def _collected(job: Job) -> values.Properties:
    directory = job.get("dir") or os.getcwd()
    collected: values.Properties = {}
    try:
        if job.get("assetPaths") is not None:
            collected["assets"] = globs.assets(directory, job.get("assetPaths"))
        if job.get("archivePaths") is not None:
            collected["archive"] = globs.archive(directory, job.get("archivePaths"))
    except (OSError, ValueError) as error:
        raise CommandError(f"local command: {error}") from None
    return collected
