"""Looks at hosts and cluster at once: JSON on standard input, JSON on standard output.

A process of its own, so that the look runs beside the program that declares resources. The imports
are done while the program still reads its configuration.
"""

from __future__ import annotations

import asyncio
import json
import sys

import config

from . import cluster
from .api import Json
from .hosts import drift, observe
from .preflight import judge


async def hosts(request: Json) -> Json:
    """What contradicts the configuration on hosts, and what changed there since the last run."""
    if not request["configuration"].get("hosts"):
        return {"findings": [], "drift": {}}
    declared = config.load(request["configuration"])
    facts = await observe(declared.hosts, declared.ssh, request["privateKey"])
    findings = [
        {"severity": str(finding.severity), "text": str(finding)}
        for host in declared.hosts
        for finding in judge(host, facts[host.name], declared)
    ]
    changed = {
        phase: {name: text for name, seen in facts.items() if (text := drift(seen, phase))}
        for phase in ("prepare", "runtime")
    }
    return {"findings": findings, "drift": changed}


async def look(request: Json) -> Json:
    """Both looks at the same time."""
    seen, hosts_seen = await asyncio.gather(
        cluster.observe(request["context"], request["scheduling"], request["validation"]),
        hosts(request),
    )
    return {"cluster": seen, "hosts": hosts_seen}


if __name__ == "__main__":
    json.dump(asyncio.run(look(json.load(sys.stdin))), sys.stdout)
