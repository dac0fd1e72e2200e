"""Tests of apt source lists from public repositories with the real apt, without network."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proofs.world.hosts import shell
from tests.proofs.world.hosts.rows import Situation, rows

pytestmark = pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt-get on this machine")

PARTS = ("library/base", "library/files", "library/effects", "library/apt_entries")
ADDRESS = "https://mirror.example.org/toolkit/stable/deb"
ARCHIVE = "https://mirror.example.org/debian"
KEY = "/usr/share/keyrings/toolkit.gpg"
OURS = "etc/apt/sources.list.d/ours.sources"
ASK = f"""\
signed_by=' /ours.gpg'
source_text "$url" "$suite" "$components"
find_entries "$url" "$suite" "$components" /{OURS}
sed 's/^/unverified /' "$scratch/unverified"
lacking=$components
if [ -s "$scratch/entries" ]; then
    lacks_components "$components" || {{ echo enabled; exit; }}
    signed_by=$(cat "$scratch/signed-by")
fi
source_text "$url" "$suite" "$lacking"
printf '%s' "$text"
"""
"""Shell that does what `apt_repository` of `steps/library/repositories.sh` does before a change."""


@pytest.mark.promise(
    "An apt source that the host already has is recognized as apt reads it, whatever its format."
)
@pytest.mark.parametrize("name", rows("apt"))
def test_sources_of_the_world_are_read_as_apt_reads_them(
    tmp_path: Path, situation: Callable[[str, str], Situation], name: str
) -> None:
    row = situation("apt", name)
    (tmp_path / "etc/apt/sources.list.d").mkdir(parents=True)
    place = ARCHIVE if row.archive else ADDRESS
    files = {
        path: text.replace("@URI@", place).replace("@KEY@", KEY) for path, text in row.files.items()
    }
    row.model_copy(update={"files": files}).place(tmp_path)
    url, suite, components = f"{ADDRESS}/amd64", "/", ""
    index = f"{url}/InRelease"
    if row.archive:
        url, suite, components = ARCHIVE, "bookworm", "main contrib"
        index = f"{url}/dists/bookworm/InRelease"
    declared = f"url='{url}' suite='{suite}' components='{components}'\n"
    done = shell.run(tmp_path, PARTS, declared + ASK)
    if row.wanted == "named":
        found = done.stderr or done.stdout
        assert done.returncode or found.startswith("unverified "), done
        assert all(word in found for word in row.says), found
        return
    assert (done.returncode, done.stderr) == (0, "")
    assert ("enabled" if done.stdout == "enabled\n" else "added") == row.wanted, done.stdout
    if row.wanted == "added":
        assert all(word in done.stdout for word in row.says), done.stdout
        (tmp_path / OURS).write_text(done.stdout)
    assert index in asked(tmp_path)


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
