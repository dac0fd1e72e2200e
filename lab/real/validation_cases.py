"""Cases of validation: faulty GPUs, GPUs in use, slow GPUs, and user-defined tests."""

from __future__ import annotations

from functools import reduce

from lab.real.behaviours import both, gpus, heal, restart_plugin, running, unmake
from lab.real.case import Case, Phase
from lab.real.lab import GPUS
from lab.real.objects import time_slicing
from lab.real.stack_inspections import notes
from lab.real.validating import broken, forgets, holds, meanwhile, measures, validates, withdraws
from lab.real.validation_inspections import (
    counts,
    ends,
    failure,
    few,
    left,
    measured,
    quoted_shortage,
    result,
    silent,
    twice,
)

_OURS = "docs/explanation/validation.md"
_PLUGIN = "k8s-device-plugin v0.19.3, internal/plugin/server.go"
_SHARING = "k8s-device-plugin v0.19.3, internal/rm/device_map.go"
_HEALTH = "k8s-device-plugin v0.19.3, internal/rm/health.go"
_KUBELET = "kubernetes v1.34.4, pkg/kubelet/kubelet_pods.go"
_SCHEDULER = "kubernetes v1.34.4, pkg/scheduler/framework/preemption/preemption.go"

_FREE = "7 GPUs free; wanted: 8"
_NAMES = [f"GPU {index}" for index in range(GPUS)]
_ALL = (0, GPUS, 0, _NAMES)
_ERROR = "Failed to allocate device vector A (error code system not yet initialized)!"
_POOL = (
    "pool gpus: found 1 of 1 nodes whose GPUs did not all run a kernel; wanted: all 8 GPUs of "
    "each; cure: repair these nodes, then run again"
)


def _failed_lines(found: str) -> list[str]:
    cure = "repair the node, then run `gpu-cluster validate --nodes NODE`"
    node = f"node NODE: found {found}; wanted: all 8 GPUs run a kernel; cure: {cure}"
    return [node, _POOL]


def _measured_lines(found: str) -> list[str]:
    return [
        f"test all-reduce on node NODE: found {found}; wanted: exit code 0, with 350 at least; "
        "cure: read the output of the test's program on that node",
        "tests: found 1 of 1 tests failed; wanted: no failed test; "
        "cure: repair these nodes, or lower the test's `minimum`",
    ]


_ALL_BROKEN = reduce(
    both, [broken("kernel", index, 0, "validation-fails") for index in range(GPUS)]
)
_HELD = "5 of 8 devices free; default/busy-NODE (Running, holds 3)"

_KERNELS = (
    Case(
        "each GPU of a node is validated, by its UUID", result(counts), _ALL, _PLUGIN, validates()
    ),
    Case(
        "a kernel that fails on one GPU names it, the exit code and the last line",
        failure,
        _failed_lines(f"GPU 5: exit code 1; its last line: {_ERROR}"),
        _OURS,
        both(broken("kernel", 5, 0, "kernel-fails=5"), validates()),
    ),
    Case(
        "its container alone has failed",
        ends,
        [(0, "Completed")] * (GPUS - 1) + [(1, "Error")],
        _KUBELET,
    ),
    Case("a node that failed has no record", notes, [], _OURS),
    Case(
        "a kernel that says nothing proves nothing",
        silent,
        _NAMES,
        _OURS,
        both(both(heal, broken("silent", -1, 0, "validation-silent")), validates()),
    ),
    Case(
        "where no GPU computes all containers fail",
        ends,
        [(1, "Error")] * GPUS,
        _KUBELET,
        both(both(heal, _ALL_BROKEN), validates()),
    ),
    Case(
        "with its kernels back each GPU counts again",
        result(counts),
        _ALL,
        _OURS,
        both(heal, validates()),
    ),
    Case("no pod of a validation that passed is left", left, 0, _OURS),
)

