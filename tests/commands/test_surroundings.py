"""Effects of the machine on commands: proxies, the clock, and locks of other commands."""

from __future__ import annotations

import ast
import errno
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_cluster.commands import environment, lock
from gpu_cluster.commands.environment import unproxied
from gpu_cluster.commands.output import answering
from gpu_cluster.machine.tool import ToolchainError
from gpu_cluster_lab.simulator import ports, proxies

ROOT = Path(__file__).parents[2]
PRODUCT = ("components", "embedded/gpu_cluster_lab/toolchain", "maintenance", "policies")
LOOPBACK = "localhost,127.0.0.1,::1"
BY_THE_CLOCK = {
    "maintenance/changelog.py": "the date of a release",
    "components/gpu_cluster/commands/environment.py": "files of runs that are gone, by their age",
    "components/gpu_cluster/commands/evidence/__main__.py": "a stamp",
    "components/gpu_cluster/commands/forges/forge.py": "a forge's limit; the wait is bounded",
    "components/gpu_cluster/commands/state_copies.py": "a stamp",
    "components/gpu_cluster/commands/validate.py": "a stamp",
    "components/gpu_cluster/commands/verify_evidence.py": "the date until which evidence holds",
    "components/gpu_cluster/commands/who.py": "ages of pods",
    "components/gpu_cluster/findings.py": "a stamp",
    "components/gpu_cluster/hosts/observed/probe.py": "compared with a host's clock",
    "components/gpu_cluster/nodes/causes/read.py": "ages of what waits",
    "components/gpu_cluster/nodes/record.py": "a stamp",
    "embedded/gpu_cluster_lab/simulator/controller/events.py": "a stamp",
    "embedded/gpu_cluster_lab/simulator/controller/operator.py": "a stamp",
    "embedded/gpu_cluster_lab/simulator/controller/validations.py": "a stamp",
    "embedded/gpu_cluster_lab/simulator/hosts/rootfs.py": "layers that nothing uses, by their age",
    "policies/gpu_rules/rules/exemptions.py": "the date until which an exemption holds",
}
"""Files that read the system clock, each with the reason; none of them waits by the clock."""


@pytest.mark.promise("Proxies of the shell are not used for what is on this machine.")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"NO_PROXY": "a.example"}, None),
        ({"HTTPS_PROXY": "http://p"}, LOOPBACK),
        ({"all_proxy": "http://p", "NO_PROXY": "a.example"}, f"a.example,{LOOPBACK}"),
        (
            {"https_proxy": "http://p", "no_proxy": "a, localhost", "NO_PROXY": "b"},
            "a,localhost,b,127.0.0.1,::1",
        ),
        ({"https_proxy": "http://p", "no_proxy": "*"}, "*"),
    ],
)
def test_loopback_is_added_to_what_needs_no_proxy(
    given: dict[str, str], expected: str | None
) -> None:
    both = {} if expected is None else {"no_proxy": expected, "NO_PROXY": expected}
    assert unproxied(given) == both


def test_what_the_simulator_starts_knows_no_proxy() -> None:
    given = {"HTTPS_PROXY": "p", "http_proxy": "p", "ALL_PROXY": "p", "PATH": "/bin"}
    assert proxies.without(given) == {"PATH": "/bin"}


def test_the_simulator_asks_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    opener = proxies.direct(ssl.create_default_context())
    (port,) = ports.free_ports(1)
    with pytest.raises(OSError, match="refused") as caught:
        opener.open(f"https://127.0.0.1:{port}", timeout=5)
    # The text "Tunnel" in the error would mean that the request used the proxy.
    assert "unnel" not in str(caught.value)


@pytest.mark.promise("No program of the project waits by the machine's clock.")
def test_no_wait_is_by_the_clock() -> None:
    found = {
        str(file.relative_to(ROOT))
        for folder in (
            "components",
            "embedded",
            "maintenance",
            "policies",
        )
        for file in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and (ast.unparse(node) == "time.time" or node.attr in ("utcnow", "now"))
        and ast.unparse(node).startswith(("time.", "datetime."))
    }
    assert found == BY_THE_CLOCK.keys()


def test_files_of_a_run_stay_when_the_clock_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = environment.Stack("x")
    monkeypatch.setenv("GPU_CLUSTER_CACHE", str(tmp_path))
    stack.scratch.mkdir(parents=True)
    used = stack.scratch / "used"
    used.touch()
    real = environment.time.time()
    monkeypatch.setattr("gpu_cluster.commands.environment.time.time", lambda: real + 10 * 86_400)
    with subprocess.Popen(
        ["sh", "-c", "echo runs; exec sleep 60"],
        env={**os.environ, "TMPDIR": str(stack.scratch)},
        stdout=subprocess.PIPE,
    ) as run:
        # The kernel shows the environment of a process only a moment after the process began.
        assert run.stdout is not None
        run.stdout.readline()
        environment._scratch_folder(stack)
        assert used.exists()
        run.kill()
    environment._scratch_folder(stack)
    assert not used.exists()


HOLD = """
import sys
from pathlib import Path
from gpu_cluster.commands.lock import one_run
with one_run(Path(sys.argv[1]), "gpu-cluster up"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_command_waits_for_another_on_its_stack_and_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "embedded" / ".dev.run"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        end = ["sh", "-c", f"sleep 1; kill -9 {other.pid}"]
        with subprocess.Popen(end), lock.one_run(path, "gpu-cluster down"):
            assert other.wait(30) == -9  # The kernel has released the lock of the killed process.
            assert path.read_text() == f"{os.getpid()} `gpu-cluster down`\n"
    waited = f"waiting for the end of `gpu-cluster up` (process {other.pid}) on the same stack\n"
    assert capsys.readouterr().out == waited


def test_a_command_that_nobody_holds_up_says_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        with lock.one_run(tmp_path / "run", "gpu-cluster up"):
            pass
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/c/\x1b[2J"),
            "cannot write /c/\\x1b[2J: No space left on device; cure: ",
        ),
        (OSError(errno.EROFS, os.strerror(errno.EROFS)), "cannot write a file: Read-only file s"),
        (ToolchainError("Go: found none"), "toolchain: Go: found none"),
    ],
)
def test_what_the_machine_refuses_is_one_line(
    error: Exception, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JSON", raising=False)
    with pytest.raises(SystemExit) as caught, answering("up"):
        raise error
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_a_fault_of_the_program_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JSON", raising=False)
    with pytest.raises(FileNotFoundError), answering("up"):
        Path("/nonexistent").read_text()
