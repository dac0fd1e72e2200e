"""What our validation and our tests said of a node, and what they left there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from components.validation.pod import pod_name
from lab.real import pod_inspections, stack_inspections
from lab.real.behaviours import Inspect
from lab.real.lab import Json, Lab

#: Of these validations alone: the stack, which comes later, makes its own.
NAMESPACE = "gpu-proof"


def result(inspect: Callable[[Json], Any]) -> Inspect:
    """A look at the node in the validation's result; what it said where it failed."""

    def looked(lab: Lab, node: str) -> Any:
        said = lab.said[node]
        return inspect(said["nodes"][0]) if "nodes" in said else said

    return looked


def counts(entry: Json) -> tuple[int, int, int, list[str]]:
    """GPUs computed, simulated and deferred, and which ones are in the record."""
    return (*few(entry), sorted(entry["devices"]))


def few(entry: Json) -> tuple[int, int, int]:
    """GPUs computed, simulated and deferred."""
    return entry["computed"], entry["simulated"], entry["deferred"]


def failure(lab: Lab, node: str) -> Any:
    """The lines of the errors with which the program failed."""
    return lab.said[node].get("faults", lab.said[node])


def failing(lab: Lab, node: str) -> list[str]:
    """Devices on which no kernel ran, as the program names them."""
    said = " ".join(failure(lab, node))
    return sorted(re.findall(r"((?:GPU|MIG) [0-9:]+): exit code 1", said))


def twice(lab: Lab, node: str) -> list[str]:
    """Which GPUs the program says were given to two containers."""
    said = " ".join(failure(lab, node))
    return sorted(re.findall(r"(GPU \d+): the device plugin gave it to 2 containers", said))


def silent(lab: Lab, node: str) -> list[str]:
    """GPUs whose containers ended well without the line that proves something."""
    said = " ".join(failure(lab, node))
    return sorted(re.findall(r"(GPU \d+): its log has no line 'Test PASSED'", said))


def shortfall(lab: Lab, node: str) -> str:
    """What the program reports about too few GPUs; why is the plugin's to say."""
    said = re.match(r"node NODE: found (.+?\))(;| \()", failure(lab, node)[0])
    return said[1] if said else str(failure(lab, node))


def measured(lab: Lab, node: str) -> Any:
    """What the test measured; what the program said where it failed."""
    said = lab.said[node]
    keys = ("figure", "problem", "skipped", "simulated")
    return [[each[key] for key in keys] for each in said["tests"]] if "tests" in said else said


def validation_pod(lab: Lab, node: str) -> Json | None:
    """Status of the node's validation pod; None where it has none."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod_name(node)}"
    return lab.request("GET", path)["status"] if lab.exists(path) else None


def ends(lab: Lab, node: str) -> list[tuple[int, str]]:
    """How the containers of the node's validation pod ended."""
    return sorted(pod_inspections.ends(validation_pod(lab, node) or {}))


def left(lab: Lab, node: str) -> int:
    """Pods of ours that are still there."""
    return len(stack_inspections.pods(lab, node, NAMESPACE))
