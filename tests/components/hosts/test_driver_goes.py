"""A driver that is no longer declared leaves what runs, and all that must match one stays held."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proofs.world.hosts import shell

PARTS = (
    *("library/base", "library/files", "library/effects", "library/expectations"),
    *("library/versions", "library/package_manager", "library/transactions", "library/holds"),
    *("library/gpu_holders", "library/driver_packages", "library/driver_runfile", "driver"),
    *("library/drop_ins", "library/prepare"),
)
FAKES = """\
bounded() { shift; "$@"; }
remove_unwanted() { :; }
driver_loaded() { cat "$root/loaded" 2>/dev/null; }
driver_installed() { cat "$root/installed" 2>/dev/null; }
modprobe() { echo "modprobe $*" >>"$root/asked"; [ ! -e "$root/used" ] && rm -f "$root/loaded"; }
"""
SMI = '#!/bin/sh\ncase $2 in 1) echo on ;; 0) echo off ;; esac >"$GPU_CLUSTER_ROOT/mode"\n'

REASON = "driver 580.65.06, which was removed, is still loaded"


@pytest.mark.promise(
    "The module of a driver that is no longer declared goes with it, or a reboot is asked for."
)
@pytest.mark.parametrize("kind", ["idle", "in use", "installed", "of a container"])
def test_the_module_of_a_removed_driver_goes_or_a_reboot_is_asked_for(
    tmp_path: Path, kind: str
) -> None:
    (tmp_path / "loaded").write_text("580.65.06")
    if kind == "in use":
        (tmp_path / "used").touch()
    if kind == "installed":
        (tmp_path / "installed").write_text("580.65.06")
    begun = "" if kind == "of a container" else ': >"$state/driver-ours"\n'
    done = shell.run(tmp_path, PARTS, f"{FAKES}{begun}all_steps=driver\nundo_step driver\n")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert ("- module nvidia 580.65.06" in done.stdout) is (kind == "idle")
    assert (f"reboot needed: {REASON}" in done.stdout) is (kind == "in use")
    assert (tmp_path / "asked").exists() is (kind in ("idle", "in use"))
    assert (tmp_path / "loaded").exists() is (kind != "idle")


def test_a_reboot_that_only_a_step_wanted_is_no_longer_wanted_after_its_undo(
    tmp_path: Path,
) -> None:
    reasons = tmp_path / "run/gpu-cluster/reboot-required"
    wanted = "step=kernel\nrequest_reboot 'kernel a runs, b is wanted'\n"
    other = "step=nouveau\nrequest_reboot 'nouveau is loaded and holds the GPUs'\n"
    goes = "request_reboot 'the driver leaves out GPUs'\n"
    undone = f"undo_kernel() {{ {goes} }}\nundo_step kernel\n"
    done = shell.run(tmp_path, PARTS, f"{FAKES}{wanted}{other}{undone}cat {reasons}\n")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.splitlines()[-2:] == [
        "nouveau is loaded and holds the GPUs",
        "the driver leaves out GPUs",
    ]
    again = shell.run(tmp_path, PARTS, f"{FAKES}undo_step kernel\nundo_step nouveau\n")
    assert (again.returncode, again.stderr) == (0, ""), again
    assert reasons.read_text() == "the driver leaves out GPUs\n"


@pytest.mark.parametrize("before", ["on", "off"])
def test_a_persistence_mode_that_a_run_turned_on_goes_off_again(
    tmp_path: Path, before: str
) -> None:
    mode = tmp_path / "mode"
    mode.write_text(before)
    (tmp_path / "loaded").write_text("580.65.06")
    program = tmp_path / "usr/local/sbin/nvidia-smi"
    program.parent.mkdir(parents=True)
    program.write_text(SMI)
    program.chmod(0o755)
    fakes = 'persistence_off() { grep -q off "$root/mode"; }\n'
    lines = f"{FAKES}{fakes}step=driver when=\n"
    assert shell.run(tmp_path, PARTS, f"{lines}persistence_mode\n").returncode == 0
    again = f'{lines}: >"$scratch/wanted"\npersistence_mode\nsettle\n'
    assert shell.run(tmp_path, PARTS, again).returncode == 0
    assert mode.read_text().strip() == "on"
    assert shell.run(tmp_path, PARTS, f"{lines}take_back_step driver\n").returncode == 0
    assert mode.read_text().strip() == before


@pytest.mark.parametrize("source", ["package", "runfile"])
def test_what_must_match_the_driver_is_held_whatever_installed_the_driver(
    tmp_path: Path, source: str
) -> None:
    installed = "nvidia-open 580.65.06-1\\nnvidia-fabricmanager 580.65.06-1\\n"
    installed += "nvidia-imex 580.65.061-1\\nnvidia-container-toolkit 1.20.0-1\\n"
    lines = (
        f"list_installed() {{ printf '{installed}' >\"$1\"; }}\n"
        'hold_packages() { echo "held: $*"; }\n'
        f"GC_DRIVER_SOURCE={source} GC_DRIVER_VERSION=580.65.06 GC_DRIVER_HOLD=true\n"
        f"{'meta=nvidia-open' if source == 'package' else ''}\nhold_driver\n"
    )
    done = shell.run(tmp_path, PARTS, lines)
    assert (done.returncode, done.stderr) == (0, ""), done
    held = {
        "package": "nvidia-open nvidia-fabricmanager",
        "runfile": "nvidia-open nvidia-fabricmanager",
    }
    assert done.stdout == f"held: {held[source]}\n"
