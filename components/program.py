"""How an operation reads its input and says its result."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from components.kubernetes.api import ClusterError, Json
from components.requests import read
from policies.printable import printable_lines

T = TypeVar("T")


def main(kind: type[T], actions: Mapping[str, Callable[[T], Coroutine[Any, Any, Json]]]) -> None:
    """Run the action that the first argument names on the request of standard input.

    Args:
        kind: class of the request.
        actions: by name.

    The result goes to standard output as JSON; a `ClusterError` to standard error, exit code 1.
    """
    action = actions[sys.argv[1]]
    request = read(kind, sys.stdin.read())
    try:
        result = asyncio.run(action(request))
    except ClusterError as error:
        print(printable_lines(str(error)), file=sys.stderr)
        sys.exit(1)
    json.dump(result, sys.stdout, separators=(",", ":"), sort_keys=True)
