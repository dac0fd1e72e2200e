"""Functions that read results of validation and tests, and the pods that remain afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gpu_cluster.validation.job import job_name
from lab.real import pod_inspections, stack_inspections
from lab.real.behaviours import Inspect
from lab.real.lab import Json, Lab

#: Namespace of these validations. It differs from the namespace that the stack of later steps
#: creates.
NAMESPACE = "gpu-proof"


def result(inspect: Callable[[Json], Any]) -> Inspect:
    """Return a function that reads a node's validation result, or the error of a failed one."""

    def looked(lab: Lab, node: str) -> Any:
        output = lab.said[node]
        return inspect(output["nodes"][0]) if "nodes" in output else output

    return looked


def counts(entry: Json) -> tuple[int, int, int, list[str]]:
    """Return from a validation result the GPU counts of `few`, and the recorded devices."""
    return (*few(entry), sorted(entry["devices"]))


def few(entry: Json) -> tuple[int, int, int]:
    """Return from a validation result the numbers of computed, simulated and deferred GPUs."""
    return entry["computed"], entry["simulated"], entry["deferred"]


def failure(lab: Lab, node: str) -> Any:
    """Return the error lines of the validation program."""
    return lab.said[node].get("faults", lab.said[node])


def failing(lab: Lab, node: str) -> list[str]:
    """Return the devices on which kernels failed, as named in the validation program's errors."""
    output = " ".join(failure(lab, node))
    return sorted(re.findall(r"((?:GPU|MIG) [0-9:]+): exit code 1", output))


def twice(lab: Lab, node: str) -> list[str]:
    """Return the GPUs that the validation program reports as given to two containers."""
    output = " ".join(failure(lab, node))
    return sorted(re.findall(r"(GPU \d+): the device plugin gave it to 2 containers", output))


def silent(lab: Lab, node: str) -> list[str]:
    """Return the GPUs whose containers succeeded, but whose logs don't prove that a kernel ran."""
    output = " ".join(failure(lab, node))
    return sorted(re.findall(r"(GPU \d+): its log has no line 'Test PASSED'", output))


def quoted_shortage(lab: Lab, node: str) -> str:
    """Return the validation program's error about missing GPUs.

    The message of the device plugin, which the error quotes, is cut off.
    """
    output = re.match(r"node NODE: found (.+?\))(;| \()", failure(lab, node)[0])
    return output[1] if output else str(failure(lab, node))


def measured(lab: Lab, node: str) -> Any:
    """Return what the user-defined tests measured, or the error if the test program failed."""
    output = lab.said[node]
    keys = ("figure", "problem", "skipped", "simulated")
    return (
        [[test[key] for key in keys] for test in output["tests"]] if "tests" in output else output
    )


def validation_pod(lab: Lab, node: str) -> Json | None:
    """Return the status of the node's validation pod, or None if there is no pod."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    selector = f"batch.kubernetes.io/job-name={job_name(node)}"
    pods = lab.request("GET", path, labelSelector=selector)["items"]
    return pods[-1]["status"] if pods else None


def ends(lab: Lab, node: str) -> list[tuple[int, str]]:
    """Return exit code and reason of each ended container of the node's validation pod."""
    return sorted(pod_inspections.ends(validation_pod(lab, node) or {}))


def left(lab: Lab, node: str) -> int:
    """Return the number of validation pods that still exist on the node."""
    return len(stack_inspections.pods(lab, node, NAMESPACE))
