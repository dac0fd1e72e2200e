"""The checker reads YAML as kubectl does, and finds the line of each field."""

from __future__ import annotations

import pytest

from gpu_rules.check.lines import Lines, location
from gpu_rules.check.parse import documents

# Results of the function YAMLToJSON in sigs.k8s.io/yaml v1.6.0, which kubectl uses.
SCALARS = {
    "010": 8, "0o10": 8, "0O7": 7, "1_000": 1000, "0x1F": 31, "0X1f": 31, "0x_1": 1, "-0x1": -1,
    "08": 8, "0789": 789, "0777": 511, "00": 0, "0_7": 7, "+1": 1, "-0": 0, "1__0": 10, "1_": 1,
    "-0b11": -3, "0b2": "0b2", "0b": "0b", "0x": "0x", "0B11": 3, "1e3": 1000, "12e03": 12000,
    ".5": 0.5, "-.5": -0.5, "+.5": 0.5, "1.": 1, "1.e3": 1000, "0e5": 0, "1.0": 1, "1_0.5": 10.5,
    "1e999": "1e999", "._1": "._1", "_1": "_1", ".e1": ".e1", "+-1": "+-1", "+": "+",
    "2001-01-01": "2001-01-01", "1:30": "1:30", "0.0.1": "0.0.1", "true": True, "True": True,
    "y": True, "on": True, "YES": True, "Yes": True, "yEs": "yEs", "off": False, "n": False,
    "~": None, "Null": None, "nUll": "nUll", "'1'": "1", '"x"': "x", "!!str 1": "1", "!foo 1": "1",
    "!!int '5'": 5, "!!bool 'yes'": True, "99999999999999999999": 1e20,
    "9223372036854775807": 2**63 - 1, "18446744073709551615": 2**64 - 1,
    "9223372036854775808": 2**63, "<<": "<<",
}  # fmt: skip
DOCUMENTS = {
    "on: 1": {"true": 1},
    "1: 2": {"1": 2},
    "1.5: 2": {"1.5": 2},
    "1e3: x": {"1000": "x"},
    "0x10: x": {"16": "x"},
    "a: &x {b: 1}\nc: {<<: *x, d: 2}": {"a": {"b": 1}, "c": {"b": 1, "d": 2}},
    "c: {d: 1, <<: {d: 2}}": {"c": {"d": 2}},
    "c: {<<: {d: 2}, d: 1}": {"c": {"d": 1}},
    "c: {<<: [{d: 2}, {d: 3, e: 4}]}": {"c": {"d": 2, "e": 4}},
    'a: {"<<": {b: 1}}': {"a": {"<<": {"b": 1}}},
    "a: 5\n<<: {a: 1}\n<<: {c: 1}": {"a": 1, "c": 1},
    "!!binary a2luZA==: !!binary UG9k": {"kind": "Pod"},
    "a: !!binary |\n  UG\n  9k\n": {"a": "Pod"},
    "a: !!binary gICA": {"a": "\ufffd\ufffd\ufffd"},
    "a: |\n  x\n   y\n": {"a": "x\n y\n"},
    "a: >-\n  x\n  y\n": {"a": "x y"},
}


@pytest.mark.parametrize("written", SCALARS)
def test_a_scalar_has_the_value_that_kubectl_gives_it(written: str) -> None:
    ((value,),) = documents(f"- {written}")
    wanted = SCALARS[written]
    assert value == wanted
    assert isinstance(value, str | bool | None) == isinstance(wanted, str | bool | None)


@pytest.mark.parametrize("written", DOCUMENTS)
def test_a_document_has_the_value_that_kubectl_gives_it(written: str) -> None:
    assert documents(written) == [DOCUMENTS[written]]


TEXT = """\
kind: Pod
spec:
  containers:
    # a comment
    - name: a
      resources:
        limits: {cpu: 1,
                 nvidia.com/gpu: 2}
    - name: b
      env:
      - name: A
      - name: B
---
kind: Job
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("kind", 1),
        ("spec", 2),
        ("spec.containers", 3),
        ("spec.containers[0]", 5),
        ("spec.containers[0].resources.limits", 7),
        ("spec.containers[0].resources.limits[nvidia.com/gpu]", 8),
        ("spec.containers[1].env[1].name", 12),
        ("spec.containers[1].env[1].value", 12),
        ("spec.containers[1].securityContext.privileged", 9),
        ("spec.tolerations", 2),
        ("metadata.annotations[a.b/c]", 1),
    ],
)
def test_a_path_is_found_or_the_nearest_place_above_it(path: str, line: int) -> None:
    assert Lines(TEXT).line(path, 0) == line


def test_lines_are_of_the_document_that_is_asked_for() -> None:
    assert Lines(TEXT).line("kind", 1) == 14


def test_a_path_is_read_as_rules_write_it() -> None:
    written = "items[3].spec.limits[0].max[requests.nvidia.com/gpu]"
    wanted = ("items", 3, "spec", "limits", 0, "max", "requests.nvidia.com/gpu")
    assert location(written) == wanted
