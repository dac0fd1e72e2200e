"""Driver packages of somebody else are known by their names, whoever packages them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proofs.world.hosts import shell

PARTS = (
    *("library/base", "library/files", "library/effects", "library/package_manager"),
    *("library/transactions", "library/holds", "library/driver_packages"),
    *("library/preflight", "library/fabric", "driver"),
)
VERSION = "580.65.06"
INSTALLED = {
    "NVIDIA's, another version": ("nvidia-open-570 570.195.03-1ubuntu1", "nvidia-open-570"),
    "NVIDIA's, this version": ("nvidia-open-580 580.65.06-1ubuntu1", ""),
    "a version that begins so": ("libnvidia-compute 580.65.061-1", "libnvidia-compute"),
    "Ubuntu's server": (
        "nvidia-dkms-580-server-open 580.65.06-0ubuntu0.24.04.1",
        "nvidia-dkms-580-server-open",
    ),
    "Debian's": ("nvidia-kernel-open-dkms 535.247.01-1~deb12u1", "nvidia-kernel-open-dkms"),
    "RPM Fusion": ("xorg-x11-drv-nvidia-cuda 580.65.06-1.fc42", "xorg-x11-drv-nvidia-cuda"),
    "RPM Fusion's module": ("akmod-nvidia 580.65.06-1.fc42", "akmod-nvidia"),
    "ELRepo": ("nvidia-x11-drv 580.65.06-1.el9_6.elrepo", "nvidia-x11-drv"),
    "negativo17": ("dkms-nvidia 580.65.06-1.el9", "dkms-nvidia"),
    "the toolkit": ("nvidia-container-toolkit 1.20.0-1", ""),
    "a program with a version of its own": ("nvidia-settings 590.48.01-1", ""),
    "firmware with a version of its own": ("firmware-nvidia-graphics 20230515-3", ""),
}


@pytest.mark.parametrize("name", INSTALLED)
@pytest.mark.parametrize("allowed", [True, False])
def test_a_driver_of_somebody_else_is_named_until_it_may_go(
    tmp_path: Path, name: str, allowed: bool
) -> None:
    line, named = INSTALLED[name]
    lines = (
        f"list_installed() {{ echo '{line}' >\"$1\"; }}\nmanager=apt\n"
        f"GC_DRIVER_SOURCE=package GC_DRIVER_VERSION={VERSION} GC_DRIVER_MODULES=auto\n"
        f"GC_DRIVER_REMOVE_EARLIER={'true' if allowed else ''}\ncheck_driver\nrefuse_problems\n"
    )
    done = shell.run(tmp_path, PARTS, lines)
    is_refused = bool(named) and not allowed
    assert (done.returncode == 1) is is_refused, done
    assert (f"driver packages of somebody else ({named});" in done.stderr) is is_refused


def test_a_driver_that_the_stack_installed_is_none_of_somebody_else(tmp_path: Path) -> None:
    lines = (
        "list_installed() { echo 'nvidia-open 570.195.03-1' >\"$1\"; }\nmanager=apt\n"
        "echo 'driver package nvidia-open' >\"$state/effects\"\n"
        f"GC_DRIVER_SOURCE=package GC_DRIVER_VERSION={VERSION} GC_DRIVER_MODULES=auto\n"
        "GC_DRIVER_REMOVE_EARLIER=\ncheck_driver\nrefuse_problems\n"
    )
    done = shell.run(tmp_path, PARTS, lines)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("version", ["", VERSION])
def test_packages_of_other_packagers_go_in_any_version(tmp_path: Path, version: str) -> None:
    lines = (
        "list_available() { printf '%s\\n' 'nvidia-open 580.65.06-1' >\"$scratch/plain\"; }\n"
        "list_installed() { printf '%s\\n' 'akmod-nvidia 580.65.06-1.fc42' "
        "'nvidia-open 580.65.06-1' 'nvidia-container-toolkit 1.20.0-1' >\"$1\"; }\n"
        f'manager=dnf GC_DRIVER_VERSION={version}\nlist_installed "$scratch/installed"\n'
        'words= away=\nreplace_earlier\necho "away:" $away\n'
    )
    done = shell.run(tmp_path, PARTS, lines)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "away: akmod-nvidia\n"


TOOLKIT = "nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools"
BASE = "nvidia-container-toolkit nvidia-container-toolkit-base"
OFFERED = "".join(
    f"{name} {version}\\n" for version in ("1.20.0-1", "1.19.1-1") for name in BASE.split()
)
TOOLS = "libnvidia-container-tools 1.20.0-1\\n"


@pytest.mark.parametrize(
    ("declared", "installed", "offered", "words"),
    [
        (TOOLKIT, "", OFFERED + TOOLS, " ".join(f"{name}=1.20.0-1" for name in TOOLKIT.split())),
        (TOOLKIT, "", OFFERED, " ".join(f"{name}=1.20.0-1" for name in BASE.split())),
        (TOOLKIT, "", "", "nvidia-container-toolkit"),
        (TOOLKIT, "nvidia-container-toolkit 1.19.1-1", OFFERED, "nvidia-container-toolkit"),
        ("nvidia-container-toolkit=1.19.1", "", OFFERED, "nvidia-container-toolkit=1.19.1"),
    ],
    ids=["all", "without a package", "nothing offered", "already there", "declared version"],
)
def test_a_first_installation_names_one_version_for_the_whole_toolkit(
    tmp_path: Path, declared: str, installed: str, offered: str, words: str
) -> None:
    lines = (
        f"list_available() {{ printf '{offered}' >\"$scratch/plain\"; }}\n"
        f"list_installed() {{ echo '{installed}' >\"$1\"; }}\n"
        f"GC_TOOLKIT_PACKAGES='{declared}'\ntoolkit_words\necho \"$words\"\n"
    )
    parts = ("library/base", "library/effects", "library/package_manager", "toolkit")
    done = shell.run(tmp_path, parts, lines)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"{words}\n")
