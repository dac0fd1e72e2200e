"""Checks of MPS on real nodes, with NVIDIA's device plugin and `mps-control-daemon`.

`mps-control-daemon` is NVIDIA's program that starts the closed-source daemon
`nvidia-cuda-mps-control`. A small test program, `probe`, replaces that daemon and records the
commands sent to it.
"""

from __future__ import annotations

from functools import partial

from gpu_cluster_lab.simulator import marks
from lab.real import objects
from lab.real.behaviours import restart_plugin
from lab.real.facts import Fact, require, seen_by
from lab.real.lab import GPUS, REAL, Lab

NODE = REAL[0]
_PIPE = f"/mps/{marks.GPU}/pipe"
_TOLD = f"{objects.MPS_ROOT}/{marks.GPU}/pipe/told"
_SETS = "/apis/apps/v1/namespaces/default/daemonsets"


def _log(lab: Lab, labels: dict[str, str]) -> str:
    pods = lab.pods(NODE, **labels)
    return lab.nodes[NODE].pod_log(pods[0]) if pods else ""


def _wait_for_log(lab: Lab, labels: dict[str, str], words: str) -> None:
    lab.until(words, partial(_log, lab, labels), lambda text: words in text)


def _check_daemon_settings(lab: Lab) -> None:
    lab.wait_offered(NODE, marks.GPU, (2 * GPUS, 2 * GPUS))
    first, *further_lines = lab.nodes[NODE].run(f"cat {_TOLD}").splitlines()
    require("start of the daemon", first, f"-d {_PIPE} /mps/{marks.GPU}/log")
    limits = [f"set_default_device_pinned_mem_limit {index} 20480M" for index in range(GPUS)]
    expected = [*limits, "set_default_active_thread_percentage 50"]
    require("what the daemon is told", sorted(further_lines), sorted(expected))


def _check_client_folders(lab: Lab) -> None:
    first, second = seen_by(lab, objects.gpu_pod("clients", NODE, (1, 1), "hold"))
    lab.delete("clients")
    require("folders of the daemon", [first["pipe"], second["pipe"]], [_PIPE, _PIPE])


def _check_restart(lab: Lab) -> None:
    lab.request("DELETE", f"{_SETS}/{objects.MPS}", propagationPolicy="Foreground")
    path = f"{_SETS}/{objects.MPS}"
    lab.until("the daemon's end", partial(lab.exists, path), lambda exists: not exists)
    restart_plugin(lab, NODE)
    _wait_for_log(lab, objects.LABELS, "error checking MPS daemon health")
    require("GPUs without a daemon", lab.offered(NODE)[marks.GPU][1], 0)
    lab.request("POST", _SETS, objects.mps_pods("mps"))
    lab.wait_offered(NODE, marks.GPU, (2 * GPUS, 2 * GPUS))


def _check_too_many(lab: Lab) -> None:
    _wait_for_log(lab, {"app": objects.MPS}, "maximum allowed replicas exceeded: 49 > 48")
    _wait_for_log(lab, objects.LABELS, "error checking MPS daemon health")
    require("GPUs with 49 replicas", lab.offered(NODE)[marks.GPU][1], 0)


FACTS = (
    Fact("MPS's daemon is told memory and threads of a replica", _check_daemon_settings, "mps"),
    Fact("containers under MPS are sent to its daemon", _check_client_folders, "mps"),
    Fact(
        "without MPS's daemon the plugin offers none, and all once it is there",
        _check_restart,
        "mps",
    ),
    Fact("MPS's daemon takes no more than 48 replicas of a GPU", _check_too_many, "crowded"),
)
