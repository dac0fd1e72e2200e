"""Workarounds for a library or the Pulumi engine, each with its reason and its upstream source.

Remove a workaround as soon as upstream has a public way.
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
"""Frames kept of a stack trace; the SDK fails with none."""


def await_calls_in_turn() -> None:
    """Make the SDK await its pending calls one after the other. Call this last in a program.

    Without this workaround a run with 200 hosts takes 10 s more processor time. After a program the
    SDK waits for its calls in turn and then for any one of all outputs, again after each output
    that completes (pulumi 3.250.0, runtime/stack.py, wait_for_rpcs; pulumi/pulumi pull request
    22411). No call has started by then, so the SDK begins with the outputs: 5,200 outputs at 200
    hosts, 400 times. A completed dummy call makes it begin with the calls.
    """
    done = asyncio.get_running_loop().create_future()
    done.set_result(None)
    _get_rpc_manager().rpcs.append(done)


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Declare resources without a stack trace in the state.

    Without this workaround the state has 2 kB more for each resource of a host, mostly file paths
    of the machine that ran the program. The SDK sends the whole stack of each resource and has no
    option to turn that off (pulumi 3.250.0, runtime/resource.py, _get_stack_trace; pulumi/pulumi
    pull request 20430). The SDK calls `traceback.extract_stack`, which honours
    `sys.tracebacklimit`. An exception that leaves the context is printed whole.
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
    """Return the engine's folder (`PULUMI_HOME`), created if it is missing, without a log.

    Without this workaround the engine writes a log of every message: 9 MB in each run with 20
    hosts, a third of the time of a run without changes, and not encrypted at first. The engine has
    no setting to turn the log off (pulumi/pulumi issue 22416 requests one), but it continues
    without a log if it can't create the folder `logs` (pulumi v3.250.0, pkg/logging/encrypted.go,
    StartLogging). So this function creates a file of that name. A folder that the user created is
    kept.
    """
    home = cache / "pulumi"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(FileExistsError), (home / "logs").open("x") as file:
        file.write(_NO_LOG)
    return home