_BUSY = (
    Case(
        "GPUs that a pod holds are deferred, the others are validated",
        result(few),
        (0, 5, 3),
        _OURS,
        both(holds("busy", 3), validates()),
    ),
    Case("the pod that holds them goes on", running("busy"), ("Running", 1), _OURS),
    Case(
        "who must not defer is told who holds them",
        failure,
        _failed_lines(f"GPUs in use: {_HELD}"),
        _OURS,
        validates(busy="fail"),
    ),
    Case(
        "who waits for them in vain, too",
        failure,
        _failed_lines(_HELD),
        _OURS,
        validates(busy="wait", timeoutSeconds=3),
    ),
    Case(
        "once they are free the next run takes them up",
        result(counts),
        _ALL,
        _OURS,
        both(unmake("busy"), validates()),
    ),
    Case(
        "where all are held all are deferred",
        result(few),
        (0, 0, GPUS),
        _OURS,
        both(both(forgets, holds("busy", GPUS)), validates()),
    ),
)

_SLOW = (
    Case(
        "a kernel that takes too long fails the node",
        failure,
        _failed_lines("its containers have not ended yet"),
        _KUBELET,
        both(both(unmake("busy"), broken("slow", -1, 40, "slow=40")), validates(timeoutSeconds=8)),
    ),
    Case("its pod is gone by then", left, 0, _KUBELET),
    Case(
        "a pod that wants the GPUs preempts a slow validation at once",
        result(few),
        (0, 0, GPUS),
        _SCHEDULER,
        meanwhile(validates(), holds("urgent", GPUS)),
    ),
    Case("it has them", running("urgent"), ("Running", 1), _SCHEDULER),
)

_TESTS = (
    Case(
        "a user-defined test measures its figure",
        measured,
        [[400.0, "", "", True]],
        _OURS,
        both(both(unmake("urgent"), heal), measures()),
    ),
    Case(
        "a slow GPU is below the test's minimum, which is named",
        failure,
        _measured_lines("349, below 350"),
        _OURS,
        both(broken("figure", -1, 349, "figure=349"), measures()),
    ),
    Case(
        "a test over all GPUs fails where one computes nothing",
        failure,
        _measured_lines(f"exit code 1; its last line: {_ERROR}"),
        _KUBELET,
        both(both(heal, broken("kernel", 5, 0, "kernel-fails=5")), measures()),
    ),
    Case(
        "a test that finds too few free GPUs says who holds them",
        measured,
        [[None, "", f"{_FREE}; default/busy-NODE (Running, holds 1)", False]],
        _OURS,
        both(both(heal, holds("busy", 1)), measures()),
    ),
    Case("no pod of a test is left", left, 0, _OURS),
)

_WITHDRAWN = (
    Case(
        "a withdrawn GPU keeps its node from being validated",
        quoted_shortage,
        "7 of 8 GPUs allocatable (capacity 8: 1 unhealthy or withdrawn)",
        _HEALTH,
        both(both(unmake("busy"), withdraws), validates(timeoutSeconds=3)),
    ),
    Case(
        "with a new plugin all are validated",
        result(counts),
        _ALL,
        _HEALTH,
        both(both(heal, restart_plugin), validates()),
    ),
)

PHASES = (
    Phase("default", (*_KERNELS, *_BUSY, *_SLOW, *_TESTS, *_WITHDRAWN)),
    Phase(
        "half",
        (
            Case("half of the GPUs, each twice, are offered as all", gpus, (8, 8), _SHARING),
            Case(
                "GPUs that two containers were given are named",
                twice,
                _NAMES[: GPUS // 2],
                _SHARING,
                validates(),
            ),
        ),
    ),
    Phase(
        "shared",
        (
            Case(
                "each GPU is validated, shared or not",
                result(counts),
                _ALL,
                _SHARING,
                validates({"sharing": time_slicing(2)}),
            ),
            Case("a stack that ends takes the record away", notes, [], _OURS, forgets),
        ),
    ),
)
