"""The wheel, the GitHub action and the GitLab component work without the rest of this project.

Each test installs the package with pip, as users do, from the package index that this machine uses.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_rules.command import VERSION
from gpu_rules.rules import RULES
from tests.fixtures.programs import run_program
from tests.policies.check.packages import copy
from tests.policies.check.running import ROOT
from tests.policies.check.samples import BAD, GOOD

LIMIT = 300
PIP = {
    key: value
    for key, value in os.environ.items()
    if key.startswith(("PIP_", "SSL_", "REQUESTS_")) or key.lower().endswith("_proxy")
}
"""The environment variables that tell pip which package index this machine uses."""
DECOYS = ("config", "components", "policies")
ACTION = yaml.safe_load((ROOT / "policies" / "action.yml").read_text())
SPEC, JOB = yaml.safe_load_all((ROOT / "templates" / "gpu-rules.yml").read_text())


def run(
    folder: Path, *command: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, in an environment in which Python can't import this project."""
    return run_program(
        command,
        cwd=folder,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", **PIP, **(env or {})},
        timeout=LIMIT,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of the package, built from a copy of the folder `policies`."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    copy(source, "policies/")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    done = run(source, *pip, "wheel", "--no-deps", "-w", str(target), "./policies")
    assert done.returncode == 0, done.stderr
    (made,) = target.iterdir()
    assert made.name == f"gpu_rules-{VERSION}-py3-none-any.whl"
    return made


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of `gpu-rules` in a new virtual environment.

    The environment also has packages with the names of this project's packages. The command must
    not import them.
    """
    folder = tmp_path_factory.mktemp("environment")
    assert run(folder, sys.executable, "-m", "venv", ".").returncode == 0
    python = str(folder / "bin" / "python")
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    done = run(folder, *pip, "install", "-q", str(wheel))
    assert done.returncode == 0, done.stderr
    (site,) = folder.glob("lib/python*/site-packages")
    for name in DECOYS:
        (site / name).mkdir()
        (site / name / "__init__.py").write_text('raise ImportError("somebody else\'s")\n')
        assert run(folder, python, "-c", f"import {name}").returncode == 1
    return str(folder / "bin" / "gpu-rules")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a user's project, with a manifest that follows the rules and one that breaks them."""
    folder = tmp_path / "project"
    for name in (*DECOYS, "apps"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise ImportError\n")
    (folder / "apps" / "bad.yaml").write_text(BAD)
    (folder / "apps" / "good.yaml").write_text(GOOD)
    return folder


@pytest.mark.slow
@pytest.mark.promise("The wheel gpu-rules runs each of its commands without this project.")
def test_each_command_works_from_the_wheel_in_an_empty_environment(
    command: str, project: Path
) -> None:
    assert run(project, command, "--version").stdout == f"gpu-rules {VERSION}\n"
    listed = run(project, command, "list").stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(RULES)
    assert RULES["GPU004"].why in run(project, command, "explain", "GPU004").stdout
    exported = list(yaml.safe_load_all(run(project, command, "export", "vap").stdout))
    assert {item["apiVersion"].partition("/")[0] for item in exported} == {
        "admissionregistration.k8s.io"
    }
    found = run(project, command, "check", ".", "--output", "json=known.json")
    assert (found.returncode, "apps/bad.yaml:9: mandatory GPU001" in found.stdout) == (1, True)
    known = run(project, command, "check", ".", "--baseline", "known.json")
    assert (known.returncode, "known from the baseline" in known.stdout) == (0, True)
    settings = json.dumps({"rules": dict.fromkeys(RULES, "off")})
    (project / ".gpu-rules.yaml").write_text(settings)
    assert run(project, command, "check", ".").returncode == 0


def runner(steps: list[Any], inputs: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Run the steps of the composite action, as a minimal fake of GitHub's runner.

    The fake replaces `${{ inputs.x }}` only in `env`, and runs each script with
    `bash -eo pipefail`. It returns exit code and output.
    """
    defaults = {name: given["default"] for name, given in ACTION["inputs"].items()}
    values, output = {**defaults, **inputs}, ""
    for step in steps:
        assert "${{" not in step["run"], "an input must not become text of the script"
        env = {
            name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: values[match[1]], text)
            for name, text in step.get("env", {}).items()
        }
        given = {
            "RUNNER_TEMP": str(folder.parent / "temp"),
            "GITHUB_ACTION_PATH": str(folder.parent / "action" / "policies"),
        }
        script = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"])
        done = run(folder, *script, env={**given, **env})
        output += done.stdout + done.stderr
        if done.returncode:
            return done.returncode, output
    return 0, output


@pytest.mark.slow
def test_the_action_annotates_what_it_finds_and_passes_with_a_baseline(project: Path) -> None:
    copy(project.parent / "action", "policies/")
    (project.parent / "temp").mkdir()
    install, judge = ACTION["runs"]["steps"]
    code, output = runner([install, judge], {"sarif": "found.sarif"}, project)
    assert (code, "::error file=./apps/bad.yaml,line=9," in output) == (1, True), output
    assert json.loads((project / "found.sarif").read_text())["version"] == "2.1.0"
    code, output = runner([judge], {"paths": "apps/good.yaml\napps/g*.yaml\n"}, project)
    assert (code, "1 object checked" in output) == (0, True), output
    code, output = runner([judge], {"paths": "$(touch ran)\n--help"}, project)
    assert (code, (project / "ran").exists()) == (2, False), output
    assert "::error file=--help" in output


def interpolated(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$\[\[ inputs\.([\w-]+) \]\]", lambda match: values[match[1]], text)


def pipeline(inputs: Mapping[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the script of the CI/CD component's job, as a minimal fake of GitLab's runner."""
    declared = SPEC["spec"]["inputs"]
    defaults = {name: given["default"] for name, given in declared.items() if "default" in given}
    job = JOB["gpu-rules"]
    values = {**defaults, **inputs}
    env = {name: interpolated(text, values) for name, text in job["variables"].items()}
    script = "\n".join(job["script"])
    assert "$[[" not in script, "an input must not become text of the script"
    return run(folder, "sh", "-e", "-c", script, env=env)


@pytest.mark.slow
def test_the_component_writes_a_report_of_tests_and_fails_on_a_violation(
    wheel: Path, project: Path
) -> None:
    requirement = f"gpu-rules @ {wheel.as_uri()}"
    done = pipeline({"requirement": requirement, "paths": "apps/g*.yaml\nno such\n"}, project)
    assert (done.returncode, "no such: unreadable" in done.stdout) == (2, True), done.stderr
    done = pipeline({"requirement": requirement}, project)
    assert (done.returncode, "mandatory GPU001" in done.stdout) == (1, True), done.stderr
    assert '<testsuites name="gpu-rules"' in (project / "gpu-rules.xml").read_text()


def test_the_component_has_no_default_for_what_is_installed() -> None:
    """With a default package name, pip would install any package of that name from an index."""
    assert "default" not in SPEC["spec"]["inputs"]["requirement"]
