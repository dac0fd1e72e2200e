"""The tests that depend on the machine most pass in odd surroundings, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ci.odd_machine import find_ip, outside_command

ROOT = Path(__file__).resolve().parents[2]
DEPENDENT = (
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


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces")
@pytest.mark.skipif(find_ip() is None, reason="needs ip of iproute2")
@pytest.mark.promise("`make test` needs no certain host name, address, route, proxy or locale.")
def test_odd_surroundings_make_no_difference() -> None:
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *DEPENDENT]
    done = subprocess.run(
        outside_command(pytest_command),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
