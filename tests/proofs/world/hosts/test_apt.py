"""Lists of package sources of the world, read by the real apt without connections."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proofs.world.hosts import shell
from tests.proofs.world.hosts.rows import Situation, rows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt-get on this machine"),
]

PARTS = ("library/base", "library/files", "library/effects", "library/apt_entries")
ADDRESS = "https://mirror.example.org/toolkit/stable/deb"
KEY = "/usr/share/keyrings/toolkit.gpg"
OURS = "etc/apt/sources.list.d/ours.sources"
ASK = f"""\
signed_by=' /ours.gpg'
source_text '{ADDRESS}/amd64' / ''
find_entries '{ADDRESS}/amd64' / '' /{OURS}
sed 's/^/unverified /' "$scratch/unverified"
if [ -s "$scratch/entries" ] && ! lacks_components ''; then
    echo enabled
    exit
fi
[ ! -s "$scratch/entries" ] || signed_by=$(cat "$scratch/signed-by")
source_text '{ADDRESS}/amd64' / ''
printf '%s' "$text"
"""
"""Shell that does what `repository` of `steps/library/repositories.sh` does before a change."""


@pytest.mark.parametrize("name", rows("apt"))
def test_sources_of_the_world_are_read_as_apt_reads_them(
    tmp_path: Path, situation: Callable[[str, str], Situation], name: str
) -> None:
    row = situation("apt", name)
    (tmp_path / "etc/apt/sources.list.d").mkdir(parents=True)
    files = {
        path: text.replace("@URI@", ADDRESS).replace("@KEY@", KEY)
        for path, text in row.files.items()
    }
    row.model_copy(update={"files": files}).place(tmp_path)
    done = shell.run(tmp_path, PARTS, ASK)
    if row.wanted == "named":
        found = done.stderr or done.stdout
        assert done.returncode or found.startswith("unverified "), done
        assert all(word in found for word in row.says), found
        return
    assert (done.returncode, done.stderr) == (0, "")
    assert ("enabled" if done.stdout == "enabled\n" else "added") == row.wanted, done.stdout
    if row.wanted == "added":
        (tmp_path / OURS).write_text(done.stdout)
    assert f"{ADDRESS}/amd64/InRelease" in asked(tmp_path)


def asked(root: Path) -> str:
    """Return what apt would download because of the sources below a root."""
    options = {
        "sourcelist": root / "etc/apt/sources.list",
        "sourceparts": root / "etc/apt/sources.list.d",
    }
    words = [
        word for name, value in options.items() for word in ("-o", f"Dir::Etc::{name}={value}")
    ]
    command = ["apt-get", "update", "--print-uris", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
