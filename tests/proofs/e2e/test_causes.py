"""Tests of error messages: each failed command prints the cause, and Ctrl-C prints one line."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from gpu_cluster.inspection.bounds import LIMIT
from gpu_cluster.inspection.extent import EXTENT
from gpu_cluster_lab import toolchain
from tests.fixtures.programs import run_program
from tests.proofs.e2e.project import Project

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: my-cluster, context: {cluster: c, user: u}}, {name: other, context: {}}]
current-context: other
"""
PASSPHRASE = {"PULUMI_CONFIG_PASSPHRASE": "right"}
UNASKED = {**PASSPHRASE, EXTENT: "hosts"}
"""Variables with which a command does not inspect the cluster, which does not respond."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Create a stack with a state, on a user's cluster that doesn't respond."""
    folder = tmp_path_factory.mktemp("causes")
    project = Project.make(folder, "lab")
    document = {**project.declared(), "kubernetes": {"context": "my-cluster"}}
    del document["hosts"]
    project.write(document)
    (folder / "kubeconfig").write_text(KUBECONFIG)
    project.environment["KUBECONFIG"] = str(folder / "kubeconfig")
    done = project.command("preview", **UNASKED)
    assert done.returncode == 0, done.stdout
    return project


@pytest.fixture
def project(made: Project) -> Iterator[Project]:
    """Return the project with the stack; restore the stack file after each test."""
    text = made.file.read_text()
    yield made
    made.file.write_text(text)


def no_passphrase(project: Project) -> dict[str, str]:
    return {}


def wrong_passphrase(project: Project) -> dict[str, str]:
    return {"PULUMI_CONFIG_PASSPHRASE": "wrong"}


def wrong_context(project: Project) -> dict[str, str]:
    project.file.write_text(project.file.read_text().replace("my-cluster", "my-clutser"))
    return PASSPHRASE


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
@pytest.mark.parametrize(
    "part", ["components/gpu_cluster/guardrails/pack/PulumiPolicy.yaml", "__main__.py"]
)
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


def plainly(project: Project, *arguments: str, **environment: str) -> tuple[int, list[str]]:
    """Run `pulumi` directly in a user's shell.

    Return its exit code and the lines of its diagnostics.
    """
    done = run_program(
        ["bash", "-c", 'pulumi "$@" --non-interactive --color never', "bash", *arguments],
        cwd=project.root,
        env={**project.environment, **environment},
        stderr=subprocess.STDOUT,
        timeout=project.limit,
    )
    _, found, after = done.stdout.partition("\nDiagnostics:\n")
    lines = after.partition("\n\n")[0] if found else done.stdout
    return done.returncode, lines.strip().splitlines()


@pytest.fixture(scope="module")
def shell(made: Project) -> dict[str, str]:
    """Return the variables that `gpu-cluster env` printed before the test broke anything."""
    return made.shell_environment()


def broken_program(project: Project) -> dict[str, str]:
    """Make the Pulumi program fail before it declares any resource."""
    file, line = project.root / "__main__.py", "document = settings"
    file.write_text(file.read_text().replace(line, f"{{}}['gone']\n{line}"))
    return PASSPHRASE


PLAIN = {
    "no passphrase": (no_passphrase, r"passphrase must be set with PULUMI_CONFIG_PASSPHRASE"),
    "wrong passphrase": (wrong_passphrase, r"incorrect passphrase"),
    "wrong context": (wrong_context, r"my-clutser, which is not in .* it has my-cluster, other"),
    "stack file": (bad_stack_file, r'platfrom: found .* cure: write "platform"'),
    "program": (broken_program, r"KeyError: 'gone'"),
}


