"""Part of `make check`: shellcheck on every shell script, actionlint on every workflow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import toolchain
from commands.environment import ROOT
from commands.files import project_files
from components.hosts.steps import container_engine, render
from components.hosts.steps.steps import NAMES, Steps

#: Checked otherwise: parts of host scripts are judged as they are assembled, below, and the two
#: launchers are read by both sh and Python.
ELSEWHERE = ("components/hosts/steps/", "toolchain/plugins/pulumi-")


def shell_scripts() -> list[str]:
    """Files of the project that a POSIX shell or bash reads, by name or by their first line."""
    return [name for name in project_files() if not name.startswith(ELSEWHERE) and _is_shell(name)]


def _is_shell(name: str) -> bool:
    path = ROOT / name
    if path.suffix not in ("", ".sh"):
        return False
    with path.open("rb") as file:
        first = file.readline().strip()
    return path.suffix == ".sh" or (first.startswith(b"#!") and first.endswith((b"sh", b"bash")))


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
    shellcheck = _shellcheck()
    failed = subprocess.run([shellcheck, *shell_scripts()], cwd=ROOT).returncode
    scripts = (
        render.prepare(),
        render.prepare(steps=Steps(names=NAMES)),
        container_engine.runtime(),
    )
    for script in scripts:
        done = subprocess.run([shellcheck, "--shell=sh", "-"], input=script, text=True, cwd=ROOT)
        failed = failed or done.returncode
    actionlint = toolchain.ensure("actionlint")["actionlint"].path
    workflows = sorted(str(path) for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    checked = subprocess.run([str(actionlint), *workflows], cwd=ROOT)
    sys.exit(failed or checked.returncode)


if __name__ == "__main__":
    main()
