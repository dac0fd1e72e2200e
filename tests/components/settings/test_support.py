"""The check for ended support finds each support date in the documents that has passed."""

from __future__ import annotations

import re
from datetime import date, timedelta
from pathlib import Path

import pytest

from gpu_cluster.platforms.discovery import every
from gpu_cluster.settings.hosts.runtime import Engine
from gpu_cluster.settings.support import (
    CLAIMS,
    PAGE,
    TITLES,
    claims,
    end,
    ended,
    is_unknown_system,
    outdated,
    overdue,
    page,
    support,
    supported,
)
from maintenance.facts import PROVED

ROOT = Path(__file__).resolve().parents[3]
DAY = date(2026, 11, 26)


@pytest.mark.versions("claim")
@pytest.mark.promise(
    "Each version that the documents name is supported by its makers, or its line says that it "
    "ended."
)
def test_no_claim_is_past_its_end() -> None:
    assert overdue(ROOT, date.today()) == []
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert text == page(PROVED, date.today()), "run `make facts`"


def test_each_claim_falls_due_the_day_after_its_end(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "SECURITY.md").write_text("")
    (tmp_path / "README.md").write_text("It runs on Kubernetes 1.36.3 and containerd 2.3.7.\n")
    last = support()["kubernetes"].last["1.36"]
    assert overdue(tmp_path, last) == []
    (line,) = overdue(tmp_path, last + timedelta(1))
    assert line.startswith(f"README.md:1: kubernetes 1.36: support ended on {last} (kubernetes.io")
    (tmp_path / "README.md").write_text("It ran on Kubernetes 1.36.3 (ended).\n")
    assert overdue(tmp_path, last + timedelta(1)) == []


@pytest.mark.promise("No page advises an older patch release than the committed facts know.")
def test_no_page_advises_a_patch_older_than_the_facts() -> None:
    assert outdated(ROOT) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("kubernetesPackages: {version: 1.36.3}", ["kubernetes 1.36.3: v1.36.6"]),
        ("control plane 1.35.4 → 1.36.6", ["kubernetes 1.35.4: v1.35.10"]),
        ("install `containerd 2.3.1`", ["containerd 2.3.1: v2.3.7"]),
        ("`version: v26.7.0`, plugin 0.20.0", ["gpu-operator 26.7.0: v26.7.1",
                                               "nvidia-device-plugin 0.20.0: v0.20.1"]),
        ("it ran on Kubernetes 1.36.3", []),
        ("GPU_CLUSTER_KUBERNETES=1.36.3 gpu-cluster start", []),
        ("plugin 0.20.0 or later, at 10.1.36.3, Kubernetes 1.99.1", []),
    ],
)  # fmt: skip
def test_advice_of_an_older_patch_is_found(tmp_path: Path, line: str, found: list[str]) -> None:
    (tmp_path / "README.md").write_text(f"{line}\n")
    assert outdated(tmp_path) == [f"README.md:1: {text} is released" for text in found]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("| kubelet | 1.34.4 | x", ["kubernetes 1.34"]),
        ("from 1.33.13 → 1.34.4", ["kubernetes 1.33", "kubernetes 1.34"]),
        ("`platform: dra` (Kubernetes 1.34 or later)", []),
        ("maintained since 1.31; others from 1.30 on", []),
        ("kubernetes v1.34 pkg/kubelet", []),
        ("| containerd, its shim | 2.3.1 | x", ["containerd 2.3"]),
        ("`containerd-1.7` and containerd 2.0.5", ["containerd 1.7", "containerd 2.0"]),
        ("driver 535.261.03 of branch 580", ["driver 535", "driver 580"]),
        ("it takes driver 450 or later", []),
        ("Debian 12, Ubuntu 26.04, RHEL 10", ["debian 12", "ubuntu 26.04", "rhel 10"]),
        ("Amazon Linux 2023", ["amzn 2023"]),
        ("toolkit 1.20.2, plugin 0.20.1", []),
    ],
)
def test_versions_are_read_from_documents(line: str, found: list[str]) -> None:
    assert [f"{part} {version}" for part, version in claims(line)] == found


def test_the_documents_claims_are_many() -> None:
    """If the search pattern no longer matched the documents, no date would ever be overdue."""
    far = overdue(ROOT, date(2100, 1, 1))
    assert {line.split(": ")[1].split()[0] for line in far} >= {"kubernetes", "containerd"}


@pytest.mark.parametrize("part", support())
def test_the_last_day_is_supported(part: str) -> None:
    for version, last in support()[part].last.items():
        assert ended(part, version, last) is None
        gone = ended(part, version, last + timedelta(1))
        assert gone is not None
        assert str(gone) == f"support ended on {last} ({support()[part].source})"
        assert version in supported(part, last)
        assert version not in supported(part, last + timedelta(1))


@pytest.mark.parametrize(
    ("part", "version", "key"),
    [
        ("kubernetes", "v1.34.4+k3s1", "1.34"),
        ("containerd", "1.6.20~ds1", "1.6"),
        ("driver", "535.309.01", "535"),
        ("driver", "550.90.07", "550"),
        ("driver", "570.211.01", "570"),
        ("ubuntu", "24.04", "24.04"),
        ("rocky", "9.4", "9"),
        ("ol", "9.6", "9"),
        ("kubernetes", "1.3", ""),
        ("debian", "", ""),
        ("driver", "main", ""),
        ("plan9", "4", ""),
        ("driver", "5350.1", ""),
    ],
)
def test_a_version_is_found_by_its_beginning(part: str, version: str, key: str) -> None:
    found = end(part, version)
    assert (found.version if found else "") == key


def test_each_part_has_a_title_and_a_pattern() -> None:
    assert set(support()) == set(TITLES)
    assert set(CLAIMS) == {part for part, ends in support().items() if ends.last}


def test_each_part_that_a_stack_can_install_has_a_window_or_says_it_has_none() -> None:
    charts = {platform.chart for platform in every()} - {"gpu-manager"}
    engines = {engine.value for engine in Engine} - {"k3s", "rke2", "cri-o"} | {"crio"}
    assert {*charts, *engines, "container-toolkit", "node-feature-discovery"} <= {*support()}
    text = page(PROVED, DAY)
    assert "| 26.7 | supported, no last day is published |  |" in text
    assert "| 25.10 | 2026-08-20, ended |  |" in text
    assert "## Docker\n\nNo last day is published. Source: moby/moby" in text


@pytest.mark.parametrize(
    ("system", "version", "is_unknown"),
    [
        ("ubuntu", "26.10", True),
        ("ubuntu", "26.04", False),
        ("ubuntu", "24.10", False),
        ("rocky", "11.0", True),
        ("rocky", "9.4", False),
        ("fedora", "44", False),
    ],
)
def test_an_interim_release_without_a_date_is_unknown(
    system: str, version: str, *, is_unknown: bool
) -> None:
    assert is_unknown_system(system, version) is is_unknown


def test_what_is_proved_and_ended_is_marked() -> None:
    text = page(PROVED, DAY)
    assert re.search(r"^\| 1\.34 \| 2026-10-27, ended \| [0-9.]* ?\|$", text, re.MULTILINE)
    assert "| 2.4 | 2027-05-16 | 2.4.2 |" in text
    assert "| 2.4 | 2027-05-16, ended | 2.4.2 |" in page(PROVED, date(2027, 5, 17))
