"""Ways around a library or the engine: what breaks without each, and where upstream says so.

An entry goes as soon as there is a public way.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from pulumi.runtime.settings import _get_rpc_manager

_NO_LOG = """\
This file keeps Pulumi from writing its automatic log of every message here: with 20 hosts that is
9 MB in each run, up to 500 MB in all, and a third of the time of a run without change.
To have the log for one or more runs, make a folder in the place of this file.
"""
_FRAMES = 1
"""Of a stack trace; with none at all the SDK fails."""


def await_calls_in_turn() -> None:
    """Have the SDK wait for its calls one after the other; the last word of a program.

    Without it a run with 200 hosts takes 10 s of processor time more. After a program the SDK waits
    for its calls in turn, then for any one of all outputs, anew after each that comes (pulumi
    3.250.0, runtime/stack.py, wait_for_rpcs; pulumi/pulumi pull request 22411). No call has begun
    by then, so it starts with the outputs: 5,200 at 200 hosts, 400 times. With one call that is
    done it begins with the calls.
    """
    done = asyncio.get_running_loop().create_future()
    done.set_result(None)
    _get_rpc_manager().rpcs.append(done)


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Declare resources without a stack trace in the state.

    Without it each resource of a host has 2 kB more there, most of it paths of the machine that ran
    the program. The SDK sends the whole stack of each resource and has no option for that (pulumi
    3.250.0, runtime/resource.py, _get_stack_trace; pulumi/pulumi pull request 20430). It asks
    ``traceback.extract_stack``, which obeys ``sys.tracebacklimit``. An exception that leaves is
    printed whole.
    """
    before = getattr(sys, "tracebacklimit", None)
    sys.tracebacklimit = _FRAMES
    try:
        yield
    finally:
        if before is None:
            del sys.tracebacklimit
        else:
            sys.tracebacklimit = before


def engine_home(cache: Path) -> Path:
    """Return the engine's folder (``PULUMI_HOME``), made where it is missing, without its log.

    Without this the engine writes a log of every message: 9 MB in each run with 20 hosts, a third
    of the time of a run without change, and not encrypted at first. It has no setting for that
    (pulumi/pulumi issue 22416 asks for one), but goes on where it can't make the folder ``logs``
    (pulumi v3.250.0, pkg/logging/encrypted.go, StartLogging), so a file stands there. A folder of
    the user's stays.
    """
    home = cache / "pulumi"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(FileExistsError), (home / "logs").open("x") as file:
        file.write(_NO_LOG)
    return home
