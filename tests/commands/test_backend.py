"""Files of a local backend that are cut or empty: the next command repairs them, or says the way.

With the real engine, which reads each file again after the repair.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpu_cluster.commands.backend import heal, is_readable, recorded_names
from gpu_cluster.commands.failure import errors_of
from gpu_cluster.commands.lock import holders
from gpu_rules.faults import FaultError
from tests.fixtures.programs import run_program

STACK = "dev"
PROGRAM = """\
import os
import pulumi_command
for name in ("one", "two"):
    pulumi_command.local.Command(name, create="true", environment={"A": os.environ["TEST_VALUE"]})
"""
LOCK = {"pid": 1, "username": "ann", "hostname": "desk", "timestamp": "2026-11-28T15:25:07.1Z"}


@dataclass(frozen=True)
class Site:
    """A project with a stack whose state is in a local backend.

    Attributes:
        folder: Folder of the project.
        environment: Variables of the engine.
    """

    folder: Path
    environment: dict[str, str]

    @property
    def backend(self) -> Path:
        return Path(self.environment["STATE"]) / ".pulumi"

    @property
    def home(self) -> Path:
        return Path(self.environment["PULUMI_HOME"])

    @property
    def state(self) -> Path:
        return self.backend / "stacks" / "gpu-cluster" / f"{STACK}.json"

    @property
    def locks(self) -> Path:
        return self.backend / "locks" / "organization" / "gpu-cluster" / STACK

    def pulumi(self, *arguments: str, value: str = "1") -> subprocess.CompletedProcess[str]:
        return run_program(
            ["pulumi", *arguments, "--stack", STACK, "--non-interactive", "--color", "never"],
            cwd=self.folder,
            env={**self.environment, "TEST_VALUE": value},
            timeout=300,
        )

    def up(self, value: str = "1") -> subprocess.CompletedProcess[str]:
        return self.pulumi("up", "--yes", "--skip-preview", value=value)

    def heal(self) -> list[str]:
        return list(heal(self.backend, self.home, STACK))

    def files(self) -> list[Path]:
        """Return the files that the engine has written, and one of each kind that it may write."""
        places = (self.backend, self.home / "workspaces")
        return sorted(path for place in places for path in place.rglob("*") if path.is_file())


def made(folder: Path, state: Path, environment: dict[str, str]) -> Site:
    (folder / "Pulumi.yaml").write_text("name: gpu-cluster\nruntime: python\n")
    (folder / "__main__.py").write_text(PROGRAM)
    own = {
        "PULUMI_BACKEND_URL": f"file://{state}?metadata=skip",
        "STATE": str(state),
        "PULUMI_HOME": str(folder / "home"),
    }
    site = Site(folder, {**environment, **own})
    done = site.pulumi("stack", "init")
    assert done.returncode == 0, done.stderr
    return site


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory, pulumi_env: dict[str, str]) -> Site:
    """Return a stack after two runs, with tags and a file of attributes."""
    folder, state = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("state")
    site = made(folder, state, pulumi_env)
    for value in ("1", "2"):
        assert site.up(value).returncode == 0
    assert site.pulumi("stack", "tag", "set", "a", "b").returncode == 0
    site.pulumi("stack", "select")
    site.state.with_name(f"{site.state.name}.attrs").write_text('{"user.content_type": "a/b"}')
    return site


@pytest.fixture
def site(deployed: Site) -> Iterator[Site]:
    """Return the deployed stack; restore its files after the test."""
    places = (deployed.backend, deployed.home / "workspaces")
    copies = [shutil.copytree(p, p.with_name(f"{p.name}.kept"), symlinks=True) for p in places]
    yield deployed
    for place, copy in zip(places, copies, strict=True):
        shutil.rmtree(place)
        copy.rename(place)


def cuts(content: bytes, step: int = 1) -> list[int]:
    """Return the lengths at which a file is cut: to nothing, and in steps to one byte less."""
    text = content.rstrip()
    return sorted({*range(0, len(text), step), len(text) - 1})


@pytest.mark.slow
@pytest.mark.promise("A file of a local backend that is cut at any byte is repaired, or removed.")
def test_no_cut_file_is_left(site: Site) -> None:
    every = [path for path in site.files() if not path.name.endswith((".checkpoint.json", ".bak"))]
    names = {path.name.partition(".")[2] or path.name for path in every}
    assert {"yaml", "json", "json.attrs", "pulumi-tags", "history.json"} <= names
    lock = site.locks / "a.json"
    lock.write_text(json.dumps(LOCK))
    for path in (lock, *every):
        if "backups" in path.parts:
            continue
        content = path.read_bytes()
        for length in cuts(content, 7 if len(content) > 1000 else 1):
            path.write_bytes(content[:length])
            (line,) = site.heal()
            assert path.name in line
            assert not path.exists() or path.read_bytes() != content[:length], path
            assert site.heal() == []
        if path != lock:
            path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.promise("The engine works again after a file of its backend was cut and repaired.")
@pytest.mark.parametrize("part", [0.0, 0.6])
def test_the_engine_reads_what_was_repaired(site: Site, part: float) -> None:
    """Cut each file in turn; files of copies and history don't stop the engine."""
    for path in site.files():
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * part)])
        site.heal()
        shown = site.pulumi("stack", "export")
        assert shown.returncode == 0, f"{path}: {shown.stderr}"
        assert '"name"' in shown.stdout or "one" in shown.stdout, path
    assert site.up("3").returncode == 0
    history = site.pulumi("stack", "history", "--json")
    assert history.returncode == 0, history.stderr
    assert site.heal() == []


