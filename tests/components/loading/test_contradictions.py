"""Pairs of declared values that don't go together are derived from the tables and the checks.

Each pair is refused when the stack file is read, without a host. What the checks of hosts judge by
declared values alone is found by asking them with the facts of two hosts that have nothing in
common: an error that both get can't come from a host.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from gpu_cluster.base import compatibility
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.preflight import validate_host
from gpu_cluster.loading import validate_versions
from gpu_cluster.loading.loader import load
from gpu_rules.facts.floors import Software, floor
from gpu_rules.faults import ConfigError, FaultSeverity
from tests.desired_host import desired_host
from tests.fixtures.clusters import INSTALLERS

Json = dict[str, Any]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEfxFSAF45h/u4FWcTpIO9dleHVOhDTjHvn4WRhQJDYQ"
HOST = {"name": "gpu-1", "address": "192.0.2.1", "hostKey": KEY}
SAMPLE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda"
ANY = "8.0"
"""CUDA version whose programs each driver of the tables runs."""
OLDEST_CUDA = (10, 0)
"""Oldest CUDA Toolkit that can be declared."""
BEFORE = "1"
"""Number that makes a driver older than the table's one when it stands in place of its last."""


def merged(*parts: Json) -> Json:
    document: Json = {
        "version": "v1",
        "kubernetes": {"context": "c"},
        "platform": "device-plugin",
        "pools": [{"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": 8}],
    }
    for part in parts:
        for section, value in part.items():
            both = isinstance(document.get(section), dict) and isinstance(value, dict)
            document[section] = {**document[section], **value} if both else value
    return document


def driver(version: str) -> Json:
    return {"driver": {"source": "package", "version": version}}


def kernel(release: str) -> Json:
    return {"kernel": {"release": release}, **image(ANY)}


def cuda(version: str) -> Json:
    return {"cuda": {"source": "package", "version": version}, **image(ANY)}


def image(version: str) -> Json:
    return {"validation": {"image": f"{SAMPLE}{version}"}}


def test_image(version: str) -> Json:
    test = {"image": f"{SAMPLE}{version}", "command": ["all"], "gpus": 8}
    return {"validation": {"image": f"{SAMPLE}{ANY}", "tests": {"nccl": test}}}


test_image.__test__ = False  # type: ignore[attr-defined]


def toolkit(version: str) -> Json:
    return {"runtime": {"toolkit": {"source": "package", "version": version}}}


def older(floor: compatibility.Version) -> str:
    """Return a driver of the branch before a table's floor."""
    return f"{floor[0] - 1}.{BEFORE}"


CUDA = {
    **compatibility.CUDA_DRIVER_OF,
    **{(major, 1): least for major, least in compatibility.CUDA_DRIVER.items()},
}
"""Each CUDA version of the tables with its oldest driver; 11.1 and later count by major version."""
PARTNERS: dict[str, Callable[[str], Json]] = {
    "cuda.version": cuda,
    "validation.image": image,
    "validation.tests": test_image,
}


@dataclass(frozen=True)
class Pair:
    """Two declared values that don't go together.

    Attributes:
        name: Both values, as the count names them.
        document: Stack file with both.
        accepted: Stack files that differ in one of the values only, and are accepted.
    """

    name: str
    document: Json
    accepted: tuple[Json, ...]


def pairs() -> Iterator[Pair]:
    """Yield a pair for each row of the tables of versions."""
    for version, least in CUDA.items():
        for setting, sections in PARTNERS.items():
            if setting == "cuda.version" and version < OLDEST_CUDA:
                continue
            asked = sections(".".join(map(str, version)))
            name = f"driver {older(least)} and CUDA {'.'.join(map(str, version))} of {setting}"
            fits = merged(asked, driver(compatibility.shown(least)))
            yield Pair(name, merged(asked, driver(older(least))), (fits,))
    for first, _, since, _ in compatibility.DRIVER_KERNEL:
        made = compatibility.shown((*first, 1, 1)[:3] if len(first) == 1 else first)
        release = ".".join(map(str, (*since, 0)[:3]))
        alone = (merged(driver(made), image(ANY)), merged(kernel(release)))
        name = f"driver {made} and kernel {release}"
        yield Pair(name, merged(driver(made), kernel(release)), alone)
    major, minor = compatibility.OLDEST_KERNEL
    below = f"{major}.{minor - 1}"
    fits = merged(kernel(f"{major}.{minor}"))
    yield Pair(f"kernel {below} and the oldest of hosts", merged(kernel(below)), (fits,))
    for release, branch in compatibility.VGPU_BRANCH.items():
        for guest in sorted(set(compatibility.VGPU_BRANCH.values())):
            if guest > branch:
                name, fits = f"vGPU {release} and guest {guest}", vgpu(f"{release}.1", branch)
                yield Pair(name, vgpu(f"{release}.1", guest), (fits,))
    refused, fits = (
        merged(driver(version), GPU_MANAGER) for version in ("535.104.05", "470.256.02")
    )
    yield Pair("gpu-manager and driver 535", refused, (fits,))
    fits = merged(toolkit(str(floor(Software.TOOLKIT).fixed)))
    yield Pair("the toolkit and the bulletins' floor", merged(toolkit("1.12.0")), (fits,))


