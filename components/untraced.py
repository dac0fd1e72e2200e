"""Resources whose record in the state has no stack trace."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

LEAST = 1
"""Frames; with none at all the SDK fails."""


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Resources that are declared meanwhile have no stack trace.

    The SDK sends the whole stack of each resource and has no option for that (pulumi 3.250.0,
    runtime/resource.py, ``_get_stack_trace``): 2 kB a resource, most of it paths of the machine
    that ran the program. It asks ``traceback.extract_stack``, which obeys ``sys.tracebacklimit``.
    An exception that leaves is printed whole.
    """
    before = getattr(sys, "tracebacklimit", None)
    sys.tracebacklimit = LEAST
    try:
        yield
    finally:
        if before is None:
            del sys.tracebacklimit
        else:
            sys.tracebacklimit = before
