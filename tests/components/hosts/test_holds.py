"""Holds of packages, and the build files of next kernels, as shell functions on a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_cluster.hosts.script import FOLDER
from tests.fixtures.programs import run_program

PARTS = (
    *("library/base", "library/files", "library/effects", "library/expectations"),
    *("library/package_manager", "library/holds", "packages", "kernel"),
)
EARLIER = "[main]\ngpgcheck=1\nexcludepkgs=site-*\nbest=True\n[other]\nexclude=a\n"


def run(root: Path, phase: str, lines: str) -> str:
    """Run shell lines with the functions of the steps on a host's folder; return the output."""
    (root / "run").mkdir(exist_ok=True)
    text = "".join((FOLDER / f"{part}.sh").read_text() for part in PARTS)
    begin = 'rm -rf "$scratch"; mkdir -p "$scratch" "$state"; manager=dnf step=x\n'
    done = run_program(
        ["sh", "-eu", "-s"],
        env={"GPU_CLUSTER_ROOT": str(root), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        input=f"GC_PHASE={phase}\n{text}{begin}{lines}",
        timeout=60,
    )
    assert done.returncode == 0, done
    return done.stdout


@pytest.mark.promise("Two phases hold packages in dnf's one file, and each takes back its own.")
@pytest.mark.parametrize("order", [("prepare", "runtime"), ("runtime", "prepare")])
def test_each_phase_takes_its_own_holds_back(tmp_path: Path, order: tuple[str, str]) -> None:
    conf = tmp_path / "etc/dnf/dnf.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text(EARLIER)
    held = {"prepare": "nvidia-open", "runtime": "nvidia-container-toolkit"}
    for phase, name in held.items():
        run(tmp_path, phase, f"hold_packages {name}")
    assert "excludepkgs=site-* nvidia-open nvidia-container-toolkit\n" in conf.read_text()
    run(tmp_path, "prepare", "hold_packages kubelet")
    for phase in held:
        written = tmp_path / "var/lib/gpu-cluster" / phase / "written"
        assert "dnf.conf" not in written.read_text(), "the other phase's hold is no drift"
    for phase in order:
        words = [held[phase], *(["kubelet"] if phase == "prepare" else [])]
        run(tmp_path, phase, "".join(f"undo_hold {word}\n" for word in words))
    assert conf.read_text() == EARLIER
    assert not (tmp_path / "var/lib/gpu-cluster/replaced").exists()


@pytest.mark.promise(
    "Where the system's upgrades bring new kernels, they bring the files to build its driver too."
)
@pytest.mark.parametrize(
    ("installed", "wanted"),
    [
        ("linux-image-amd64", "linux-headers-amd64"),
        ("linux-image-cloud-amd64", "linux-headers-cloud-amd64"),
        ("linux-image-virtual", "linux-headers-virtual"),
        ("linux-image-generic-hwe-22.04", "linux-headers-generic-hwe-22.04"),
        ("linux-image-aws", "linux-headers-aws"),
        ("linux-image-nvidia-64k", "linux-headers-nvidia-64k"),
        ("proxmox-default-kernel", "proxmox-default-headers"),
        ("proxmox-kernel-6.8", "proxmox-headers-6.8"),
        ("linux-image-6.8.0-71-generic", ""),
        ("linux-image-site", ""),  # No repository has build files for it.
    ],
)
def test_a_metapackage_of_kernels_brings_one_of_build_files(
    tmp_path: Path, installed: str, wanted: str
) -> None:
    available = f"list_available() {{ echo '{wanted} 1-1' >\"$scratch/plain\"; }}\n"
    lines = f'manager=apt\necho "{installed} 1-1" >"$scratch/installed"\nnext_headers'
    assert run(tmp_path, "prepare", available + lines).split() == wanted.split()


@pytest.mark.parametrize(
    ("flavor", "installed", "held"),
    [
        ("kernel", "kernel-modules-extra kernel-modules-partner kernel-tools kernel-headers",
         {"kernel", "kernel-core", "kernel-modules-extra", "kernel-modules-partner"}),
        ("kernel-uek", "kernel-uek-modules-extra-netfilter kernel-core",
         {"kernel-uek", "kernel-uek-core", "kernel-uek-modules-extra-netfilter"}),
        ("kernel6.12", "kernel6.12-modules-extra-common kernel-livepatch",
         {"kernel6.12", "kernel6.12-devel", "kernel6.12-modules-extra-common"}),
    ],
)  # fmt: skip
def test_what_needs_a_pinned_kernel_is_held_with_it(
    tmp_path: Path, flavor: str, installed: str, held: set[str]
) -> None:
    lines = "".join(f"echo {name} 5-1\n" for name in installed.split())
    listed = f'list_installed() {{ {{ {lines} }} >"$1"; }}\n'
    pinned = f"GC_KERNEL_RELEASE=5-1.x86_64 GC_KERNEL_FLAVOR={flavor}\n"
    ask = 'kernel_packages\necho "$kernel_held"'
    words = run(tmp_path, "prepare", f"{listed}{pinned}{ask}").split()
    assert held <= set(words)
    assert len(set(words)) == len(words)
    assert not {"kernel-tools", "kernel-headers", "kernel-livepatch"} & set(words)
    assert flavor == "kernel" or "kernel-core" not in words
