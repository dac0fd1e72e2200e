"""The host's own apt sources, as sites and guides write them, read by the real apt.

Only the functions of `steps/library/apt_entries.sh` run, in a scratch root, without connections.
"""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest

from components.hosts.script import FOLDER

pytestmark = pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt-get on this machine")

URL = "https://mirror.example.org/toolkit/stable/deb/{arch}"
"""Address that is declared; the vendor's guide has `$(ARCH)` in its place."""
ARCHIVE = "https://mirror.example.org/debian"
KEYRING = "/usr/share/keyrings/toolkit.gpg"
LIBRARY = ("base", "files", "effects", "apt_entries")
ASK = r"""
mkdir -p "$scratch"
find_entries "$URL" "$SUITE" "$COMPONENTS" /etc/apt/sources.list.d/ours.sources
architecture=$(dpkg --print-architecture)
lacks=no
[ ! -s "$scratch/entries" ] || ! lacks_components "$COMPONENTS" || lacks="yes $lacking"
sed "s|^$root||; s|^|entry |" "$scratch/entries" "$scratch/unverified"
echo "lacks $lacks"
echo "key$(cat "$scratch/signed-by")"
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """A sources file that the user or a guide wrote, and how apt reads the file.

    Attributes:
        file: Name of the file below `sources.list.d`.
        text: Text of the file, with `{arch}` for this machine's architecture.
        wanted: Expected output of the shell functions: entries, missing components, keyring.
        archive: Whether the declared repository has a suite and components, and is not flat.
        broken: Whether apt refuses the file.
    """

    file: str
    text: str
    wanted: tuple[str, ...] = ()
    archive: bool = False
    broken: bool = False


LIST, SOURCES = "theirs.list", "theirs.sources"
IN_LIST = f"entry /etc/apt/sources.list.d/{LIST}"
IN_SOURCES = f"entry /etc/apt/sources.list.d/{SOURCES}"
USED = (IN_LIST, "lacks no", f"key {KEYRING}")
UNUSED = ("lacks no", "key")
STANZA = f"Types: deb\nURIs: {ARCHIVE}\nSuites: bookworm\nComponents: main\nSigned-By: {KEYRING}\n"
CASES = {
    # NVIDIA Container Toolkit installation guide, file nvidia-container-toolkit.list: a variable in
    # the address, a flat repository, and a second line that is commented out.
    "the vendor's list": Case(
        LIST,
        f"deb [signed-by={KEYRING}] https://mirror.example.org/toolkit/stable/deb/$(ARCH) /\n"
        f"#deb [signed-by={KEYRING}] https://mirror.example.org/toolkit/exp/deb/$(ARCH) /\n",
        USED,
    ),
    "the architecture written out": Case(
        LIST,
        f"deb [signed-by={KEYRING}] {URL} /\n",
        USED,
    ),
    "line ends of Windows": Case(
        LIST,
        f"deb [signed-by={KEYRING}] https://mirror.example.org/toolkit/stable/deb/$(ARCH) /\r\n",
        USED,
    ),
    "a comment behind": Case(
        LIST,
        f"deb [arch={{arch}} signed-by={KEYRING}] {URL}/ / # see [wiki] for trusted=yes\n",
        USED,
    ),
    "commented out": Case(LIST, f"# deb [signed-by={KEYRING}] {URL} /\n", UNUSED),
    "another channel": Case(
        LIST, "deb https://mirror.example.org/toolkit/experimental/deb/{arch} /\n", UNUSED
    ),
    "without a keyring": Case(LIST, f"deb {URL} /\n", (IN_LIST, "lacks no", "key")),
    "unverified": Case(LIST, f"deb [trusted=yes] {URL} /\n", (IN_LIST, IN_LIST, "lacks no", "key")),
    "sources only": Case(
        LIST,
        f"deb-src [signed-by={KEYRING}] {ARCHIVE} bookworm main\n",
        (IN_LIST, "lacks yes main contrib", f"key {KEYRING}"),
        archive=True,
    ),
    "a part of the components": Case(
        LIST,
        f"deb [signed-by={KEYRING}] {ARCHIVE}/ bookworm main # contrib non-free\n",
        (IN_LIST, "lacks yes contrib", f"key {KEYRING}"),
        archive=True,
    ),
    "another architecture": Case(
        LIST,
        f"deb [arch=riscv64 signed-by={KEYRING}] {ARCHIVE} bookworm main contrib\n",
        (IN_LIST, "lacks yes main contrib", f"key {KEYRING}"),
        archive=True,
    ),
    "another suite": Case(
        LIST, f"deb {ARCHIVE} bookworm-updates main contrib\n", UNUSED, archive=True
    ),
    "both formats' types": Case(
        SOURCES,
        STANZA.replace("Types: deb", "Types: deb deb-src").replace("main", "main contrib"),
        (IN_SOURCES, "lacks no", f"key {KEYRING}"),
        archive=True,
    ),
    "switched off": Case(SOURCES, f"{STANZA}Enabled: false\n", UNUSED, archive=True),
    "switched on": Case(
        SOURCES,
        f"{STANZA}Enabled: yes\n",
        (IN_SOURCES, "lacks yes contrib", f"key {KEYRING}"),
        archive=True,
    ),
    "a comment inside a stanza": Case(
        SOURCES,
        STANZA.replace("Suites", "# Enabled: no\nSuites").replace("\n", "\r\n"),
        (IN_SOURCES, "lacks yes contrib", f"key {KEYRING}"),
        archive=True,
    ),
    "values over lines": Case(
        SOURCES,
        f"types:deb\nuris:{ARCHIVE}\nsuites:\n trixie\n bookworm\ncomponents: main\n contrib\n"
        f"signed-by:{KEYRING}\n",
        (IN_SOURCES, "lacks no", f"key {KEYRING}"),
        archive=True,
    ),
    "a second stanza that is unverified and another's": Case(
        SOURCES,
        f"{STANZA}\nTypes: deb\nURIs: https://other.example.org/\nSuites: /\nTrusted: yes\n",
        (IN_SOURCES, "lacks yes contrib", f"key {KEYRING}"),
        archive=True,
    ),
    "an inline key": Case(
        SOURCES,
        STANZA.replace(KEYRING, "\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n aa\n -----END-----"),
        (
            IN_SOURCES,
            "lacks yes contrib",
            "key\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n aa\n -----END-----",
        ),
        archive=True,
    ),
    "an unknown type": Case(LIST, f"dfeb {URL} /\n", ("is not known on line 1",), broken=True),
}


@pytest.mark.promise(
    "An apt source that the host already has is recognized as apt reads it, whatever its format."
)
@pytest.mark.parametrize("name", CASES)
def test_sources_of_others_are_read_as_apt_reads_them(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    arch = _run("dpkg", "--print-architecture").stdout.strip()
    file = tmp_path / "etc/apt/sources.list.d" / case.file
    file.parent.mkdir(parents=True)
    file.write_text(case.text.replace("{arch}", arch), newline="")
    suite, components = ("bookworm", "main contrib") if case.archive else ("/", "")
    (tmp_path / "run").mkdir()
    shell = "".join((FOLDER / f"library/{part}.sh").read_text() for part in LIBRARY)
    url = ARCHIVE if case.archive else URL.replace("{arch}", arch)
    values = f"URL='{url}' SUITE='{suite}' COMPONENTS='{components}' GC_PHASE=prepare\n"
    render = 'signed_by=" /ours.asc"\nsource_text "$URL" "$SUITE" "$COMPONENTS"\n'
    done = subprocess.run(
        ["sh", "-s"],
        input=f"{values}{shell}{render}{ASK}",
        env={"GPU_CLUSTER_ROOT": str(tmp_path), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if case.broken:
        assert done.returncode == 1
        assert f"apt can't read /etc/apt/sources.list.d/{case.file}" in done.stderr
        assert case.wanted[0] in done.stderr
        return
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "".join(f"{line}\n" for line in case.wanted)


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
