"""Tests of `gpu-cluster up` in unusual surroundings.

The surroundings are shells, folder names and full disks, and `gpu-cluster down` while `up` runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_cluster.commands.embedded_cluster import erase
from gpu_cluster.machine import processes
from gpu_cluster_lab import simulator, toolchain
from tests.guard import own_name
from tests.proofs.e2e.project import Project, figures

SECONDS = 900
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
NOBODY = "http://127.0.0.1:9"


class Surrounded(Project):
    """Project whose commands are run by `make` in an unusual shell."""

    def make_command(self, name: str, *before: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.around, *before, "make", name],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=SECONDS,
            check=False,
        )

    def comes_up(self, *before: str) -> int:
        """Run `make up`, which must validate all GPUs; return the number of changed resources."""
        done = self.make_command("up", *before)
        assert done.returncode == 0, done.stdout
        assert "Traceback" not in done.stdout
        simulated, declared, changed = figures(done.stdout.strip().splitlines()[-1])
        assert (simulated, declared) == (32, 32)
        return changed

    def goes_down(self, *before: str) -> None:
        """Run `gpu-cluster down` and check that no process is left."""
        done = self.make_command("down", *before)
        assert done.returncode == 0, done.stdout
        assert simulator.status(self.stack).running == {}


@pytest.fixture
def surrounded(tmp_path: Path) -> Iterator[Surrounded]:
    """Copy the project to a folder whose name has spaces and non-ASCII letters; start nothing."""
    if shutil.which("make") is None:
        pytest.skip("make: not on PATH")
    project = Surrounded.make(tmp_path / "mein Prójekt", own_name("e2e"))
    assert isinstance(project, Surrounded)
    yield project
    erase(project.stack)


@pytest.mark.full
@pytest.mark.promise(
    "`gpu-cluster up` works in the locale C, and in a shell that makes warnings errors."
)
def test_a_shell_without_a_locale_and_with_warnings_as_errors(surrounded: Surrounded) -> None:
    surrounded.environment |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONWARNINGS": "error"}
    surrounded.environment["PYTHONCOERCECLOCALE"] = "0"
    surrounded.comes_up()


@pytest.mark.full
@pytest.mark.promise("`gpu-cluster up` works with a umask of 077.")
def test_a_umask_that_gives_others_nothing(surrounded: Surrounded) -> None:
    surrounded.comes_up("sh", "-c", 'umask 077; exec "$@"', "sh")


@pytest.mark.full
@pytest.mark.promise(
    "`gpu-cluster up` needs no proxy for what is on this machine, and no NO_PROXY."
)
def test_proxies_that_answer_nobody(surrounded: Surrounded) -> None:
    surrounded.environment |= dict.fromkeys(PROXIES, NOBODY)
    surrounded.comes_up()


@pytest.mark.full
@pytest.mark.promise("`gpu-cluster up` works on a machine without any network but loopback.")
def test_a_machine_without_a_network(surrounded: Surrounded) -> None:
    alone = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    if os.geteuid() != 0 or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("no network namespaces here")
    assert surrounded.comes_up(*alone)


@pytest.mark.full
@pytest.mark.promise("`gpu-cluster up` works while the clock that its programs see jumps by hours.")
def test_a_clock_that_jumps(surrounded: Surrounded, tmp_path: Path) -> None:
    """`gpu-cluster up` works while the clock jumps by hours for all dynamically linked programs.

    These are the language host, plugins and commands. The engine is linked statically, so it keeps
    the real clock.
    """
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("no C compiler on PATH")
    library, source = tmp_path / "clock.so", Path(__file__).with_name("jumping_clock.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True
    )
    surrounded.environment["LD_PRELOAD"] = str(library)
    seen = subprocess.run(
        ["venv/bin/python", "-c", JUMPS],
        cwd=surrounded.root,
        env=surrounded.environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert seen.stdout == "True\n"
    # The command is run without make, because make would print a warning about the clock as the
    # last line.
    assert figures(surrounded.up())[:2] == (32, 32)


JUMPS = """
import time
seen = []
while len(seen) < 50:
    seen.append(time.time())
    time.sleep(0.1)
