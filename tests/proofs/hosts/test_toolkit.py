"""Install the NVIDIA Container Toolkit with real apt and dnf from a local signed repository."""

from __future__ import annotations

import re

import pytest

from gpu_cluster.hosts.steps.toolkit import PACKAGES
from gpu_cluster_lab.simulator.hosts.packages import Signature
from gpu_cluster_lab.toolchain import pins
from tests.proofs.hosts import software
from tests.proofs.hosts.machine import Running, differences
from tests.proofs.hosts.toolkit import (
    RECORDS,
    SOURCES,
    VERSION,
    bare,
    serving,
    wanted,
)


def lasting(host: Running) -> dict[str, str]:
    return {path: text for path, text in host.tree().items() if not path.startswith(RECORDS)}


@pytest.mark.full
@pytest.mark.parametrize("system", software.FORMATS)
def test_toolkit_comes_from_a_signed_repository(
    cluster: str, namespaces: None, system: str
) -> None:
    host = bare(cluster, system)
    before = lasting(host)
    with serving(system) as (url, key):
        script = wanted(system, url, key, version=VERSION, remove_packages=True)
        first = host.apply(script)
        assert (first.status, first.errors) == (0, "")
        engine = host.run("containerd --version").output.split()[2].removeprefix("v")
        assert f": containerd {engine} has the runtimes" in first.output
        assert host.run("nvidia-ctk --version").output.splitlines()[0].endswith(pins.NVIDIA_CTK)
        assert software.installed(host, system)["nvidia-container-toolkit-base"] == f"{VERSION}-1"
        assert url in host.read(SOURCES[software.FORMATS[system]])
        assert "containerd.runtimes.nvidia]" in host.run("containerd config dump").output
        assert host.apply(script).output == "changed=0\n"
    assert host.undo(script).status == 0
    assert differences(before, lasting(host)) == {}
    assert host.run("command -v nvidia-ctk").status != 0


@pytest.mark.full
@pytest.mark.parametrize("system", software.FORMATS)
def test_an_older_toolkit_comes_whole_where_a_newer_one_is_published(
    cluster: str, namespaces: None, system: str
) -> None:
    """All packages of the toolkit get the declared version, not only the declared package.

    The package libnvidia-container-tools only requires a minimum version of libnvidia-container1,
    so apt would install the newest libnvidia-container1.
    """
    host = bare(cluster, system)
    with serving(system) as (url, key):
        script = wanted(system, url, key, version="1.19.1")
        assert host.apply(script).status == 0
        assert host.apply(script).output == "changed=0\n"
    packages = software.installed(host, system)
    assert [packages[name] for name in PACKAGES] == ["1.19.1-1"] * len(PACKAGES)


@pytest.mark.refusal(by="real part")
@pytest.mark.full
@pytest.mark.parametrize("signature", ["none", "other", "broken"])
@pytest.mark.parametrize("system", software.FORMATS)
def test_a_repository_that_is_not_signed_by_the_key_is_refused(
    cluster: str, namespaces: None, system: str, signature: Signature
) -> None:
    host = bare(cluster, system)
    containerd = host.read("/etc/containerd/config.toml")
    with serving(system, signature) as (url, key):
        refused = host.apply(wanted(system, url, key))
    assert refused.status == 1
    assert "is refused" in refused.errors
    assert host.run("command -v nvidia-ctk").status != 0
    assert not host.exists(SOURCES[software.FORMATS[system]])
    assert host.read("/etc/containerd/config.toml") == containerd


@pytest.mark.full
def test_packages_stay_unless_they_are_to_go(cluster: str, namespaces: None) -> None:
    host = bare(cluster, "debian")
    with serving("debian") as (url, key):
        script = wanted("debian", url, key)
        assert host.apply(script).status == 0
        assert host.undo(script).status == 0
    assert host.run("nvidia-ctk --version").status == 0
    assert not host.exists(SOURCES["apt"])


@pytest.mark.full
def test_an_entry_that_the_host_has_brings_the_runtime_too(cluster: str, namespaces: None) -> None:
    host = bare(cluster, "debian")
    with serving("debian") as (url, key):
        script = wanted("debian", url, key, remove_packages=True)
        assert host.apply(script).status == 0
        entry = host.read(SOURCES["apt"])
        assert host.undo(script).status == 0
        host.write("/etc/apt/theirs.asc", key)
        theirs = re.sub("Signed-By: .*", "Signed-By: /etc/apt/theirs.asc", entry)
        host.write("/etc/apt/sources.list.d/theirs.sources", theirs)
        done = host.apply(script)
        assert (done.status, done.errors) == (0, "")
        assert "the entry in /etc/apt/sources.list.d/theirs.sources is used" in done.output
        assert "containerd.runtimes.nvidia]" in host.run("containerd config dump").output
        assert host.apply(script).output == "changed=0\n"


@pytest.mark.full
def test_rocky_9_takes_the_repository_of_rhel_9(cluster: str, namespaces: None) -> None:
    host = bare(cluster, "rocky")
    with serving("rocky", at="rhel9.0/x86_64") as (url, key):
        done = host.apply(wanted("rocky", f"{url}/{{distribution}}/{{architecture}}", key))
        assert (done.status, done.errors) == (0, "")
        assert f"baseurl={url}/rhel9.0/x86_64" in host.read(SOURCES["dnf"])


@pytest.mark.full
def test_a_version_that_is_not_there_is_told(cluster: str, namespaces: None) -> None:
    host = bare(cluster, "debian")
    with serving("debian") as (url, key):
        refused = host.apply(wanted("debian", url, key, version="1.19.9"))
    assert refused.status == 1
    assert "nvidia-container-toolkit 1.19.9: found 1.20.0-1 1.19.1-1 1.12.0-1 in" in refused.errors
