"""Cases of device plugin configurations: GPU sharing, MIG strategies, and ways to pass devices."""

from __future__ import annotations

from lab.real.behaviours import (
    both,
    gpus,
    make,
    refused,
    running,
    unmake,
)
from lab.real.case import Case, Phase
from lab.real.lab import GPUS
from lab.real.pod_inspections import short_of

_SHARING = "k8s-device-plugin v0.19.3, internal/rm/device_map.go"
_SERVER = "k8s-device-plugin v0.19.3, internal/plugin/server.go"
_HEALTH = "k8s-device-plugin v0.19.3, internal/rm/health.go"
_FLAGS = "k8s-device-plugin v0.19.3, api/config/v1/flags.go"
_MPS = "k8s-device-plugin v0.19.3, api/config/v1/config.go, FailRequestsGreaterThanOne"
_FIT = "kubernetes v1.34.4, pkg/scheduler/framework/plugins/noderesources/fit.go"
_WAITS = ("Pending", True)


def _counting_phase(key: str, name: str, count: int, source: str = _FLAGS) -> Phase:
    return Phase(key, (Case(name, gpus, (count, count), source),))


PHASES = (
    Phase(
        "four",
        (
            Case("four replicas of a GPU count four times", gpus, (32, 32), _SHARING),
            Case(
                "two containers get all replicas",
                running("crowd"),
                ("Running", 2),
                _SHARING,
                make("crowd", 20, 12),
            ),
            Case("one more waits", short_of("last"), _WAITS, _FIT, make("last", 1)),
            Case(
                "a container may ask for several replicas",
                running("several"),
                ("Running", 1),
                _SERVER,
                both(unmake("crowd", "last"), make("several", 5)),
            ),
        ),
    ),
    Phase(
        "alone",
        (
            Case("replicas that are given one by one count as others", gpus, (16, 16), _SHARING),
            Case(
                "a container gets one of them",
                running("single"),
                ("Running", 1),
                _SERVER,
                make("single", 1),
            ),
            Case(
                "a container that asks for two of them is refused",
                refused("double"),
                ("Failed", "UnexpectedAdmissionError"),
                _SERVER,
                make("double", 2),
            ),
        ),
    ),
    Phase(
        "mps",
        (
            Case("GPUs shared by MPS count twice", gpus, (16, 16), _SHARING),
            Case(
                "containers get one of them each",
                running("both"),
                ("Running", 2),
                _MPS,
                make("both", 1, 1),
            ),
            Case(
                "a container that asks for two of those shared by MPS is refused",
                refused("pair"),
                ("Failed", "UnexpectedAdmissionError"),
                _MPS,
                both(unmake("both"), make("pair", 2)),
            ),
        ),
    ),
    _counting_phase("single", "strategy single on GPUs without MIG offers GPUs", GPUS),
    _counting_phase("mixed", "strategy mixed on GPUs without MIG offers GPUs", GPUS),
    _counting_phase("index", "GPUs named by index are offered as by UUID", GPUS),
    _counting_phase("variable", "GPUs listed by a variable are offered as by mounts", GPUS),
    _counting_phase("specs", "GPUs with device specifications are offered as without", GPUS),
)