print(max(seen) - min(seen) > 3000)
"""


def own_cache(folder: Path) -> Path:
    """Create an empty cache that only shares tools and root file systems with the real cache."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("tools", "roots"):
        (folder / name).symlink_to((toolchain.cache_dir() / name).resolve())
    return folder


@pytest.mark.full
@pytest.mark.promise("`gpu-cluster up` works in folders with blanks and letters of any language.")
def test_folders_with_blanks_and_letters(
    surrounded: Surrounded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "Домой zu Haus"
    home.mkdir()
    cache = own_cache(home / "ein cäche")
    surrounded.environment |= {"HOME": str(home), "GPU_CLUSTER_CACHE": str(cache)}
    monkeypatch.setenv("GPU_CLUSTER_CACHE", str(cache))
    try:
        assert surrounded.comes_up()
        assert not surrounded.comes_up()
        surrounded.goes_down()
    finally:
        erase(surrounded.stack)


MOUNTED = 'mount -t tmpfs -o size="$SIZE" none "$GPU_CLUSTER_CACHE" && ln -s "$TOOLS" "$ROOTS" \
"$GPU_CLUSTER_CACHE" && mount -o remount,"$MODE" "$GPU_CLUSTER_CACHE" && exec "$@"'


@pytest.mark.full
@pytest.mark.promise("A cache that is full or can't be written is named in one line, by its cause.")
@pytest.mark.parametrize(
    ("mode", "size", "cause"),
    [
        pytest.param("ro", "1m", "Read-only file system", id="read-only"),
        pytest.param("rw", "16k", "No space left on device", id="no-room"),
        pytest.param("rw", "20m", "no space left on device", id="little-room"),
    ],
)
def test_a_cache_that_takes_no_files(
    surrounded: Surrounded, tmp_path: Path, mode: str, size: str, cause: str
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    around = ("unshare", "--mount", "sh", "-c", MOUNTED, "sh")
    real = toolchain.cache_dir()
    surrounded.environment |= {
        "GPU_CLUSTER_CACHE": str(cache),
        "SIZE": size,
        "MODE": mode,
        "TOOLS": str((real / "tools").resolve()),
        "ROOTS": str((real / "roots").resolve()),
    }
    if os.geteuid() != 0 or subprocess.run([*around[:2], "true"], check=False).returncode:
        pytest.skip("no mount namespaces here")
    surrounded.edit(lambda cluster: cluster.update(hosts=[]))
    try:
        done = surrounded.make_command("up", *around)
    finally:
        processes.stop_marked(cache / "embedded" / surrounded.stack)
    assert done.returncode != 0
    assert "Traceback" not in done.stdout, done.stdout
    assert sum(cause.lower() in line.lower() for line in done.stdout.splitlines()) == 1, done.stdout


@pytest.mark.full
@pytest.mark.promise(
    "`gpu-cluster down` during a first `gpu-cluster up` waits for it, then removes everything."
)
def test_down_waits_for_a_first_up(surrounded: Surrounded) -> None:
    with subprocess.Popen(
        ["make", "up"],
        cwd=surrounded.root,
        env=surrounded.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as up:
        folder = toolchain.cache_dir() / "embedded" / surrounded.stack
        while not (folder / "kwok.yaml").exists() and up.poll() is None:
            time.sleep(0.01)
        down = surrounded.make_command("down")
        text, _ = up.communicate(timeout=SECONDS)
    assert up.returncode == 0, text
    assert figures(text.strip().splitlines()[-1])[:2] == (32, 32)
    assert down.returncode == 0, down.stdout
    assert "waiting for the end of `gpu-cluster up` (process " in down.stdout
    assert " 0 resources removed" not in down.stdout
    assert simulator.status(surrounded.stack).running == {}
    assert {path.name for path in folder.iterdir()} <= {"id_ed25519", "id_ed25519.pub"}
