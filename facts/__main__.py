"""Looks at hosts and cluster at once: JSON on standard input, JSON on standard output.

A process of its own, so that the look runs beside the program that declares resources. The imports
are done while the program still reads its configuration; nothing is judged here. The first argument
``hosts`` leaves the cluster alone.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from types import SimpleNamespace
from typing import Any

from .hosts import observe

Json = dict[str, Any]

NO_CLUSTER: Json = {"problems": [], "cordoned": []}
NO_CLUSTER |= {"scheduling": {}, "validation": {}, "presence": {}}

if not (HOSTS_ONLY := sys.argv[1:] == ["hosts"]):
    from . import cluster  # a third of a second of imports


async def hosts(request: Json) -> Json:
    """Facts by host."""
    declared = [_host(host) for host in request["hosts"]]
    facts = await observe(declared, request["privateKey"])
    return {name: dataclasses.asdict(each) for name, each in facts.items()}


def _host(declared: Json) -> SimpleNamespace:
    bastion = declared["bastion"] and SimpleNamespace(**declared["bastion"])
    return SimpleNamespace(**{**declared, "bastion": bastion})


async def look(request: Json) -> Json:
    """Both looks at the same time."""
    if HOSTS_ONLY:
        return {"cluster": NO_CLUSTER, "hosts": await hosts(request)}
    seen, hosts_seen = await asyncio.gather(
        cluster.observe(
            request["context"],
            request["scheduling"],
            request["validation"],
            request["presence"],
            request["endpoints"],
        ),
        hosts(request),
    )
    return {"cluster": seen, "hosts": hosts_seen}


if __name__ == "__main__":
    json.dump(asyncio.run(look(json.load(sys.stdin))), sys.stdout)
