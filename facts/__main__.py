"""Looks at hosts and cluster at once: JSON on standard input, JSON on standard output.

A process of its own, so that the look runs beside the program that declares resources.
"""

from __future__ import annotations

import asyncio
import json
import sys

from .cluster import observe

# Imported while the program is still reading its configuration.
request = json.load(sys.stdin)
json.dump(
    {
        "cluster": asyncio.run(
            observe(request["context"], request["scheduling"], request["validation"])
        )
    },
    sys.stdout,
)
