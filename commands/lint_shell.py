"""Part of `make check`: shellcheck on every shell script, actionlint on every workflow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import toolchain

from .environment import ROOT


def shell_scripts() -> list[str]:
    """Tracked files that a POSIX shell or bash reads, by name or by their first line."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    found = []
    for name in filter(None, listed):
        path = ROOT / name
        if not path.is_file():
            continue
        if path.suffix == ".sh":
            found.append(name)
        elif not path.suffix:
            first = path.open("rb").readline()
            if first.startswith(b"#!") and first.rstrip().endswith((b"sh", b"bash")):
                found.append(name)
    return found


def _shellcheck() -> str:
    found = shutil.which("shellcheck")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-qq"], check=True, timeout=300)
        subprocess.run(["apt-get", "install", "-y", "-qq", "shellcheck"], check=True, timeout=600)
        found = shutil.which("shellcheck")
    if found is None:
        sys.exit("shellcheck: not found on PATH; wanted: any version; cure: install the package")
    return found


def main() -> None:
    """Exit code 1 when either has something to say."""
    failed = subprocess.run([_shellcheck(), "--external-sources", *shell_scripts()], cwd=ROOT)
    actionlint = toolchain.ensure("actionlint")["actionlint"].path
    workflows = sorted(str(path) for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    checked = subprocess.run([str(actionlint), *workflows], cwd=ROOT)
    sys.exit(failed.returncode or checked.returncode)


if __name__ == "__main__":
    main()
