"""The script finds the package with the build files of any kernel of a distribution.

The packages are fakes. Their names, files and provided names are those of the real packages, from
the cited sources.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster_lab.simulator.hosts import catalogue, contents
from gpu_cluster_lab.simulator.hosts.packages import Package
from tests.proofs.hosts import software
from tests.proofs.hosts.machine import Running

pytestmark = pytest.mark.slow

UEK = "5.15.0-209.161.7.2.el9uek.x86_64"
AMAZON = "6.12.37-61.105.amzn2023.x86_64"
LARGE_PAGES = "5.14.0-570.12.1.el9_6.aarch64+64k"
REALTIME = "5.14.0-570.12.1.el9_6.x86_64+rt"
OWN = "6.1.150-site1.x86_64"


def boot(host: Running, release: str) -> None:
    """Make the host report that it runs this kernel release."""
    host.write("/run/simulated-kernel/release", f"{release}\n")


def kernel(name: str, release: str, image: str = "lib/modules") -> Package:
    """Return a kernel package with the kernel image in /usr/lib/modules or in /boot."""
    path = (
        f"/usr/{image}/{release}/vmlinuz" if image == "lib/modules" else f"/boot/vmlinuz-{release}"
    )
    return Package(name, release.rpartition(".")[0], {path: "simulated kernel image\n"})


def build_files(name: str, release: str, *, provides: bool = True) -> Package:
    """Return the package with the files for building modules for a kernel."""
    words = (f"kernel-devel-uname-r = {release}",) if provides else ()
    version = release.rpartition(".")[0]
    return Package(name, version, contents.build_files(release), provides=words)


CASES = {
    # Source: docs.oracle.com, UEK 7 release notes for Oracle Linux 9, "Changes to UEK Content
    # Distribution and Packaging".
    "Oracle's UEK": (UEK, kernel("kernel-uek-core", UEK), build_files("kernel-uek-devel", UEK)),
    # In UEK 6, one package contains both the kernel image and the modules.
    "Oracle's UEK 6": (
        UEK,
        kernel("kernel-uek", UEK, "boot"),
        build_files("kernel-uek-devel", UEK, provides=False),
    ),
    # Source: awslabs/amazon-eks-ami, templates/al2023/provisioners/install-nvidia-driver.sh.
    "Amazon's 6.12": (
        AMAZON,
        kernel("kernel6.12", AMAZON, "boot"),
        build_files("kernel6.12-devel", AMAZON),
    ),
    # Source: awslabs/amazon-eks-ami pull request 2207. The build files of kernel 6.12 were in a
    # package kernel-devel.
    "Amazon's 6.12, first name": (
        AMAZON,
        kernel("kernel6.12", AMAZON, "boot"),
        build_files("kernel-devel", AMAZON),
    ),
    # Source: kernel.spec of RHEL 9 for ARM, which has a kernel with 64 KiB pages for Grace.
    "pages of 64 KiB": (
        LARGE_PAGES,
        kernel("kernel-64k-core", LARGE_PAGES),
        build_files("kernel-64k-devel", LARGE_PAGES),
    ),
    "realtime": (
        REALTIME,
        kernel("kernel-rt-modules-core", REALTIME),
        build_files("kernel-rt-devel", REALTIME, provides=False),
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.promise(
    "The driver is built with the files of the kernel that runs, also Oracle's UEK, Amazon's "
    "kernel6.12, kernels with 64 KiB pages and realtime kernels."
)
def test_the_build_files_are_those_of_the_kernel_that_runs(
    cluster: str, namespaces: None, case: str
) -> None:
    release, image, files = CASES[case]
    host = software.start(cluster, "rocky")
    # The repository also has the build files of the distribution's default kernel in the same
    # version.
    version = release.rpartition(".")[0]
    usual = [
        Package("kernel-headers", version),
        *([] if files.name == "kernel-devel" else [Package("kernel-devel", version)]),
    ]
    packages = [*catalogue.build_tools("rocky"), image, files, *usual]
    with software.serving("rocky", packages) as repository:
        site = software.script({"packages": {"install": [image.name], "repository": repository}})
        assert host.apply(site).status == 0
        boot(host, release)
        sections: dict[str, Any] = {"build": True, "install": [image.name]}
        script = software.script({"packages": {**sections, "repository": repository}})
        done = host.apply(script)
        assert (done.status, done.errors) == (0, "")
        assert host.exists(f"/usr/lib/modules/{release}/build/Makefile")
        installed = software.installed(host, "rocky")
        assert installed[files.name] == version
        if files.name != "kernel-devel":
            assert "kernel-devel" not in installed
        assert host.apply(script).output == "changed=0\n"


@pytest.mark.parametrize(
    ("release", "image", "files"),
    [
        # Flavors of Ubuntu's and Debian's kernels have package names of this form.
        ("6.8.0-1021-aws", "linux-image-6.8.0-1021-aws", "linux-headers-6.8.0-1021-aws"),
        ("6.8.1-1015-realtime", "linux-image-unsigned-6.8.1-1015-realtime",
         "linux-headers-6.8.1-1015-realtime"),
        ("6.12.43+deb13-cloud-amd64", "linux-image-6.12.43+deb13-cloud-amd64",
         "linux-headers-6.12.43+deb13-cloud-amd64"),
        # Proxmox (pve-kernel) uses its own names for the packages with image and headers.
        ("6.8.12-4-pve", "proxmox-kernel-6.8.12-4-pve-signed", "proxmox-headers-6.8.12-4-pve"),
    ],
)  # fmt: skip
def test_an_apt_kernel_gets_the_headers_of_its_own_family(
    cluster: str, namespaces: None, release: str, image: str, files: str
) -> None:
    host = software.start(cluster, "debian")
    owner = Package(image, "1.0-1", {f"/boot/vmlinuz-{release}": "simulated kernel image\n"})
    headers = Package(files, "1.0-1", contents.build_files(release))
    with software.serving("debian", [*catalogue.build_tools(), owner, headers]) as repository:
        section: dict[str, Any] = {"install": [image], "repository": repository}
        assert host.apply(software.script({"packages": section})).status == 0
        boot(host, release)
        script = software.script({"packages": {**section, "build": True}})
        done = host.apply(script)
        assert (done.status, done.errors) == (0, "")
        assert files in software.installed(host, "debian")
        assert host.apply(script).output == "changed=0\n"


@pytest.mark.parametrize(
    ("release", "flavor"), [(UEK, "kernel-uek"), (AMAZON, "kernel6.12"), (REALTIME, "kernel-rt")]
)
def test_a_pinned_kernel_of_another_flavor_comes_with_its_build_files(
    cluster: str, namespaces: None, release: str, flavor: str
) -> None:
    host = software.start(cluster, "rocky")
    image = replace(kernel(flavor, release, "boot"))
    with software.serving("rocky", [image, build_files(f"{flavor}-devel", release)]) as kernels:
        section = {"release": release, "flavor": flavor, "repository": kernels}
        done = host.apply(software.script({"kernel": section}))
        assert (done.status, done.errors) == (0, "")
    assert {flavor, f"{flavor}-devel"} <= software.installed(host, "rocky").keys()
    assert {flavor, f"{flavor}-devel"} <= software.held(host, "rocky")
