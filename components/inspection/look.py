"""Starts the look at hosts and cluster and takes its result: findings, never changes.

The look runs in processes of its own beside the program's imports. What it can't reach is told and
does not stop a preview; what contradicts the configuration does.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from components.hosts.facts import HostFacts, drift, reboot
from config.printable import printable_lines

if TYPE_CHECKING:
    from components.settings.cluster import Cluster

Json = dict[str, Any]

#: Seconds for the whole look; what answers later counts as not reached.
LIMIT = 60


@dataclass(frozen=True)
class Found:
    """What the look found.

    Attributes:
        unreachable: what was not seen, and why; empty when all was.
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

#: What is found where nothing is looked at.
_NOTHING: Json = {
    "cluster": {"problems": [], "cordoned": [], "scheduling": {}, "validation": {}, "presence": {}},
    "hosts": {"problems": [], "facts": {}},
}


class Look:
    """A look under way, by a process each for the cluster and the hosts."""

    def __init__(self, extent: Extent) -> None:
        parts = {Extent.ALL: ("cluster", "hosts"), Extent.OFF: ()}.get(extent, (extent.value,))
        self._processes = {
            part: subprocess.Popen(
                [sys.executable, "-m", "components.inspection", part],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for part in parts
        }

    @classmethod
    def start(cls) -> Look:
        """The look that the environment asks for.

        Raises:
            ValueError: `EXTENT` says something else than an `Extent`.
        """
        asked = os.environ.get(EXTENT, Extent.ALL)
        if asked not in set(Extent):
            raise ValueError(
                f"{EXTENT}: found {asked!r}; wanted: {', '.join(Extent)}; cure: unset {EXTENT}"
            )
        return cls(Extent(asked))

    def ask(self, request: Json) -> None:
        """Tells the processes what to look at; they have been importing meanwhile.

        Args:
            request: ``cluster``, the arguments of `components.inspection.cluster.observe`;
                ``hosts``: ``hosts`` as declared and their ``privateKey``. They go through pipes, so
                that the key is in no process argument and in no file.
        """
        for part, process in self._processes.items():
            pipe = process.stdin
            if pipe is None:
                raise RuntimeError("a look is asked once")
            with contextlib.suppress(BrokenPipeError):  # it has ended, and its result says why
                json.dump(request[part], pipe)
                pipe.close()
            process.stdin = None

    def _seen(self) -> tuple[Json, str]:
        """What the processes found, by part, and why one found nothing."""
        seen, deadline = dict(_NOTHING), time.monotonic() + LIMIT
        reasons = []
        for part, process in self._processes.items():
            try:
                output, errors = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                reasons.append(f"the look at the {part} took longer than {LIMIT} s")
                continue
            if process.returncode == 0:
                seen[part] = json.loads(output)
                continue
            last = errors.strip().splitlines()[-1:] or ["no message"]
            reasons.append(f"the look at the {part} failed: {last[0]}")
        return seen, "; ".join(reasons)

    def result(self, declared: Cluster) -> Found:
        """Waits for the facts, at most `LIMIT` seconds, and holds them against what is declared."""
        # What judges needs the configuration: imported now, so that the look starts before it.
        from components.driver_daemonset.container import judge_all
        from components.hosts.kernels import unequal
        from components.hosts.preflight import judge
        from components.platforms.judge import judge as judge_platform

        seen, reasons = self._seen()
        cluster = seen["cluster"]
        facts = {name: HostFacts(**each) for name, each in seen["hosts"]["facts"].items()}
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
            unreachable=printable_lines(
                "; ".join(filter(None, (cluster.get("unreachable"), reasons)))
            ),
            hosts=facts,
            problems=tuple(
                map(
                    printable_lines,
                    (*cluster["problems"], *seen["hosts"]["problems"], *said["error"]),
                )
            ),
            warnings=tuple(map(printable_lines, (*said["warning"], *unequal(declared, facts)))),
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
