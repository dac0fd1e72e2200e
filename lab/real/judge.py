"""Run cases on a real and on a simulated node, and compare what is observed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpu_cluster_lab.simulator.api import ApiError
from lab.real import dra, nfd, objects
from lab.real.case import Case, Phase
from lab.real.cases import DIFFERENCES, PHASES
from lab.real.lab import REAL, SIMULATED, Lab
from lab.real.node import RealError

#: Maximum number of seconds in which a node must show the expected state. Where the simulated node
#: is known to differ from the real one, `KNOWN` seconds are enough to see the difference.
LIMIT = 60.0
KNOWN = 8.0
NODES = (REAL[0], SIMULATED[0])


@dataclass(frozen=True)
class Verdict:
    """Observations of a case on the real node and on the simulated node."""

    case: Case
    real: Any
    simulated: Any

    @property
    def agrees(self) -> bool:
        """Return True if both observations equal the expected observation."""
        return bool(self.real == self.case.wanted == self.simulated)

    @property
    def problem(self) -> str:
        """Return the error of a case, or "".

        There is no error if both nodes agree, or differ as listed in `DIFFERENCES`.
        """
        name, expected = self.case.name, self.case.wanted
        if self.real != expected:
            on_real = f"{self.real} on the real node"
            return f"{name}: found {on_real}; wanted: {expected}; cure: mend the case"
        if self.simulated != expected and name not in DIFFERENCES:
            return (
                f"{name}: found {self.simulated} on the simulated node; wanted: {expected} "
                f"({self.case.source}); cure: mend the simulator, or list the difference"
            )
        if self.simulated == expected and name in DIFFERENCES:
            return f"{name}: both agree; wanted: the listed difference; cure: take it off the list"
        return ""


def verdicts(lab: Lab, phases: Iterable[Phase] = PHASES) -> Iterator[Verdict]:
    """Yield the result of each case, in order.

    The order matters, because later cases depend on the state that earlier cases leave.
    """
    for phase in phases:
        use(lab, phase.key)
        yield from judge(lab, phase.cases)
        clear(lab)


def judge(lab: Lab, cases: Iterable[Case]) -> Iterator[Verdict]:
    """Run cases on a real and a simulated node, and yield the results.

    The deployed component, such as a device plugin, is not changed.
    """
    for case in cases:
        with ThreadPoolExecutor(len(NODES)) as pool:
            observations = list(pool.map(lambda node, case=case: _watch(lab, node, case), NODES))
        yield Verdict(case, *observations)


def use(lab: Lab, key: str) -> None:
    """Remove the component that runs on the nodes, and deploy the component that a key names.

    Args:
        lab: The running test cluster.
        key: `nfd.KEY` for Node Feature Discovery, `dra.KEY` for NVIDIA's DRA driver, otherwise the
            name of a device plugin configuration. Empty: the component is only removed.
    """
    nfd.remove(lab)
    sets = "/apis/apps/v1/namespaces/default/daemonsets"
    for name in (objects.PLUGIN, objects.MPS, dra.NAME):
        path = f"{sets}/{name}"
        if lab.exists(path):
            lab.request("DELETE", path, propagationPolicy="Foreground")
            lab.until(
                f"DaemonSet {name}: deletion", partial(lab.exists, path), lambda exists: not exists
            )
    if key == nfd.KEY:
        nfd.install(lab)
    elif key:
        manifest = dra.daemon_set() if key == dra.KEY else objects.plugin_pods(key)
        lab.request("POST", sets, manifest)
    if key in objects.SHARED_BY_MPS:
        lab.request("POST", sets, objects.mps_pods(key))


def clear(lab: Lab) -> None:
    """Delete the Jobs and the pods that test cases created."""
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    for job in lab.request("GET", jobs)["items"]:
        lab.request("DELETE", f"{jobs}/{job['metadata']['name']}", propagationPolicy="Background")
    for pod in lab.request("GET", "/api/v1/namespaces/default/pods")["items"]:
        if not pod["metadata"].get("ownerReferences"):
            lab.delete(pod["metadata"]["name"])


def _watch(lab: Lab, node: str, case: Case) -> Any:
    """Run a case on a node and return the last observation.

    The wait ends early if the observation is the expected one.
    """
    try:
        case.act(lab, node)
    except (ApiError, RealError) as error:
        return str(error).splitlines()[0]
    is_known = node in SIMULATED and case.name in DIFFERENCES
    deadline = time.monotonic() + (KNOWN if is_known else LIMIT)
    while (observation := case.inspect(lab, node)) != case.wanted and time.monotonic() < deadline:
        time.sleep(0.3)
    return observation
