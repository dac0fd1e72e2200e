"""Install the CUDA toolkit from packages or a runfile, always without the driver in it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_lab.simulator.hosts import catalogue
from gpu_cluster_lab.simulator.hosts.packages import served
from tests.proofs.hosts import software

NVCC = "/usr/local/cuda-12.8/bin/nvcc"


@pytest.mark.full
@pytest.mark.parametrize("source", ["package", "runfile"])
def test_the_toolkit_comes_and_goes(
    cluster: str, namespaces: None, tmp_path: Path, source: str
) -> None:
    host = software.start(cluster, "debian")
    data = catalogue.cuda_runfile("12.8")
    (tmp_path / "cuda.run").write_bytes(data)
    with served(tmp_path) as url, software.serving("debian", catalogue.cuda("12.8")) as repository:
        file = {"locations": [f"{url}/cuda.run"], "sha256": hashlib.sha256(data).hexdigest()}
        section: dict[str, Any] = {"source": source, "version": "12.8"}
        section |= {"runfile": file} if source == "runfile" else {"repository": repository}
        script = software.script({"cuda": section, "packages": {"remove": True}})
        first = host.apply(script)
        assert (first.status, first.errors) == (0, "")
        assert "simulated" in host.run(NVCC).output
        assert not host.exists("/proc/driver/nvidia/version")
        assert host.apply(script).output == "changed=0\n"
        # The CUDA toolkit is also uninstalled if the stack file no longer declares it, as it is
        # when the host is removed.
        taken = host.apply(software.script({"packages": {"remove": True}}))
        assert taken.status == 0
        assert not host.exists(NVCC)
        assert host.apply(script).status == 0
        assert host.undo(script).status == 0
        assert not host.exists(NVCC)


@pytest.mark.full
def test_an_uninstaller_that_did_nothing_is_told(
    cluster: str, namespaces: None, tmp_path: Path
) -> None:
    host = software.start(cluster, "debian")
    data = catalogue.cuda_runfile("12.8")
    (tmp_path / "cuda.run").write_bytes(data)
    with served(tmp_path) as url:
        file = {"locations": [f"{url}/cuda.run"], "sha256": hashlib.sha256(data).hexdigest()}
        section = {"source": "runfile", "version": "12.8", "runfile": file}
        script = software.script({"cuda": section, "packages": {"remove": True}})
        assert host.apply(script).status == 0
        uninstaller = NVCC.replace("nvcc", "cuda-uninstaller")
        host.run(f"printf '#!/bin/sh\\necho no TERM\\n' >{uninstaller}")
        undone = host.undo(script)
    assert undone.status == 0
    assert f"! {uninstaller} ended well and is still there" in undone.output
    assert f"- {uninstaller}" not in undone.output


def steps(script: str) -> list[str]:
    """Return the names of the preparation steps that a script applies."""
    (line,) = re.findall(r"^GC_STEPS=(.*)$", script, re.M)
    return line.strip("'").split()


def test_a_host_without_gpus_gets_no_toolkit() -> None:
    section = {"cuda": {"source": "package", "version": "12.8"}}
    assert "cuda" in steps(software.script(section))
    assert "cuda" not in steps(software.script(section, role="cpu-worker"))
