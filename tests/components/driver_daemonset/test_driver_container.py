"""Hosts on which the GPU Operator's driver container can't run, and the suggested cures."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.driver_daemonset.container import image_tag, judge_all
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.needed import images as needed
from gpu_cluster.settings.cluster import Cluster
from gpu_rules.faults import ConfigError
from tests.fixtures.clusters import INSTALLERS
from tests.fixtures.documents import stack_document
from tests.fixtures.platforms import deployed
from tests.resolved import platform_of

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKvDyV1cmEiXz9dP0UXFkyBKtNBYLVgEdSOvVr4fsW1F"
UBUNTU = HostFacts(os="ubuntu", os_version="24.04")
ROCKY = HostFacts(os="rocky", os_version="9.4")


def cluster(**driver: Any) -> Cluster:
    hosts = [
        {"name": name, "address": f"192.0.2.{number}", "hostKey": KEY}
        for number, name in enumerate(("gpu-1", "gpu-2"), start=1)
    ]
    return load(
        stack_document(platform="gpu-operator", nodes=["gpu-[1-2]"], hosts=hosts, driver=driver)
    )


def faults_of(facts: dict[str, HostFacts], **driver: Any) -> list[str]:
    declared = cluster(**driver)
    hosts = resolve(declared, "dev").hosts
    return [str(item) for item in judge_all(hosts, facts)]


def test_two_systems_need_an_nvidia_driver_object() -> None:
    mixed = {"gpu-1": UBUNTU, "gpu-2": ROCKY}
    (message,) = faults_of(mixed, source="operator")
    assert message.startswith("host gpu-2: found rocky9, and ubuntu24.04 on gpu-1; wanted: one")
    assert faults_of(mixed, source="operator", resource=True) == []
    assert faults_of(mixed, source="preinstalled") == []
    assert faults_of({"gpu-1": UBUNTU, "gpu-2": UBUNTU}, source="operator") == []


def test_two_releases_of_one_system_differ_as_the_image_tags_do() -> None:
    other = HostFacts(os="rocky", os_version="9.5")
    assert faults_of({"gpu-1": ROCKY, "gpu-2": other}, source="operator") == []
    assert image_tag(UBUNTU) == "ubuntu24.04"
    older = HostFacts(os="ubuntu", os_version="22.04")
    assert len(faults_of({"gpu-1": UBUNTU, "gpu-2": older}, source="operator")) == 1


def test_a_host_that_was_not_reached_is_not_judged() -> None:
    lost = HostFacts(os="rocky", os_version="9.4", error="no answer")
    assert faults_of({"gpu-1": lost, "gpu-2": UBUNTU}, source="operator") == []


DIGEST = f"sha256:{'2' * 64}"


def test_a_declared_digest_is_the_drivers_image_as_it_is() -> None:
    declared = cluster(source="operator", digest=DIGEST)
    assert platform_of(declared).values()["driver"]["version"] == DIGEST
    images = [image.upstream for image in needed(*deployed(declared))]
    assert f"nvcr.io/nvidia/driver@{DIGEST}" in images


def test_a_digest_is_of_one_systems_image() -> None:
    mixed = {"gpu-1": UBUNTU, "gpu-2": ROCKY}
    (message,) = faults_of(mixed, source="operator", resource=True, digest=DIGEST)
    assert "without digest" in message
    with pytest.raises(ConfigError, match="precompiled with digest"):
        cluster(source="operator", precompiled=True, version="595", digest=DIGEST)
    with pytest.raises(ConfigError, match=r"driver: found digest"):
        cluster(source="preinstalled", digest=DIGEST)


@pytest.mark.parametrize(
    ("images", "found"),
    [
        ({}, "driverInstaller.images: found no image for ubuntu"),
        ({"ubuntu": "registry.example.com/driver-installer:2"}, "a tag may be moved"),
        (INSTALLERS, ""),
    ],
)
def test_an_installer_that_runs_privileged_is_declared_by_digest(
    images: dict[str, str], found: str
) -> None:
    sections = stack_document(
        nodes=["gpu-[1-2]"],
        driver={"source": "daemonset", "version": "595.91.07"},
        driverInstaller={"images": images},
    )
    if not found:
        assert load(sections).driver_installer.image_of("a100") == INSTALLERS["ubuntu"]
        return
    with pytest.raises(ConfigError) as refused:
        load(sections)
    assert found in str(refused.value)
