"""The table of transitions gives the verdicts that the makers' documents give."""

from __future__ import annotations

import json
from datetime import date
from itertools import pairwise

import pytest

from gpu_rules.facts.transitions import TABLE, Verdict, histories, judge, parse

SUPPORTED, BY_WAY_OF = Verdict.SUPPORTED, Verdict.BY_WAY_OF
NOT_BACK, UNKNOWN = Verdict.NOT_BACK, Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("software", "was", "now", "verdict", "path"),
    [
        # "Upgrades are only supported within a major release or to the next major release."
        ("gpu-operator", "v26.3.3", "v26.7.0", SUPPORTED, "v26.3.3 v26.7.0"),
        ("gpu-operator", "v26.3.1", "v26.3.3", SUPPORTED, "v26.3.1 v26.3.3"),
        ("gpu-operator", "v25.3.4", "v26.7.0", BY_WAY_OF, "v25.3.4 v25.10.1 v26.3.3 v26.7.0"),
        ("gpu-operator", "v25.10.0", "v26.7.1", BY_WAY_OF, "v25.10.0 v26.3.3 v26.7.1"),
        ("gpu-operator", "v26.7.0", "v26.3.3", UNKNOWN, ""),
        ("gpu-operator", "v26.7.0", "v27.1.0", UNKNOWN, ""),
        ("gpu-operator", "v1.11.1", "v26.7.0", UNKNOWN, ""),
        # "you can deploy any device plugin version"
        ("nvidia-device-plugin", "0.14.5", "0.20.0", SUPPORTED, "0.14.5 0.20.0"),
        ("nvidia-device-plugin", "0.20.0", "0.17.4", SUPPORTED, "0.20.0 0.17.4"),
        # "Upgrade from v25.12.0 to v0.4.0", "downgrading to v25.12.0 is not supported"
        ("dra-driver-nvidia-gpu", "25.12.0", "0.4.1", SUPPORTED, "25.12.0 0.4.1"),
        ("dra-driver-nvidia-gpu", "0.4.0", "0.4.1", SUPPORTED, "0.4.0 0.4.1"),
        ("dra-driver-nvidia-gpu", "0.4.0", "25.12.0", NOT_BACK, ""),
        ("dra-driver-nvidia-gpu", "0.5.0", "25.8.1", NOT_BACK, ""),
        ("dra-driver-nvidia-gpu", "0.4.1", "0.4.0", UNKNOWN, ""),
        ("dra-driver-nvidia-gpu", "0.4.1", "0.5.0", UNKNOWN, ""),
        ("dra-driver-nvidia-gpu", "25.8.1", "25.12.0", UNKNOWN, ""),
        ("node-feature-discovery", "0.14.6", "0.19.0", SUPPORTED, "0.14.6 0.19.0"),
        ("node-feature-discovery", "0.19.0", "0.18.3", UNKNOWN, ""),
        # "Skipping MINOR versions when upgrading is unsupported."
        ("kubernetes", "v1.35.4", "1.36.3", SUPPORTED, "v1.35.4 1.36.3"),
        ("kubernetes", "1.36.3", "1.36.3", SUPPORTED, "1.36.3 1.36.3"),
        ("kubernetes", "1.34.4+k3s1", "1.37.2", BY_WAY_OF, "1.34.4+k3s1 1.35.10 1.36.6 1.37.2"),
        ("kubernetes", "1.36.3", "1.35.9", NOT_BACK, ""),
        ("kubernetes", "1.36.3", "1.36.2", NOT_BACK, ""),
        ("kubernetes", "1.36.3", "2.0.0", UNKNOWN, ""),
        # "sequential minor releases", and "sequential LTS releases"
        ("containerd", "2.0.11", "2.1.5", SUPPORTED, "2.0.11 2.1.5"),
        ("containerd", "2.0.11", "2.2.9", BY_WAY_OF, "2.0.11 2.1.9 2.2.9"),
        ("containerd", "1.7.36", "2.3.7", SUPPORTED, "1.7.36 2.3.7"),
        ("containerd", "1.7.36", "2.4.2", BY_WAY_OF, "1.7.36 2.3.7 2.4.2"),
        ("containerd", "2.3.7", "1.7.36", UNKNOWN, ""),
        ("driver", "580.95.05", "595", SUPPORTED, "580.95.05 595"),
        ("driver", "595.91.07", "595", SUPPORTED, "595.91.07 595"),
        ("driver", "595.91.07", "580.95.05", UNKNOWN, ""),
        ("container-toolkit", "1.19.0", "1.20.1", UNKNOWN, ""),
        ("container-toolkit", "1.19.0", "1.19.1", SUPPORTED, "1.19.0 1.19.1"),
        ("hami", "2.9.0", "2.10.0", UNKNOWN, ""),
        ("gpu-operator", "main", "v26.7.0", UNKNOWN, ""),
    ],
)
def test_a_verdict_is_what_the_makers_say(
    software: str, was: str, now: str, verdict: Verdict, path: str
) -> None:
    judged = judge(software, was, now)
    assert (judged.verdict, judged.path) == (verdict, tuple(path.split()))


