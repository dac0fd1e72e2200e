"""Packages of the test site's apt repository, built on this machine.

They contain the container runtime, Kubernetes and NVIDIA's programs. The kubelet's systemd unit is
that of the official packages (kubernetes/release 158b735,
cmd/krel/templates/latest/kubelet/kubelet.service and kubeadm/10-kubeadm.conf).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from gpu_cluster_lab.simulator.hosts import catalogue
from gpu_cluster_lab.simulator.hosts.packages import Package
from lab.real.parts import NODE, TOOLKIT

HERE = Path(__file__).parent
_UNITS = "/usr/lib/systemd/system"


def packages(
    root: Path, programs: Mapping[str, Path], kubernetes: Mapping[str, Mapping[str, Path]]
) -> list[Package]:
    """Return the packages of the apt repository, with their official names and versions.

    Args:
        root: Folder with a Debian file system in which containerd and runc are installed.
        programs: Paths of NVIDIA's programs by name.
        kubernetes: Paths of Kubernetes programs by version and name.
    """
    containerd, runc = catalogue.containerd(root)
    wrapped = {**runc.files, "/usr/sbin/runc.real": runc.files["/usr/sbin/runc"]}
    wrapped |= dict.fromkeys(("/usr/sbin/runc", "/usr/bin/runc"), HERE / "runc.sh")
    units = {
        f"{_UNITS}/kubelet.service": HERE / "kubelet.service",
        f"{_UNITS}/kubelet.service.d/10-kubeadm.conf": HERE / "10-kubeadm.conf",
    }
    toolkit = ("nvidia-ctk", "nvidia-container-runtime", "nvidia-cdi-hook")
    base = "nvidia-container-toolkit-base"
    return [
        containerd,
        dataclasses.replace(runc, files=wrapped),
        *(
            Package(
                name,
                f"{version}-1.1",
                _package_programs(version_programs, name) | (units if name == NODE[0] else {}),
            )
            for version, version_programs in kubernetes.items()
            for name in NODE
        ),
        Package(base, f"{TOOLKIT}-1", _package_programs(programs, *toolkit)),
        Package("nvidia-container-toolkit", f"{TOOLKIT}-1", depends=(base,)),
    ]


def _package_programs(programs: Mapping[str, Path], *names: str) -> dict[str, str | Path]:
    return {f"/usr/bin/{name}": programs[name] for name in names}
