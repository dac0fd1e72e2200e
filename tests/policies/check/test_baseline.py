"""A baseline excuses the violations that it names, and no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.policies.check.running import check
from tests.policies.check.samples import BAD, GOOD

KNOWN = "known.json"
OTHER = BAD.replace("name: bad", "name: other")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m").mkdir()
    Path("m/bad.yaml").write_text(BAD)
    assert check("m", "--output", f"json={KNOWN}").code == 1


@pytest.mark.promise("A baseline excuses the violations of today, and no others.")
def test_what_the_baseline_names_is_no_failure_and_is_counted() -> None:
    done = check("m", "--baseline", KNOWN)
    assert (done.code, "GPU001" in done.output) == (0, False), done
    assert "known from the baseline" in done.output
    Path("m/new.yaml").write_text(BAD)
    done = check("m", "--baseline", KNOWN)
    assert done.code == 1
    assert "m/new.yaml:9: mandatory GPU001" in done.output
    assert "m/bad.yaml" not in done.output


def test_a_known_violation_excuses_only_one() -> None:
    Path("m/bad.yaml").write_text(f"{BAD}---\n{BAD}")
    done = check("m", "--baseline", KNOWN, "--scope", "object")
    assert (done.code, done.output.count("mandatory GPU001")) == (1, 1)


def test_a_violation_stays_known_on_another_line_and_from_another_name_of_the_folder() -> None:
    Path("m/bad.yaml").write_text(f"# A comment.\n\n{GOOD}---\n{BAD}")
    for name in ("./m", str(Path("m").resolve()), "m/bad.yaml"):
        assert check(name, "--baseline", KNOWN, "--scope", "object").code == 0


def test_what_is_gone_is_counted() -> None:
    Path("m/bad.yaml").write_text(GOOD)
    assert " of the baseline gone" in check("m", "--baseline", KNOWN).output


def test_every_format_tells_known_violations_from_others() -> None:
    options = ("m", "--baseline", KNOWN, "--format")
    report = json.loads(check(*options, "json").output)
    assert all(violation["known"] for violation in report["violations"])
    assert (report["exitCode"], report["summary"]["known"]) == (0, len(report["violations"]))
    (run,) = json.loads(check(*options, "sarif").output)["runs"]
    assert all(result["suppressions"][0]["kind"] == "external" for result in run["results"])
    assert 'failures="0" errors="0">' in check(*options, "junit").output
    assert "::error" not in check(*options, "github").output


def test_a_report_with_a_baseline_is_a_baseline_itself() -> None:
    check("m", "--baseline", KNOWN, "--output", "json=again.json")
    assert check("m", "--baseline", "again.json").code == 0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no such file"),
        ("{", "found no JSON"),
        ("[]", "found a wrong value at $"),
        ('{"version": 2, "violations": []}', "found a wrong value at $.version"),
        ('{"version": 1, "violations": [{"rule": "GPU001"}]}', "a wrong value at $.violations[0]"),
        ("[" * 100_000, "found no JSON"),
    ],
)
def test_a_file_that_is_no_baseline_is_told(content: str | None, says: str) -> None:
    if content is not None:
        Path("other.json").write_text(content)
    done = check("m", "--baseline", "other.json")
    assert (done.code, says in done.errors) == (2, True), done.errors


def test_several_outputs_are_written_at_once() -> None:
    done = check("m", "--output", "sarif=a.sarif", "--output", "junit=b.xml")
    assert "mandatory GPU001" in done.output
    assert json.loads(Path("a.sarif").read_text())["version"] == "2.1.0"
    assert '<testsuites name="gpu-rules"' in Path("b.xml").read_text()


@pytest.mark.parametrize(
    ("output", "says"),
    [("sarif=none/a.sarif", "no such file"), ("loud=a", "sarif"), ("json=", "FORMAT=FILE")],
)
def test_an_output_that_cannot_be_written_is_told(output: str, says: str) -> None:
    done = check("m", "--output", output)
    assert (done.code, says in done.errors) == (2, True), done.errors
