"""Shows why a command ended: one line for a person; the traceback with VERBOSE=1 alone."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from policies.printable import printable

PROGRAM_FAILED = "Traceback (most recent call last)"
UNREADABLE_PLUGIN = "could not read plugin"
ENDED_PLUGIN = re.compile(
    r"Detected that (\S+) exited prematurely\..*STDERR streams of the plugin:(.*)", re.DOTALL
)
"""A plugin that ended before it listened (pulumi v3.250.0, sdk/go/common/resource/plugin)."""
NAMES = {"environment": "env"}
"""Modules whose make target has another name."""
MOST = 5
"""Lines of the engine that one failure repeats."""

CURES = (
    (
        r"passphrase must be set",
        "set PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE to the stack's passphrase",
    ),
    (
        r"incorrect passphrase",
        "set PULUMI_CONFIG_PASSPHRASE to the passphrase that the stack was created with "
        "(`encryptionsalt` in the stack file belongs to it)",
    ),
    (
        r"currently locked|\[409\] Conflict",
        "wait until the other run ends; if there is none, run `pulumi cancel`",
    ),
    (
        r"could not (open|list) bucket|unable to open bucket|failed to open bucket|backend",
        "check PULUMI_BACKEND_URL, and that this machine can read and write there",
    ),
    (
        r"no stack named",
        "check STACK; `pulumi stack ls` lists the stacks of this backend",
    ),
    (
        r"polic(y|ies).*(pack|plugin)|analyzer",
        "check that components/guardrails/pack/ and policies/ are complete (`git status`)",
    ),
    (
        r"plugin|language host",
        "run `make tools`, which shows the toolchain and builds what is missing",
    ),
)
"""What to do, by a pattern of the engine's error; the first that fits."""


def name_of(argument: str) -> str:
    """Return the make target of the module that runs.

    Args:
        argument: path of the module's file.
    """
    stem = Path(argument).stem
    return NAMES.get(stem, stem.replace("_", "-"))


def with_cure(text: str) -> str:
    """Return the engine's error with what to do, if that is known."""
    for pattern, cure in CURES:
        if re.search(pattern, text, re.IGNORECASE):
            return f"{text}; cure: {cure}"
    return text


def errors_of(text: str) -> list[str]:
    """Return the errors among what the engine wrote to standard error, each on one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error:")]
    printed = [line for line in lines if line not in errors]
    if printed and errors and UNREADABLE_PLUGIN in errors[0]:
        errors[0] += f"; the plugin printed: {printed[-1]}"
    shown = dict.fromkeys((errors or printed[-MOST:])[:MOST])
    return [with_cure(printable(line)) for line in shown]


def cause(error: BaseException) -> list[str]:
    """Return the lines that say why a command of the engine failed; never none.

    Args:
        error: `automation.CommandError`, whose text has the parts code, stdout and stderr
            (pulumi 3.250.0, automation/_cmd.py, ``CommandResult.__str__``).
    """
    before, _, errors = str(error).partition("\n stderr: ")
    code, _, output = before.partition("\n stdout: ")
    lines = errors_of(errors) or errors_of(output)
    number = code.rpartition("code: ")[2].strip() or "unknown"
    return lines or [
        f"error: the engine ended with exit code {number} and wrote no reason; cure: run it again "
        "with VERBOSE=1"
    ]


def summary(errors: list[str]) -> str:
    """Return the first line of the first error, and whether there is more above it.

    Args:
        errors: what was shown, at least one.
    """
    first, *more = "\n".join(errors).splitlines()
    return first.removeprefix("error: ") + ("; more above" if more else "")


def condensed(text: str) -> str:
    """Return an error of the program without its traceback; that of a plugin as its last line.

    Args:
        text: any message of the engine; all others are returned as they are.
    """
    if ended := ENDED_PLUGIN.search(text):
        path, printed = ended.groups()
        return with_cure(f"the plugin {path} ended at its start: {_last(printed)}")
    if PROGRAM_FAILED not in text:
        return text
    return f"the program failed: {_last(text)}; cure: VERBOSE=1 shows where, for a report"


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed no reason"


def annotate(text: str) -> None:
    """Name a cause on the page of a workflow's run, if this is one of GitHub's.

    Source: GitHub documentation, "Workflow commands", ``error``; actions/toolkit
    packages/core/src/command.ts, escapeData.
    """
    if os.environ.get("GITHUB_ACTIONS") == "true":
        escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        print(f"::error title=make {name_of(sys.argv[0])}::{escaped}", file=sys.stderr, flush=True)


def stop(line: str) -> NoReturn:
    """End a command that failed by one line, its last; exit code 1."""
    print(line, flush=True)
    annotate(line)
    sys.exit(1)


def show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Print why a command ended; `sys.excepthook` of the commands.

    An interrupt ends the process by SIGINT afterwards, which a shell reports as 130.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # one more ends the process, without a word
    name = name_of(sys.argv[0])
    if issubclass(kind, KeyboardInterrupt):
        lines = [f"{name}: interrupted; run it again to go on"]
    elif any(base.__name__ == "CommandError" for base in kind.__mro__):
        lines = [f"{name}: failed: {line}" for line in cause(error)]
    else:
        lines = [f"{name}: failed: {line}" for line in _of_ours(kind, error)]
    sys.stdout.flush()
    if os.environ.get("VERBOSE") == "1" and not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
    for line in lines:
        print(line, file=sys.stderr, flush=True)
    annotate("\n".join(lines))


def _of_ours(kind: type[BaseException], error: BaseException) -> list[str]:
    """Return the lines of an error that this project raised, or of one that nobody expected."""
    lines = [printable(line) for line in str(error).splitlines() if line.strip()]
    own = kind.__module__.partition(".")[0] in ("components", "policies", "lab", "toolchain")
    if lines and (own or issubclass(kind, OSError)):
        return lines[:MOST]
    text = f"{kind.__name__}: {lines[0]}" if lines else kind.__name__
    return [f"{text}; cure: VERBOSE=1 shows where, for a report"]
