"""Recipes for sources of other people are those of the sources at the commits that the page names.

`GPU_REPOSITORIES` names a folder with checkouts, as `OWNER+NAME`. Nothing is built: there is no
Docker. `make -n` prints what NVIDIA's Makefile would run.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

import pytest

from gpu_cluster.driver_daemonset.component import daemon_set
from gpu_cluster.loading.loader import load
from tests.fixtures.clusters import INSTALLERS
from tests.resolved import platform_of

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/how-to/driver-images.md").read_text(encoding="utf-8")
REPOSITORIES = os.environ.get("GPU_REPOSITORIES", "")
GUESTS = ("ubuntu22.04", "ubuntu24.04", "ubuntu26.04", "rhel8", "rhel9", "rhel10")
BASES = ("ubuntu:22.04", "ubuntu:24.04", "ubuntu:26.04")
SUMS = {
    "NVIDIA+gpu-driver-container/Makefile": (
        "0782d8b44e5495e48bea0db2094152e4591e6d5be668b2f2d64faadf2ce75555"
    ),
    "NVIDIA+gpu-driver-container/versions.mk": (
        "1ebad781d42ded4717620cf7f1b61364da4ca88463ea54261109d334838b3e8a"
    ),
    "GoogleCloudPlatform+container-engine-accelerators/nvidia-driver-installer/ubuntu/Dockerfile": (
        "a02997d7c77a49d28290d3d50c187fe53aec50b15ba0c9852f428c0eb63a27c7"
    ),
    "GoogleCloudPlatform+container-engine-accelerators/nvidia-driver-installer/ubuntu/entrypoint.sh": (  # noqa: E501
        "05f6b52194d29ca33c4e45d6285ebfdc2379b6ca39c4fd7025f66a3f3a81fbd1"
    ),
}
"""SHA-256 of the files that the recipes rest on, at the commits that the page names."""


def commands() -> str:
    return "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))


def arguments(text: str) -> dict[str, str]:
    """Return the arguments of `--build-arg` in a command."""
    return dict(re.findall(r'--build-arg (\w+)="?([^"\s]*)', text))


def source(repository: str) -> Path:
    folder = Path(REPOSITORIES) / repository
    if not REPOSITORIES or not folder.is_dir():
        pytest.skip(f"GPU_REPOSITORIES names no folder with {repository}")
    for name, wanted in SUMS.items():
        if name.startswith(f"{repository}/"):
            read = (Path(REPOSITORIES) / name).read_bytes()
            assert hashlib.sha256(read).hexdigest() == wanted, name
    return folder


def test_the_page_names_a_commit_of_each_source() -> None:
    assert len(re.findall(r"\b[0-9a-f]{40}\b", PAGE)) == 2


@pytest.mark.parametrize("system", [
    pytest.param(system, marks=pytest.mark.documents("recipe", f"vgpu-guest-driver {system}"))
    for system in GUESTS
])  # fmt: skip
def test_the_guest_driver_s_image_has_its_arguments_and_the_operator_s_tag(system: str) -> None:
    folder = source("NVIDIA+gpu-driver-container")
    exported = dict(re.findall(r"\b([A-Z_]{5,})=(\S+)", commands()))
    assert f"`{system}`" in PAGE
    (target,) = re.findall(r"make (build-vgpuguest-)ubuntu24.04 push-vgpuguest-", commands())
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", f"{target}{system}"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **exported},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    given = arguments(done.stdout)
    assert given["DRIVER_VERSION"] == f"{exported['VGPU_GUEST_DRIVER_VERSION']}-grid"
    assert given["DRIVER_TYPE"] == "vgpu"
    (dockerfile,) = re.findall(r"--file (\S+)", done.stdout)
    text = Path(dockerfile).read_text(encoding="utf-8")
    assert "ARG GOLANG_VERSION\n" in text
    assert re.fullmatch(r"\d+\.\d+\.\d+", given["GOLANG_VERSION"])
    assert "ADD drivers drivers/" in text
    (tag,) = re.findall(r"--tag (\S+)", done.stdout)
    declared = re.search(r"version: (\S+)\n *imageRepository", PAGE)
    assert declared is not None
    assert tag == f"{exported['IMAGE_NAME']}:{declared[1]}-{system}"


@pytest.mark.parametrize("base", [
    pytest.param(base, marks=pytest.mark.documents("recipe", f"nvidia-driver-installer {base}"))
    for base in BASES
])  # fmt: skip
def test_the_installer_s_image_is_of_the_nodes_release(base: str) -> None:
    folder = source("GoogleCloudPlatform+container-engine-accelerators")
    given = arguments(PAGE)
    assert given == {"base_image": "ubuntu:24.04"}
    dockerfile = (folder / "nvidia-driver-installer/ubuntu/Dockerfile").read_text("utf-8")
    # The base can be named, and without a name it is 16.04, which has no headers of later kernels.
    assert dockerfile.replace("ubuntu:16.04", base).count(f"ARG base_image={base}\n") == 1
    assert "\nFROM ${base_image}\n" in dockerfile
    entrypoint = (folder / "nvidia-driver-installer/ubuntu/entrypoint.sh").read_text("utf-8")
    assert "apt-get install -y linux-headers-${KERNEL_VERSION}" in entrypoint
    read = set(re.findall(r"\$\{(NVIDIA_\w+|ROOT_MOUNT_DIR):-", entrypoint))
    cluster = load(
        {
            "version": "v1",
            "kubernetes": {"context": "c"},
            "platform": "device-plugin",
            "pools": [{"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": 8}],
            "driver": {"source": "daemonset", "version": "580.95.05"},
            "driverInstaller": {"images": INSTALLERS},
        }
    )
    assert cluster.installer is not None
    made = daemon_set(cluster.installer, platform_of(cluster).site, cluster.pools[0])
    (installer, *_) = made["spec"]["template"]["spec"]["initContainers"]
    assert {each["name"] for each in installer["env"]} == read - {"NVIDIA_DRIVER_BRANCH"}
