"""Each command of the repository that installs packages demands their hashes.

The reviewed packages are those of the lock files. A command that takes others is a second way in.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from maintenance.constraints import RULES_LOCK, rules_lock

ROOT = Path(__file__).resolve().parents[2]
INSTALL = re.compile(r"\b(?:pip3?|pipx|uv)\b[^\n|#]{0,80}?\b(?:install|sync)\b")
HASHED = re.compile(r"--require-hashes|--no-index")
LINES = 3
"""Lines that one command takes at most, in a list of arguments."""
EXCEPTIONS = {
    "components/gpu_cluster/commands/init.py": "a dry run, which reads the hashes",
    "policies/pyproject.toml": "a sentence about the package; who installs it has a clone",
    "templates/gpu-rules.yml": "the user's own address and commit; SECURITY.md says so",
    "docs/how-to/check.md": "pipx with the address of a repository; SECURITY.md says so",
    "embedded/gpu_cluster_lab/toolchain/plugins/language_host/dependencies.py": "a program's file",
}
"""Files with an install command that takes no hashes, and why."""


def files() -> Iterator[Path]:
    """Yield the committed files that may have commands; tests install into folders of their own."""
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in filter(None, done.stdout.split("\0")):
        if not name.startswith("tests/") and not name.endswith((".lock", ".sum", ".png", ".json")):
            yield ROOT / name


def unhashed(text: str) -> list[str]:
    """Return the install commands of a text that take packages without hashes."""
    lines = text.splitlines()
    return [
        line.strip()
        for number, line in enumerate(lines)
        if INSTALL.search(line.replace('", "', " "))
        and not HASHED.search(" ".join(lines[number : number + LINES]))
    ]


def requirements(file: Path) -> Iterator[str]:
    """Yield the requirements of a file, and of files that it includes."""
    for line in file.read_text().replace("\\\n", " ").splitlines():
        if line.startswith("-r "):
            yield from requirements(file.parent / line.removeprefix("-r ").strip())
        elif line.strip() and not line.lstrip().startswith(("#", "--")):
            yield line


@pytest.mark.promise("Each install command of the repository takes packages by their hashes.")
def test_each_install_command_demands_hashes() -> None:
    commands: dict[str, list[str]] = {}
    for path in files():
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        if lines := unhashed(text):
            commands[str(path.relative_to(ROOT))] = lines
    assert commands.keys() == EXCEPTIONS.keys(), commands


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("pip install pulumi", True),
        ('["-m", "pip", "install", "-r", file]', True),
        ('pip = [str(folder / "bin" / "pip"), "install", "--quiet", "-r"]\nrun(pip)', True),
        ("pipx install gpu-rules", True),
        ("uv sync", True),
        ("pip install --require-hashes -r requirements.lock", False),
        ('c = ["pip", "install"]\nc += ["--require-hashes", "-r", file]', False),
        ("pip download x", False),
    ],
)
def test_a_command_without_hashes_is_found(text: str, is_found: bool) -> None:
    assert bool(unhashed(text)) is is_found


@pytest.mark.promise("`pulumi package add` installs the packages of the lock, by their hashes.")
@pytest.mark.parametrize("folder", ["package", "policies/policy_pack"])
def test_what_the_engine_installs_is_a_lock(folder: str) -> None:
    file = ROOT / folder / "requirements.txt"
    assert "--require-hashes" in file.read_text().splitlines()
    assert [*requirements(file)] == [*requirements(ROOT / "requirements.lock")]


def test_each_package_of_a_lock_has_its_hashes() -> None:
    locks = [path for path in ROOT.rglob("*.lock") if "venv" not in path.relative_to(ROOT).parts[0]]
    locks = [path for path in locks if path.name.startswith("requirements")]
    assert len(locks) >= 5
    for lock in locks:
        listed = [*requirements(lock)]
        assert listed
        assert all("==" in line and "--hash=sha256:" in line for line in listed), lock


def test_the_lock_of_the_rules_is_a_part_of_the_lock() -> None:
    assert RULES_LOCK.read_text() == rules_lock(), "cure: make lock"
