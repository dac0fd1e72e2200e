"""Tools on PATH are used if their version fits; each version is read only once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpu_cluster.machine.tool import ON_PATH, Tool
from gpu_cluster_lab.toolchain import versions
from gpu_cluster_lab.toolchain.pins import PINS, Pin
from gpu_cluster_lab.toolchain.search import PathSearch, ask

ETCD = PINS["etcd"]


def executable(folder: Path, name: str, text: str = "#!/bin/sh\nexit 1\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


class Asker:
    """Fake version check that returns `version` and counts how often it was called."""

    def __init__(self, version: str | None) -> None:
        self.version = version
        self.asked = 0

    def __call__(self, pin: Pin, path: Path) -> str | None:
        self.asked += 1
        return self.version


def search(tmp_path: Path, *folders: Path, asker: Asker) -> PathSearch:
    path = os.pathsep.join(map(str, folders))
    return PathSearch(path, tmp_path / "tools", tmp_path / "tools" / "path.json", asker)


@pytest.mark.parametrize(
    ("version", "used"),
    [("3.6.8", True), ("3.6.9", True), ("3.6.7", False), ("3.7.0", False), ("3.5.21", False)],
)
def test_a_tool_on_path_is_used_only_when_its_version_fits(
    tmp_path: Path, version: str, used: bool
) -> None:
    program = executable(tmp_path / "bin", "etcd")
    tool = search(tmp_path, tmp_path / "bin", asker=Asker(version)).find(ETCD)
    assert tool == (Tool("etcd", version, ON_PATH, program) if used else None)


def test_a_tool_that_tells_no_version_is_not_used(tmp_path: Path) -> None:
    executable(tmp_path / "bin", "etcd")
    assert search(tmp_path, tmp_path / "bin", asker=Asker(None)).find(ETCD) is None


def test_a_version_is_asked_once_until_the_file_changes(tmp_path: Path) -> None:
    program = executable(tmp_path / "bin", "etcd")
    asker = Asker("3.6.8")
    for _ in range(3):
        assert search(tmp_path, tmp_path / "bin", asker=asker).find(ETCD) is not None
    assert asker.asked == 1
    asker.version = "3.5.0"
    executable(tmp_path / "bin", "etcd", "#!/bin/sh\n# another\n")
    assert search(tmp_path, tmp_path / "bin", asker=asker).find(ETCD) is None
    assert asker.asked == 2
    assert program.exists()


def test_the_first_on_path_decides_as_in_a_shell(tmp_path: Path) -> None:
    executable(tmp_path / "one", "etcd", "#!/bin/sh\necho etcd Version: 3.5.0\n")
    executable(tmp_path / "two", "etcd", "#!/bin/sh\necho etcd Version: 3.6.8\n")
    path = f"{tmp_path / 'one'}{os.pathsep}{tmp_path / 'two'}"
    search = PathSearch(path, tmp_path / "tools", tmp_path / "memory.json")
    assert search.find(ETCD) is None


def test_our_own_folder_on_path_is_not_taken_for_the_users(tmp_path: Path) -> None:
    executable(tmp_path / "tools" / "key" / "bin", "etcd")
    asker = Asker("3.6.8")
    assert search(tmp_path, tmp_path / "tools" / "key" / "bin", asker=asker).find(ETCD) is None
    assert asker.asked == 0


def test_what_no_shell_would_run_is_passed_over(tmp_path: Path) -> None:
    executable(tmp_path / "bin", "etcd").chmod(0o644)
    asker = Asker("3.6.8")
    assert search(tmp_path, tmp_path / "absent", tmp_path / "bin", asker=asker).find(ETCD) is None
    assert asker.asked == 0


@pytest.mark.parametrize(
    ("name", "output", "version"),
    [
        ("etcd", "etcd Version: 3.6.8\nGit SHA: Not provided\nGo Version: go1.26.8", "3.6.8"),
        ("kube-apiserver", "Kubernetes v1.34.4", "1.34.4"),
        ("kwok", "kwok version v0.8.0 go1.26.8 (linux/amd64)", "0.8.0"),
        ("nvidia-ctk", "NVIDIA Container Toolkit CLI version 1.20.0", "1.20.0"),
        ("actionlint", "1.7.12\ninstalled by building from source", "1.7.12"),
        ("etcd", "no version at all", None),
    ],
)
def test_versions_are_read_from_what_the_real_tools_print(
    tmp_path: Path, name: str, output: str, version: str | None
) -> None:
    path = executable(tmp_path, name, f"#!/bin/sh\ncat <<'END'\n{output}\nEND\n")
    assert ask(PINS[name], path) == version


def test_a_tool_that_fails_tells_no_version(tmp_path: Path) -> None:
    path = executable(tmp_path, "etcd", "#!/bin/sh\necho 3.6.8\nexit 1\n")
    assert ask(ETCD, path) is None
    assert ask(ETCD, tmp_path / "absent") is None


@pytest.mark.parametrize("line", ["echo no port", "exit 1", "echo 1"])
def test_a_plugin_that_serves_nothing_tells_no_version(
    tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_cluster_lab.toolchain.search.ASK_LIMIT", 1.0)
    path = executable(tmp_path, "pulumi-resource-command", f"#!/bin/sh\n{line}\n")
    assert ask(PINS["pulumi-resource-command"], path) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [("v1.2.3", "1.2.3"), ("go1.26.8", "1.26.8"), ("1.27", "1.27.0"), ("10", None), ("", None)],
)
def test_versions_are_found_in_text(text: str, found: str | None) -> None:
    assert versions.find(text) == found


def test_versions_compare_as_numbers() -> None:
    wanted = versions.Range("1.9.0", "1.11.0")
    assert wanted.holds("1.10.0")
    assert not wanted.holds("1.11.0")
    with pytest.raises(ValueError, match="not a version: 'latest'"):
        versions.numbers("latest")


def test_each_pin_fits_itself() -> None:
    assert all(pin.fits.holds(pin.version) for pin in PINS.values())