GPU_MANAGER: Json = {"platform": "gpu-manager", "gpuManager": {"extenderAddress": "10.96.0.200"}}


def vgpu(release: str, guest: int) -> Json:
    declared = {
        "source": "operator",
        "version": f"{guest}.1.1",
        "imageRepository": "registry.example.com/vgpu",
    }
    operator = {"vgpu": {"hostDriver": release, "licenseSecret": "licensing-config"}}
    return merged({"platform": "gpu-operator", "driver": declared, "gpuOperator": operator})


PAIRS = list(pairs())


def texts(document: Json) -> list[str]:
    """Return what is found in a document."""
    try:
        load(document)
    except ConfigError as error:
        return [each.found for each in error.faults]
    return []


@pytest.mark.promise("A stack file whose versions contradict each other is refused without a host.")
@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(pair, id=pair.name, marks=pytest.mark.documents("contradiction", pair.name))
        for pair in PAIRS
    ],
)
def test_a_pair_of_the_tables_is_refused_without_a_host(pair: Pair) -> None:
    assert "hosts" not in pair.document
    assert len(texts(pair.document)) >= 1
    assert [texts(document) for document in pair.accepted] == [[] for _ in pair.accepted]


HERE = HostFacts(
    os="debian",
    os_version="12",
    arch="x86_64",
    kernel="6.1.0-18-amd64",
    nvidia_devices=8,
    driver="595.91.07",
    containerd="1.7.24",
    toolkit="1.20.0",
    cgroup=2,
    disk_free_mib=50_000,
)
ELSEWHERE = HostFacts(
    os="ubuntu",
    os_version="24.04",
    arch="x86_64",
    kernel="6.8.0-45-generic",
    nvidia_devices=8,
    driver="570.211.01",
    containerd="2.1.4",
    toolkit="1.20.1",
    cgroup=2,
    disk_free_mib=99_000,
)
VALUES: dict[str, list[Json]] = {
    "driver": [driver(text) for text in ("418.87.00", "440.36", "470.256.02", "580.95.05")],
    "kernel": [kernel(text) for text in ("4.4.217", "5.5.11", "6.1.0", "6.18.0", "6.19.0")],
    "cuda": [cuda(text) for text in ("10.2", "12.5", "13.0")],
    "validation": [image(text) for text in ("10.2", "12.5.0", "13.0.1")],
    "toolkit": [toolkit(text) for text in ("1.12.0", str(floor(Software.TOOLKIT).fixed))],
}


def judged_by_declared_values(document: Json, patch: pytest.MonkeyPatch) -> set[str]:
    """Return the errors that two hosts with nothing in common both get; none if a model refuses."""
    with patch.context() as without:
        without.setattr(validate_versions, "validate", lambda _: iter(()))
        try:
            host = desired_host(load({**document, "hosts": [HOST]}), 0)
        except ConfigError:
            return set()
    errors = [
        {each.found for each in validate_host(host, facts) if each.severity is FaultSeverity.ERROR}
        for facts in (HERE, ELSEWHERE)
    ]
    return errors[0] & errors[1]


def test_what_hosts_are_judged_by_declared_values_is_found_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, missed = 0, []
    for one, other in itertools.combinations(VALUES, 2):
        for parts in itertools.product(VALUES[one], VALUES[other]):
            document = merged(*parts)
            if errors := judged_by_declared_values(document, monkeypatch):
                found += 1
                if not texts(document):
                    missed.append((parts, errors))
    assert found > 20
    assert missed == []


def test_a_pool_that_cannot_be_read_says_nothing_about_its_driver() -> None:
    pools = [{"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": "many"}]
    document = {
        "version": "v1",
        "kubernetes": {"context": "c"},
        "platform": "device-plugin",
        "pools": pools,
        "driver": {"source": "daemonset", "version": "595.91.07"},
        "driverInstaller": {"images": INSTALLERS},
    }
    with pytest.raises(ConfigError) as refused:
        load(document)
    assert [fault.place for fault in refused.value.faults] == ["pools[0].gpusPerNode"]
