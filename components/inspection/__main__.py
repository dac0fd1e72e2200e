"""One process beside the program, for ``cluster``, ``hosts`` or ``rollout`` as the argument says.

JSON in, JSON out, a line each (`components.inspection.processes`). A process of its own for each
part, so that all work beside the program that declares resources, each with the one library that
it needs. The imports are done while the program still does its own; where it asks nothing, nothing
is said. Nothing is judged here.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

Json = dict[str, Any]

MODULES = {
    "cluster": "components.inspection.cluster",
    "hosts": "components.hosts.visit",
    "rollout": "components.rollout.inspect",
}


async def serve(answer: Callable[[Json], Awaitable[Json]]) -> NoReturn:
    """Answers all that is asked, side by side, until standard input ends."""
    said, sys.stdout = sys.stdout, sys.stderr  # no library's word comes between answers

    async def reply(number: int, question: Json) -> None:
        found: Json
        try:
            found = {"answer": await answer(question)}
        except Exception as error:
            found = {"failed": traceback.format_exception_only(error)[-1].strip()}
        said.write(f"{json.dumps({'number': number, **found})}\n")
        said.flush()
        gc.enable()  # what comes after the first answer is not in a hurry

    # A thread of its own: slow names of hosts may hold all of the loop's, and nothing was read.
    reading = ThreadPoolExecutor(1)
    replies = set()
    while line := await asyncio.get_running_loop().run_in_executor(reading, sys.stdin.readline):
        replies.add(asyncio.create_task(reply(**json.loads(line))))
    os._exit(0)  # what was imported is not worth taking apart: 30 ms


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its input
    gc.disable()  # collecting is a tenth of the imports' time
    asyncio.run(serve(importlib.import_module(MODULES[sys.argv[1]]).answer))
