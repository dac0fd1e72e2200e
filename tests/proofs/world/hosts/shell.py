"""Run functions of the hosts' scripts over a scratch root that a situation has filled."""

from __future__ import annotations

import subprocess
from pathlib import Path

from components.hosts.script import FOLDER

FIXTURES = Path("lab/simulator/hosts/fixtures/usr")
"""Fakes of the simulated hosts: systemctl, grub-mkconfig and others."""


def run(root: Path, parts: tuple[str, ...], lines: str) -> subprocess.CompletedProcess[str]:
    """Run lines of shell after the named files of `steps/`, and return what they printed.

    Args:
        root: Folder that stands for the host's root.
        parts: Files below `steps/`, without `.sh`.
        lines: Lines of shell; `problem` prints what it is told.
    """
    (root / "run").mkdir(exist_ok=True)
    programs = root / "usr/local/sbin"
    programs.mkdir(parents=True, exist_ok=True)
    for name in ("bin/systemctl", "sbin/grub-mkconfig", "bin/uname", "sbin/sysctl"):
        link = programs / Path(name).name
        if not link.exists():
            link.symlink_to((FIXTURES / name).resolve())
    text = "".join((FOLDER / f"{part}.sh").read_text() for part in parts)
    before = 'mkdir -p "$scratch" "$state"\n'
    return subprocess.run(
        ["sh", "-s"],
        input=f"GC_PHASE=prepare\n{text}{before}{lines}",
        env={
            "GPU_CLUSTER_ROOT": str(root),
            "PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
