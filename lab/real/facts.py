"""Facts: checks of real nodes that need devices, kubelets and runtimes the simulator lacks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu_cluster_lab.simulator import marks
from lab.real import objects
from lab.real.behaviours import plugin_pod, restart_plugin
from lab.real.lab import GPUS, REAL, Json, Lab
from lab.real.node import RealError

CONFIG = "/etc/nvidia-container-runtime/config.toml"
UNPRIVILEGED = "accept-nvidia-visible-devices-envvar-when-unprivileged"


@dataclass(frozen=True)
class Fact:
    """Behaviour of real components that is checked without comparing it to the simulator.

    Attributes:
        name: Name of the fact.
        check: Function that raises an error if the behaviour differs.
        key: Name of the device plugin configuration under which the check runs.
    """

    name: str
    check: Callable[[Lab], None]
    key: str = "default"


def require(subject: str, found: Any, wanted: Any) -> None:
    """Raise an error if two values differ.

    Raises:
        RealError: The values differ; the message has both.
    """
    if found != wanted:
        cure = "see docs/explanation/real-parts.md"
        raise RealError(f"{subject}: found {found}; wanted: {wanted}; cure: {cure}")


def sights(lab: Lab, pod: Json) -> list[Json]:
    """Return what the test program `probe` in each container of a pod has reported as JSON."""
    node = lab.nodes[pod["spec"]["nodeName"]]

    def inspect() -> list[Json]:
        texts = [node.pod_log(pod, container["name"]) for container in pod["spec"]["containers"]]
        return [json.loads(text.splitlines()[0]) for text in texts if text]

    containers = len(pod["spec"]["containers"])
    return lab.until(
        f"pod {pod['metadata']['name']}", inspect, lambda sight_list: len(sight_list) == containers
    )


def seen_by(lab: Lab, pod: Json) -> list[Json]:
    """Create a pod of `probe` containers, wait until it runs, and return what they report."""
    name = lab.create(pod)["metadata"]["name"]
    return sights(lab, lab.wait_phase(name, "Running"))


def allocate(lab: Lab) -> int:
    """Allocate each GPU of both real nodes to a separate container.

    Return how many UUIDs were seen.
    """
    count = 0
    for name in REAL:
        mock = lab.nodes[name].mock
        sight_list = seen_by(lab, objects.gpu_pod(f"all-{name}", name, (1,) * GPUS, "hold"))
        for container in sight_list:
            require(f"{name}: GPUs in a container", len(container["uuids"]), 1)
            index = mock.uuids.index(container["uuids"][0])
            require(
                f"{name}: device nodes in a container", container["nodes"], [f"/dev/nvidia{index}"]
            )
        count += len({container["uuids"][0] for container in sight_list})
        lab.delete(f"all-{name}")
    return count


def _mock_is_named(lab: Lab) -> None:
    (sight,) = seen_by(lab, objects.gpu_pod("named", REAL[0], (1,), "hold"))
    lab.delete("named")
    require("name of a GPU", sight["names"][0].startswith("Mock "), True)
    require("version of NVML", sight["version"].endswith("-mock"), True)
    require("UUID of a GPU", sight["uuids"][0].startswith("GPU-6d6f636b-"), True)


def _none_without_request(lab: Lab) -> None:
    (sight,) = seen_by(lab, objects.gpu_pod("none", REAL[0], (0,), "hold"))
    lab.delete("none")
    require("device nodes of a pod without a request", sight["nodes"], [])


def _several_see_several(lab: Lab) -> None:
    first, second = seen_by(lab, objects.gpu_pod("several", REAL[0], (3, 5), "hold"))
    lab.delete("several")
    require("GPUs of a container that asks for 3", len(first["nodes"]), 3)
    require("GPUs of both", len({*first["uuids"], *second["uuids"]}), GPUS)


def _passed_over(kind: str, xid: int, words: str) -> Callable[[Lab], None]:
    def check(lab: Lab) -> None:
        node = lab.nodes[REAL[0]]
        node.mock.fault(1, kind, xid)
        node.mock.write(node.state)
        (pod,) = lab.pods(node.name, **objects.LABELS)
        lab.until(
            f"log of the plugin: {words}",
            lambda: node.pod_log(pod),
            lambda log_text: words in log_text,
        )
        node.mock.heal()
        node.mock.write(node.state)
        require("GPUs", lab.offered(node.name)[marks.GPU], (GPUS, GPUS))

    return check


def _restart_keeps(restart: Callable[[Lab, str], None]) -> Callable[[Lab], None]:
    """Return a check that a pod keeps its GPUs while `restart` restarts a component.

    After the restart, no other pod may get these GPUs.
    """

    def check(lab: Lab) -> None:
        name = REAL[0]
        (holder_sight,) = seen_by(lab, objects.gpu_pod("holder", name, (5,), "hold"))
        restart(lab, name)
        lab.wait_offered(name, marks.GPU, (GPUS, GPUS))
        require("phase of the holder", lab.pod("holder")["status"]["phase"], "Running")
        (other_sight,) = seen_by(lab, objects.gpu_pod("others", name, (GPUS - 5,), "hold"))
        require("GPUs given twice", set(holder_sight["uuids"]) & set(other_sight["uuids"]), set())
        lab.delete("holder")
        lab.delete("others")

    return check


def _restart_kubelet(lab: Lab, name: str) -> None:
    lab.nodes[name].stop_kubelet()
    lab.nodes[name].start_kubelet()
    # After its restart the kubelet advertises no GPUs until the device plugin has registered again.
    lab.until(
        "plugin's pod", lambda: plugin_pod(lab, name), lambda phase: phase == ("Running", True)
    )


def _admission_message(lab: Lab) -> None:
    pod = objects.gpu_pod("bound", REAL[0], (GPUS + 1,))
    pod["spec"]["nodeName"] = REAL[0]
    lab.create(pod)
    message = lab.wait_phase("bound", "Failed")["status"]["message"]
    lab.delete("bound")
    pattern = rf"Requested: {GPUS + 1}, Available: {GPUS}, which is unexpected"
    require("message of UnexpectedAdmissionError", bool(re.search(pattern, message)), True)


def _by_environment(accepted: bool | None, count: int) -> Callable[[Lab], None]:
    """Return a check of how many GPUs an unprivileged pod gets by NVIDIA_VISIBLE_DEVICES.

    The pod requests no GPU, but sets this environment variable to `all`.

    Args:
        accepted: Value for the setting `UNPRIVILEGED` of the NVIDIA Container Toolkit; None keeps
            the value that the host preparation wrote.
        count: Expected number of GPUs.
    """

    def check(lab: Lab) -> None:
        node = lab.nodes[REAL[1]]
        setting = f"{UNPRIVILEGED} = {str(accepted).lower()}"
        if accepted is not None:
            change = f"s/^#*{UNPRIVILEGED} = .*/{setting}/"
            node.run(f"sed -i '{change}' {CONFIG}; grep -x '{setting}' {CONFIG}")
        pod = objects.gpu_pod("thief", node.name, (0,), "hold")
        pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
        (sight,) = seen_by(lab, pod)
        lab.delete("thief")
        require("GPUs named by an environment variable", len(sight["nodes"]), count)

    return check


def _check_discovery(lab: Lab) -> None:
    pod = objects.gpu_pod("discovery", REAL[0], (0,))
    container = pod["spec"]["containers"][0]
    program = "/usr/bin/gpu-feature-discovery"
    container["command"] = [program, "--oneshot", "--use-node-feature-api=false", "--output-file="]
    container["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    container["securityContext"] = {"privileged": True}
    lab.create(pod)
    ended = lab.wait_phase("discovery", "Succeeded", "Failed")
    labels = lab.nodes[REAL[0]].pod_log(ended).splitlines()
    lab.delete("discovery")
    for label in (f"count={GPUS}", "product=Mock-NVIDIA-A100-SXM4-40GB", "memory=40960"):
        require(f"label gpu.{label}", f"nvidia.com/gpu.{label}" in labels, True)


def _shared_twice(lab: Lab) -> None:
    sight_list = seen_by(lab, objects.gpu_pod("twice", REAL[0], (1,) * (2 * GPUS), "hold"))
    lab.delete("twice")
    uuids = [container["uuids"][0] for container in sight_list]
    require("GPUs of 16 containers", sorted({uuids.count(uuid) for uuid in uuids}), [2])


FACTS = (
    Fact("names, versions and UUIDs say that it is a mock", _mock_is_named),
    Fact("a pod without a request sees no GPU", _none_without_request),
    Fact("containers that ask for 3 and 5 see 3 and 5 others", _several_see_several),
    Fact(
        "an XID of an application withdraws nothing",
        _passed_over("xid", 13, "Skipping event"),
    ),
    Fact(
        "an ECC event withdraws nothing",
        _passed_over("ecc", 0, "Skipping non-nvmlEventTypeXidCriticalError"),
    ),
    Fact("through a restart of the plugin pods keep their GPUs", _restart_keeps(restart_plugin)),
    Fact("through a restart of the kubelet pods keep their GPUs", _restart_keeps(_restart_kubelet)),
    Fact("UnexpectedAdmissionError says requested and available", _admission_message),
    Fact(
        "on prepared nodes an unprivileged pod gets no GPU by an environment variable",
        _by_environment(None, 0),
    ),
    Fact(
        f"with {UNPRIVILEGED} = true, as installed, it gets all",
        _by_environment(True, GPUS),
    ),
    Fact("feature discovery labels GPUs, product and memory", _check_discovery),
    Fact("under time-slicing 16 containers share 8 GPUs, each twice", _shared_twice, "shared"),
)
