"""Install the NVIDIA driver from packages with NVIDIA's names, dependencies and module streams."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator.hosts import catalogue
from gpu_cluster_lab.simulator.hosts.packages import Package, build, served
from tests.fixtures.clusters import INSTALLERS
from tests.proofs.hosts import software
from tests.proofs.hosts.machine import Running, differences
from tests.proofs.logins.lines import lines_before

pytestmark = pytest.mark.slow

SHOWN = "/proc/driver/nvidia/version"
V100, H100 = "0x1db1", "0x2330"
LIST = "/etc/apt/sources.list.d/cuda-ubuntu2404-x86_64.list"
MARK = "/run/gpu-cluster/reboot-required"
BRIDGE = "/sys/bus/pci/devices/0000:05:00.0"


def declared(tools: dict[str, Any], drivers: dict[str, Any], **driver: Any) -> dict[str, Any]:
    """Return sections of a stack file that declare a driver from packages."""
    section = {"source": "package", "repository": drivers, **driver}
    return {"packages": {"repository": tools}, "driver": section}


def switches(host: Running) -> None:
    """Add an NVSwitch to the host: a PCI bridge of vendor NVIDIA, as on HGX boards up to H200."""
    device = "/sys/bus/pci/devices/0000:01:00.0"
    host.run(f"mkdir {device}; echo 0x10de >{device}/vendor; echo 0x068000 >{device}/class")


def fourth_generation(host: Running) -> None:
    """Make the host an HGX B200, whose NVSwitches are behind network devices of the PCI bus.

    Nothing is in /sys/class/infiniband, as long as mlx5_ib isn't loaded (NVIDIA/gpu-operator#2781).
    """
    host.run(
        f"mkdir -p {BRIDGE}; echo 0x15b3 >{BRIDGE}/vendor; echo 0x020700 >{BRIDGE}/class; "
        f"printf 'V0SW_MNG\\0' >{BRIDGE}/vpd"
    )


@pytest.mark.parametrize(
    ("system", "version"),
    [
        ("ubuntu", "570.195.03"),
        ("ubuntu", "580.65.06"),
        ("ubuntu", "590.48.01"),
        ("rocky", "580.65.06"),
    ],
)
def test_a_driver_of_each_branch_is_installed_by_its_own_names(
    cluster: str, namespaces: None, system: str, version: str
) -> None:
    host = software.start(cluster, system)
    switches(host)
    with software.tools(system) as tools, software.drivers(system, version, "595.91.07") as drivers:
        script = software.script(declared(tools, drivers, version=version))
        done = host.apply(script)
        assert (done.status, done.errors) == (0, "")
        assert version in host.read(SHOWN)
        assert "Open Kernel Module" in host.read(SHOWN)
        names = software.installed(host, system)
        assert not [name for name, found in names.items() if "595.91.07" in found]
        assert host.run("systemctl is-active nvidia-fabricmanager").output == "active\n"
        assert host.apply(script).output == "changed=0\n"


@pytest.mark.parametrize(
    ("version", "kind", "package", "module"),
    [
        ("535.261.03", "auto", "nvidia-open-kernel-dkms", "nvidia-current-open"),
        ("535.261.03", "proprietary", "nvidia-kernel-dkms", "nvidia-current"),
        ("535.216.03", "proprietary", "nvidia-tesla-535-kernel-dkms", "nvidia-tesla-535"),
    ],
)
def test_debians_own_archive_has_the_driver_by_its_own_names(
    cluster: str, namespaces: None, version: str, kind: str, package: str, module: str
) -> None:
    host = software.start(cluster, "debian")
    with (
        software.tools("debian") as tools,
        software.serving("debian", catalogue.debians_driver()) as archive,
    ):
        wanted = declared(tools, archive, version=version, kernelModuleType=kind)
        wanted["packages"]["remove"] = True
        before = software.installed(host, "debian")
        script = software.script(wanted)
        done = host.apply(script)
        assert (done.status, done.errors) == (0, "")
        names = software.installed(host, "debian")
        assert names[package].startswith(version)
        assert package in software.held(host, "debian")
        assert version in host.read(SHOWN)
        assert host.run(f"modinfo -F version {module}").output == f"{version}\n"
        # Delete the built module, as if the host had booted another kernel.
        host.run(f"rm /lib/modules/$(uname -r)/updates/dkms/{module}.ko")
        rebuilt = host.apply(script)
        assert "driver built for kernel" in rebuilt.output
        assert host.apply(script).output == "changed=0\n"
        assert host.undo(script).status == 0
    assert software.installed(host, "debian") == before


@pytest.mark.parametrize("system", ["ubuntu", "rocky"])
def test_gpus_before_turing_get_proprietary_modules(
    cluster: str, namespaces: None, system: str
) -> None:
    host = software.start(cluster, system)
    host.run(f"for each in /sys/bus/pci/devices/*/device; do echo {V100} >$each; done")
    with software.tools(system) as tools, software.drivers(system, "580.65.06") as drivers:
        done = host.apply(software.script(declared(tools, drivers, version="580.65.06")))
    assert (done.status, done.errors) == (0, "")
    assert "Open Kernel Module" not in host.read(SHOWN)


@pytest.mark.parametrize("system", ["ubuntu", "rocky"])
def test_fourth_generation_switches_get_their_subnet_manager(
    cluster: str, namespaces: None, system: str
) -> None:
    host = software.start(cluster, system)
    fourth_generation(host)
    with software.tools(system) as tools, software.drivers(system, "580.65.06") as drivers:
        done = host.apply(software.script(declared(tools, drivers, version="580.65.06")))
        assert (done.status, done.errors) == (0, "")
    assert {"nvlsm", "infiniband-diags", "libnvsdm"} <= software.installed(host, system).keys()
    assert host.exists("/sys/module/ib_umad")
    assert host.run("systemctl is-active nvidia-fabricmanager").output == "active\n"


@pytest.mark.full
def test_what_goes_beside_a_driver_follows_it_to_another_branch(
    cluster: str, namespaces: None
) -> None:
    host = software.start(cluster, "ubuntu")
    fourth_generation(host)
    versions = ("570.195.03", "580.65.06")
    with software.tools("ubuntu") as tools, software.drivers("ubuntu", *versions) as drivers:
        for version in versions:
            wanted = declared(tools, drivers, version=version, imexNodes=["192.0.2.1"])
            done = host.apply(software.script(wanted))
            assert (done.status, done.errors) == (0, "")
    found = software.installed(host, "ubuntu")
    beside = ("nvidia-imex", "nvidia-fabricmanager", "libnvsdm")
    assert {name: found[name].split("-")[0] for name in beside} == dict.fromkeys(
        beside, versions[1]
    )
    assert not {f"{name}-570" for name in beside} & found.keys()


@pytest.mark.full
@pytest.mark.parametrize(("system", "version"), [("ubuntu", "570.195.03"), ("rocky", "580.65.06")])
def test_hosts_of_an_nvlink_domain_run_imex_with_its_list(
    cluster: str, namespaces: None, system: str, version: str
) -> None:
    host = software.start(cluster, system)
    nodes = ["192.0.2.1", "192.0.2.2"]
    with software.tools(system) as tools, software.drivers(system, version) as drivers:
        for listed in (nodes, nodes[:1]):
            wanted = declared(tools, drivers, version=version, imexNodes=listed)
            done = host.apply(software.script(wanted))
            assert (done.status, done.errors) == (0, "")
            assert host.run("systemctl is-active nvidia-imex").output == "active\n"
            assert host.read("/run/simulated-imex").split() == listed
            assert host.apply(software.script(wanted)).output == "changed=0\n"
        assert host.apply(software.script(declared(tools, drivers, version=version))).status == 0
    assert host.run("systemctl is-active nvidia-imex").output == "inactive\n"
    assert not host.exists("/etc/nvidia-imex/nodes_config.cfg")


@pytest.mark.refusal(by="real part")
@pytest.mark.parametrize("system", ["ubuntu", "rocky"])
def test_an_earlier_driver_stays_where_the_new_one_can_not_be_had(
    cluster: str, namespaces: None, system: str
) -> None:
    host = software.start(cluster, system)
    with software.tools(system) as tools, software.drivers(system, "570.195.03") as drivers:
        first = host.apply(software.script(declared(tools, drivers, version="570.195.03")))
        assert first.status == 0, first.errors
        before = software.installed(host, system)
        # Delete the stack's records, so that the driver counts as installed by somebody else.
        host.run("rm -rf /var/lib/gpu-cluster")
        wrong = declared(tools, drivers, version="580.65.06", removeEarlier=True)
        refused = host.apply(software.script(wrong))
    assert refused.status == 1
    assert "wanted 580" in refused.errors or "580.65.06: found" in refused.errors
    assert "570.195.03" in host.read(SHOWN)
    assert software.installed(host, system) == before


def test_an_earlier_branch_gives_way_to_the_declared_one(cluster: str, namespaces: None) -> None:
    host = software.start(cluster, "ubuntu")
    with (
        software.tools("ubuntu") as tools,
        software.drivers("ubuntu", "570.195.03", "580.65.06") as drivers,
    ):
        assert (
            host.apply(software.script(declared(tools, drivers, version="570.195.03"))).status == 0
        )
        newer = declared(tools, drivers, version="580.65.06", removeEarlier=True)
        script = software.script(newer)
        done = host.apply(script)
        assert (done.status, done.errors) == (0, "")
        names = software.installed(host, "ubuntu")
        assert not [name for name in names if "570" in name]
        assert host.apply(script).output == "changed=0\n"


def test_an_entry_that_is_there_for_the_same_repository_is_used(
    cluster: str, namespaces: None
) -> None:
    """An existing apt entry for the declared repository is used with its keyring.

    NVIDIA documents such an entry, and apt allows only one keyring per repository.
    """
    host = software.start(cluster, "ubuntu")
    with software.tools("ubuntu") as tools, software.drivers("ubuntu", "580.65.06") as drivers:
        keyring = "/usr/share/keyrings/cuda-archive-keyring.asc"
        host.write(keyring, drivers["apt"]["key"] + "\n")
        host.write(LIST, f"deb [signed-by={keyring}] {drivers['apt']['url']} /\n")
        script = software.script(declared(tools, drivers, version="580.65.06"))
        done = host.apply(script)
        assert (done.status, done.errors) == (0, "")
        updated = host.run("apt-get update -q")
        assert "Conflicting values" not in updated.errors
        assert updated.status == 0
        assert host.apply(script).output == "changed=0\n"


@pytest.mark.parametrize("form", ["list", "signed list", "sources"])
def test_an_entry_that_lacks_a_component_is_completed_with_its_own_keyring(
    cluster: str, namespaces: None, form: str
) -> None:
    """An apt entry that lacks a component is completed, and keeps its own keyring.

    Debian's installer enables only the component main; the driver is in contrib and non-free.
    """
    host = software.start(cluster, "ubuntu")
    with software.tools("ubuntu") as tools, software.drivers("ubuntu", "580.65.06") as drivers:
        archive = drivers["apt"]
        indented = "".join(f" {line or '.'}\n" for line in archive["key"].splitlines())
        path, text = {
            "list": (LIST, f"deb {archive['url']} simulated main\n"),
            "signed list": (
                LIST,
                f"deb [signed-by=/etc/apt/a.asc] {archive['url']} simulated main\n",
            ),
            "sources": (
                "/etc/apt/sources.list.d/a.sources",
                f"Types: deb\nURIs: {archive['url']}/\nSuites: simulated\nComponents: main\n"
                f"Signed-By:\n{indented}",
            ),
        }[form]
        host.write("/etc/apt/a.asc", archive["key"] + "\n")
        if form == "list":
            host.write("/etc/apt/trusted.gpg.d/a.asc", archive["key"] + "\n")
        host.write(path, text)
        repository = {"apt": {**archive, "suite": "simulated", "components": "main extra"}}
        script = software.script(declared(tools, repository, version="580.65.06"))
        done = host.apply(script)
        assert (done.status, done.errors) == (0, "")
        assert host.read(path) == text
        ours = host.read("/etc/apt/sources.list.d/gpu-cluster-driver.sources")
        assert "Components: extra\n" in ours
        assert "580.65.06" in host.read(SHOWN)
        assert host.run("apt-get update -q").status == 0
        assert host.apply(script).output == "changed=0\n"
        assert host.undo(script).status == 0
        assert host.read(path) == text
        assert not host.exists("/etc/apt/sources.list.d/gpu-cluster-driver.sources")


@pytest.mark.parametrize("order", [("ours", "other"), ("other", "ours")])
@pytest.mark.parametrize("system", ["debian", "rocky"])
def test_a_repository_may_have_more_than_one_key(
    cluster: str, namespaces: None, tmp_path: Path, system: str, order: tuple[str, str]
) -> None:
    host = software.start(cluster, system)
    built = build(software.FORMATS[system], catalogue.kubernetes("1.34.4"))
    keys = toolchain.cache_dir() / "roots" / "repositories" / "keys"
    files = [(name, (keys / f"{name}.asc").read_bytes()) for name in order]
    for name, data in files:
        (tmp_path / name).write_bytes(data)
    with served(built.folder) as url, served(tmp_path) as at:
        section = {
            "url": url,
            "keys": [
                {"url": f"{at}/{name}", "sha256": hashlib.sha256(data).hexdigest()}
                for name, data in files
            ],
        }
        sections = {
            "kubernetesPackages": {
                "version": "1.34.4",
                "repository": {software.FORMATS[system]: section},
            }
        }
        done = host.apply(software.script(sections))
        assert (done.status, done.errors) == (0, "")
    assert software.installed(host, system)["kubelet"] == "1.34.4-1.1"


@pytest.mark.refusal(by="real part")
def test_an_entry_of_somebody_else_that_the_declared_key_did_not_sign_is_refused(
    cluster: str, namespaces: None
) -> None:
    host = software.start(cluster, "ubuntu")
    built = build("apt", catalogue.driver("580.65.06", system="ubuntu"), "other")
    with software.tools("ubuntu") as tools, served(built.folder) as url:
        host.write(LIST, f"deb [trusted=yes] {url} /\n")
        section = declared(tools, {"apt": {"url": url, "key": built.key}}, version="580.65.06")
        refused = host.apply(software.script(section))
        assert "used unverified" in refused.errors
        other = toolchain.cache_dir() / "roots" / "repositories" / "keys" / "other.asc"
        host.write("/usr/share/keyrings/other.asc", other.read_text())
        host.write(LIST, f"deb [signed-by=/usr/share/keyrings/other.asc] {url} /\n")
        refused = host.apply(software.script(section))
    assert refused.status == 1
    assert "is refused" in refused.errors
    assert "nvidia-open" not in software.installed(host, "ubuntu")


def test_ubuntus_daemon_is_given_the_mode(cluster: str, namespaces: None) -> None:
    host = software.start(cluster, "ubuntu")
    with software.tools("ubuntu") as tools, software.drivers("ubuntu", "580.65.06") as drivers:
        script = software.script(declared(tools, drivers, version="580.65.06"))
        assert host.apply(script).status == 0
        shown = host.run("nvidia-smi --query-gpu=persistence_mode --format=csv,noheader").output
        assert set(shown.split()) == {"Enabled"}
        assert host.apply(script).output == "changed=0\n"
        # Restart the simulated host, as a reboot does.
        host = software.start(host.cluster, "ubuntu")
        host.write("/etc/os-release", software.UBUNTU)
        shown = host.run("nvidia-smi --query-gpu=persistence_mode --format=csv,noheader").output
        assert set(shown.split()) == {"Enabled"}


def test_dkms_that_no_repository_has_is_named_with_epel(cluster: str, namespaces: None) -> None:
    host = software.start(cluster, "rocky")
    base = [*catalogue.build_tools("rocky"), *software.headers("rocky")]
    without = [each for each in base if each.name != "dkms"]
    with (
        software.serving("rocky", without) as tools,
        software.drivers("rocky", "580.65.06") as drivers,
    ):
        refused = host.apply(software.script(declared(tools, drivers, version="580.65.06")))
    assert refused.status == 1
    assert "EPEL has it" in refused.errors
    assert "nvidia-driver" not in software.installed(host, "rocky")


@pytest.mark.full
@pytest.mark.parametrize("system", ["ubuntu", "rocky"])
def test_a_driver_in_a_container_finds_none_of_the_hosts_own(
    cluster: str, namespaces: None, system: str
) -> None:
    """A host's own driver and CUDA packages are removed before a driver container is used.

    A reboot is requested once, to unload the kernel module.
    """
    host = software.start(cluster, system)
    version = "580.65.06"
    with (
        software.tools(system) as tools,
        software.drivers(system, version) as drivers,
        software.serving(system, catalogue.cuda("12.8")) as cuda,
    ):
        theirs = declared(tools, drivers, version=version)
        theirs["cuda"] = {"source": "package", "version": "12.8", "repository": cuda}
        assert host.apply(software.script(theirs)).status == 0
        # Delete the stack's records, so that the software counts as installed by somebody else.
        host.run("rm -rf /var/lib/gpu-cluster /run/gpu-cluster")
        driver: dict[str, Any] = {"source": "daemonset", "version": version}
        installer = {"images": INSTALLERS}
        left = software.script({"driver": driver, "driverInstaller": installer})
        assert host.apply(left).status == 0
        assert "nvidia-open" in software.installed(host, system)
        removing = {"driver": {**driver, "removeEarlier": True}, "driverInstaller": installer}
        script = software.script(removing)
        done = host.apply(script)
        assert (done.status, done.errors) == (0, "")
        assert "which was removed, is still loaded" in host.read(MARK)
        names = software.installed(host, system)
        assert not [each for each in names if each.startswith(("nvidia-open", "cuda-toolkit"))]
        host.run(f"rm {MARK}")
        assert host.apply(script).output == "changed=0\n"
        # The module is now that of a driver container, so no reboot may be requested.
        assert not host.exists(MARK)
        assert host.undo(script).status == 0


OLD_CUDA = (
    *("cuda-11-0", "cuda-toolkit-11-0", "cuda-nsight-11-0", "libcublas-11-0", "libcufft-11-0"),
    *("libcurand-11-0", "libcusolver-11-0", "libcusparse-11-0", "libnpp-11-0", "libnpp-dev-11-0"),
    *("libnvjpeg-11-0", "libnvjitlink-11-0"),
)
UNVERSIONED = (
    *("nsight-compute-2019.5.0", "nsight-systems-2019.5.2", "libcublas10", "libcublas-devel"),
    "nsight-compute-2020.1.2",
)
NEW_CUDA = ("cuda-toolkit-12-8", "libcublas-12-8", "cuda-toolkit-12-8-config-common")
NEEDED = ("cuda-nsight-compute-12-8", "nsight-compute-2025.1.0")
"""The second of both has no CUDA version in its name; the first needs it."""
OTHERS = ("cuda-keyring", "libnpth0", "nvidia-container-toolkit")


@pytest.mark.parametrize("kept", ["", "12.8"])
@pytest.mark.parametrize("system", ["debian", "rocky"])
def test_old_cuda_packages_go_by_nvidias_list_and_the_declared_ones_stay(
    cluster: str, namespaces: None, system: str, kept: str
) -> None:
    """Old CUDA packages are removed by NVIDIA's list; declared CUDA and all it needs stay.

    Source: CUDA Installation Guide for Linux, "Removing CUDA Toolkit".
    """
    host = software.start(cluster, system)
    first, second = NEEDED
    names = (*OLD_CUDA, *UNVERSIONED, *NEW_CUDA, *OTHERS, second)
    built = [Package(name, "1.0-1") for name in names]
    built.append(Package(first, "1.0-1", depends=(second,)))
    names = (*names, first)
    with software.serving(system, built) as site:
        packages = {"install": list(names), "repository": site}
        assert host.apply(software.script({"packages": packages})).status == 0
    # Delete the stack's records, so that the packages count as installed by somebody else.
    host.run("rm -rf /var/lib/gpu-cluster")
    driver = {"source": "daemonset", "version": "580.65.06", "removeEarlier": True}
    sections: dict[str, Any] = {"driver": driver, "driverInstaller": {"images": INSTALLERS}}
    if kept:
        sections["cuda"] = {"source": "package", "version": kept}
    done = host.apply(software.script(sections))
    assert (done.status, done.errors) == (0, "")
    left = software.installed(host, system).keys()
    assert not left & {*OLD_CUDA, *UNVERSIONED}
    assert set(OTHERS) <= left
    assert left & {*NEW_CUDA, *NEEDED} == ({*NEW_CUDA, *NEEDED} if kept else set())


@pytest.mark.logins("message", "a pin of apt")
@pytest.mark.promise("If apt's preferences keep a declared package away, the message names them.")
@pytest.mark.parametrize("pattern", ["nvidia-*", "/^nvidia-open-[0-9]+$/", "gcc nvidia-open-580"])
def test_preferences_that_keep_a_package_away_are_named(
    cluster: str, namespaces: None, pattern: str
) -> None:
    host = software.start(cluster, "ubuntu")
    other = "Package: *\nPin: origin example.com\nPin-Priority: 9\n\n"
    pin = f"{other}Package: {pattern}\nPin: version *\nPin-Priority: -1\n"
    host.write("/etc/apt/preferences.d/00-site", pin)
    version = "580.65.06"
    with software.tools("ubuntu") as tools, software.drivers("ubuntu", version) as drivers:
        refused = host.apply(software.script(declared(tools, drivers, version=version)))
    assert refused.status == 1
    named = r"apt name these packages: /etc/apt/preferences\.d/00-site \(Pin-Priority -1\);"
    assert lines_before(named, refused.errors) <= 3


@pytest.mark.logins("message", "a folder of keys")
@pytest.mark.promise("A folder of keys that apt's own user can't search is named before a change.")
def test_a_folder_of_keys_that_apt_cannot_search_is_named_with_its_cure(
    cluster: str, namespaces: None
) -> None:
    host = software.start(cluster, "ubuntu")
    host.run("mkdir -p -m 700 /etc/apt/keyrings; chmod 700 /etc/apt/keyrings")
    version = "580.65.06"
    before = host.tree()
    with software.tools("ubuntu") as tools, software.drivers("ubuntu", version) as drivers:
        script = software.script(declared(tools, drivers, version=version))
        refused = host.apply(script)
        assert refused.status == 1
        assert lines_before("found /etc/apt/keyrings, .* of repository driver", refused.errors) <= 3
        assert differences(before, host.tree()) == {}
        host.run("chmod 755 /etc/apt/keyrings")
        done = host.apply(script)
    assert (done.status, done.errors) == (0, "")
