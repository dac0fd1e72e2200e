"""Versions that contradict each other within the stack file are found without a host."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from gpu_cluster.base import compatibility
from gpu_cluster.base.image import SAMPLES
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.hosts.driver import DriverSource
from gpu_rules.faults import ConfigError
from tests.fixtures.clusters import INSTALLERS

Json = dict[str, Any]
SAMPLE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda"
SHA256 = "a" * 64
BRANCHES = sorted(compatibility.VGPU_BRANCH.items())
ARCHIVE = "https://example.com/driver.run"


def document(**sections: Any) -> Json:
    pools = [{"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": 8}]
    base = {"version": "v1", "kubernetes": {"context": "c"}, "platform": "device-plugin"}
    return {**base, "pools": pools, **sections}


def driver(source: DriverSource, version: str) -> Json:
    """Return the sections of a stack file that declare a driver of this source."""
    section: Json = {"source": source.value, "version": version}
    if source is DriverSource.RUNFILE:
        section["runfile"] = {"locations": [ARCHIVE], "sha256": SHA256}
    if source is DriverSource.OPERATOR:
        return {"platform": "gpu-operator", "driver": section}
    if source is DriverSource.DAEMONSET:
        return {"driver": section, "driverInstaller": {"images": INSTALLERS}}
    return {"driver": section}


def cuda(version: str) -> Json:
    return {"cuda": {"source": "package", "version": version}}


def refusals(sections: Json) -> list[str]:
    """Return what is found in a stack file, without the faults of its other settings."""
    try:
        load(document(**sections))
    except ConfigError as error:
        return [each.found for each in error.faults]
    return []


# Each partner of a driver's version, with a value that driver 418.87.00 can't work with, and the
# text that names the pair.
PARTNERS: dict[str, tuple[Json, str]] = {
    "cuda.version": (cuda("10.2"), "CUDA 10.2 of cuda.version"),
    "validation.image": ({"validation": {"image": f"{SAMPLE}12.5.0"}}, "of validation.image"),
    "validation.tests": (
        {
            "validation": {
                "image": f"{SAMPLE}10.1",
                "tests": {"nccl": {"image": f"{SAMPLE}11.7.1", "command": ["all"], "gpus": 8}},
            }
        },
        "of validation.tests.nccl.image",
    ),
}
"""Partners of a declared driver that need a newer one than 418.87.00."""
OF_EACH_SOURCE = [
    pytest.param(source, partner, id=f"{source.value}-{partner}")
    for source, partner in itertools.product(DriverSource, PARTNERS)
]


@pytest.mark.promise("A stack file whose versions contradict each other is refused without a host.")
@pytest.mark.parametrize(("source", "partner"), OF_EACH_SOURCE)
def test_a_driver_and_what_needs_a_newer_one_are_refused(
    source: DriverSource, partner: str
) -> None:
    sections, text = PARTNERS[partner]
    texts = refusals({**driver(source, "418.87.00"), **sections})
    assert any("driver 418.87.00 for CUDA" in each and text in each for each in texts), texts


BUILDS = [
    pytest.param(row, id=f"{compatibility.shown(row[0])}-{compatibility.shown(row[2])}")
    for row in compatibility.DRIVER_KERNEL
]


@pytest.mark.parametrize("row", BUILDS)
def test_each_pair_of_the_table_of_builds_is_refused(
    row: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], str],
) -> None:
    first, _, since, _ = row
    version = compatibility.shown((*first, 1, 1)[:3] if len(first) == 1 else first)
    release = f"{'.'.join(map(str, (*since, 0)[:3]))}-1-amd64"
    sections = {**driver(DriverSource.PACKAGE, version), "kernel": {"release": release}}
    assert any("known not to build" in text for text in refusals(sections))


@pytest.mark.parametrize(
    ("release", "refused"), [("4.4.217-1.el7", True), ("4.18.0-553.el8_10", False)]
)
def test_a_declared_kernel_below_the_floor_is_refused(release: str, refused: bool) -> None:
    found = refusals({"kernel": {"release": release}})
    assert any(text.startswith('kernel "') for text in found) is refused


@pytest.mark.promise("Guests with a newer driver branch than the vGPU Manager's are refused.")
@pytest.mark.parametrize(
    ("host", "guest", "refused"),
    [
        *(
            (f"{release}.1", f"{branch}.1.1", False)
            for release, branch in compatibility.VGPU_BRANCH.items()
        ),
        ("16.4", "550.90.05", True),
        ("17.3", "580.95.05", True),
        ("18.4", "550.90.05", False),
        ("20.1", "580.95.05", False),
    ],
)
def test_a_guest_is_compared_with_the_hypervisors_release(
    host: str, guest: str, refused: bool
) -> None:
    sections = driver(DriverSource.OPERATOR, guest)
    sections["driver"]["imageRepository"] = "registry.example.com/vgpu"
    sections["gpuOperator"] = {"vgpu": {"hostDriver": host, "licenseSecret": "licensing-config"}}
    assert any("in the guests" in text for text in refusals(sections)) is refused


@pytest.mark.parametrize(("branch", "refused"), [("570", True), ("580", False)])
def test_a_branch_counts_as_its_newest_driver(branch: str, refused: bool) -> None:
    sections = driver(DriverSource.OPERATOR, branch)
    sections["driver"]["precompiled"] = True
    texts = refusals({**sections, "validation": {"image": f"{SAMPLE}13.0.1"}})
    assert any(text.startswith(f"driver {branch} for CUDA") for text in texts) is refused


@pytest.mark.promise("The default image of the validation is one that the declared driver can run.")
@pytest.mark.parametrize(
    ("sections", "cuda_version"),
    [
        ({}, "12.5.0"),
        (driver(DriverSource.PACKAGE, "595.91.07"), "12.5.0"),
        (driver(DriverSource.PACKAGE, "470.256.02"), "11.7.1"),
        (driver(DriverSource.PACKAGE, "440.64.00"), "10.2"),
        ({"platform": "gpu-manager"}, "10.2"),
        ({"platform": "gpu-manager", **driver(DriverSource.PACKAGE, "470.256.02")}, "10.2"),
    ],
)
def test_the_default_image_runs_on_the_declared_driver(sections: Json, cuda_version: str) -> None:
    image = load(document(**sections)).validation.image
    assert compatibility.cuda_of(image) == cuda_version


def test_each_sample_has_a_driver_that_only_it_fits() -> None:
    floors = [compatibility.driver_for(compatibility.cuda_of(image)) for image in SAMPLES]
    assert floors == sorted(floors, reverse=True)
    assert all(floors)


def test_the_oldest_driver_of_a_stack_decides() -> None:
    pools = [
        {"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8},
        {"name": "b", "nodes": ["gpu-2"], "gpusPerNode": 8, "driver": {"version": "470.256.02"}},
    ]
    declared = load(document(driver={"version": "595.91.07"}, pools=pools))
    assert compatibility.cuda_of(declared.validation.image) == "11.7.1"


def test_four_contradictions_of_one_file_are_named_together() -> None:
    texts = refusals(
        {
            **driver(DriverSource.RUNFILE, "418.87.00"),
            **cuda("10.2"),
            "validation": {"image": f"{SAMPLE}12.5.0"},
            "kernel": {"release": "4.4.217-1.el7"},
        }
    )
    assert sorted(text.partition(" for")[0] for text in texts) == [
        "driver 418.87.00",
        "driver 418.87.00",
        'kernel "4.4.217-1.el7"',
    ]
