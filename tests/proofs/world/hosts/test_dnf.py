"""Tests of dnf's configuration files of others with holds of ours, as the real dnf reads them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_cluster_lab.simulator.hosts import rootfs
from tests.proofs.world.hosts import shell
from tests.proofs.world.hosts.rows import Situation, rows

pytestmark = [pytest.mark.full, pytest.mark.skipif(os.geteuid() != 0, reason="not root")]

PARTS = (
    *("library/base", "library/files", "library/effects", "library/expectations"),
    *("library/package_manager", "library/holds"),
)
HELD = ("nvidia-open", "nvidia-imex")
READ = """
import sys, dnf
conf = dnf.conf.Conf()
conf.read(sys.argv[1])
print(*conf.excludepkgs)
"""


@pytest.mark.parametrize("name", rows("dnf"))
def test_holds_join_what_others_exclude_and_leave_the_file_as_it_was(
    tmp_path: Path, situation: Callable[[str, str], Situation], name: str
) -> None:
    row = situation("dnf", name)
    row.place(tmp_path)
    conf = tmp_path / "etc/dnf/dnf.conf"
    before = conf.read_bytes()
    assert excluded(tmp_path) == sorted(row.theirs), "the row is wrong about dnf"
    hold = f"manager=dnf step=x\nhold_packages {' '.join(HELD)} >/dev/null\necho $changed\n"
    assert run(tmp_path, hold) != "0\n"
    assert excluded(tmp_path) == sorted((*row.theirs, *HELD))
    assert run(tmp_path, hold) == "0\n"
    names = run(tmp_path, 'excluded_names "$root/etc/dnf/dnf.conf"')
    assert sorted(names.split()) == sorted((*row.theirs, *HELD)), "the probe reads them so"
    run(tmp_path, "manager=dnf step=x\n" + "".join(f"undo_hold {word}\n" for word in HELD))
    assert conf.read_bytes() == before


def run(root: Path, lines: str) -> str:
    """Run lines with the functions of the steps; return their output."""
    done = shell.run(root, PARTS, lines)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def excluded(root: Path) -> list[str]:
    """Return the packages that the real dnf excludes by the configuration file of a host's root."""
    builder = rootfs.builder_root(lambda _: None)
    inner = 'mount --bind "$2" "$1/mnt" && exec chroot "$1" python3 -c "$3" /mnt/dnf.conf'
    command = ["unshare", "--mount", "sh", "-c", inner, "sh"]
    done = subprocess.run(
        [*command, str(builder), str(root / "etc/dnf"), READ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return sorted(done.stdout.split())