@pytest.mark.full
@pytest.mark.promise("Plain `pulumi` that fails names the cause in the last line of its errors.")
@pytest.mark.parametrize("command", ["preview", "up"])
@pytest.mark.parametrize("kind", PLAIN)
def test_plain_pulumi_names_the_cause_last(
    project: Project, shell: dict[str, str], kind: str, command: str
) -> None:
    make, cause = PLAIN[kind]
    program = (project.root / "__main__.py").read_bytes()
    more = ("--yes", "--skip-preview") if command == "up" else ()
    try:
        code, lines = plainly(project, command, *more, **{**shell, **make(project)})
    finally:
        (project.root / "__main__.py").write_bytes(program)
    text = "\n".join(lines)
    assert code != 0, text
    assert re.search(cause, lines[-1]), text
    assert "language_host" not in text
    assert text.count("Traceback") == (kind == "program")


def assert_one_cause(done: subprocess.CompletedProcess[str], cause: str) -> None:
    """Check that the last line names the cause, and that no traceback was printed."""
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stdout
    assert re.search(cause, done.stdout.splitlines()[-1]), done.stdout


@pytest.mark.full
@pytest.mark.promise(
    "A wrong context stops `gpu-cluster destroy` and `gpu-cluster forget` before any change."
)
@pytest.mark.parametrize("command", ["destroy", "forget"])
def test_a_wrong_context_stops_what_removes(project: Project, command: str) -> None:
    assert project.command("preview", **UNASKED).returncode == 0
    wrong_context(project)
    before = {path: path.read_bytes() for path in project.state.rglob("*") if path.is_file()}
    done = project.command(command, HOST="gpu-1", **PASSPHRASE)
    assert_one_cause(done, f"^{command}: failed: .*my-clutser.*my-cluster, other")
    assert len(done.stdout.splitlines()) == 1, done.stdout
    assert before == {
        path: path.read_bytes() for path in project.state.rglob("*") if path.is_file()
    }


def cache_without(folder: Path, name: str | None = None) -> dict[str, str]:
    """Make a tool cache without one tool, on a machine that can't download or build anything."""
    tools = folder / "cache" / "tools"
    tools.mkdir(parents=True, mode=0o700)
    for entry in (toolchain.cache_dir() / "tools" / "store").iterdir():
        if name is None or not entry.name.startswith(f"{name}-"):
            shutil.copytree(entry, tools / "store" / entry.name, copy_function=os.link)
    return {
        **UNASKED,
        "GPU_CLUSTER_CACHE": str(folder / "cache"),
        "GOPROXY": "off",
        "GOMODCACHE": str(folder / "modules"),
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }


def kubernetes_missing(project: Project, folder: Path) -> dict[str, str]:
    return cache_without(folder, "pulumi-resource-kubernetes")


def kubernetes_ends(project: Project, folder: Path) -> dict[str, str]:
    """Make a plugin that returns its version to the toolchain, but fails at its second start."""
    real = toolchain.ensure("pulumi-resource-kubernetes")["pulumi-resource-kubernetes"].path
    program = folder / "bin" / real.name
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nif mkdir {folder}/asked 2>/dev/null; then exec {real} "$@"; fi\n'
        "echo 'fatal error: runtime: cannot allocate memory' >&2\nexit 2\n"
    )
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return {**cache_without(folder), "PATH": path}


def own_plugin_ends(name: str) -> Callable[[Project, Path], dict[str, str]]:
    def make(project: Project, folder: Path) -> dict[str, str]:
        file = project.root / "embedded" / "gpu_cluster_lab" / "toolchain" / "plugins" / name
        file.write_text("raise SystemExit('ImportError: no module named grpc')\n")
        return UNASKED

    return make


PLUGINS = {
    "kubernetes missing": (kubernetes_missing, r"pulumi-resource-kubernetes"),
    "kubernetes ends": (kubernetes_ends, r"kubernetes.*cannot allocate memory.*gpu-cluster tools"),
    "command ends": (own_plugin_ends("pulumi-resource-command"), r"command.*ImportError.*make too"),
    "language host": (own_plugin_ends("pulumi-language-python"), r"python.*ImportError.*make too"),
}