def test_each_step_of_a_way_is_supported_by_itself() -> None:
    for software, history in histories().items():
        newest = [history.newest(series) for series in history.order]
        for was in newest:
            for now in newest:
                path = judge(software, was, now).path
                for first, second in pairwise(path):
                    assert judge(software, first, second).verdict is SUPPORTED, (was, now, first)


def test_each_verdict_has_a_source_and_its_date() -> None:
    for history in histories().values():
        assert history.source
        assert date.fromisoformat(history.read) > date(2026, 1, 1)
        assert {*history.kubernetes} <= {*history.order}
        assert {series for pair in history.steps for series in pair} <= {*history.order}
        for version, release in history.releases.items():
            assert bool(release.published) != bool(release.source), version


def test_releases_are_in_the_order_of_their_series() -> None:
    for software, history in histories().items():
        positions = [history.position(version) for version in history.releases]
        assert positions == sorted(positions), software


def test_a_changed_chart_says_what_it_changes_for_the_values_that_a_release_sets() -> None:
    used = ["operator.initContainer.image", "driver.enabled"]
    judged = judge("gpu-operator", "v25.10.1", "v26.7.0", used)
    assert judged.dropped == ("operator.initContainer.image",)
    assert "clusterpolicies.nvidia.com" in judged.definitions
    assert ("driver", "580.105.08", "595.91.07") in judged.replaced
    back = judge("gpu-operator", "v26.7.0", "v26.3.3", ["operator.env"])
    assert back.dropped == ("operator.env",)


def test_what_is_off_is_no_part_that_restarts() -> None:
    parts = [part for part, *_ in judge("gpu-operator", "v26.3.3", "v26.7.0", []).replaced]
    assert "gds" not in parts
    on = judge("gpu-operator", "v26.3.3", "v26.7.0", ["gds.enabled"])
    assert "gds" in [part for part, *_ in on.replaced]
    assert judge("nvidia-device-plugin", "0.19.3", "0.20.0", []).definitions == ()
    assert judge("nvidia-device-plugin", "0.19.3", "0.20.0", ["nfd.enabled"]).definitions


def test_a_release_whose_chart_was_not_read_is_named() -> None:
    notes = judge("gpu-operator", "v26.3.3", "v26.7.1", []).notes
    assert notes[0] == "the chart of v26.7.1 was not read: this is what v26.7.0 has"


@pytest.mark.parametrize(
    ("software", "version", "kubernetes", "works"),
    [
        ("gpu-operator", "v26.7.0", "1.36.3", True),
        ("gpu-operator", "v26.7.0", "1.37.2", False),
        ("gpu-operator", "v26.7.0", "v1.32.1", False),
        ("containerd", "2.2.9", "1.37.2", False),
        ("containerd", "2.3.7", "1.37.2", True),
        ("nvidia-device-plugin", "0.20.0", "1.40.0", True),
    ],
)
def test_a_version_works_with_the_kubernetes_of_its_makers(
    software: str, version: str, kubernetes: str, *, works: bool
) -> None:
    assert histories()[software].works_with(version, kubernetes) is works


@pytest.mark.parametrize("text", ["", "main", "v", "latest", "x1.2"])
def test_a_text_that_is_no_version_has_no_numbers(text: str) -> None:
    assert parse(text) == ()


def test_the_table_names_its_source() -> None:
    assert "make facts" in json.loads(TABLE.read_text())["source"]
