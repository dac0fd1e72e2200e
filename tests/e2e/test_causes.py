"""Each failure that a person can meet names its cause where it fails; Ctrl-C is one line."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from components.inspection.bounds import LIMIT
from tests.e2e.project import Project

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: my-cluster, context: {cluster: c, user: u}}, {name: other, context: {}}]
"""
PASSPHRASE = {"PULUMI_CONFIG_PASSPHRASE": "right"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A stack on a cluster of one's own, which has a state and does not answer."""
    folder = tmp_path_factory.mktemp("causes")
    project = Project.make(folder, "lab")
    document = {**project.declared(), "kubernetes": {"context": "my-cluster"}}
    del document["hosts"]
    project.write(document)
    (folder / "kubeconfig").write_text(KUBECONFIG)
    project.environment["KUBECONFIG"] = str(folder / "kubeconfig")
    done = project.command("preview", **PASSPHRASE)
    assert done.returncode == 0, done.stdout
    return project


@pytest.fixture
def project(made: Project) -> Iterator[Project]:
    """The stack, with its file as it was before and after each test."""
    text = made.file.read_text()
    yield made
    made.file.write_text(text)


def no_passphrase(project: Project) -> dict[str, str]:
    return {}


def wrong_passphrase(project: Project) -> dict[str, str]:
    return {"PULUMI_CONFIG_PASSPHRASE": "wrong"}


def wrong_context(project: Project) -> dict[str, str]:
    project.file.write_text(project.file.read_text().replace("my-cluster", "my-clutser"))
    return {}


def unreachable_backend(project: Project) -> dict[str, str]:
    return {**PASSPHRASE, "PULUMI_BACKEND_URL": f"file://{project.root}/there-is-no-such-folder"}


def new_stack_without_passphrase(project: Project) -> dict[str, str]:
    empty = project.root / "empty"
    empty.mkdir(exist_ok=True)
    return {"PULUMI_BACKEND_URL": f"file://{empty}"}


def bad_stack_file(project: Project) -> dict[str, str]:
    content = yaml.safe_load(project.file.read_text())
    content["config"]["gpu-cluster:cluster"]["platfrom"] = "dra"
    project.file.write_text(yaml.safe_dump(content))
    return PASSPHRASE


KINDS: dict[str, tuple[Callable[[Project], dict[str, str]], tuple[str, ...]]] = {
    "no passphrase": (no_passphrase, ("passphrase must be set", "cure: set PULUMI_CONFIG_PASS")),
    "wrong passphrase": (wrong_passphrase, ("incorrect passphrase", "created with")),
    "new stack": (new_stack_without_passphrase, ("passphrase must be set", "cure: set PULUMI")),
    "wrong context": (wrong_context, ("my-clutser", "my-cluster, other", "Pulumi.lab.yaml")),
    "backend": (unreachable_backend, ("there-is-no-such-folder", "cure: check PULUMI_BACKEND")),
    "stack file": (bad_stack_file, ("platfrom (line", "cure: write")),
}


@pytest.mark.full
@pytest.mark.promise("A command that fails prints the cause and what to do, and no traceback.")
@pytest.mark.parametrize("verbose", ["0", "1"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_command_names_its_cause(project: Project, kind: str, verbose: str) -> None:
    make, wanted = KINDS[kind]
    done = project.command("preview", VERBOSE=verbose, **make(project))
    assert done.returncode != 0
    lines = done.stdout.splitlines()
    assert any(all(part in line for part in wanted) for line in lines), done.stdout
    if verbose == "0":
        assert "Traceback" not in done.stdout


@pytest.mark.full
@pytest.mark.promise("A part of the project that is missing or broken is named by the command.")
@pytest.mark.parametrize("part", ["components/guardrails/pack/PulumiPolicy.yaml", "__main__.py"])
def test_a_broken_part_is_named(project: Project, part: str) -> None:
    file = project.root / part
    kept = file.with_name(f"{file.name}.kept")
    shutil.move(file, kept)
    if part == "__main__.py":
        file.write_text("{}['gone']\n")
    try:
        done = project.command("preview", **PASSPHRASE)
    finally:
        shutil.move(kept, file)
    assert done.returncode == 1
    before = done.stdout.partition("preview: failed")[0].splitlines()
    assert any("error:" in line or "failed:" in line for line in before), done.stdout
    assert "Traceback" not in done.stdout
    assert ("KeyError: 'gone'" if part == "__main__.py" else "olicy") in done.stdout


def started(project: Project, command: str) -> subprocess.Popen[str]:
    """Start a command in a process group of its own, as a terminal does."""
    return subprocess.Popen(
        ["venv/bin/python", "-m", f"commands.{command}"],
        cwd=project.root,
        env={**project.environment, **PASSPHRASE},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def interrupted(project: Project, command: str, times: int, after: float) -> tuple[int, str]:
    """Run a command and interrupt its group."""
    process = started(project, command)
    time.sleep(after)
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.3)
    output, _ = process.communicate(timeout=project.limit)
    return process.returncode, output


@pytest.mark.full
@pytest.mark.promise("Ctrl-C, once or twice, ends a command with one line and exit code 130.")
@pytest.mark.parametrize("first", [1.5, 8.0])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("command", ["preview", "up", "destroy"])
def test_ctrl_c_is_one_line(project: Project, command: str, times: int, first: float) -> None:
    """A shell reports a process that SIGINT ended as exit code 130."""
    for after in (first, first / 2, first / 4, first / 8, first / 16):
        code, output = interrupted(project, command, times, after)
        if code not in (0, 1):
            break  # it had not ended by itself before the interrupt
    assert "Traceback" not in output
    assert code == -signal.SIGINT, output
    lines = [line for line in output.splitlines() if "interrupt" in line]
    assert lines == [f"{command}: interrupted; run it again to go on"], output
    assert output.splitlines()[-1] == lines[0]


@pytest.mark.full
@pytest.mark.promise("Ctrl-C ends a command at once, also while an API server gives no answer.")
def test_ctrl_c_ends_an_inspection_that_hangs(project: Project) -> None:
    """By itself it would end after the inspection's limit only."""
    kubeconfig = Path(project.environment["KUBECONFIG"])
    with socket.socket() as silent:
        silent.settimeout(project.limit)
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        kubeconfig.write_text(KUBECONFIG.replace("https://127.0.0.1:1", address))
        process = started(project, "preview")
        try:
            accepted, _ = silent.accept()
            os.killpg(process.pid, signal.SIGINT)
            with accepted:
                output, _ = process.communicate(timeout=LIMIT / 2)
        finally:
            process.kill()
            kubeconfig.write_text(KUBECONFIG)
    assert process.returncode == -signal.SIGINT, output
    assert output.splitlines()[-1] == "preview: interrupted; run it again to go on"
