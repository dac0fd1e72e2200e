"""Files of a node before its first start: programs, the driver's library, and configuration."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from gpu_cluster_lab.toolchain.cache import link
from lab.real import credentials
from lab.real.build import LIBRARY
from lab.real.host_gpus import HostGpus
from lab.real.settings import CONTAINERD, kubelet_settings

if TYPE_CHECKING:
    from gpu_cluster_lab.simulator.api import Access
    from lab.real.mock import Mock

HERE = Path(__file__).parent
#: Shell scripts of this project, by the path at which they are installed in the node.
SCRIPTS = {
    "usr/bin/systemctl": "systemctl.sh",
    "opt/cni/bin/loopback": "cni.sh",
    "opt/cni/bin/real": "cni.sh",
}
#: Programs that a host's packages would install in /usr/bin. They hide Debian's own containerd.
ON_PATH = ("containerd", "ctr", "nvidia-ctk", "nvidia-container-runtime", "nvidia-cdi-hook")


def write(
    work: Path, built_parts: Mapping[str, Path], gpus: Mock | HostGpus, texts: Mapping[str, str]
) -> None:
    """Write the initial files of a node into the upper folder of its overlay file system.

    Args:
        work: Folder of the node.
        built_parts: Paths of the executables and of the image archive, by name.
        gpus: GPUs of the node.
        texts: Texts of configuration files, by path.
    """
    shutil.rmtree(work, ignore_errors=True)
    upper = work / "upper"
    for name, path in built_parts.items():
        link(path, work / "bin" / name)
    for name in ON_PATH:
        _write_symlink(upper / "usr/bin" / name, f"/opt/real/{name}")
    if isinstance(gpus, HostGpus):
        _copy_program(upper / "usr/bin/nvidia-smi", gpus.nvidia_smi)
    else:
        driver(gpus, built_parts, upper)
    for name, text in texts.items():
        path = upper / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name, source in SCRIPTS.items():
        _copy_program(upper / name, HERE / source)


def texts(name: str, port: int, access: Access) -> dict[str, str]:
    """Return a node's configuration files, by path.

    Args:
        port: Port of the node's kubelet.
        access: URL and certificates of the API server.
    """
    kubelet = kubelet_settings(name, port)
    network = {"cniVersion": "1.0.0", "name": "real", "type": "real"}
    return {
        "etc/kubernetes/ca.crt": access.ca.read_text(),
        "etc/kubernetes/kubelet.conf": credentials.kubeconfig(
            name, access.server, access.ca.parent
        ),
        "etc/kubernetes/kubelet.yaml": yaml.safe_dump(kubelet),
        "etc/containerd/config.toml": CONTAINERD,
        "etc/cni/net.d/10-real.conf": json.dumps(network),
        "etc/nvidia-container-runtime/.keep": "",
        "etc/hosts": "127.0.0.1 localhost\n",
        "etc/resolv.conf": "",
        "etc/machine-id": "0" * 31 + name[-1] + "\n",
        "var/log/.keep": "",
        "root/.keep": "",
    }


def driver(mock: Mock, built_parts: Mapping[str, Path], upper: Path) -> None:
    """Install the mock NVML library at the paths that NVIDIA's driver packages use."""
    state = upper / mock.state_path.relative_to("/")
    state.parent.mkdir(parents=True)
    shutil.copy2(built_parts[LIBRARY], state.with_name(f"libnvidia-ml.so.{mock.driver}"))
    _write_symlink(state.with_name(LIBRARY), f"libnvidia-ml.so.{mock.driver}")
    for name in ("nvidia-smi", "nvidia-cuda-mps-control"):
        _copy_program(upper / "usr/bin" / name, built_parts["probe"])
    mock.write(state)


def _copy_program(path: Path, source: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, path)
    path.chmod(0o755)


def _write_symlink(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)
