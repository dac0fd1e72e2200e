"""How an operation reads its input and says its result."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from components.api import ClusterError, Json
from config.printable import printable_lines


def main(actions: dict[str, Callable[[Json], Coroutine[Any, Any, Json]]]) -> None:
    """Runs the action that the first argument names on the JSON of standard input.

    The result goes to standard output as JSON; a `ClusterError` to standard error, exit code 1.
    """
    action = actions[sys.argv[1]]
    document = json.load(sys.stdin)
    try:
        result = asyncio.run(action(document))
    except ClusterError as error:
        print(printable_lines(str(error)), file=sys.stderr)
        sys.exit(1)
    json.dump(result, sys.stdout, separators=(",", ":"), sort_keys=True)
