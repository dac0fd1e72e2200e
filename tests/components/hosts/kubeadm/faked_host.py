"""A host's root in a folder, on which scripts for control planes run with fake programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.fixtures.programs import run_program

NOTHING = "#!/bin/sh\n"
"""A fake program that does nothing and succeeds."""


@dataclass
class Host:
    """A host's root in a folder; its fake programs stand before those of the machine."""

    root: Path

    @classmethod
    def make(cls, root: Path, programs: Mapping[str, str]) -> Host:
        """Return a host with fake programs, each by its name and its text."""
        host = cls(root)
        for name, text in programs.items():
            host.write(f"programs/{name}", text)
            (root / "programs" / name).chmod(0o755)
        return host

    @property
    def state(self) -> Path:
        """Return the folder with the state of the cluster's phase."""
        return self.root / "var/lib/gpu-cluster/cluster"

    def run(self, script: str, action: str = "apply") -> tuple[int, str, str]:
        """Run a script; return its exit status, output and errors."""
        environment = {
            "GPU_CLUSTER_ROOT": str(self.root),
            "ROOT": str(self.root),
            "PATH": f"{self.root}/programs:/usr/sbin:/usr/bin:/sbin:/bin",
        }
        done = run_program(["sh", "-s", "--", action], env=environment, input=script, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def read(self, name: str) -> str:
        """Return the text of a file; empty if there is none."""
        path = self.root / name
        return path.read_text() if path.exists() else ""

    def write(self, name: str, text: str = "") -> None:
        """Write a file and its folders."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
