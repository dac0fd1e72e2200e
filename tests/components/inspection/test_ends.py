"""Software after its end of support or without a security fix is reported once."""

from __future__ import annotations

import dataclasses
from datetime import date

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.inspection.judgement import Seen, judged
from gpu_cluster.loading.loader import load
from tests.components.inspection.ended import DAY, told
from tests.fixtures.documents import document

GOOD = HostFacts(os="ubuntu", os_version="26.04", containerd="2.3.7", driver="595.91.07")


@pytest.mark.promise(
    "A Kubernetes, containerd, driver branch or system that gets no fixes any more is named, with "
    "its last day and where that is written."
)
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"os": "debian", "os_version": "11"},
            "found debian 11, whose support ended on 2026-08-31",
        ),
        ({"os_version": "25.10"}, "found ubuntu 25.10, whose support ended on 2026-07-09"),
        ({"containerd": "2.2.9"}, "found containerd 2.2.9, whose support ended on 2026-11-06"),
        ({"containerd": "1.7.36"}, "found containerd 1.7.36, whose support ended on 2026-09-30"),
        ({"driver": "535.309.01"}, "found driver 535.309.01, whose support ended on 2026-06-30"),
    ],
)
def test_a_host_with_something_that_has_ended_is_named(change: dict[str, str], text: str) -> None:
    old = dataclasses.replace(GOOD, **change)  # type: ignore[arg-type]
    (line,) = told({"gpu-1": GOOD, "gpu-2": old, "gpu-3": old})
    assert line.startswith(f"hosts gpu-2, gpu-3: {text} (")
    assert told({"gpu-2": dataclasses.replace(old, simulated=True)}) == []
    assert told({"gpu-2": dataclasses.replace(old, error="no answer")}) == []


def test_what_gets_fixes_is_not_named() -> None:
    rocky = dataclasses.replace(GOOD, os="rocky", os_version="10.1", driver="620.10.01")
    assert told({"gpu-1": GOOD, "gpu-2": rocky}, nodes={"gpu-1": "580.159.03"}) == []


def test_each_end_counts_from_the_day_after_it() -> None:
    assert told(kubernetes="v1.36.3", today=date(2027, 6, 28)) == []
    (line,) = told(kubernetes="v1.36.3", today=date(2027, 6, 29))
    assert "found Kubernetes v1.36.3, whose support ended on 2027-06-28" in line
    assert "wanted: a version that still gets fixes: 1.37" in line


def test_what_is_declared_is_named_where_it_stands() -> None:
    declared = {"driver": {"source": "package", "version": "535.309.01"}}
    (line,) = told(**declared)
    assert line.startswith("driver.version: found driver 535.309.01, whose support ended on ")
    old = dataclasses.replace(GOOD, driver="535.309.01")
    assert told({"gpu-1": old}, **declared) == [line]
    (line,) = told(kubernetes="", kubernetesPackages={"version": "1.34.4"})
    assert line.startswith("kubernetesPackages.version: found 1.34.4, whose support ended")


@pytest.mark.promise(
    "A node whose driver label is below its branch's security floor is named with the bulletin."
)
def test_a_node_below_the_floor_is_named_with_its_bulletin() -> None:
    nodes = {"gpu-1": "580.126.20", "gpu-2": "580.159.03", "gpu-3": "580.126.20"}
    (line,) = told(nodes=nodes)
    assert line.startswith(
        "nodes gpu-1, gpu-3: found driver 580.126.20; wanted: 580.159.03 or later"
    )
    assert "NVIDIA bulletin " in line
    assert told(nodes={"gpu-2": "580.159.03"}) == []
    both = told(nodes={"gpu-1": "535.1.1"})
    assert ["bulletin" in text for text in both] == [True, False]
    assert "whose support ended on 2026-06-30" in both[1]


@pytest.mark.promise(
    "A host whose containerd or runc has a known weakness is named with the maker's advisory."
)
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"containerd": "2.3.1"}, "containerd 2.3.1; wanted: 2.3.2 or later"),
        ({"runc": "1.1.5+ds1"}, "runc 1.1.5+ds1; wanted: 1.3.6 or later"),
        ({"runc": "1.4.2"}, "runc 1.4.2; wanted: 1.4.3 or later"),
    ],
)
def test_a_host_whose_engine_is_weak_is_named_with_the_advisory(
    change: dict[str, str], text: str
) -> None:
    weak = dataclasses.replace(GOOD, **change)  # type: ignore[arg-type]
    (line,) = told({"gpu-1": GOOD, "gpu-2": weak, "gpu-3": weak})
    engine = text.partition(" ")[0]
    assert line.startswith(f"hosts gpu-2, gpu-3: found {text}; cure: upgrade {engine}, unless the ")
    assert "'s advisory GHSA-" in line
    assert told({"gpu-2": dataclasses.replace(weak, simulated=True)}) == []


def test_an_engine_without_a_known_weakness_is_not_named() -> None:
    for runc in ("1.4.3", "1.5.0", "unknown", None):
        assert told({"gpu-1": dataclasses.replace(GOOD, runc=runc)}) == []
    (ended,) = told({"gpu-1": dataclasses.replace(GOOD, containerd="1.7.20")})
    assert "whose support ended" in ended


def test_a_declared_engine_that_is_weak_is_named_before_it_is_installed() -> None:
    install = {"packages": ["containerd.io"], "version": "2.3.1-1~debian.12~bookworm"}
    (line,) = told(runtime={"install": install})
    assert line.startswith("runtime.install.version: found containerd 2.3.1-1~debian.12~bookworm;")
    assert told(runtime={"install": {**install, "version": "2.3.7-1"}}) == []


@pytest.mark.parametrize("label", ["", "\x1b[2J", "main", "9" * 4000])
def test_a_label_that_is_no_version_says_nothing(label: str) -> None:
    assert told(nodes={"gpu-1": label}) == []


def test_the_inspection_warns() -> None:
    found = Seen(hosts={"x": dataclasses.replace(GOOD, os_version="20.04")})
    inspection = judged(resolve(load(document()), "dev"), found, DAY)
    assert inspection.problems == ()
    assert any("found ubuntu 20.04, whose support ended" in text for text in inspection.warnings)