@pytest.mark.full
@pytest.mark.promise("A plugin that is missing or does not start is named, with what it printed.")
@pytest.mark.parametrize("command", ["preview", "up"])
@pytest.mark.parametrize("kind", PLUGINS)
def test_a_plugin_that_does_not_start_is_named(
    project: Project, tmp_path: Path, kind: str, command: str
) -> None:
    make, cause = PLUGINS[kind]
    plugins = project.root / "embedded" / "gpu_cluster_lab" / "toolchain" / "plugins"
    kept = {path: path.read_bytes() for path in plugins.iterdir() if path.is_file()}
    try:
        done = project.command(command, **make(project, tmp_path))
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
    assert_one_cause(done, cause)


DEPLOY = Path(__file__).parents[3] / ".github" / "workflows" / "deploy.yml"


@pytest.mark.full
@pytest.mark.promise("A deployment that fails names the cause on the page of its workflow's run.")
def test_a_failed_deployment_names_its_cause(project: Project, tmp_path: Path) -> None:
    """Run the shell steps of deploy.yml as GitHub's runner does, up to the step that fails."""
    # Because requirements.lock has an old time stamp, `make` does not rebuild the virtual
    # environment.
    os.utime(project.root / "requirements.lock", (0, 0))
    steps = yaml.safe_load(DEPLOY.read_text())["jobs"]["deploy"]["steps"]
    first, second = [step["run"] for step in steps if "run" in step][:2]
    handed = tmp_path / "environment"
    runner = {
        **project.environment,
        "GITHUB_ACTIONS": "true",
        "GITHUB_ENV": str(handed),
        "RUNNER_TEMP": str(tmp_path),
    }
    given = {
        "BACKEND_URL": project.environment["PULUMI_BACKEND_URL"],
        "PASSPHRASE": "wrong",
        "KUBECONFIG_TEXT": KUBECONFIG,
    }
    ready = step(project, first, {**runner, **given})
    assert ready.returncode == 0, ready.stdout
    more = dict(line.split("=", 1) for line in handed.read_text().splitlines())
    done = step(project, second, {**runner, **more})
    assert done.returncode != 0
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("::error ")]
    assert re.match(
        "::error title=gpu-cluster up::up: failed after .*incorrect passphrase.*cure: set", line
    )


def step(
    project: Project, script: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return run_program(
        ["bash", "-e", "-c", script],
        cwd=project.root,
        env=environment,
        stderr=subprocess.STDOUT,
        timeout=project.limit,
    )


def started(project: Project, command: str) -> subprocess.Popen[str]:
    """Start a command in a process group of its own, as a terminal does.

    A shell starts programs in the background with SIGINT ignored, and all their children inherit
    that. So the signal's default is restored, in case these tests run in the background.
    """
    return subprocess.Popen(
        ["env", "--default-signal=INT", "venv/bin/python", "-m", "gpu_cluster.commands", command],
        cwd=project.root,
        env={**project.environment, **PASSPHRASE},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def interrupted(project: Project, command: str, times: int, after: float) -> tuple[int, str]:
    """Run a command and send SIGINT to its process group, as Ctrl-C does."""
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
    """A command that SIGINT ended must report that to its parent: a shell shows exit code 130."""
    for after in (first, first / 2, first / 4, first / 8, first / 16):
        code, output = interrupted(project, command, times, after)
        # Without a line about the interrupt, the command's work had ended when SIGINT came.
        if code not in (0, 1) and "interrupt" in output:
            break
    assert "Traceback" not in output
    assert code == -signal.SIGINT, output
    lines = [line for line in output.splitlines() if "interrupt" in line]
    assert lines == [f"{command}: interrupted; run it again to go on"], output
    assert output.splitlines()[-1] == lines[0]


@pytest.mark.full
@pytest.mark.promise("Ctrl-C ends a command at once, also while an API server gives no answer.")
def test_ctrl_c_ends_an_inspection_that_hangs(project: Project) -> None:
    """Ctrl-C ends an inspection of an API server that doesn't respond.

    Otherwise the inspection would only end at its time limit.
    """
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
