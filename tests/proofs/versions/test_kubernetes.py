"""Each supported Kubernetes version: deploy and destroy with its real control plane and kubelet.

Versions after their end of support run too, but don't count in the summary line of `make
test-versions`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from gpu_cluster.settings.support import ended
from gpu_cluster_lab.toolchain.pins import KUBERNETES_MODULES
from lab.real import build, parts
from tests.fixtures.programs import run_program
from tests.guard import own_name
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import Project, figures, started
from tests.proofs.versions.count import ROOT
from tests.proofs.versions.named import BEHAVIOURS, KUBELETS, UPGRADE

LIMIT = 3600
"""Seconds for building a version's tools on a slow CPU, or for one of the other tests."""


def _minor(version: str) -> str:
    return version.rpartition(".")[0]


def _mark(version: str) -> pytest.MarkDecorator:
    gone = ended("kubernetes", version, date.today())
    return pytest.mark.versions("ended" if gone else "kubernetes", _minor(version))


pytestmark = [
    pytest.mark.full,
    pytest.mark.parametrize(
        "version", [pytest.param(each, marks=_mark(each)) for each in KUBERNETES_MODULES]
    ),
]


real = pytest.mark.skipif(bool(build.missing()), reason=f"make test-real {build.missing()}")


def _python(version: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**os.environ, "GPU_CLUSTER_KUBERNETES": version},
        stderr=subprocess.STDOUT,
        timeout=LIMIT,
    )


def test_the_stack_comes_up_stays_and_goes(version: str, tmp_path: Path) -> None:
    built = _python(version, "gpu_cluster_lab.toolchain")
    assert built.returncode == 0, built.stdout
    project = Project.make(tmp_path, own_name(f"kubernetes-{_minor(version).replace('.', '-')}"))
    project.environment["GPU_CLUSTER_KUBERNETES"] = version
    with started(project):
        before = snapshot.cluster(project)
        assert (
            project.request("GET", "", base="/version", version="")["gitVersion"] == f"v{version}"
        )
        assert figures(project.up())[:2] == (32, 32)
        assert figures(project.up()) == (32, 32, 0)
        done = project.command("destroy")
        assert done.returncode == 0, done.stdout
        assert snapshot.cluster(project) == before
        done = project.command("down")
        assert done.returncode == 0, done.stdout


def _passes(version: str, tests: tuple[str, ...]) -> None:
    done = _python(version, "pytest", "-q", "-m", "", *tests)
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout


def test_the_policies_judge_what_the_versions_take_differently(version: str) -> None:
    _passes(version, BEHAVIOURS)


@real
def test_kubelets_run_pods_with_gpus_in_a_cluster_made_by_kubeadm(version: str) -> None:
    _passes(version, KUBELETS)


@real
def test_one_up_upgrades_a_cluster_from_the_version_before(version: str) -> None:
    if not parts.before(version):
        pytest.skip(f"no version before {version} is pinned")
    _passes(version, UPGRADE)
