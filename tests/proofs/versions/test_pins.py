"""Tests that compare the pinned Kubernetes versions with their ends of support."""

from __future__ import annotations

from datetime import date

import pytest

from gpu_cluster.settings.support import ended
from gpu_cluster_lab.toolchain.pins import KUBERNETES_MODULES
from gpu_cluster_lab.toolchain.versions import numbers
from gpu_rules.facts.kubernetes import KUBE_VERSION
from lab.real import parts
from tests.proofs.versions.count import ROOT
from tests.proofs.versions.named import BEHAVIOURS, KUBELETS, UPGRADE

USUAL = next(iter(KUBERNETES_MODULES))
READ = date(2026, 11, 26)


def supported(today: date) -> list[str]:
    """Return the pinned Kubernetes versions that still get fixes, oldest first."""
    alive = (each for each in KUBERNETES_MODULES if not ended("kubernetes", each, today))
    return sorted(alive, key=numbers)


@pytest.mark.promise("The embedded cluster is a Kubernetes that still gets fixes.")
@pytest.mark.versions("claim")
def test_the_usual_version_gets_fixes() -> None:
    assert USUAL in supported(date.today())


def test_the_usual_version_is_the_middle_one_of_three() -> None:
    assert [numbers(each)[:2] for each in supported(READ)] == [(1, 35), (1, 36), (1, 37)]
    assert supported(READ)[1] == USUAL
    assert USUAL not in supported(date(2027, 6, 29))


def test_charts_are_rendered_for_the_usual_version() -> None:
    assert f"v{USUAL}" == KUBE_VERSION


def test_a_cluster_is_upgraded_from_one_minor_version_before() -> None:
    assert [parts.before(each) for each in sorted(KUBERNETES_MODULES, key=numbers)] == [
        "",
        *sorted(KUBERNETES_MODULES, key=numbers)[:-1],
    ]


def test_the_proof_of_a_version_names_tests_that_exist() -> None:
    named = (*BEHAVIOURS, *KUBELETS, *UPGRADE)
    assert [path for path in named if not (ROOT / path.partition("::")[0]).is_file()] == []
