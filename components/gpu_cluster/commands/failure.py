"""Error output of the commands: one line for a user; the traceback only with --verbose."""

from __future__ import annotations

import os
import re
import signal
import sys
import textwrap
from types import TracebackType
from typing import NoReturn

from gpu_rules.printable import printable

PROGRAM_FAILED = "Traceback (most recent call last)"
UNREADABLE_PLUGIN = "could not read plugin"
ENDED_PLUGIN = re.compile(
    r"Detected that (\S+) exited prematurely\..*STDERR streams of the plugin:(.*)", re.DOTALL
)
"""The engine's message about a plugin that ended before it listened on its port.

Source: pulumi v3.250.0, sdk/go/common/resource/plugin.
"""
LOCKED = re.compile(
    r"the stack is currently locked by .*?: created by (\S*)@(\S*) \(pid (\d+)\) at (\S+)",
    re.DOTALL,
)
"""The engine's message about a lock.

Source: pulumi v3.274.1, pkg/backend/diy/lock.go, checkForLock.
"""
OF_THE_ENGINE = re.compile(
    r"(update|preview|refresh|destroy) failed|failed to run remediation: context canceled"
)
"""Errors by which the engine says only that it stopped."""
HOOK = re.compile(r'(before|after) hook ".*" failed:')
"""First line of a hook's error; the cause is in the next lines."""
STATUS = re.compile(r"(?P<place>.*): (exit status \d+|signal \w+)")
"""First line of a Command's error; the last lines of the Command's output follow."""
ANNOUNCED = re.compile(r".*:|.*\b\d+ (problems?|errors?)")
"""First line of an error that lists its causes in the next lines."""
BULLET = re.compile(r"\s*([*-]|\d+[.)])\s+")
CURED = "; cure: "
NAMED_TWICE = re.compile(
    r" with PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE environment variables"
)
"""Part of the engine's error about a passphrase that the advice repeats.

Source: pulumi, pkg/secrets/passphrase, readPassphrase.
"""
LONGEST = 1000
"""Maximum number of characters of the last line of a command."""
MOST = 5
"""Maximum number of lines that are repeated from the engine's output for one failure."""
VERB = "gpu-cluster"
"""The verb that runs."""

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
        r"no space left on device|disk quota exceeded",
        "make room there, then run it again: it repairs what the full disk left",
    ),
    (
        r"stack is (currently )?locked|\[409\] Conflict",
        "wait until the other run ends; if it was killed, or there is none, run `pulumi cancel`",
    ),
    (
        r"unexpected end of JSON input|corrupt store|\bEOF\b",
        "a file of the backend is cut or empty: see docs/how-to/backends.md#a-file-that-is-cut",
    ),
    (
        r"could not (open|list) bucket|unable to open (bucket|state directory)|"
        r"failed to open bucket|backend",
        "check PULUMI_BACKEND_URL, and that this machine can read and write there",
    ),
    (
        r"no stack named",
        "check STACK; `pulumi stack ls` lists the stacks of this backend",
    ),
    (
        r"polic(y|ies).*(pack|plugin)|analyzer",
        "check that components/ and policies/ are complete (`git status`)",
    ),
    (
        r"plugin|language host",
        "run `gpu-cluster tools`, which shows the toolchain and builds what is missing",
    ),
)
"""Pairs of a pattern for the engine's error and the advice for it; the first match is used."""


def with_cure(text: str) -> str:
    """Return the engine's error with advice added, if there is advice for it."""
    text = NAMED_TWICE.sub("", text)
    for pattern, cure in CURES:
        if re.search(pattern, text, re.IGNORECASE):
            return f"{text}; cure: {cure}"
    return text


def errors_of(text: str) -> list[str]:
    """Return the errors in the engine's standard error output, each on one line.

    Indented lines after an error belong to it.
    """
    errors: list[list[str]] = []
    printed: list[str] = []
    is_open = False
    for line in filter(str.strip, text.splitlines()):
        if line.lstrip().startswith("error:"):
            errors.append([line.strip()])
            is_open = True
        elif is_open and line[0].isspace():
            errors[-1].append(line)
        else:
            is_open = False
            printed.append(line.strip())
    if printed and errors and UNREADABLE_PLUGIN in errors[0][0]:
        errors[0][0] += f"; the plugin printed: {printed[-1]}"
    lines = [_join_error_lines(error) for error in errors] or printed[-MOST:]
    return [with_cure(printable(line)) for line in list(dict.fromkeys(lines))[:MOST]]


