"""`policies/gpu_rules/kube` answers what Kubernetes' own Go code answers.

A program of `lab/real/go/arithmetic` calls k8s.io/apimachinery and k8s.io/component-helpers.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import pytest

from gpu_rules.kube import names, quantity
from gpu_rules.kube.node_selectors import is_node_selected
from gpu_rules.kube.pod_resources import pod_requests
from gpu_rules.kube.taints import NodeTaint
from lab.real.build import build_arithmetic
from tests.proofs.rules import results
from tests.proofs.rules.sample import FULL, SEED

CASES, SAMPLE = 10_000 if FULL else 3_000, 500
LIMIT = 300
GPU = "nvidia.com/gpu"
Json = dict[str, Any]
Draw = random.Random

RESOURCES = ("cpu", "memory", GPU, "example.com/card", "hugepages-2Mi", "ephemeral-storage")
AMOUNTS = ("0", "1", "2", "8", "16", "1k", "1e3", "250m", "1500m", "0.5", "1Gi", "64Mi", "1.5Ki")
SUFFIXES = (
    *("", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"),
    *("K", "mi", "ki", "i", "B", "e", "E+", "mm", "e3", "E3", "e-3", "e+12", "E-9", "e0", "e1.5"),
)


def draw_quantity(draw: Draw) -> str:
    digits = "".join(draw.choices("0123456789", k=draw.choice((0, 1, 1, 2, 3, 5, 9, 18, 19, 25))))
    decimals = "".join(draw.choices("0123456789", k=draw.choice((0, 1, 3, 6, 9, 12))))
    point = draw.choice(("", "", "", ".")) or (decimals and ".")
    space = draw.choice(("", "", "", "", " "))
    sign = draw.choice(("", "", "", "-", "+", "--"))
    text = f"{space}{sign}{digits}{point}{decimals}{draw.choice(SUFFIXES)}"
    text = text if draw.random() < 0.9 else draw.choice((*AMOUNTS, text[::-1], "", ".", "1..2"))
    # The rules refuse exponents beyond ±1,000, for which Kubernetes needs minutes.
    return draw_quantity(draw) if re.search("[eE][+-]?[0-9]{4}", text) else text


def draw_name(draw: Draw) -> str:
    letters = draw.choice(("abc019", "abc-", "aB_.-9", "a/.", "a-.b", "aä\n/"))
    lengths = (0, 1, 2, 5, 62, 63, 64, 100, 253, 254)
    text = "".join(draw.choices(letters, k=draw.choice(lengths)))
    if draw.random() < 0.3:
        text = f"{text}/{''.join(draw.choices(letters, k=draw.choice(lengths)))}"
    if draw.random() < 0.2:
        text = ".".join(["a" * draw.choice((1, 63, 64))] * draw.choice((1, 3, 4)))
    return draw.choice((text, text, text.strip("-._/"), text.lower()))


def draw_amounts(draw: Draw) -> Json:
    chosen = draw.sample(RESOURCES, k=draw.choice((0, 1, 2, 3)))
    return {name: draw.choice(AMOUNTS) for name in chosen}


def draw_resources(draw: Draw) -> Json:
    parts = {"requests": draw_amounts(draw), "limits": draw_amounts(draw)}
    return {name: part for name, part in parts.items() if part}


def draw_status(draw: Draw, name: str) -> Json:
    status: Json = {"name": name}
    if draw.random() < 0.7:
        status["resources"] = draw_resources(draw)
    if draw.random() < 0.6:
        status["allocatedResources"] = draw_amounts(draw)
    return status


def draw_pod(draw: Draw) -> Json:
    apps = [f"app-{index}" for index in range(draw.choice((1, 1, 2, 3)))]
    starting = [f"init-{index}" for index in range(draw.choice((0, 1, 2, 3, 4)))]
    containers = {
        name: {"name": name, "resources": draw_resources(draw)} for name in apps + starting
    }
    for name in starting:
        if draw.random() < 0.5:
            containers[name]["restartPolicy"] = draw.choice(("Always", "Always", "OnFailure"))
    spec: Json = {
        "containers": [containers[name] for name in apps],
        "initContainers": [containers[name] for name in starting],
    }
    status: Json = {}
    if draw.random() < 0.3:
        spec["overhead"] = draw_amounts(draw)
    if draw.random() < 0.3:
        spec["resources"] = {"requests": draw_amounts(draw)}
    if draw.random() < 0.5:
        reported = [name for name in apps + starting if draw.random() < 0.7]
        key = draw.choice(("containerStatuses", "initContainerStatuses"))
        status[key] = [draw_status(draw, name) for name in reported]
        kinds, reasons = ("PodResizePending", "Ready"), ("Infeasible", "Deferred")
        status["conditions"] = [
            {"type": draw.choice(kinds), "status": "True", "reason": draw.choice(reasons)}
            for _ in range(draw.choice((0, 1, 2)))
        ]
        status |= {key: value for key, value in draw_status(draw, "").items() if key != "name"}
    return {"spec": spec, "status": status}


KEYS, EFFECTS = ("size", GPU), ("NoSchedule", "PreferNoSchedule", "NoExecute")
VALUES = ("", "present", "true", "0", "5", "-5", "007", "+5", "-0", str(2**63 - 1), str(2**63))


def draw_toleration(draw: Draw) -> Json:
    operators = ("Exists", "Equal", "Gt", "Lt", "", "In")
    toleration = {"operator": draw.choice(operators), "value": draw.choice(VALUES)}
    toleration |= {"key": draw.choice((*KEYS, "")), "effect": draw.choice((*EFFECTS, ""))}
    return {
        name: toleration[name] for name in draw.sample(sorted(toleration), k=draw.randint(1, 4))
    }


def draw_tolerations(draw: Draw) -> Json:
    taint = {"key": draw.choice(KEYS), "effect": draw.choice(EFFECTS)}
    taint |= {"value": draw.choice(VALUES)} if draw.random() < 0.8 else {}
    given = [draw_toleration(draw) for _ in range(draw.choice((0, 1, 1, 2, 3)))]
    return {"tolerations": given, "taint": taint}


def draw_requirement(draw: Draw, fields: bool) -> Json:
    if fields:
        operator, wanted = draw.choice(("In", "NotIn")), [draw.choice(("gpu-1", "gpu-2"))]
        return {"key": "metadata.name", "operator": operator, "values": wanted}
    operator = draw.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    listed = {"In": draw.sample(("a", "5", "07", ""), k=2), "Exists": [], "DoesNotExist": []}
    listed["NotIn"] = listed["In"]
    wanted = listed.get(operator, [draw.choice(("4", "007", "12"))])
    return {"key": draw.choice(("size", "zone")), "operator": operator, "values": wanted}


def draw_term(draw: Draw) -> Json:
    labels = [draw_requirement(draw, False) for _ in range(draw.randint(0, 2))]
    fields = [draw_requirement(draw, True) for _ in range(draw.choice((0, 0, 1)))]
    return {"matchExpressions": labels, "matchFields": fields}


def draw_selection(draw: Draw) -> Json:
    labels = {key: draw.choice(("a", "5", "07", "x5", "")) for key in ("size", "zone")}
    labels = {key: value for key, value in labels.items() if draw.random() < 0.7}
    spec: Json = {"nodeSelector": {"zone": "a"} if draw.random() < 0.2 else {}}
    if draw.random() < 0.9:
        terms = [draw_term(draw) for _ in range(draw.choice((0, 1, 1, 2)))]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    return {"pod": {"spec": spec}, "node": {"metadata": {"name": "gpu-1", "labels": labels}}}


def read_quantity(text: str) -> Any:
    try:
        parsed = quantity.parse(text)
    except quantity.QuantityError:
        return None
    return [parsed.api_milli, (parsed.milli > 0) - (parsed.milli < 0)]


def read_name(text: str) -> list[bool]:
    return [
        names.is_dns_label(text),
        names.is_dns_subdomain(text),
        names.is_label_value(text),
        names.is_qualified_name(text),
    ]


def is_tolerated(question: Json) -> bool:
    return NodeTaint.of(question["taint"]).is_tolerated(question["tolerations"])


def is_selected(question: Json) -> bool:
    return is_node_selected(question["pod"]["spec"], question["node"])


KINDS: Mapping[str, tuple[Callable[[Draw], Any], Callable[[Any], Any]]] = {
    "quantity": (draw_quantity, read_quantity),
    "name": (draw_name, read_name),
    "pod": (draw_pod, pod_requests),
    "toleration": (draw_tolerations, is_tolerated),
    "selection": (draw_selection, is_selected),
}


def ask(kind: str, questions: Sequence[Any]) -> list[Any]:
    """Return the answers of Kubernetes' code."""
    lines = "".join(json.dumps({kind: question}) + "\n" for question in questions)
    done = subprocess.run(
        [build_arithmetic()], input=lines, capture_output=True, text=True, timeout=LIMIT, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def differences(kind: str, number: int, seed: int) -> list[tuple[Any, Any, Any]]:
    """Return the questions that have two answers: the question, ours and that of Kubernetes."""
    draw, (generate, answer) = random.Random(seed), KINDS[kind]  # noqa: S311
    questions = [generate(draw) for _ in range(number)]
    answers = ask(kind, questions)
    assert len(answers) == number
    assert len({json.dumps(answer) for answer in answers}) > 1, "too one-sided to show anything"
    pairs = zip(questions, answers, strict=True)
    return [
        (question, ours, theirs)
        for question, theirs in pairs
        if (ours := answer(question)) != theirs
    ]


@pytest.mark.skipif(
    shutil.which("go") is None and find_spec("go") is None, reason="Go is not installed"
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_agrees_with_kubernetes(kind: str) -> None:
    assert differences(kind, SAMPLE, seed=1)[:3] == []


@pytest.mark.full
def test_thousands_of_each_kind_agree_with_kubernetes() -> None:
    found = {kind: differences(kind, CASES, SEED) for kind in KINDS}
    assert {kind: pairs[:3] for kind, pairs in found.items() if pairs} == {}
    results.store("arithmetic", {"cases": CASES * len(KINDS), "seed": SEED})
