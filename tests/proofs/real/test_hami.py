"""HAMi's own webhook and scheduler answer each case as the simulated ones do.

`HAMI_SOURCE` names a folder with HAMi's source of the release that the simulator plays; the program
that asks is built inside HAMi's module (`lab/real/go/hami/main.go`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.nodes.causes.cause import Around
from gpu_cluster.nodes.causes.scheduling import unscheduled
from gpu_cluster_lab.simulator.controller import hami
from gpu_cluster_lab.simulator.controller.devices import whole
from gpu_rules.kube.gpu_resources import GPU, HAMI_CORES, HAMI_MEMORY, HAMI_PERCENTAGE
from gpu_rules.kube.quantity import read_milli
from lab.real.build import BuildError, build_hami

Json = dict[str, Any]
SOURCE = os.environ.get("HAMI_SOURCE", "")
UNKNOWN = "only its rules explain these words"
POLICIES = ("binpack", "spread")
"""Policies for nodes and for GPUs that HAMi's chart has."""


def node(name: str = "gpu-1", gpus: int = 2, broken: int = 0) -> Json:
    devices = whole(name, range(gpus))
    text = hami.registration(devices, devices[broken:], {"deviceSplitCount": 10})
    return {"metadata": {"name": name, "labels": {}, "annotations": {hami.REGISTERED: text}}}


def pod(*limits: Json, init: tuple[Json, ...] = (), **spec: Any) -> Json:
    def containers(kind: str, each: tuple[Json, ...]) -> list[Json]:
        return [
            {"name": f"{kind}{number}", "image": "x", "resources": {"limits": amounts}}
            for number, amounts in enumerate(each)
        ]

    return {
        "metadata": {"name": "p", "namespace": "team", "uid": "1", "annotations": {}},
        "spec": {
            "initContainers": containers("i", init),
            "containers": containers("c", limits),
            **spec,
        },
    }


def admitted(*limits: Json, **spec: Any) -> Json:
    return hami.admit(pod(*limits, **spec), "nvidia", hami.Quota())


def held(by: Json, name: str = "other", phase: str = "Running", gpus: int = 1) -> Json:
    """Return a pod that HAMi has placed on the node `gpu-1`."""
    made = hami.place([node(gpus=gpus)], by, [], hami.Quota(), POLICIES)
    placed = deepcopy(by)
    placed["metadata"] |= {
        "name": name,
        "uid": name,
        "annotations": {hami.ASSIGNED_NODE: made.node, hami.ALLOCATED: hami.encode(made.shares)},
    }
    placed["spec"]["nodeName"] = made.node
    return {**placed, "status": {"phase": phase}}


def quota(**hard: str) -> Json:
    names = {"memory": f"limits.{HAMI_MEMORY}", "cores": f"limits.{HAMI_CORES}"}
    limits = {names[name]: value for name, value in hard.items()}
    return {"metadata": {"name": "q", "namespace": "team"}, "spec": {"hard": limits}}


@dataclass(frozen=True)
class Case:
    """A pod, and the cluster in which it is admitted or placed."""

    pod: Json
    admit: bool = False
    nodes: tuple[Json, ...] = ()
    pods: tuple[Json, ...] = ()
    quotas: tuple[Json, ...] = ()


def admit(*limits: Json, quotas: tuple[Json, ...] = (), **spec: Any) -> Case:
    return Case(pod(*limits, **spec), admit=True, quotas=quotas)


