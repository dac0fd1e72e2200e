"""Random kills: choose a command, one of its processes and a moment, and send SIGKILL.

All choices come from one seed, which a run prints. Two runs with the same seed kill the same
commands at the same moments. What the engine is doing at that moment also depends on the machine.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_cluster.loading.loader import load
from gpu_cluster.nodes import record
from gpu_cluster.release import helm_record
from tests.proofs.e2e.project import LIMIT, Project, figures

MARK = "GPU_CLUSTER_KILLED"
"""Environment variable that all processes inherit from a command that will be killed."""
COMMANDS = ("up", "up", "up", "destroy", "validate", "preview")
"""Commands to kill; `up`, which changes most, is as frequent as the others together."""
VICTIMS = ("all", "engine", "command")
"""Processes to kill.

`all`: all processes of the command, as when the machine fails. `engine`: only the engine.
`command`: only the command that a user started, as with `kill -9` of `gpu-cluster up`.
"""
JOBS = "namespaces/gpu-validation/jobs"
FIRST = 12.0
"""Assumed duration of a command in seconds, until a command of that kind has finished once."""

Json = dict[str, Any]
Edit = Callable[[Json], None]


def chance(seed: str) -> random.Random:
    """Return the random number generator from which all choices of a run come."""
    return random.Random(seed)  # noqa: S311 - it makes runs repeatable, and nothing secret


def edits(number: int) -> tuple[Edit, ...]:
    """Return edits of the stack file, one of which is made before a kill.

    `number` makes the values different from those of earlier edits.
    """

    def label(cluster: Json) -> None:
        cluster["pools"][0]["labels"] = {"example.com/edit": f"e{number}"}

    def taint(cluster: Json) -> None:
        cluster["pools"][0]["taints"] = [
            {"key": "example.com/edit", "value": f"e{number}", "effect": "PreferNoSchedule"}
        ]

    def chart(cluster: Json) -> None:
        annotations = {"example.com/edit": f"e{number}"}
        cluster["devicePlugin"] = {"extraValues": {"podAnnotations": annotations}}

    def settings(cluster: Json) -> None:
        cluster["validation"] = {"timeoutSeconds": 120 + number}

    def host(cluster: Json) -> None:
        cluster["system"] = {"sysctl": {"vm.max_map_count": str(262144 + number)}}

    def device(cluster: Json) -> None:
        pool = cluster["pools"][0]
        pool["unhealthyDevices"] = {} if pool.get("unhealthyDevices") else {"gpu-2": {"index": [3]}}

    return (label, taint, chart, settings, host, device)


@dataclass
class Kill:
    """Kill of a command, and the faults found afterwards.

    Attributes:
        command: The command that was killed.
        victim: Kind of the processes that were killed.
        share: Moment of the kill, as a fraction of the command's usual duration.
        edit: Name of the edit of the stack file before the kill.
        output: Output of the killed command.
        faults: Faults that were found afterwards; empty if the next `up` repaired everything.
    """

    command: str
    victim: str
    share: float
    edit: str
    output: str = ""
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        said = f"kill of {self.victim} of {self.command} at {self.share:.2f} after {self.edit}"
        return "\n".join([said, *self.faults, *([self.output] if self.faults else [])])


@dataclass
class Killer:
    """Kills commands of a project one after the other, and checks that the next run repairs all.

    Attributes:
        project: The project; its stack is up.
        source: The random number generator.
        took: Duration of each command in seconds, by name.
    """

    project: Project
    source: random.Random
    took: dict[str, float] = field(default_factory=dict)

    def kills(self, count: int) -> Iterator[Kill]:
        """Kill `count` commands; yield each kill with the faults found after it."""
        for number in range(1, count + 1):
            edit = self.source.choice(edits(number))
            command, victim = self.source.choice(COMMANDS), self.source.choice(VICTIMS)
            kill = Kill(command, victim, self.source.random(), edit.__name__)
            self.project.edit(edit)
            self._until_killed(kill)
            self._heal(kill)
            yield kill
            # Repair the stack before the next kill, which must start with a deployed stack without
            # faults.
            if kill.faults:
                self.project.command("destroy")
                self.project.up()

    def _until_killed(self, kill: Kill) -> None:
        """Start a command and kill it.

        If the command finishes before the kill, run it again and kill it earlier.
        """
        while not self._killed(kill):
            kill.share /= 2
            if kill.command == "destroy":
                self.project.up()

    def _killed(self, kill: Kill) -> bool:
        moment = kill.share * self.took.get(kill.command, FIRST)
        mark = os.urandom(8).hex()
        started = time.monotonic()
        process = subprocess.Popen(
            ["venv/bin/python", "-m", "gpu_cluster.commands", kill.command],
            cwd=self.project.root,
            env={**self.project.environment, MARK: mark, "VERBOSE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            kill.output, _ = process.communicate(timeout=moment)
            self.took[kill.command] = time.monotonic() - started
            if process.returncode:
                kill.faults.append(f"`{kill.command}` fails before it is killed")
            return process.returncode != 0
        for pid in _victims(kill.victim, process.pid, mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        kill.output, _ = process.communicate(timeout=LIMIT)
        return process.returncode != 0

    def _heal(self, kill: Kill) -> None:
        """Run `up` twice: the first run must repair the stack, the second must change nothing."""
        started = time.monotonic()
        healing = self.project.command("up")
        self.took.setdefault("up", time.monotonic() - started)
        if fault := self._judged(healing, "first `up`"):
            kill.faults.append(fault)
        quiet = self.project.command("up")
        if fault := self._judged(quiet, "second `up`", changed=0):
            kill.faults.append(fault)
        if "refresh" in quiet.stdout:
            kill.faults.append(f"the second `up` refreshes:\n{quiet.stdout}")
        kill.faults += self._left()

    def _judged(
        self, done: subprocess.CompletedProcess[str], run: str, changed: int | None = None
    ) -> str:
        last = (done.stdout.strip().splitlines() or [""])[-1]
        if done.returncode:
            return f"the {run} fails:\n{done.stdout}"
        counted = figures(last)
        gpus = sum(pool.gpus for pool in load(self.project.read()).pools)
        if counted[:2] != (gpus, gpus) or changed not in (None, counted[2]):
            return f"the {run} ends with {last!r}:\n{done.stdout}"
        return ""

    def _left(self) -> Iterator[str]:
        """Yield what is still unfinished although `up` has succeeded."""
        if '"pending_operations": [' in self.project.checkpoint():
            yield "the state holds pending operations"
        for secret in self.project.request("GET", "secrets")["items"]:
            if secret.get("type") == helm_record.TYPE:
                status = secret["metadata"]["labels"]["status"]
                if status not in ("deployed", "superseded", "failed"):
                    yield f"Helm's record {secret['metadata']['name']} is {status}"
        for job in self.project.request("GET", JOBS, base="/apis/batch")["items"]:
            if not job["metadata"].get("deletionTimestamp"):
                yield f"Job {job['metadata']['name']} of a validation is left"
        for node in self.project.request("GET", "nodes")["items"]:
            if "gpu-" in node["metadata"]["name"] and record.decode(node) is None:
                yield f"node {node['metadata']['name']} has no record of its validation"


def _victims(victim: str, command: int, mark: str) -> list[int]:
    """Return the pids of the processes to kill; the pid of the command itself is the last."""
    if victim == "engine":
        return engines(mark) or [command]
    others = [pid for pid in _marked(mark) if pid != command]
    return [command] if victim == "command" else [*others, command]


def engines(mark: str) -> list[int]:
    """Return the pids of the Pulumi engines of the command that was started with this mark.

    The mark is an environment variable, which all processes of the command inherit.
    """
    return [pid for pid in _marked(mark) if _name(pid) == "pulumi"]


def _marked(mark: str) -> list[int]:
    wanted = f"{MARK}={mark}".encode()
    marked = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (path / "environ").read_bytes().split(b"\0"):
                marked.append(int(path.name))
    return marked


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
