"""B6, the checker: check 10,000 pod manifests, compared with kyverno's CLI and kube-linter.

kyverno and kube-linter evaluate those of their rules that resemble this project's rules. This
project's checker evaluates all of its rules. One rule exists in all three tools; each tool must
report the same number of pods that violate this rule.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.machine.tool import ToolchainError
from lab.benchmarks.measure import BenchmarkError, Sample, ratio, timed
from lab.benchmarks.peers import PEERS, tool
from lab.benchmarks.project import ROOT

GOALS = {"kyverno": 0.3, "kube-linter": 1.0}
"""Highest time of this project's checker, as a factor of the time of each other tool."""
PODS = 10_000
WRONG_EACH = 100
"""One of this number of pods has a privileged container."""
ROUNDS = 3

KYVERNO_RULES: dict[str, Any] = {
    "not-privileged": {"containers": [{"=(securityContext)": {"=(privileged)": "false"}}]},
    "tagged": {"containers": [{"image": "!*:latest"}]},
    "requests": {"containers": [{"resources": {"requests": {"cpu": "?*", "memory": "?*"}}}]},
    "no-host-path": {"=(volumes)": [{"X(hostPath)": "null"}]},
}
KUBE_LINTER_RULES = (
    "privileged-container",
    "latest-tag",
    "unset-cpu-requirements",
    "unset-memory-requirements",
    "sensitive-host-mounts",
)


def _kyverno_command(tool: Path, rules: Path, pods: Path) -> list[str]:
    return [str(tool), "apply", str(rules / "kyverno.yaml"), "--resource", str(pods)]


def _kube_linter(tool: Path, rules: Path, pods: Path) -> list[str]:
    return [str(tool), "lint", "--config", str(rules / "kube-linter.yaml"), str(pods)]


def _kyverno_wrong(output: str) -> int:
    match = re.search(r"fail: (\d+)", output)
    return int(match[1]) if match else 0


@dataclass(frozen=True)
class Compared:
    """Command of a tool, and how to parse its output.

    Attributes:
        command: Function that returns the command line for a program, a folder of rules and a
            folder of pods.
        wrong: Function that reads from the tool's output how many pods are privileged.
    """

    command: Callable[[Path, Path, Path], list[str]]
    wrong: Callable[[str], int]


COMPARED = {
    "kyverno": Compared(_kyverno_command, _kyverno_wrong),
    "kube-linter": Compared(
        _kube_linter, lambda output: output.count("(check: privileged-container")
    ),
}


def _sample_pod(index: int) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "train",
        "image": f"registry.example.com/team/train:{index % 17}.0",
        "command": ["python", "-m", "train", "--epochs", "10"],
        "env": [{"name": "EPOCHS", "value": "10"}, {"name": "RUN", "value": f"run-{index}"}],
        "resources": {
            "requests": {"cpu": "4", "memory": "16Gi"},
            "limits": {"memory": "16Gi", "nvidia.com/gpu": 1 + index % 4},
        },
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108
        "securityContext": {"privileged": index % WRONG_EACH == 0, "runAsNonRoot": True},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"train-{index}", "namespace": f"team-{index % 9}"},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"nvidia.com/gpu": "true"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "containers": [container],
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
        },
    }


def _write_inputs(folder: Path) -> None:
    """Write the test pods, one per file, and the equivalent rules for kyverno and kube-linter."""
    (folder / "pods").mkdir()
    for index in range(PODS):
        text = yaml.dump(_sample_pod(index), Dumper=yaml.CSafeDumper, sort_keys=False)
        (folder / "pods" / f"{index:05}.yaml").write_text(text)
    policy = {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {
            "name": "pods",
            "annotations": {"pod-policies.kyverno.io/autogen-controllers": "none"},
        },
        "spec": {
            "background": True,
            "rules": [
                {
                    "name": name,
                    "match": {"any": [{"resources": {"kinds": ["Pod"]}}]},
                    "validate": {"message": name, "pattern": {"spec": pattern}},
                }
                for name, pattern in KYVERNO_RULES.items()
            ],
        },
    }
    (folder / "kyverno.yaml").write_text(yaml.safe_dump(policy))
    checks = {"checks": {"doNotAutoAddDefaults": True, "include": list(KUBE_LINTER_RULES)}}
    (folder / "kube-linter.yaml").write_text(yaml.safe_dump(checks))


def _our_command(pods: Path) -> list[str]:
    options = ["--scope", "object", "--format", "json"]
    return [sys.executable, "-m", "gpu_rules.check", str(pods), *options]


def _count_wrong(output: str) -> int:
    violations = json.loads(output)["violations"]
    privileged = [item for item in violations if item["path"].endswith("privileged")]
    return len({violation["subject"] for violation in privileged})


def _run_tool(command: list[str], wrong: Callable[[str], int]) -> Sample:
    """Run a tool once and measure it.

    The tool must exit with 0 or 1, and report the expected number of privileged pods.
    """
    given = ["sh", "-c", '"$@"; test $? -le 1', "sh", *command]
    sample, output = timed(given, ROOT, {**os.environ, "NO_COLOR": "1"})
    if (count := wrong(output)) != PODS // WRONG_EACH:
        raise BenchmarkError(f"{command[0]}: {count} wrong pods found, {PODS // WRONG_EACH} wanted")
    return sample


def run() -> dict[str, Any]:
    """Measure, print and return the times of this project's checker and the compared tools.

    Returns:
        `met`: True if the checker meets its goal against each available tool; `missing`: the reason
            for each unavailable tool; `seconds`: samples of all runs by tool; `ratios`: ratio by
            tool.
    """
    tools: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for name in COMPARED:
        try:
            tools[name] = tool(name)
        except (BenchmarkError, ToolchainError) as error:
            missing[name] = str(error)
            print(f"B6: {name} {PEERS[name].version} cannot be built: {error}")
    seconds: dict[str, list[Sample]] = {name: [] for name in ("ours", *tools)}
    with tempfile.TemporaryDirectory(prefix="checker-") as place:
        folder = Path(place)
        _write_inputs(folder)
        pods = folder / "pods"
        for _ in range(ROUNDS):
            seconds["ours"].append(_run_tool(_our_command(pods), _count_wrong))
            for name, path in tools.items():
                command = COMPARED[name].command(path, folder, pods)
                seconds[name].append(_run_tool(command, COMPARED[name].wrong))
    for name, samples in seconds.items():
        wall, cpu = (statistics.median(getattr(s, key) for s in samples) for key in ("wall", "cpu"))
        print(f"B6: {PODS} pods by {name}: {wall:.1f} s, {cpu:.1f} s of processor time")
    walls = {name: [sample.wall for sample in samples] for name, samples in seconds.items()}
    ratios = {name: ratio(walls["ours"], walls[name]) for name in tools}
    return {
        "goals": GOALS,
        "pods": PODS,
        "ratios": ratios,
        "missing": missing,
        "seconds": seconds,
        "met": bool(ratios) and all(value <= GOALS[name] for name, value in ratios.items()),
    }
