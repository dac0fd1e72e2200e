"""A preview judges the way from the running version to the declared one, and a run refuses it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpu_cluster.base.keys import field_at
from gpu_cluster.change.document import ClusterChange
from gpu_cluster.change.text import lines
from gpu_cluster.findings import Aspect
from gpu_cluster.inspection.upgrade_path import setting_of, unsupported_kubernetes
from gpu_cluster.release.difference import compare
from gpu_cluster.release.helm_record import Noted, ReleaseRecord
from gpu_cluster.release.objects import ObjectsSeen
from gpu_cluster.settings.declared_cluster import ClusterSettings
from gpu_rules.facts.transitions import histories
from gpu_rules.faults import ConfigError
from tests.components.change.world import World, base

Json = dict[str, Any]
OPERATOR, SECTION = "gpu-operator", "gpuOperator"
PLUGIN, DRA = "nvidia-device-plugin", "dra-driver-nvidia-gpu"

NOTED = Noted(version="v26.3.3", objects=frozenset())


def declared(platform: str, section: str, **settings: Any) -> Json:
    document = base()
    document |= {"platform": platform, section: settings.pop("values"), "hosts": []}
    document.pop("devicePlugin" if section != "devicePlugin" else "", None)
    return document | settings


def previewed(document: Json, chart: str, running: str) -> ClusterChange:
    world = World.of(document)
    world.release = {chart: running}
    return world.change(document)


def operator(version: str, **settings: Any) -> Json:
    known = version.startswith(("v26.3", "v26.7"))
    values = {"version": version} | ({} if known else {"unknownVersion": True})
    return declared(OPERATOR, SECTION, values=values, **settings)


def test_an_upgrade_that_skips_a_series_is_refused_with_the_way() -> None:
    change = previewed(operator("v26.7.0"), OPERATOR, "v25.3.4")
    (fault,) = change.faults
    assert "chart gpu-operator v25.3.4 → v26.7.0: found an upgrade in one step" in fault.text
    assert "wanted: v25.3.4 → v25.10.1 → v26.3.3 → v26.7.0: NVIDIA/cloud-native-docs" in fault.text
    assert "of 2026-08-21" in fault.text
    assert "write gpuOperator.version: v25.10.1, with unknownVersion: true" in fault.text
    text = "\n".join(lines(change))
    assert "supported only by way of v25.3.4 → v25.10.1 → v26.3.3 → v26.7.0" in text
    assert "changes the definitions clusterpolicies.nvidia.com" in text
    assert "driver 580.82.07 → 595.91.07" in text


@pytest.mark.parametrize(
    ("chart", "platform", "section", "running", "wanted"),
    [
        (OPERATOR, "gpu-operator", SECTION, "v25.3.4", "v26.7.0"),
        (OPERATOR, "gpu-operator", SECTION, "v24.6.2", "v26.3.3"),
    ],
)
def test_the_steps_of_the_cure_lead_to_the_declared_version(
    chart: str, platform: str, section: str, running: str, wanted: str
) -> None:
    """Each step is declared as the message says, deployed, and the next step is taken."""
    steps = 0
    version = running
    while version != wanted and steps < 10:
        change = previewed(operator(wanted), chart, version)
        if not change.faults:
            break
        words = change.faults[0].text.partition(f"write {section}.version: ")[2]
        following = words.partition(",")[0].split()[0]
        section_values = {"version": following}
        if "with unknownVersion: true" in words:
            section_values["unknownVersion"] = True
        step = declared(platform, section, values=section_values)
        assert previewed(step, chart, version).faults == (), following
        version, steps = following, steps + 1
    assert previewed(operator(wanted), chart, version).faults == ()
    assert steps > 1


def test_a_setting_accepts_an_upgrade_from_the_version_that_it_names_only() -> None:
    fault = previewed(operator("v26.7.0"), OPERATOR, "v25.3.4").faults[0].text
    accept = yaml.safe_load(fault.partition("or accept it: rollout.unsupportedFrom: ")[2])
    consent = {"rollout": {"unsupportedFrom": accept}}
    assert previewed(operator("v26.7.0", **consent), OPERATOR, "v25.3.4").faults == ()
    assert previewed(operator("v26.7.0", **consent), OPERATOR, "v25.3.3").faults != ()


def test_an_unknown_software_is_not_accepted() -> None:
    with pytest.raises(ConfigError, match="unsupportedFrom"):
        previewed(operator("v26.7.0", rollout={"unsupportedFrom": {"hami": "2"}}), OPERATOR, "")


@pytest.mark.parametrize("running", ["v26.3.3", "v26.3.0", "v26.7.0"])
def test_a_supported_upgrade_is_not_refused(running: str) -> None:
    change = previewed(operator("v26.7.0"), OPERATOR, running)
    assert change.faults == ()
    for version in change.versions:
        assert version.support is not None
        assert version.support.verdict == "supported"


def test_a_way_back_that_no_source_names_is_said_and_not_refused() -> None:
    change = previewed(operator("v26.3.3"), OPERATOR, "v26.7.0")
    assert change.faults == ()
    assert "unknown whether its makers support this change" in "\n".join(lines(change))


def test_a_way_back_that_the_makers_exclude_is_refused() -> None:
    values = {"version": "25.12.0", "unknownVersion": True}
    document = declared("dra", "dra", values=values)
    (fault,) = previewed(document, DRA, "0.4.1").faults
    assert "chart dra-driver-nvidia-gpu 0.4.1 → 25.12.0: found a way back" in fault.text
    assert "write dra.version: 0.4.1" in fault.text


def test_values_that_the_running_release_sets_and_the_new_chart_lacks_are_named() -> None:
    record = ReleaseRecord(3, "", chart="v25.10.1", values=("cdi.default", "driver.enabled"))
    difference = compare("release a/b", record, ObjectsSeen(), "v26.7.0", {})
    assert difference.values == record.values
    (finding,) = difference.chart
    assert (finding.aspect, finding.was, finding.now) == (Aspect.CHART, "v25.10.1", "v26.7.0")


@pytest.mark.parametrize(
    ("record", "was"),
    [
        (ReleaseRecord(1, "", chart="v25.3.4"), "v25.3.4"),
        (ReleaseRecord(1, "", chart="25.3.4"), "25.3.4"),
        (ReleaseRecord(1, "", chart="v26.7.0"), ""),
        (ReleaseRecord(1, "", chart="26.7.0"), ""),
        (ReleaseRecord(1, "", chart="v1.0.0-devel"), ""),
        (ReleaseRecord(1, "", chart=""), ""),
        (ReleaseRecord(1, "", noted=NOTED, chart="v9.9.9"), "v26.3.3"),
    ],
)
def test_the_chart_of_a_release_that_another_program_installed_counts(
    record: ReleaseRecord, was: str
) -> None:
    found = compare("release a/b", record, ObjectsSeen(), "v26.7.0", {}).chart
    assert [finding.was for finding in found] == ([was] if was else [])


@pytest.mark.parametrize(
    ("version", "server", "told"),
    [
        ("v26.7.0", "v1.36.3", ""),
        ("v26.7.0", "v1.37.2", "wanted: Kubernetes 1.33 to 1.36"),
        ("v26.3.3", "v1.31.0", "wanted: Kubernetes 1.32 to 1.36"),
        ("v26.7.0", "", ""),
    ],
)
def test_a_chart_whose_makers_do_not_name_the_running_kubernetes_is_a_warning(
    version: str, server: str, told: str
) -> None:
    found = [str(fault) for fault in unsupported_kubernetes(OPERATOR, version, server)]
    assert [told in text for text in found] == ([True] if told else [])


@pytest.mark.parametrize("software", sorted(histories()))
def test_the_setting_that_is_named_for_a_version_exists(software: str) -> None:
    setting = setting_of(software)
    assert setting == "its version" or field_at(ClusterSettings, tuple(setting.split(".")))
