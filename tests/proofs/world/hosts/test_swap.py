"""What brings swap back at a boot. Systemd's own generator says how it reads /etc/fstab."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.proofs.world.hosts import shell
from tests.proofs.world.hosts.rows import Situation, rows

GENERATOR = Path("/lib/systemd/system-generators/systemd-fstab-generator")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not GENERATOR.exists(), reason=f"no {GENERATOR}"),
]

PARTS = ("library/base", "library/files", "library/expectations", "library/effects", "swap")
APPLY = 'check_swap\nrefuse_problems\nstep=swap\napply_swap\necho "changed=$changed"\n'
UNDO = "remove_unwanted() { :; }\nstep=swap\nundo_swap\ntake_back_step swap\n"
UNITS = tuple(f"{folder}/systemd/system" for folder in ("etc", "usr/local/lib", "usr/lib", "lib"))


@pytest.mark.parametrize("name", rows("swap"))
def test_swap_stays_off_or_what_brings_it_back_is_named(
    tmp_path: Path, situation: Callable[[str, str], Situation], name: str
) -> None:
    row = situation("swap", name)
    row.place(tmp_path)
    fstab = tmp_path / "etc/fstab"
    fstab.parent.mkdir(exist_ok=True)
    fstab.write_text(row.fstab or "", newline="")
    first = shell.run(tmp_path, PARTS, APPLY)
    if row.wanted == "named":
        assert first.returncode == 1, first
        assert all(word in first.stderr for word in row.says), first.stderr
        assert list(back(tmp_path)) != [], "the verdict was wrong: nothing brings swap back"
        return
    assert (first.returncode, first.stderr) == (0, "")
    assert list(back(tmp_path)) == []
    assert set(row.kept) <= set(fstab.read_text().splitlines())
    assert shell.run(tmp_path, PARTS, APPLY).stdout == "changed=0\n"
    undone = shell.run(tmp_path, PARTS, UNDO)
    assert (undone.returncode, undone.stderr) == (0, "")
    assert fstab.read_bytes() == (row.fstab or "").encode()


def back(root: Path) -> Iterator[str]:
    """Yield what turns swap on at the next boot."""
    wants = [path for folder in UNITS for path in (root / folder).glob("*.wants/*")]
    if (root / UNITS[0] / "swap.target").is_symlink():
        return
    yield from of_fstab(root)
    for path in wants:
        own = root / UNITS[0] / path.name
        if own.is_symlink() and str(own.readlink()) == "/dev/null":
            continue
        unit = next((root / folder / path.name for folder in UNITS), own)
        for folder in UNITS:
            if (root / folder / path.name).is_file():
                unit = root / folder / path.name
        if path.suffix == ".swap" or turns_on(root, unit.read_text()):
            yield path.name
    for path in (root / "etc/cron.d").glob("*"):
        if re.search(r"^@reboot .*swapon", path.read_text(), re.MULTILINE):
            yield str(path)


def turns_on(root: Path, unit: str) -> bool:
    """Return whether a command of the unit, or the script that it runs, turns swap on."""
    commands = re.findall(r"^ExecStart\w*=\W*(\S+)(.*)$", unit, re.MULTILINE)
    for program, words in commands:
        if "swapon" in program + words:
            return True
        script = root / program.lstrip("/")
        if script.is_file() and "swapon" in script.read_text():
            return True
    return False


def of_fstab(root: Path) -> Iterator[str]:
    """Yield the swap devices that systemd's generator reads as turned on at a boot."""
    done = subprocess.run(
        [str(GENERATOR), *[str(root)] * 3],
        env={
            "SYSTEMD_FSTAB": str(root / "etc/fstab"),
            "SYSTEMD_LOG_LEVEL": "debug",
            "SYSTEMD_LOG_TARGET": "console",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    for line in done.stderr.splitlines():
        if "type=swap" in line and "noauto=yes" not in line:
            yield line
