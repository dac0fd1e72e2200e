"""The subcommands of `gpu-rules`, and the settings in `.gpu-rules.yaml` that they use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_rules.check.parse import documents
from gpu_rules.command import VERSION, main
from gpu_rules.rules import RULES
from gpu_rules.rules.rule import Need
from tests.policies.check.running import ROOT
from tests.policies.check.samples import BAD

FILE = ".gpu-rules.yaml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder inside a git repository, after making it the working directory."""
    inner = tmp_path / "repository" / "apps"
    inner.mkdir(parents=True)
    (tmp_path / "repository" / ".git").mkdir()
    (inner / "bad.yaml").write_text(BAD)
    monkeypatch.chdir(inner)
    return inner


def test_check_judges_manifests(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "."]) == 1
    assert "bad.yaml:9: mandatory GPU001" in capsys.readouterr().out


def test_list_names_every_rule_with_the_level_of_the_settings(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / FILE).write_text("rules: {GPU001: on, GPU004: 'off'}")
    assert main(["list"]) == 2
    assert "GPU001: True is not of type 'string'" in capsys.readouterr().err
    for off in ("off", "'off'"):
        (folder / FILE).write_text(f"rules: {{GPU001: {off}}}")
        assert main(["list"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == list(RULES)
        assert lines[0].split()[1] == "off"


def test_list_has_a_form_for_programs_with_groups_and_needs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "--output", "json"]) == 0
    listed = {each["id"]: each for each in json.loads(capsys.readouterr().out)}
    assert list(listed) == list(RULES)
    assert listed["GPU022"]["group"] == "isolation"
    assert listed["GPU005"]["needs"] == [str(Need.GPU_MANAGER)]
    assert not listed["GPU005"]["isOn"]
    (folder / FILE).write_text("platform: gpu-manager")
    assert main(["list", "--output", "json"]) == 0
    assert {each["id"]: each["isOn"] for each in json.loads(capsys.readouterr().out)}["GPU005"]


@pytest.mark.promise("A copy of this repository has the command gpu-rules as python -m gpu_rules.")
def test_a_copy_of_the_repository_has_the_command_without_an_installation() -> None:
    command = [sys.executable, "-m", "gpu_rules", "explain", "GPU004"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"### GPU004: {RULES['GPU004'].title}\n")


@pytest.mark.parametrize("id_", RULES)
def test_explain_says_why_a_rule_is_there(id_: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", id_.lower()]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"### {id_}: {RULES[id_].title}\n")
    assert RULES[id_].why in shown
    assert "<a id" not in shown


def test_a_rule_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "GPU999"]) == 2
    assert "found no rule GPU999" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("mode", "actions"), [("enforce", ["Deny", "Audit"]), ("audit", ["Audit"]), ("", ["Warn"])]
)
def test_export_writes_policies_with_their_bindings_as_kubectl_reads_them(
    mode: str, actions: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / FILE).write_text("maxGpusPerPod: 3")
    given = ["--mode", mode] if mode else []
    assert main(["export", "vap", "--exclude", "storage", *given]) == 0
    objects = [item for item in documents(capsys.readouterr().out) if isinstance(item, dict)]
    named = {(item["kind"], item["metadata"]["name"]): item for item in objects}
    assert len(named) == len(objects)
    policy = named["ValidatingAdmissionPolicy", "gpu-rules-pods-mandatory"]
    assert '"maxGpusPerPod": "3"' in json.dumps(policy).replace('\\"', '"')
    binding = named["ValidatingAdmissionPolicyBinding", "gpu-rules-pods-mandatory"]
    assert binding["spec"]["validationActions"][: len(actions)] == actions
    excluded = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"][1]
    assert excluded["values"] == ["kube-system", "storage"]


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert (end.value.code, capsys.readouterr().out) == (0, f"gpu-rules {VERSION}\n")


@pytest.mark.promise("The checker finds its settings by itself, within the repository.")
def test_settings_are_found_up_to_the_root_of_the_repository(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    off = json.dumps({"rules": dict.fromkeys(RULES, "off")})
    (folder.parent.parent / FILE).write_text(off)
    assert main(["check", "."]) == 1, "a file above the repository must not be read"
    (folder.parent / FILE).write_text(off)
    assert main(["check", "."]) == 0
    (folder / FILE).write_text("{}")
    assert main(["check", "."]) == 1, "the nearest file must win"
    assert main(["check", ".", "--config", f"../{FILE}"]) == 0
    capsys.readouterr()


def test_settings_above_are_not_read_outside_a_repository(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder.parent / ".git").rmdir()
    (folder.parent / FILE).write_text("wrong")
    assert main(["check", "."]) == 1
    (folder / FILE).write_text("wrong")
    assert main(["check", "."]) == 2
    assert "found no mapping of settings" in capsys.readouterr().err


@pytest.mark.promise("Settings that are found by themselves never run code.")
def test_rules_of_settings_that_were_found_are_not_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "own").mkdir()
    (folder / "own" / "gpu900_x.py").write_text("open('ran', 'w').close()")
    (folder / FILE).write_text("ruleFolder: own")
    assert main(["check", "."]) == 2
    assert "found ruleFolder in a file that was found by itself" in capsys.readouterr().err
    assert not Path("ran").exists()
    assert main(["check", ".", "--config", FILE]) == 2
    assert Path("ran").exists(), "named by the user, the folder's rules are loaded"
