"""Tests of the host inspection: systems, driver leftovers and files that block NVIDIA's modules."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_cluster.hosts.observed.probe import answer, probe
from gpu_cluster.hosts.preflight import validate_host
from gpu_rules.faults import FaultSeverity
from tests.desired_host import desired_host
from tests.proofs.hosts.sound import declared
from tests.proofs.world.hosts.rows import Situation, rows

pytestmark = pytest.mark.slow

DEBIAN = 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'
KINDS = ("systems", "leftovers", "modprobe")


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in KINDS for name in rows(kind)])
def test_the_inspection_names_what_is_wrong_and_nothing_else(
    tmp_path: Path, situation: Callable[[str, str], Situation], kind: str, name: str
) -> None:
    row = situation(kind, name)
    usual = said(host(tmp_path / "usual", Situation(name="", source="", wanted="silent")))
    found = said(host(tmp_path / "host", row)) - usual
    if row.wanted != "named":
        assert found == set()
        return
    text = " ".join(found)
    assert all(word in text for word in row.says), text


def host(root: Path, row: Situation) -> Path:
    """Create a root directory of a host with a loaded driver; return its path."""
    for folder in ("run", "var/lib", "usr/bin", "proc/driver/nvidia"):
        (root / folder).mkdir(parents=True)
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  595.91.07  Release\n"
    (root / "proc/driver/nvidia/version").write_text(version)
    row.place(root)
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/os-release").write_text(row.os or DEBIAN)
    (root / "proc/cmdline").write_text(f"{row.cmdline or 'ro quiet'}\n")
    if row.managers == ("rpm-ostree",):
        (root / "run/ostree-booted").touch()
    program = root / "usr/bin/nvidia-smi"
    ends = f"cat <<'E'\n{row.smi}E\nexit 9\n" if row.smi else "exit 0\n"
    program.write_text(f"#!/bin/sh\n{ends}")
    program.chmod(0o755)
    return root


def said(root: Path) -> set[str]:
    """Inspect a root directory with the real script; return the preflight errors and warnings."""
    done = subprocess.run(
        ["sh", "-s"],
        input=probe(),
        env={**os.environ, "GPU_CLUSTER_ROOT": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    cluster, first = declared()
    faults = validate_host(desired_host(cluster, first), answer(done.stdout))
    return {
        str(fault)
        for fault in faults
        if fault.severity in (FaultSeverity.ERROR, FaultSeverity.WARNING)
    }