@pytest.mark.slow
def test_a_state_without_a_copy_that_can_be_read_is_a_fault_that_says_the_way(site: Site) -> None:
    for path in site.files():
        if path.suffix in (".json", ".bak") and path.parent.name != "workspaces":
            path.write_bytes(b"")
    before = site.state.stat()
    with pytest.raises(FaultError, match=r"found 0 bytes .* no copy .* restore the file from"):
        site.heal()
    assert site.state.stat() == before


@pytest.mark.slow
def test_a_state_is_restored_from_its_newest_copy_and_the_cut_one_is_kept(site: Site) -> None:
    content, copy = site.state.read_bytes(), site.state.with_name(f"{STACK}.json.bak")
    site.state.write_bytes(content[:100])
    newest = copy.read_bytes()
    (line,) = site.heal()
    assert f"restored from {copy.name} of 20" in line
    assert site.state.read_bytes() == newest
    assert site.state.with_name(f"{STACK}.json.unreadable").read_bytes() == content[:100]
    site.state.write_bytes(b"")
    copy.write_bytes(b"")
    (line,) = site.heal()
    assert "restored from" in line
    assert is_readable(site.state)
    assert site.up("2").returncode == 0


@pytest.mark.slow
@pytest.mark.promise("A state of which another run holds the lock is not repaired.")
def test_the_state_of_a_running_run_is_left_alone(site: Site) -> None:
    (site.locks / "a.json").write_text(json.dumps(LOCK))
    site.state.write_bytes(b"")
    assert site.heal() == []
    assert site.state.read_bytes() == b""


@pytest.mark.slow
@pytest.mark.promise("Who holds the lock of a stack, where and since when is said.")
def test_a_foreign_lock_is_kept_and_its_holder_named(site: Site) -> None:
    lock = site.locks / "a.json"
    lock.write_text(json.dumps(LOCK))
    assert site.heal() == []
    assert holders(site.backend, STACK) == ["ann@desk (process 1) since 2026-11-28T15:25:07.1Z"]
    (line,) = errors_of(site.up().stderr)
    assert line.startswith(
        "error: the stack is locked by ann@desk (process 1) since 2026-11-28T15:25:07Z; cure: wait"
    )
    for text in ("{}", "[]", '{"pid": "x"}'):
        lock.write_text(text)
        assert site.heal() == []
        assert holders(site.backend, STACK) == [f"somebody, by the file {lock}"]


@pytest.mark.slow
def test_an_unfinished_lock_that_becomes_a_lock_is_kept(site: Site) -> None:
    unfinished, lock = site.locks / "a.json.18c1f.tmp", site.locks / "a.json"
    unfinished.write_text("")

    def write() -> None:
        unfinished.write_text(json.dumps(LOCK))
        unfinished.rename(lock)

    timer = threading.Timer(0.5, write)
    timer.start()
    assert site.heal() == []
    timer.join()
    assert json.loads(lock.read_text()) == LOCK
    unfinished.write_text("")
    assert len(site.heal()) == 1
    assert [*site.locks.iterdir()] == [lock]


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file that fills a small disk; a folder `state` is next to it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("this user can mount no file system")
    try:
        (disk / "state").mkdir()
        yield disk / "filler"
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def fill(filler: Path, free: int) -> None:
    """Fill the disk but for some bytes."""
    room = shutil.disk_usage(filler.parent).free
    filler.write_bytes(b"x" * max(0, room - free))


@pytest.mark.slow
@pytest.mark.promise(
    "A full disk is named in the last line, and a run goes on after room was made on it."
)
@pytest.mark.parametrize("free", [0, 8192])
def test_after_a_full_disk_the_next_run_goes_on(
    full_disk: Path, tmp_path: Path, pulumi_env: dict[str, str], free: int
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    site = made(folder, full_disk.with_name("state"), pulumi_env)
    assert site.up("1").returncode == 0
    fill(full_disk, free)
    failed = site.up("2")
    if failed.returncode:
        lines = errors_of(failed.stderr) or errors_of(failed.stdout)
        assert any("no space left on device" in line for line in lines), failed.stderr
        assert any("cure: make room there" in line for line in lines)
    full_disk.unlink()
    site.heal()
    done = site.up("2")
    assert done.returncode == 0, done.stderr + done.stdout


def test_the_names_in_a_state_are_those_that_the_engine_lists(site: Site) -> None:
    exported = json.loads(site.pulumi("stack", "export").stdout)["deployment"]["resources"]
    names = recorded_names(site.backend, STACK)
    assert len(names) == len(exported)
    assert {"command:local:Command::one", "command:local:Command::two"} < names
    site.state.write_bytes(site.state.read_bytes()[:100])
    assert recorded_names(site.backend, STACK) == frozenset()
