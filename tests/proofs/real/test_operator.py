"""Unit tests of the comparison between the real and the simulated GPU Operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_lab.simulator.controller import operand_objects, operands
from lab.helm import Helm
from lab.real.operator import compare, images, policies
from lab.real.operator.compare import DIFFERENCES, Verdict, differences, said, unshown
from tests.resolved import platform_of

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "real-parts.md"
POLICY: Any = {"metadata": {"name": operands.POLICY, "uid": "1"}, "spec": {}}


def simulated(operand: operands.Operand) -> Any:
    made = operand_objects.daemon_set(operand, POLICY, "a-namespace")
    return {**made, "status": {"desiredNumberScheduled": 2, "numberReady": 2}}


@pytest.mark.parametrize("operand", operands.OPERANDS, ids=lambda operand: operand.name)
def test_an_operand_agrees_with_itself_and_with_no_other(operand: operands.Operand) -> None:
    own = said("DaemonSet", simulated(operand))
    assert differences(own, own) == {}
    for other in operands.OPERANDS:
        if other is not operand:
            assert differences(own, said("DaemonSet", simulated(other)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "updateStrategy"), {"type": "OnDelete", "x": "y"}),
        (("spec", "template", "spec", "nodeSelector"), {"a": "b"}),
        (("spec", "template", "spec", "tolerations"), []),
        (("spec", "template", "spec", "priorityClassName"), "other"),
        (("spec", "template", "metadata", "labels"), {"a": "b"}),
        (("spec", "selector"), {"matchLabels": {"a": "b"}}),
        (("status", "desiredNumberScheduled"), 1),
    ],
)
def test_each_compared_field_counts(path: tuple[str, ...], value: Any) -> None:
    item = simulated(operands.OPERANDS[0])
    before = said("DaemonSet", item)
    place = item
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert len(differences(before, said("DaemonSet", item))) == 1


def test_an_operand_that_one_lacks_differs() -> None:
    own = said("DaemonSet", simulated(operands.OPERANDS[0]))
    assert "exists" in differences(own, said("DaemonSet", None))


def test_variables_that_the_simulator_leaves_out_are_not_compared_and_its_own_are() -> None:
    assert differences({}, {"env A": "1"}) == {}
    assert differences({"env A": "1"}, {}) == {"env A": ("1", None)}
    assert differences({"env A": "1"}, {"env A": "2"}) == {"env A": ("1", "2")}


def test_a_difference_is_wrong_unless_it_is_listed_and_a_listed_one_must_show() -> None:
    operand, _, path = next(iter(DIFFERENCES)).partition(": ")
    known = Verdict("a setting", operand, {path: (1, 2)})
    assert (known.agrees, known.problems) == (False, [])
    assert Verdict("a setting", operand, {"another": (1, 2)}).problems
    assert len(unshown(known.listed)) == len(DIFFERENCES) - 1
    assert unshown(set(DIFFERENCES)) == []


def test_each_setting_is_a_stack_whose_values_the_chart_takes() -> None:
    names = [setting.name for setting in policies.SETTINGS]
    assert len(set(names)) == len(names)
    for setting in policies.SETTINGS:
        cluster = policies.declared(setting)
        assert platform_of(cluster).values()


def test_the_chart_is_that_of_the_release_and_names_the_images(tmp_path: Path) -> None:
    helm = Helm(tmp_path / "helm")
    try:
        chart = images.charts(tmp_path / "charts") / images.CHART
        made = helm.render(chart, {"nfd": {"enabled": False}}, "a-namespace")
    finally:
        helm.close()
    found = {item["kind"]: item["spec"] for item in made if "spec" in item}
    (container,) = found["Deployment"]["template"]["spec"]["containers"]
    assert container["image"] == images.OPERATOR
    names = found["ClusterPolicy"]["validator"]
    image = f"{names['repository']}/{names['image']}:{names['version']}"
    assert image == images.VALIDATOR


def test_the_page_lists_every_difference_and_every_setting_that_is_newer() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for table in (compare.DIFFERENCES, policies.NEWER):
        for name, reason in table.items():
            assert f"| {name} | {reason} |" in page