def privileged() -> Case:
    asked = pod({GPU: "1"})
    asked["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    return Case(asked, admit=True)


def by_policy(policy: str) -> Json:
    asked = admitted(*[{GPU: "1", HAMI_MEMORY: "2048", HAMI_CORES: "10"}] * 2)
    asked["metadata"]["annotations"] = {hami.POLICY: policy}
    return asked


WHOLE, HALF = admitted({GPU: "1"}), admitted({GPU: "1", HAMI_MEMORY: "50000"})
SMALL = admitted({GPU: "1", HAMI_MEMORY: "1000"})
ONE, TWO = (node(gpus=1),), (node(),)
CASES = {
    "a share of memory": admit({HAMI_MEMORY: "3000"}),
    "two whole GPUs": admit({GPU: "2"}),
    "all memory by percentage": admit({GPU: "1", HAMI_PERCENTAGE: "100"}),
    "half the memory by percentage": admit({GPU: "1", HAMI_PERCENTAGE: "50"}),
    "a share of cores": admit({HAMI_CORES: "30"}),
    "no GPU": admit({"cpu": "1"}),
    "another scheduler": admit({GPU: "1"}, schedulerName="volcano"),
    "more than all memory": admit({GPU: "1", HAMI_PERCENTAGE: "150"}),
    "a node by name": admit({GPU: "1"}, nodeName="gpu-1"),
    "more memory than the quota": admit(
        {GPU: "2", HAMI_MEMORY: "3000"}, quotas=(quota(memory="5000"),)
    ),
    "more cores than the quota": admit({GPU: "1", HAMI_CORES: "60"}, quotas=(quota(cores="50"),)),
    "a privileged container": privileged(),
    "a whole GPU on a free node": Case(WHOLE, nodes=TWO),
    "no memory left": Case(HALF, nodes=ONE, pods=(held(HALF),)),
    "memory left": Case(admitted({GPU: "1", HAMI_MEMORY: "30000"}), nodes=ONE, pods=(held(HALF),)),
    "two containers spread": Case(by_policy("spread"), nodes=TWO),
    "two containers packed": Case(by_policy("binpack"), nodes=TWO),
    "more GPUs than the node has": Case(admitted({GPU: "3"}), nodes=TWO),
    "no healthy GPU": Case(WHOLE, nodes=(node(broken=2),)),
    "too few healthy GPUs": Case(admitted({GPU: "2"}), nodes=(node(broken=1),)),
    "more memory than a GPU has": Case(admitted({GPU: "1", HAMI_MEMORY: "90000"}), nodes=TWO),
    "a whole GPU next to a share": Case(WHOLE, nodes=ONE, pods=(held(SMALL),)),
    "a share next to a whole GPU": Case(SMALL, nodes=ONE, pods=(held(WHOLE),)),
    "a whole GPU above the quota": Case(WHOLE, nodes=ONE, quotas=(quota(memory="50000"),)),
    "a pod that has ended": Case(WHOLE, nodes=ONE, pods=(held(WHOLE, phase="Succeeded"),)),
    "an init container": Case(
        admitted({GPU: "1", HAMI_MEMORY: "30000"}, init=({GPU: "1", HAMI_MEMORY: "40000"},)),
        nodes=ONE,
        pods=(held(SMALL),),
    ),
}


def simulated(case: Case) -> Json:
    """Return what the simulated webhook or scheduler answers."""
    counted = hami.quota_of("team", case.quotas, case.pods)
    if case.admit:
        try:
            return {"pod": seen(hami.admit(case.pod, "nvidia", counted))}
        except hami.Denied as error:
            return {"denied": str(error)}
    made = hami.place(case.nodes, case.pod, case.pods, counted, POLICIES)
    return {"node": made.node, "shares": made.shares, "reasons": dict(made.reasons)}


def seen(pod: Json) -> Json:
    """Return what the webhook may change of a pod."""
    spec = pod["spec"]
    return {
        "scheduler": spec.get("schedulerName"),
        "class": spec.get("runtimeClassName"),
        "limits": [
            {name: read_milli(amount) for name, amount in each["resources"]["limits"].items()}
            for each in spec["containers"]
        ],
    }


def asked(program: Path, case: Case) -> Json:
    """Return what HAMi's own code answers in a process of its own, which keeps quotas and nodes."""
    question = json.dumps({key: getattr(case, key) for key in Case.__dataclass_fields__})
    done = subprocess.run(
        [program], input=question, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    answer: Json = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="module")
def program() -> Path:
    if not SOURCE:
        pytest.skip("HAMI_SOURCE names no folder with HAMi's source")
    try:
        return build_hami(Path(SOURCE))
    except BuildError as error:
        pytest.skip(str(error))


@pytest.mark.full
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.documents("hami", name)) for name in CASES]
)
def test_hamis_own_code_answers_as_the_simulated_one(name: str, program: Path) -> None:
    case = CASES[name]
    given = asked(program, case)
    if case.admit:
        real = {"denied": given["denied"]} if given.get("denied") else {"pod": seen(given["pod"])}
    else:
        shares = hami.decode(given["shares"])
        real = {"node": given["node"], "shares": shares, "reasons": given["reasons"] or {}}
    assert real == simulated(case)


def test_why_has_a_cure_for_each_word_of_hamis_scheduler() -> None:
    """Each reason for which HAMi leaves out an NVIDIA GPU or a node has a cure of its own."""
    if not SOURCE:
        pytest.skip("HAMI_SOURCE names no folder with HAMi's source")
    folder = Path(SOURCE) / "pkg"
    constants = (folder / "device/common/common.go").read_text("utf-8")
    fit = (folder / "device/nvidia/device.go").read_text("utf-8")
    score = (folder / "scheduler/score.go").read_text("utf-8")
    words = dict(re.findall(r'^\t(\w+) += "(\w+)"$', constants, re.MULTILINE))
    used = set(re.findall(r"reason\[common\.(\w+)\]", fit))
    used |= set(re.findall(r"return false, common\.(\w+)", score))
    assert len(used) > 10
    texts = [f"2/8 {words[name]}" for name in sorted(used)] + ["node unregistered"]
    without = [text for text in texts if UNKNOWN in cure_of(text)]
    assert without == []
    assert UNKNOWN in cure_of("8/8 NoSuchWord")


def cure_of(text: str) -> str:
    """Return the cure for a pod that waits for this reason on all nodes."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "message": f"0/4 nodes are available: 4 {text}.",
    }
    waiting = pod({GPU: "1"}, schedulerName=hami.SCHEDULER)
    cause = unscheduled({**waiting, "status": {"conditions": [condition]}}, Around(), ())
    assert cause is not None
    return cause.cure
