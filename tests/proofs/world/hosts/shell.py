"""Run shell functions of the host scripts on a folder that contains a host's files."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gpu_cluster.hosts.script import FOLDER
from tests.fixtures.programs import run_program

FIXTURES = Path("embedded/gpu_cluster_lab/simulator/hosts/fixtures/usr")
"""Fakes of the simulated hosts: systemctl, grub-mkconfig and others."""
PROGRAMS = (
    "bin/systemctl",
    "bin/uname",
    *(f"sbin/{n}" for n in ("grub-mkconfig", "modprobe", "sysctl")),
)


def run(root: Path, parts: tuple[str, ...], lines: str) -> subprocess.CompletedProcess[str]:
    """Source the named files of `steps/`, run shell lines, and return the finished process.

    Args:
        root: Folder that the scripts use as the host's root directory.
        parts: Files below `steps/`, without `.sh`.
        lines: Shell lines; the function `problem` prints its arguments.
    """
    (root / "run").mkdir(exist_ok=True)
    programs = root / "usr/local/sbin"
    programs.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        link = programs / Path(name).name
        if not link.exists():
            link.symlink_to((FIXTURES / name).resolve())
    text = "".join((FOLDER / f"{part}.sh").read_text() for part in parts)
    before = 'mkdir -p "$scratch" "$state"\n'
    return run_program(
        ["sh", "-s"],
        env={
            "GPU_CLUSTER_ROOT": str(root),
            "PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin",
        },
        input=f"GC_PHASE=prepare\n{text}{before}{lines}",
        timeout=120,
    )
