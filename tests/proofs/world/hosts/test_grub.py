"""Settings of GRUB where a kernel is pinned. grub-mkconfig is a fake that reads the same files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proofs.world.hosts import shell
from tests.proofs.world.hosts.rows import Situation, rows

pytestmark = pytest.mark.slow

PARTS = ("library/base", "library/files", "library/effects", "kernel")
PINNED = "6.1.0-42-amd64"
PIN = f"""\
GC_KERNEL_RELEASE={PINNED}
step=kernel
require_manager() {{ :; }}
check_kernel
refuse_problems
boot_entry
write_boot_menu
"""


@pytest.mark.parametrize("name", rows("grub"))
def test_a_pinned_kernel_is_the_default_or_the_file_is_named(
    tmp_path: Path, situation: Callable[[str, str], Situation], name: str
) -> None:
    row = situation("grub", name)
    row.place(tmp_path)
    (tmp_path / "boot/grub").mkdir(parents=True)
    for release in ("6.1.0-99-amd64", PINNED):
        (tmp_path / f"boot/vmlinuz-{release}").touch()
    done = shell.run(tmp_path, PARTS, PIN)
    if row.wanted == "named":
        assert done.returncode == 1, done
        assert all(word in done.stderr for word in row.says), done.stderr
        return
    assert (done.returncode, done.stderr) == (0, "")
    menu = (tmp_path / "boot/grub/grub.cfg").read_text()
    default = next(line for line in menu.splitlines() if line.startswith("set default="))
    assert (
        default == f'set default="gnulinux-advanced-simulated>gnulinux-{PINNED}-advanced-simulated"'
    )
