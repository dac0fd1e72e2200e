"""Starts the look at hosts and cluster and takes its result: findings, never changes.

The look runs in a process of its own beside the program's imports. What it can't reach is told and
does not stop a preview; what contradicts the configuration does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from .host_facts import HostFacts, drift, reboot

if TYPE_CHECKING:
    import config

Json = dict[str, Any]

#: Seconds for the whole look; what answers later counts as not reached.
LIMIT = 60


@dataclass(frozen=True)
class Found:
    """What the look found.

    Attributes:
        unreachable: why the cluster was not seen; empty when it was.
        hosts: what the probe found, by host.
        problems: what contradicts the configuration and must stop the run.
        warnings: what will probably do harm.
        prepare: by host, what changed since it was prepared.
        runtime: by host, what changed of its container runtime.
        reboot: by host, why it must be rebooted, or its node given back; with the host's time.
        scheduling: by pool, what its nodes lack.
        validation: by pool, why its last validation no longer holds.
        presence: under ``platform``, which of its objects are missing.
        groups: API groups that the cluster serves; empty where it was not seen.
    """

    unreachable: str = ""
    hosts: dict[str, HostFacts] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    prepare: dict[str, str] = field(default_factory=dict)
    runtime: dict[str, str] = field(default_factory=dict)
    reboot: dict[str, str] = field(default_factory=dict)
    scheduling: dict[str, str] = field(default_factory=dict)
    validation: dict[str, str] = field(default_factory=dict)
    presence: dict[str, str] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()


class Extent(StrEnum):
    """What a look looks at: the environment variable `EXTENT`."""

    ALL = "all"
    CLUSTER = "cluster"
    HOSTS = "hosts"
    OFF = "off"


#: Hosts and cluster by default; ``cluster`` leaves the hosts alone, ``hosts`` the cluster, ``off``
#: looks at nothing.
EXTENT = "GPU_CLUSTER_LOOK"


class Look:
    """A look under way.

    Raises:
        ValueError: `EXTENT` says something else than an `Extent`.
    """

    def __init__(self, extent: Extent) -> None:
        self._extent = extent
        self._process = subprocess.Popen(
            [sys.executable, "-m", "facts", extent],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @classmethod
    def start(cls) -> Look | NoLook:
        """The look that the environment asks for."""
        extent = Extent(os.environ.get(EXTENT, Extent.ALL))
        return NoLook() if extent is Extent.OFF else cls(extent)

    def ask(self, request: Json) -> None:
        """Tells the process what to look at; it has been importing meanwhile.

        Args:
            request: ``context``, ``scheduling`` and ``validation`` (the documents of the pools),
                ``hosts`` (as declared), ``privateKey``. It goes through a pipe, so
                that the key is in no process argument and in no file.
        """
        pipe = self._process.stdin
        if pipe is None:
            raise RuntimeError("a look is asked once")
        if self._extent is Extent.CLUSTER:
            request = {**request, "hosts": [], "privateKey": ""}
        json.dump(request, pipe)
        pipe.close()
        self._process.stdin = None

    def result(self, declared: config.Cluster) -> Found:
        """Waits for the facts, at most `LIMIT` seconds, and holds them against what is declared."""
        try:
            output, errors = self._process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return Found(unreachable=f"no answer within {LIMIT} s")
        if self._process.returncode != 0:
            last = errors.strip().splitlines()[-1:] or ["no message"]
            return Found(unreachable=f"the look at the cluster failed: {last[0]}")
        # What judges needs the configuration: imported now, so that the look starts before it.
        from .driver_container import judge_all
        from .kernels import unequal
        from .platform import judge as judge_platform
        from .preflight import judge

        seen = json.loads(output)
        cluster = seen["cluster"]
        facts = {name: HostFacts(**each) for name, each in seen["hosts"].items()}
        said: dict[str, list[str]] = {"error": [], "warning": []}
        for host in declared.hosts:
            if host.name in facts:
                for finding in judge(host, facts[host.name], declared.of(host)):
                    said[finding.severity].append(str(finding))
        said["error"] += [str(each) for each in judge_all(declared, facts)]
        if "surroundings" in cluster:
            members = cluster["members"]
            for each in judge_platform(declared, cluster["surroundings"], members, facts):
                said[each.severity].append(str(each))
        changed = {
            phase: {name: text for name, each in facts.items() if (text := drift(each, phase))}
            for phase in ("prepare", "runtime")
        }
        return Found(
            unreachable=cluster.get("unreachable", ""),
            hosts=facts,
            problems=(*cluster["problems"], *said["error"]),
            warnings=(*said["warning"], *unequal(declared, facts)),
            prepare=changed["prepare"],
            runtime=changed["runtime"],
            reboot={
                host.name: text
                for host in declared.hosts
                if host.name in facts
                and (text := reboot(facts[host.name], host.node in cluster["cordoned"]))
            },
            scheduling=cluster["scheduling"],
            validation=cluster["validation"],
            presence=cluster["presence"],
            groups=frozenset(cluster.get("surroundings", {}).get("groups", {})),
        )


class NoLook:
    """Nothing is looked at, nothing found."""

    def ask(self, request: Json) -> None:
        """Nothing to do."""

    def result(self, declared: config.Cluster) -> Found:
        """Nothing found."""
        return Found()
