"""Workarounds for a library or the Pulumi engine, each with its reason and its upstream source.

Remove a workaround as soon as upstream has a public way.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator

from pulumi.runtime.settings import _get_rpc_manager

_FRAMES = 1
"""Frames kept of a stack trace; the SDK fails with none."""


def await_calls_in_turn() -> None:
    """Make the SDK await its pending calls one after the other. Call this last in a program.

    Without this workaround a run with 200 hosts takes 10 s more processor time. At the end
    of a program the SDK waits for its pending calls one by one, and then for the first of all
    pending outputs, again and again until none is pending (pulumi 3.250.0, runtime/stack.py,
    wait_for_rpcs; pulumi/pulumi pull request 22411). Without a pending call the SDK begins with the
    outputs: with 200 hosts it waits 400 times for one of 5,200 outputs. A completed dummy call
    makes the SDK begin with the calls.
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
    `sys.tracebacklimit`. The limit ends with the context, so
    exceptions that leave the context are printed with their whole stack trace.
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
