"""One look, at ``cluster``, ``hosts`` or ``rollout`` as the argument says: JSON in, JSON out.

A process of its own for each, so that both look beside the program that declares resources, each
with the one library that it needs. The imports are done while the program still does its
own; where it asks nothing, nothing is said. Nothing is judged here.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import sys

MODULES = {
    "cluster": "components.inspection.cluster",
    "hosts": "components.hosts.inspect",
    "rollout": "components.rollout.inspect",
}

if __name__ == "__main__":
    gc.disable()  # it ends with its answer, and collecting is a tenth of the imports' time
    look = importlib.import_module(MODULES[sys.argv[1]])
    if asked := sys.stdin.read():
        json.dump(asyncio.run(look.answer(json.loads(asked))), sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # what was imported is not worth taking apart: 30 ms
