"""Charts that a kustomization installs, and values in files, are judged as a release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_rules.rules import RULES
from tests.policies.check.running import check

WANTED = ("GPU052", "GPU053", "GPU054", "GPU055")
ONLY = tuple(word for id_ in RULES if id_ not in WANTED for word in ("--rule", f"{id_}=off"))
VALUES = """\
driver:
  version: latest
  upgradePolicy: {maxParallelUpgrades: 0}
toolkit:
  version: v1.14.0
"""


def broken(*arguments: str) -> list[tuple[str, int, str]]:
    done = check("--no-render", "--format", "json", *arguments, rules=ONLY)
    found: list[dict[str, Any]] = json.loads(done.output)["violations"]
    return [(each["rule"], each["line"], each["path"]) for each in found]


@pytest.mark.promise(
    "The charts of a kustomization and the values of the GPU Operator in a file are judged as a "
    "release."
)
@pytest.mark.parametrize("head", ["kind: Kustomization\n", ""])
def test_the_charts_of_a_kustomization_are_judged(head: str, tmp_path: Path) -> None:
    inline = "".join(f"      {line}\n" for line in VALUES.splitlines())
    chart = "helmCharts:\n  - name: gpu-operator\n    repo: https://example.com\n"
    version = '    version: ">=24"\n    valuesInline:\n'
    (tmp_path / "kustomization.yaml").write_text(f"{head}{chart}{version}{inline}")
    start, path = 4 + bool(head), "helmCharts[0]"
    assert broken(str(tmp_path)) == [
        ("GPU052", start, f"{path}.version"),
        ("GPU053", start + 3, f"{path}.valuesInline.driver.version"),
        ("GPU054", start + 6, f"{path}.valuesInline.toolkit.version"),
        ("GPU055", start + 4, f"{path}.valuesInline.driver.upgradePolicy.maxParallelUpgrades"),
    ]


CHART = "helmCharts:\n  - name: gpu-operator\n    repo: https://example.com\n    version: v26.7.0\n"


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ("valuesFile: v.yaml", {"GPU053", "GPU054", "GPU055"}),
        (
            "valuesFile: v.yaml\n    valuesInline: {toolkit: {version: v1.20.2}}",
            {"GPU053", "GPU055"},
        ),
        (
            "valuesFile: v.yaml\n    valuesMerge: merge\n"
            "    valuesInline: {toolkit: {version: v1.20.2}}",
            {"GPU053", "GPU054", "GPU055"},
        ),
        ("valuesFile: v.yaml\n    valuesMerge: replace\n    valuesInline: {a: 1}", set()),
        (
            "valuesFile: good.yaml\n    additionalValuesFiles: [v.yaml]",
            {"GPU053", "GPU054", "GPU055"},
        ),
        ("valuesFile: ../v.yaml", set()),
        ("valuesFile: none.yaml", set()),
    ],
)
def test_the_values_files_of_a_kustomizations_chart_are_judged(
    fields: str, found: set[str], tmp_path: Path
) -> None:
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(f"{CHART}    {fields}\n")
    for place in (folder, tmp_path):
        (place / "v.yaml").write_text(VALUES)
    (folder / "good.yaml").write_text("toolkit: {version: v1.20.2}\n")
    rules = {rule for rule, line, path in broken(str(folder / "kustomization.yaml"))}
    assert rules == found
    assert all(
        path.startswith("helmCharts[0].values")
        for _, _, path in broken(str(folder / "kustomization.yaml"))
    )


def test_several_files_with_values_of_one_release_are_no_several_plugins(tmp_path: Path) -> None:
    for name in ("values.yaml", "values-prod.yaml"):
        (tmp_path / name).write_text(VALUES)
    assert "GPU047" not in check("--no-render", str(tmp_path), rules=()).output


def test_the_values_of_the_operator_are_judged_at_their_lines(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(VALUES)
    (tmp_path / "other.yaml").write_text("driver: {version: latest}\n")
    (tmp_path / "third.yaml").write_text("driver: latest\ntoolkit: latest\n")
    assert broken(str(tmp_path)) == [
        ("GPU053", 2, "driver.version"),
        ("GPU054", 5, "toolkit.version"),
        ("GPU055", 3, "driver.upgradePolicy.maxParallelUpgrades"),
    ]
