"""Observations of validation and test results, and of the pods that they leave."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from components.validation.job import job_name
from lab.real import pod_inspections, stack_inspections
from lab.real.behaviours import Inspect
from lab.real.lab import Json, Lab

#: Namespace of these validations; the stack of later steps creates its own namespace.
NAMESPACE = "gpu-proof"


def result(inspect: Callable[[Json], Any]) -> Inspect:
    """Return an observation of the node's validation result, or of the error if it failed."""

    def looked(lab: Lab, node: str) -> Any:
        said = lab.said[node]
        return inspect(said["nodes"][0]) if "nodes" in said else said

    return looked


def counts(entry: Json) -> tuple[int, int, int, list[str]]:
    """Return the numbers of computed, simulated and deferred GPUs, and the recorded devices."""
    return (*few(entry), sorted(entry["devices"]))


def few(entry: Json) -> tuple[int, int, int]:
    """Return the numbers of computed, simulated and deferred GPUs."""
    return entry["computed"], entry["simulated"], entry["deferred"]


def failure(lab: Lab, node: str) -> Any:
    """Return the error lines of the program that failed."""
    return lab.said[node].get("faults", lab.said[node])


def failing(lab: Lab, node: str) -> list[str]:
    """Return the devices on which kernels failed, as named by the program."""
    said = " ".join(failure(lab, node))
    return sorted(re.findall(r"((?:GPU|MIG) [0-9:]+): exit code 1", said))


def twice(lab: Lab, node: str) -> list[str]:
    """Return the GPUs that were given to two containers, as named by the program."""
    said = " ".join(failure(lab, node))
    return sorted(re.findall(r"(GPU \d+): the device plugin gave it to 2 containers", said))


def silent(lab: Lab, node: str) -> list[str]:
    """Return the GPUs whose containers succeeded without the line that proves a kernel's run."""
    said = " ".join(failure(lab, node))
    return sorted(re.findall(r"(GPU \d+): its log has no line 'Test PASSED'", said))


def shortfall(lab: Lab, node: str) -> str:
    """Return what the program reports about missing GPUs, without the plugin's own message."""
    said = re.match(r"node NODE: found (.+?\))(;| \()", failure(lab, node)[0])
    return said[1] if said else str(failure(lab, node))


def measured(lab: Lab, node: str) -> Any:
    """Return what the test measured, or the error if it failed."""
    said = lab.said[node]
    keys = ("figure", "problem", "skipped", "simulated")
    return [[each[key] for key in keys] for each in said["tests"]] if "tests" in said else said


def validation_pod(lab: Lab, node: str) -> Json | None:
    """Return the status of the node's validation pod, or None if there is no pod."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    selector = f"batch.kubernetes.io/job-name={job_name(node)}"
    found = lab.request("GET", path, labelSelector=selector)["items"]
    return found[-1]["status"] if found else None


def ends(lab: Lab, node: str) -> list[tuple[int, str]]:
    """Return how the containers of the node's validation pod ended."""
    return sorted(pod_inspections.ends(validation_pod(lab, node) or {}))


def left(lab: Lab, node: str) -> int:
    """Return the number of validation pods that remain on the node."""
    return len(stack_inspections.pods(lab, node, NAMESPACE))
