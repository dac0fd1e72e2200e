"""Install and remove software with the real package managers and signed repositories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from gpu_cluster_lab.simulator.hosts import catalogue
from gpu_cluster_lab.simulator.hosts.packages import Signature
from tests.proofs.hosts import software
from tests.proofs.hosts.machine import Running, differences

SYSTEMS = ["debian", pytest.param("rocky", marks=pytest.mark.full)]
VERSION = "580.65.06"
NEWER = "595.91.07"
SOURCES = {"debian": "etc/apt/sources.list.d", "rocky": "etc/yum.repos.d"}
HOLD_THE_LOCK = """
use Fcntl;
open(my $file, ">>", $ARGV[0]) or die;
my $lock = pack("s s l! l! i", F_WRLCK, 0, 0, 0, 0);
fcntl($file, F_SETLK, $lock) or die;
open(my $mark, ">", "/run/held") or die;
sleep $ARGV[1];
"""


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def site(system: str, cluster: str, namespaces: None) -> Iterator[tuple[Running, dict[str, Any]]]:
    """Return a host, and stack file sections with an old and a new version of each package."""
    with ExitStack() as stack:

        def serve(*packages: Any) -> dict[str, Any]:
            return stack.enter_context(software.serving(system, packages))

        sections = {
            "packages": {
                "repository": stack.enter_context(software.tools(system)),
            },
            "driver": {
                "source": "package",
                "version": VERSION,
                "repository": stack.enter_context(software.drivers(system, VERSION, NEWER)),
            },
            "kubernetesPackages": {
                "version": "1.34.4",
                "repository": serve(*catalogue.kubernetes("1.34.4", "1.34.9")),
            },
        }
        yield software.start(cluster, system), sections


def judge(host: Running, system: str) -> None:
    """Check that the declared packages are installed, held and recorded on the host."""
    packages = software.installed(host, system)
    assert {"gcc", "make", "dkms", "pciutils"} <= packages.keys()
    release = {"debian": "1", "rocky": "1.el9"}[system]
    assert {packages[name] for name in ("nvidia-open", "nvidia-driver")} == {f"{VERSION}-{release}"}
    assert {packages[name] for name in ("kubelet", "kubeadm", "kubectl")} == {"1.34.4-1.1"}
    matching = {name for name, number in packages.items() if number.startswith(VERSION)}
    assert software.held(host, system) == {*matching, "kubelet", "kubeadm", "kubectl"}
    assert VERSION in host.read("/proc/driver/nvidia/version")
    assert host.exists("/dev/nvidia-uvm")
    # kubelet is enabled but not started: it would restart in a loop until the host joins a cluster.
    assert host.run("systemctl is-enabled kubelet").output == "enabled\n"
    for unit in ("nvidia-persistenced", "gpu-cluster-nvidia-uvm"):
        assert host.run(f"systemctl is-enabled {unit}; systemctl is-active {unit}").output == (
            "enabled\nactive\n"
        )


def test_software_is_installed_once_and_taken_back(
    site: tuple[Running, dict[str, Any]], system: str
) -> None:
    host, sections = site
    before, packages = software.lasting(host), software.installed(host, system)
    script = software.script(sections)
    first = host.apply(script)
    assert (first.status, first.errors) == (0, "")
    judge(host, system)

    second = host.apply(script)
    assert (second.output, second.errors) == ("changed=0\n", "")

    undone = host.undo(script)
    assert (undone.status, undone.errors) == (0, "")
    left = differences(before, software.lasting(host))
    assert {path for path in left if not path.startswith("upper/usr/")} == set()
    assert software.installed(host, system).keys() > packages.keys()
    assert software.held(host, system) == set()
    assert host.undo(script).output == "changed=0\n"


@pytest.mark.full
def test_what_was_installed_goes_where_that_is_declared(
    site: tuple[Running, dict[str, Any]], system: str
) -> None:
    host, sections = site
    before, packages = software.lasting(host), software.installed(host, system)
    sections["packages"]["remove"] = True
    script = software.script(sections)
    assert host.apply(script).status == 0
    judge(host, system)
    undone = host.undo(script)
    assert (undone.status, undone.errors) == (0, "")
    assert software.installed(host, system) == packages
    left = differences(before, software.lasting(host))
    assert {path for path in left if "/modules" not in path and path != "upper/usr/lib"} <= {
        f"upper/usr/{name}" for name in ("bin", "sbin", "src", "include", "lib/systemd")
    } | {"upper/usr/lib/systemd/system"}


@pytest.mark.full
def test_a_held_package_outlives_an_upgrade_of_the_system(
    site: tuple[Running, dict[str, Any]], system: str
) -> None:
    host, sections = site
    upgrade = {"debian": "apt-get -y -q dist-upgrade", "rocky": "dnf -y upgrade"}[system]
    del sections["driver"]
    assert host.apply(software.script(sections)).status == 0
    assert host.run(upgrade).status == 0
    assert software.installed(host, system)["kubelet"] == "1.34.4-1.1"
    sections["kubernetesPackages"]["hold"] = False
    released = host.apply(software.script(sections))
    assert (released.status, software.held(host, system)) == (0, set())
    assert host.run(upgrade).status == 0
    assert software.installed(host, system)["kubelet"] == "1.34.9-1.1"
    # An installed version other than the declared version is drift, so the next run installs the
    # declared version again.
    assert host.apply(software.script(sections)).status == 0
    assert software.installed(host, system)["kubelet"] == "1.34.4-1.1"


def test_a_declared_version_comes_in_spite_of_somebody_elses_lock(
    cluster: str, namespaces: None, system: str
) -> None:
    """A declared version is installed although somebody else has held or locked the package.

    Kubernetes guides and kubespray hold packages with apt-mark or dnf's versionlock plugin.
    """
    host = software.start(cluster, system)
    lock, shown = {
        "debian": ("apt-mark hold kubelet", "apt-mark showhold"),
        "rocky": ("dnf -q versionlock add kubelet", "cat /etc/dnf/plugins/versionlock.list"),
    }[system]
    with software.serving(system, catalogue.kubernetes("1.34.4", "1.34.9")) as repository:
        section = {"version": "1.34.4", "hold": False, "repository": repository}
        assert host.apply(software.script({"kubernetesPackages": section})).status == 0
        assert host.run(lock).status == 0
        locked = host.run(shown).output
        assert "kubelet" in locked
        section["version"] = "1.34.9"
        done = host.apply(software.script({"kubernetesPackages": section}))
        assert (done.status, done.errors) == (0, "")
    assert software.installed(host, system)["kubelet"].startswith("1.34.9-")
    assert host.run(shown).output == locked


@pytest.mark.refusal(by="real part")
@pytest.mark.parametrize("signature", ["none", "other", "broken"])
def test_a_repository_that_is_not_rightly_signed_is_refused(
    cluster: str, namespaces: None, system: str, signature: Signature
) -> None:
    host = software.start(cluster, system)
    before = software.installed(host, system)
    with software.serving(system, catalogue.kubernetes("1.34.4"), signature) as repository:
        sections = {"kubernetesPackages": {"version": "1.34.4", "repository": repository}}
        refused = host.apply(software.script(sections))
    assert refused.status == 1
    assert "is refused:" in refused.errors
    assert software.installed(host, system).keys() - before.keys() <= {"gpg-pubkey"}
    sources = host.root / SOURCES[system]
    assert not list(sources.glob("gpu-cluster-*")) if sources.exists() else True
    assert not host.exists("/usr/bin/kubelet")


def test_a_package_that_no_repository_has_is_named(host: Running) -> None:
    refused = host.apply(software.script({"packages": {"install": ["no-such-package"]}}))
    assert refused.status == 1
    assert "package no-such-package: found none in the repositories" in refused.errors


@pytest.mark.full
def test_a_step_that_is_no_longer_declared_is_taken_back(
    site: tuple[Running, dict[str, Any]], system: str
) -> None:
    host, sections = site
    del sections["driver"]
    assert host.apply(software.script(sections)).status == 0
    without = {"packages": sections["packages"]}
    taken = host.apply(software.script(without))
    assert taken.status == 0
    assert software.held(host, system) == set()
    assert host.run("systemctl is-enabled kubelet").output == "disabled\n"
    assert not any("kubernetes" in path for path in software.lasting(host) if "etc/" in path)
    assert host.apply(software.script(without)).output == "changed=0\n"


@pytest.mark.full
@pytest.mark.parametrize("limit", [1, 60])
def test_a_package_manager_at_work_is_waited_for_and_named(host: Running, limit: int) -> None:
    host.write("/root/hold.pl", HOLD_THE_LOCK)
    seconds = 300 if limit == 1 else 3
    command = f"perl /root/hold.pl /var/lib/dpkg/lock-frontend {seconds} </dev/null >/dev/null 2>&1"
    host.run(f"{command} & until [ -e /run/held ]; do :; done")
    with software.serving("debian", catalogue.build_tools()) as repository:
        section = {"repository": repository, "install": ["gcc"], "lockSeconds": limit}
        done = host.apply(software.script({"packages": section}))
    if limit == 1:
        assert done.status == 1
        assert "lock-frontend held by process" in done.errors
    else:
        assert (done.status, "gcc" in software.installed(host, "debian")) == (0, True)


@pytest.mark.full
def test_drift_of_software_is_seen_without_a_change_and_repaired(
    site: tuple[Running, dict[str, Any]], system: str
) -> None:
    host, sections = site
    script = software.script(sections)
    assert host.apply(script).status == 0
    assert software.drift(host) == ()
    loosen = {
        "debian": "apt-mark unhold kubectl; apt-get -y -q install kubectl; "
        "dpkg --force-all -P make",
        "rocky": "dnf -y --disableexcludes=main upgrade kubectl; rpm -e make; "
        "sed -i 's/ kubectl//' /etc/dnf/dnf.conf",
    }
    host.run(f"{loosen[system]}; systemctl stop nvidia-persistenced")
    before = host.tree(times=True)
    drifted = software.drift(host)
    stopped = "nvidia-persistenced is not active"
    assert {"package kubectl", "package make", "hold kubectl", stopped} <= set(drifted)
    # rpm changes the modification time of its database's shared memory file even when it only
    # reads.
    assert differences(before, host.tree(times=True)).keys() <= {"var/lib/rpm/rpmdb.sqlite-shm"}
    repaired = host.apply(script)
    assert (repaired.status, repaired.errors) == (0, "")
    assert repaired.changed < 8
    judge(host, system)
    assert software.drift(host) == ()