def _join_error_lines(lines: list[str]) -> str:
    """Return an error of several lines as one line."""
    if lock := LOCKED.search("\n".join(lines)):
        user, host, process, moment = lock.groups()
        return f"error: the stack is locked by {user}@{host} (process {process}) since {moment}"
    head, *more = (BULLET.sub("", line).strip() for line in lines)
    return ": ".join(filter(None, (head.removesuffix(":") if more else head, "; ".join(more))))


def cause(error: BaseException) -> list[str]:
    """Return at least one line about why a command of the engine failed.

    Args:
        error: An `automation.CommandError`. Its text has the parts code, stdout and stderr (pulumi
            3.250.0, automation/_cmd.py, ``CommandResult.__str__``).
    """
    before, _, errors = str(error).partition("\n stderr: ")
    code, _, output = before.partition("\n stdout: ")
    lines = errors_of(errors) or errors_of(output)
    number = code.rpartition("code: ")[2].strip() or "unknown"
    return lines or [
        f"error: the engine ended with exit code {number} and wrote no reason; cure: run it again "
        "with --verbose"
    ]


def summary(errors: list[str]) -> str:
    """Return the cause of the errors in one line, with a note if more lines were printed above.

    Args:
        errors: The errors that were printed, at least one.
    """
    texts = [
        list(filter(str.strip, error.removeprefix("error: ").splitlines())) for error in errors
    ]
    chosen = next((lines for lines in texts if not OF_THE_ENGINE.fullmatch(lines[0])), texts[0])
    line, is_whole = _cause_in(chosen)
    more = "" if is_whole and len(texts) == 1 else "; more above"
    return printable(line, LONGEST) + more


def _cause_in(lines: list[str]) -> tuple[str, bool]:
    """Return the cause in an error's lines as one line, and whether the line has all of them."""
    head, *more = lines
    if not more:
        return head, True
    command = STATUS.fullmatch(head)
    if command or HOOK.fullmatch(head):
        cause_line = next((line for line in more if CURED in line), more[-1]).strip()
        is_place = command and command["place"] != "local command"
        return (f"{head}: {cause_line}" if is_place else cause_line), len(more) == 1
    if ANNOUNCED.fullmatch(head):
        return _join_error_lines(lines), True
    return head, False


def without_hook(text: str) -> str:
    """Return a message without the line that a hook failed, if more specific lines follow."""
    head, _, cause_lines = text.partition("\n")
    if not cause_lines.strip() or not HOOK.fullmatch(head.removeprefix("error: ")):
        return text
    return textwrap.dedent(cause_lines)


def condensed(text: str) -> str:
    """Return a message of the engine without its traceback.

    For a failure of the program or of a plugin, only the last line is kept. Other messages are
    returned unchanged.

    Args:
        text: Any message of the engine.
    """
    if ended := ENDED_PLUGIN.search(text):
        path, printed = ended.groups()
        return with_cure(f"the plugin {path} ended at its start: {_last_line(printed)}")
    if PROGRAM_FAILED not in text:
        return text
    return f"the program failed: {_last_line(text)}; cure: --verbose shows where, for a report"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed no reason"


def annotate(text: str) -> None:
    """Show a failure on the page of a GitHub Actions run; do nothing outside of GitHub Actions.

    Source: GitHub documentation, "Workflow commands", ``error``; actions/toolkit
    packages/core/src/command.ts, escapeData.
    """
    if os.environ.get("GITHUB_ACTIONS") == "true":
        escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        print(f"::error title=gpu-cluster {VERB}::{escaped}", file=sys.stderr, flush=True)


def stop(line: str) -> NoReturn:
    """Print the last line of a failed command and exit with 1."""
    print(line, flush=True)
    annotate(line)
    sys.exit(1)


def show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Print why a command ended; this is the `sys.excepthook` of all commands.

    After an interrupt Python ends the process with SIGINT, which a shell reports as exit code 130.
    """
    # A second Ctrl-C now ends the process immediately and prints nothing.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    name = VERB
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
    """Return the lines of an error of this project, or one line for an unexpected error."""
    lines = [printable(line) for line in str(error).splitlines() if line.strip()]
    is_ours = kind.__module__.partition(".")[0] in ("gpu_cluster", "gpu_cluster_lab", "gpu_rules")
    if lines and (is_ours or issubclass(kind, OSError)):
        return lines
    text = f"{kind.__name__}: {lines[0]}" if lines else kind.__name__
    return [f"{text}; cure: --verbose shows where, for a report"]
