"""The tests that depend on the machine most pass in odd surroundings, too."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ci.odd_machine import find_ip, outside_command

ROOT = Path(__file__).resolve().parents[2]
FAILED = (
    "tests/lab/test_host_report.py",
    "tests/components/hosts/test_text.py",
    "tests/components/package/test_serving.py",
    "tests/toolchain/plugins/test_inputs.py",
    "tests/toolchain/plugins/test_local_command.py",
    "tests/proofs/attacks/test_limits.py",
)
"""Tests that failed in odd surroundings before they set what they read: the command line of the
kernel, a locale, a proxy for connections to loopback, a default route for an API server.
"""
MACHINE = re.compile(
    r"[\"'](/proc/(cmdline|meminfo|modules|swaps|cgroups|mounts|cpuinfo|net|locks|sys|self/\w+)"
    r"|/etc/(hostname|hosts|resolv\.conf|os-release|machine-id|localtime|timezone))"
    r"|/sys/fs/cgroup|\b(gethostname|getfqdn|uname|getaddrinfo|getlocale|setlocale|getproxies"
    r"|getpreferredencoding|tzset|create_server|if_nameindex)\(|\bplatform\.node\(|astimezone\(\)"
)
"""Code that reads the machine: files of the kernel and of /etc, names, addresses, ports, locale,
time zone, mounts, control groups.
"""
PRODUCTS = {"components": "components", "embedded": "embedded", "lab": ".", "policies": "policies"}
"""Folders of modules, and the folder from which their names are counted."""
DATA = frozenset({"gpu_cluster.platforms.gpu_manager.platform", "gpu_rules.facts.host_folders"})
"""Modules that name paths of a cluster's nodes, and read nothing of this machine."""
FOLDERS = (
    *("tests/ci", "tests/commands", "tests/components", "tests/house", "tests/lab"),
    *("tests/maintenance", "tests/policies", "tests/proofs/attacks", "tests/toolchain"),
)
"""Folders of tests that run on the machine itself.

The other proofs run in their own roots, on the embedded cluster or in network namespaces.
"""
LEFT_OUT = {
    "tests/ci/test_odd_machine.py": "this file",
    "tests/proofs/attacks/test_canaries.py": "brings stacks up on the embedded cluster: minutes",
    "tests/proofs/attacks/test_embedded.py": "starts the embedded cluster, which needs its ports",
}
"""Tests that read the machine and don't run in odd surroundings, and the reason."""


def reading_modules() -> set[str]:
    """Return the names of the modules that read the machine."""
    return {
        ".".join(file.relative_to(ROOT / start).with_suffix("").parts)
        for folder, start in sorted(PRODUCTS.items())
        for file in sorted((ROOT / folder).rglob("*.py"))
        if MACHINE.search(file.read_text())
    }


def imported(text: str) -> set[str]:
    """Return the names that a module imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def dependent() -> list[str]:
    """Return the test files that read the machine, or test a module that does."""
    modules = reading_modules() - DATA
    found = {
        str(file.relative_to(ROOT))
        for folder in FOLDERS
        for file in sorted((ROOT / folder).rglob("test_*.py"))
        if MACHINE.search(text := file.read_text()) or imported(text) & modules
    }
    return sorted({*FAILED, *found} - LEFT_OUT.keys())


def test_the_tests_that_read_the_machine_are_found() -> None:
    assert {"gpu_cluster.machine.flock", "gpu_cluster.package.local_caller"} < reading_modules()
    found = dependent()
    assert {"tests/components/machine/test_flock.py", "tests/proofs/attacks/test_pids.py"} < {
        *found
    }
    assert len(found) >= 18
    assert reading_modules() > DATA
    assert all((ROOT / name).is_file() for name in (*found, *LEFT_OUT))
    folders = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("*/test_*.py")}
    assert {name.rpartition("/")[0] for name in folders} <= {*FOLDERS}


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces")
@pytest.mark.skipif(find_ip() is None, reason="needs ip of iproute2")
@pytest.mark.promise("`make test` needs no certain host name, address, route, proxy or locale.")
def test_odd_surroundings_make_no_difference() -> None:
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *dependent()]
    done = subprocess.run(
        outside_command(pytest_command),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
