"""On a machine without debootstrap and apt, simulated hosts run without namespaces.

Tests that need hosts in namespaces are skipped on such a machine.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_cluster_lab.simulator.hosts import rootfs


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set an empty toolchain cache and an empty PATH."""
    monkeypatch.setenv("GPU_CLUSTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("bare")
def test_without_debootstrap_and_apt_there_is_a_reason_against_namespaces() -> None:
    assert "no debootstrap on PATH" in str(rootfs.reason_against())
    with pytest.raises(rootfs.NoDebootstrap, match="not found on PATH"):
        rootfs.builder_root(print)


@pytest.mark.parametrize("name", ["debootstrap", "apt-get"])
def test_with_either_the_root_can_be_made(bare: Path, name: str) -> None:
    (bare / name).write_text("#!/bin/sh\n")
    (bare / name).chmod(0o755)
    assert rootfs.reason_against() is None


def test_a_root_that_is_there_needs_neither(bare: Path) -> None:
    rootfs._root_place("debian", rootfs.PACKAGES).mkdir(parents=True)
    assert rootfs.reason_against() is None


def test_a_test_whose_root_can_not_be_made_is_skipped_with_the_reason(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(
        """
from tests.conftest import pytest_runtest_call, pytest_runtest_setup, pytest_terminal_summary
"""
    )
    pytester.makepyfile(
        """
from gpu_cluster_lab.simulator.hosts.rootfs import NoDebootstrap
import pytest

@pytest.fixture
def host():
    raise NoDebootstrap("debootstrap: not found")

def test_setup(host): pass
def test_call(): raise NoDebootstrap("debootstrap: not found")
"""
    )
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    done.assert_outcomes(skipped=2)
    done.stdout.fnmatch_lines(["*skipped, by reason*", "*2 debootstrap: not found"])
