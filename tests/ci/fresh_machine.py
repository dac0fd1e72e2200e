"""Check that a change must pass in CI: tests, slow tests and lint, on a fresh machine.

It uses a fresh clone of the last commit, a ``PATH`` with only Python, git, make and basic shell
tools, and a separate cache. Only the built tools and the root file systems of hosts are shared with
the machine's own cache. At the end nothing of the run may be left.

``python3 tests/ci/fresh_machine.py`` runs it; the exit code is 1 if there are faults, which the
last lines list.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.ci import leftovers, machine  # noqa: E402

COMMAND = re.compile(r"^\$ (make test)$", re.M)
"""Pattern for the test command in README.md."""

FAULT = re.compile(r"^(?:FAILED|ERROR) (\S+\.py(?:::.+?)?)(?: - .*)?$")

SLOW = "make test-full"
"""Command for the tests that `make test` leaves out because they take long."""

MINUTES = {"tools": 60, "roots": 20, "tests": 45, "slow": 64, "again": 10, "check": 15}
"""Time limit of each part in minutes; `tools` builds the toolchain if the cache is empty."""

NOT_COPIED = shutil.ignore_patterns("venv", "__pycache__", ".*_cache", ".hypothesis")

FEW = 40
"""Maximum number of failed tests that are run again without other tests.

More failures are not caused by a busy machine. A server that did not start in time makes all tests
fail that use it in the same process.
"""

WARM_ROOTS = """
from gpu_cluster_lab.simulator.hosts import rootfs
for make in (rootfs.debian_root, rootfs.builder_root, rootfs.docker_root):
    try:
        make(print)
    except Exception as error:
        print(f"not to be had: {error}")
"""
"""Program that prepares the root file systems of hosts; it must run as root.

They are made with debootstrap, which README.md does not require on a user's machine.
"""


@dataclass(frozen=True)
class Place:
    """Folders of one run of the fresh machine check; all of them are in one parent folder."""

    folder: Path

    @property
    def clone(self) -> Path:
        return self.folder / "clone"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    @property
    def programs(self) -> Path:
        return self.folder / "bin"

    def environment(self, path: str) -> dict[str, str]:
        """Return the environment of a run: this PATH, and no variables of an active virtualenv."""
        dropped = ("PYTHON", "VIRTUAL_ENV", "PULUMI_", "KUBECONFIG", "GPU_", "MAKE", "MFLAGS")
        kept = {name: text for name, text in os.environ.items() if not name.startswith(dropped)}
        own = {"GPU_CLUSTER_CACHE": str(self.cache), "TMPDIR": str(self.temporary)}
        return {**kept, **own, "PATH": path}


def machine_cache() -> Path:
    """Return the folder of this machine's tool cache (`gpu_cluster_lab.toolchain.cache_dir`)."""
    chosen = os.environ.get("GPU_CLUSTER_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "gpu-cluster"


def prepare(place: Place) -> None:
    """Create the clone of the project, the folder for PATH, and a separate cache.

    The cache shares the built tools and root file systems with the machine's normal cache, because
    they take long to make.
    """
    place.temporary.mkdir()
    place.cache.mkdir()
    for name in ("tools", "roots"):
        shared = machine_cache() / name
        shared.mkdir(parents=True, exist_ok=True)
        (place.cache / name).symlink_to(shared)
    machine.link_programs(place.programs)
    clone = ["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(place.clone)]
    # Git may refuse to clone, for example if the repository has another owner or is shallow.
    if subprocess.run(clone, timeout=600).returncode:
        print("no clone could be made: the work tree is copied")
        shutil.copytree(ROOT, place.clone, ignore=NOT_COPIED, symlinks=True, dirs_exist_ok=True)


def run(command: list[str], place: Place, part: str, environment: Mapping[str, str]) -> str | None:
    """Run one part of the check and print its output.

    Return the output if the part failed, otherwise None.
    """
    print(f"== {part}: {' '.join(command)[:100]}", flush=True)
    begun = time.monotonic()
    lines = []
    limited = ["timeout", "-k", "60", f"{MINUTES[part]}m", *command]
    with subprocess.Popen(
        limited,
        cwd=place.clone,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    print(
        f"== {part}: exit code {process.returncode}, {time.monotonic() - begun:.0f} s", flush=True
    )
    return "".join(lines) if process.returncode else None


def failed_tests(output: str) -> list[str]:
    """Return the names of the failed tests from pytest's summary."""
    matches = (FAULT.match(line) for line in output.splitlines())
    return list(dict.fromkeys(match[1] for match in matches if match))


def tests(place: Place, bare: Mapping[str, str]) -> list[str]:
    """Run the test command of README.md, then the slow tests; return the names of failed tests."""
    match = COMMAND.search((place.clone / "README.md").read_text(encoding="utf-8"))
    if match is None:
        return ["README.md: found no line `$ make test`; wanted: the test command"]
    return judged(match[1], "tests", place, bare) + judged(SLOW, "slow", place, bare)


def judged(command: str, part: str, place: Place, bare: Mapping[str, str]) -> list[str]:
    """Run a test command; return the tests that failed.

    If only few tests failed, they are run again without other tests. If they pass then, nothing is
    returned.
    """
    output = run(command.split(), place, part, bare)
    if output is None:
        return []
    failed = failed_tests(output)
    faults = [f"{command}: {name}" for name in failed] or [f"{command}: failed; see above"]
    if not 0 < len(failed) <= FEW:
        return faults
    again = ["venv/bin/python", "-m", "pytest", "-m", "", *failed]
    if run(again, place, "again", bare) is not None:
        return faults
    for name in failed:
        print(f"unsteady: {name}: failed beside other tests, passed alone")
    return []


def left(place: Place) -> list[str]:
    """Return messages about processes, mounts and files that the run left; kill the processes."""
    running = leftovers.await_none(place.folder, seconds=120)
    faults = [f"left: process {pid}: {command}" for pid, command in running.items()]
    faults += [f"left: mount {point}" for point in leftovers.mounts(place.folder)]
    faults += [f"left: file {path}" for path in leftovers.files(place.temporary, place.cache)]
    leftovers.end(running)
    return faults


def parts(place: Place) -> list[str]:
    """Run all parts of the fresh machine check in order; return the failures of all parts."""
    prepare(place)
    bare = place.environment(str(place.programs))
    whole = place.environment(os.environ["PATH"])
    if run(["make", "tools"], place, "tools", bare) is not None:
        return ["make tools: failed; see above"]
    if os.geteuid() == 0:
        run(["venv/bin/python", "-u", "-c", WARM_ROOTS], place, "roots", whole)
    faults = tests(place, bare)
    if run(["make", "check"], place, "check", whole) is not None:
        faults.append("make check: failed; see above")
    return faults + left(place)


def main() -> int:
    """Run the fresh machine check in a new folder and delete the folder; return the exit code."""
    home = machine_cache().parent
    home.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    place = Place(Path(tempfile.mkdtemp(prefix="gpu-cluster-ci-", dir=home)).resolve())
    try:
        faults = parts(place)
    finally:
        leftovers.end(leftovers.processes(place.folder))
        shutil.rmtree(place.folder, ignore_errors=True)
    for fault in faults:
        print(f"fault: {fault}")
    print(f"fresh machine: {len(faults)} faults, {time.monotonic() - begun:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
