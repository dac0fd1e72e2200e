"""NVIDIA's toolkit finds the driver files that an installer put below /home/kubernetes.

The tests run the DaemonSet's script on a folder that replaces a host's root file system.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from gpu_cluster.driver_daemonset.component import INSTALLED, PLACE_PROGRAMS


def run(root: Path) -> subprocess.CompletedProcess[str]:
    script = PLACE_PROGRAMS.replace("/root/", f"{root}/").replace(
        f"/root{INSTALLED}", f"{root}{INSTALLED}"
    )
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)


def install(root: Path, *names: str, text: str = "one") -> None:
    folder = root / INSTALLED[1:] / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(text)


def test_programs_are_copied_to_a_folder_of_the_path_once(tmp_path: Path) -> None:
    install(tmp_path, "nvidia-smi", "nvidia-debugdump", "nvidia-settings")
    assert run(tmp_path).returncode == 0
    found = tmp_path / "usr/local/bin"
    assert sorted(path.name for path in found.iterdir()) == ["nvidia-debugdump", "nvidia-smi"]
    assert (found / "nvidia-smi").stat().st_mode & 0o777 == 0o755
    assert not (found / "nvidia-smi").is_symlink()
    before = (found / "nvidia-smi").stat().st_mtime_ns
    assert run(tmp_path).returncode == 0
    assert (found / "nvidia-smi").stat().st_mtime_ns == before
    install(tmp_path, "nvidia-smi", text="two")
    assert run(tmp_path).returncode == 0
    assert (found / "nvidia-smi").read_text() == "two"


def test_the_hosts_own_programs_stay(tmp_path: Path) -> None:
    install(tmp_path, "nvidia-smi")
    own = tmp_path / "usr/bin/nvidia-smi"
    own.parent.mkdir(parents=True)
    own.write_text("own")
    own.chmod(0o755)
    assert run(tmp_path).returncode == 0
    assert not (tmp_path / "usr/local/bin").exists()


def test_an_installer_that_installed_nothing_is_named(tmp_path: Path) -> None:
    ended = run(tmp_path)
    assert ended.returncode == 1
    assert f"found no nvidia-smi below {INSTALLED}/bin" in ended.stderr
