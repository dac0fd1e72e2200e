"""Tests of sysctl files from public repositories, in the order in which real systemd reads them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.proofs.world.hosts import shell
from tests.proofs.world.hosts.rows import Situation, rows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze"),
]

PARTS = ("library/base", "library/files", "library/effects", "modules", "sysctl")
NEEDED = (
    "net/bridge/bridge-nf-call-iptables",
    "net/bridge/bridge-nf-call-ip6tables",
    "net/ipv4/ip_forward",
)
FOLDERS = ("etc", "run", "usr/local/lib", "usr/lib")


@pytest.mark.parametrize("name", rows("sysctl"))
def test_needed_parameters_hold_or_the_file_is_named(
    tmp_path: Path, situation: Callable[[str, str], Situation], name: str
) -> None:
    row = situation("sysctl", name)
    for folder in FOLDERS:
        (tmp_path / folder / "sysctl.d").mkdir(parents=True)
    row.place(tmp_path)
    checked = shell.run(
        tmp_path,
        PARTS,
        "GC_MODULES=br_netfilter\ncheck_sysctl\nrefuse_problems\n"
        'each_sysctl sysctl_line >"$root$sysctl_file"\necho "$sysctl_file"\n',
    )
    if row.wanted == "named":
        assert checked.returncode == 1, checked
        assert all(word in checked.stderr for word in row.says), checked.stderr
        return
    assert (checked.returncode, checked.stderr) == (0, "")
    shutil.rmtree(tmp_path / "run/sysctl.d")  # The folder /run is empty after a boot.
    booted = final(tmp_path)
    assert {key: booted.get(key) for key in NEEDED} == dict.fromkeys(NEEDED, "1")


def final(root: Path) -> dict[str, str]:
    """Return the kernel parameters after a boot, by names with slashes such as `vm/swappiness`."""
    command = ["systemd-analyze", f"--root={root}", "cat-config", "sysctl.d"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    explicit: dict[str, str] = {}
    patterns: dict[str, str] = {}
    for line in done.stdout.splitlines():
        match = re.fullmatch(r"\s*-?\s*([^#;=\s][^=]*?)\s*=\s*(.*?)\s*", line)
        if match:
            key = slashes(match[1])
            (patterns if "*" in key else explicit)[key] = match[2]
    for pattern, value in patterns.items():
        for key in NEEDED:
            if fnmatchcase(key, pattern):
                explicit.setdefault(key, value)
    return explicit


def slashes(name: str) -> str:
    """Return a parameter's name with slashes; map aliases of a parameter to one name."""
    first = re.search(r"[./]", name)
    if first and first[0] == ".":
        name = name.translate(str.maketrans("./", "/."))
    return name.replace("net/ipv4/conf/all/forwarding", "net/ipv4/ip_forward")
