"""Tests of finding this machine's GPUs, and of the container image for the driver's programs."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from lab.real import image
from lab.real.host_gpus import HostGpus

UUID = "GPU-ab11e44d-0c3e-d6b4-36dc-999d9fd9c41a"


def nvidia_smi(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a fake `nvidia-smi` on PATH that prints `text`; return its path."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return program


def test_each_gpu_that_the_driver_lists_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Line that `nvidia-smi` of driver 580.159.04 printed on a host with one H100.
    program = nvidia_smi(tmp_path, f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {UUID})", monkeypatch)
    assert HostGpus.find() == HostGpus(program, (UUID,))


@pytest.mark.parametrize("text", ["", "NVIDIA-SMI has failed because it couldn't communicate"])
def test_a_driver_that_lists_no_gpu_is_no_gpu(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia_smi(tmp_path, text, monkeypatch)
    assert HostGpus.find() is None


def test_the_image_has_the_c_libraries_of_the_drivers_program() -> None:
    """The image must contain the C libraries that `nvidia-smi` needs.

    The driver's NVML library also loads these libraries; the image has no other C libraries.
    """
    needed = subprocess.run(["ldd", "/bin/bash"], capture_output=True, text=True, check=True).stdout
    libraries = {line.split()[0] for line in needed.splitlines() if "=>" in line}
    layer = image.parts({"probe": Path("/bin/true"), image.DRIVER_PROGRAM: Path("/bin/bash")})
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        names = archive.getnames()
    assert libraries <= {Path(name).name for name in names}
    assert not [name for name in names if Path(name).name == image.DRIVER_PROGRAM]


def test_a_library_from_a_folder_of_its_own_is_where_programs_of_the_image_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler's own libraries are often in a folder that only this machine's loader searches."""
    needed = subprocess.run(["ldd", "/bin/bash"], capture_output=True, text=True, check=True).stdout
    own = Path(next(line.split()[2] for line in needed.splitlines() if "=>" in line))
    shutil.copy2(own, tmp_path / own.name)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    layer = image.parts({"probe": Path("/bin/true"), image.SAMPLE: Path("/bin/bash")})
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        names = [Path(name) for name in archive.getnames() if Path(name).name == own.name]
    assert names == [image.LIBRARIES / own.name]
