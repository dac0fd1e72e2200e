"""Unit tests of how a tool is found (PATH, cache, release or build), and of the messages."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from gpu_cluster.machine.tool import GO_MODULE, ON_PATH, OWN, Tool, ToolchainError
from gpu_cluster_lab.toolchain import __main__ as command
from gpu_cluster_lab.toolchain import golang
from gpu_cluster_lab.toolchain.machine import Platform
from gpu_cluster_lab.toolchain.maker import Maker
from gpu_cluster_lab.toolchain.pins import PINS, GoPackage
from gpu_cluster_lab.toolchain.progress import Steps, clock, left
from gpu_cluster_lab.toolchain.releases import Downloads
from gpu_cluster_lab.toolchain.resolve import Toolchain
from tests.fixtures.programs import run_program

LINUX = Platform("linux", "amd64")
NOWHERE = {"github": "http://127.0.0.1:1", "kubernetes": "http://127.0.0.1:1"}


def shown(steps: Steps) -> str:
    file = steps.console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def quiet() -> Steps:
    return Steps(Console(file=io.StringIO(), force_terminal=False, soft_wrap=True, width=200))


def no_go(say: object) -> Path:
    raise ToolchainError("Go: found none")


def offline(chain: Toolchain) -> Maker:
    maker = chain.default_maker()
    return replace(maker, bases=NOWHERE, downloads=Downloads(patience=1.0), go=no_go)


@pytest.fixture
def chain(tmp_path: Path) -> Toolchain:
    return Toolchain(tmp_path / "cache", "", PINS, LINUX, quiet(), offline)


def test_without_releases_the_projects_own_plugins_are_used_and_the_run_says_so(
    chain: Toolchain,
) -> None:
    names = ("pulumi-language-python", "pulumi-resource-command")
    tools = chain.ensure(*names)
    assert {tool.origin for tool in tools.values()} == {OWN}
    assert {tool.path for tool in tools.values()} == {chain.bin / name for name in names}
    text = shown(chain.steps)
    assert re.search(r"no release download for .*127\.0\.0\.1:1: .*refused", text)
    assert "pulumi-resource-command: the project's own is in use" in text


def test_official_ones_are_looked_for_again_when_asked(chain: Toolchain) -> None:
    chain.ensure("pulumi-resource-command")
    before = shown(chain.steps)
    chain.ensure("pulumi-resource-command")
    assert shown(chain.steps) == before
    chain.ensure("pulumi-resource-command", refresh=True)
    assert shown(chain.steps).count("no release download") == 2


def test_a_tool_that_cannot_be_had_names_every_way_that_was_tried(chain: Toolchain) -> None:
    with pytest.raises(ToolchainError) as error:
        chain.ensure("etcd", "kwok")
    text = str(error.value)
    assert "tools that cannot be had on linux/amd64" in text
    assert re.search(r"etcd 3\.6\.8: release: 127\.0\.0\.1:1: .*refused.*Go: found none", text)
    assert "kwok 0.8.0: no release with a checksum for this platform" in text
    assert "cure: put them on PATH in the versions wanted, or give access to a Go mod" in text
    assert "\n" not in text


def test_an_unknown_name_is_refused_with_the_nearest_one(chain: Toolchain) -> None:
    with pytest.raises(
        ToolchainError, match=r"found 'kwokctrl', wanted one of .*cure: write 'kwokctl'"
    ):
        chain.ensure("kwokctrl")


def test_a_tool_for_another_system_is_refused(tmp_path: Path) -> None:
    darwin = Toolchain(tmp_path, "", platform=Platform("darwin", "arm64"))
    assert "nvidia-ctk" not in darwin.names()
    with pytest.raises(ToolchainError, match="nvidia-ctk runs on linux, this is darwin/arm64"):
        darwin.ensure("nvidia-ctk")


def test_a_fitting_tool_on_path_comes_first_and_is_reachable_in_our_folder(
    chain: Toolchain, tmp_path: Path
) -> None:
    folder = tmp_path / "users"
    folder.mkdir()
    etcd = folder / "etcd"
    etcd.write_text("#!/bin/sh\necho etcd Version: 3.6.9\n")
    etcd.chmod(0o755)
    tool = replace(chain, search_path=str(folder)).ensure("etcd")["etcd"]
    assert tool == Tool("etcd", "3.6.9", ON_PATH, etcd)
    assert (chain.bin / "etcd").readlink() == etcd


def test_the_environment_puts_our_folder_first_and_names_this_python(chain: Toolchain) -> None:
    values = replace(chain, search_path="/usr/bin").environment()
    assert values["PATH"] == f"{chain.bin}{os.pathsep}/usr/bin"
    assert values["GPU_CLUSTER_PYTHON"] == sys.executable


def launch(path: Path, folder: Path, **values: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.defpath, **values}
    return run_program([str(path), "127.0.0.1:4"], cwd=folder, env=environment, timeout=30)


def test_a_launcher_starts_the_plugin_of_the_environment_that_is_meant(
    chain: Toolchain, tmp_path: Path
) -> None:
    path = chain.ensure("pulumi-language-python")["pulumi-language-python"].path
    pythons = []
    for folder in ("site/venv", "other site/.venv"):
        python = tmp_path / folder / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text('#!/bin/sh\necho "$0 $*"\n')
        python.chmod(0o755)
        pythons.append(python)
    first, other = pythons
    module = "-P -u -m gpu_cluster_lab.toolchain.plugins pulumi-language-python 127.0.0.1:4\n"
    below = tmp_path / "site" / "some" / "folder"
    below.mkdir(parents=True)
    assert launch(path, below).stdout == f"{first} {module}"
    assert launch(path, tmp_path / "other site").stdout == f"{other} {module}"
    assert launch(path, below, GPU_CLUSTER_PYTHON=str(other)).stdout == f"{other} {module}"
    lost = launch(path, tmp_path)
    assert lost.returncode == 1
    assert 'cure: eval "$(gpu-cluster env)"' in lost.stderr
    assert lost.stdout == ""


GO = """#!/bin/sh
case $1 in
  version) echo go version go{version} linux/amd64 ;;
  list) echo true; echo true; echo false ;;
  build)
    echo example.com/one >&2
    {fail}
    while [ "$1" != -o ]; do shift; done
    echo '#!/bin/sh' > "$2/etcd"
    echo 'echo etcd Version: 3.6.8' >> "$2/etcd" ;;
esac
"""


def fake_go(folder: Path, fail: str = ":", version: str = "1.26.8") -> Path:
    """Create a fake `go` command, because the real compiler would take minutes."""
    path = folder / "go"
    path.write_text(GO.format(fail=fail, version=version))
    path.chmod(0o755)
    return path


@pytest.fixture
def building(chain: Toolchain, tmp_path: Path) -> Toolchain:
    go = fake_go(tmp_path)
    pins = {"etcd": replace(PINS["etcd"], go=GoPackage("actionlint", "example.com/etcd"))}
    return replace(chain, pins=pins, maker=lambda chain: replace(offline(chain), go=lambda say: go))


def test_what_has_no_release_is_built_and_kept(building: Toolchain, tmp_path: Path) -> None:
    tool = building.ensure("etcd")["etcd"]
    assert (tool.version, tool.origin) == ("3.6.8", GO_MODULE)
    assert "building etcd: about" in shown(building.steps)
    (tmp_path / "go").unlink()
    assert building.ensure("etcd") == {"etcd": tool}


def test_a_tool_that_says_another_version_is_not_kept(building: Toolchain) -> None:
    pins = {"etcd": replace(building.pins["etcd"], version="3.6.9")}
    with pytest.raises(ToolchainError, match=r"says version 3\.6\.8, wanted 3\.6\.9"):
        replace(building, pins=pins).ensure("etcd")
    assert not list((building.cache / "tools").glob("store/*"))


def test_a_failed_build_shows_the_compilers_last_lines(building: Toolchain, tmp_path: Path) -> None:
    fake_go(tmp_path, "echo 'main.go:3: undefined: x' >&2; exit 2")
    with pytest.raises(ToolchainError, match=r"go build` failed: .*undefined: x"):
        building.ensure("etcd")
    assert not list((building.cache / "tools").glob("store/*"))


def test_a_go_that_is_too_old_is_passed_over_for_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_go(tmp_path, version="1.25.0")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    wheel = tmp_path / "wheel"
    wheel.mkdir()
    monkeypatch.setattr(golang, "_from_wheel", lambda: fake_go(wheel))
    assert golang.find_go(pytest.fail) == wheel / "go"
    fake_go(tmp_path, version=golang.wanted())
    assert golang.find_go(pytest.fail) == tmp_path / "go"


def test_builds_keep_the_users_proxy_and_check_all_sums_but_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOPROXY", "https://proxy.example")
    monkeypatch.setenv("GOPRIVATE", "example.com/private")
    values = golang.environment()
    assert values["GOPROXY"] == "https://proxy.example"
    assert values["CGO_ENABLED"] == "0"
    assert values["GONOSUMDB"] == (
        "example.com/private,github.com/pulumi/pulumi-kubernetes/provider/v4"
    )


def test_the_command_names_the_tools_that_cannot_be_had(
    chain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "Toolchain", lambda: chain)
    with pytest.raises(SystemExit, match=r"\Atoolchain: tools that cannot be had on linux/amd64"):
        command.main()


def test_progress_in_a_pipe_is_a_line_now_and_then() -> None:
    now = 0.0
    steps = replace(quiet(), clock=lambda: now)
    with steps.step("building etcd", 100.0, 1000, "packages") as advance:
        for done, at in ((1, 1.0), (300, 30.0), (301, 31.0), (600, 65.0)):
            now = at
            advance(done)
        now = 110.0
    assert shown(steps).splitlines() == [
        "toolchain: building etcd: about 1 min 40 s",
        "toolchain: building etcd: 300 of 1,000 packages, 30 s, about 1 min 10 s left",
        "toolchain: building etcd: 600 of 1,000 packages, 1 min 5 s, about 40 s left",
        "toolchain: building etcd: 1 min 50 s",
    ]


def test_progress_on_a_terminal_is_a_bar_with_time_and_estimate() -> None:
    file = io.StringIO()
    steps = Steps(Console(file=file, force_terminal=True, width=160, color_system=None))
    with steps.step("building etcd", 100.0, 1000, "packages") as advance:
        advance(500)
    assert "500/1,000 packages" in file.getvalue()
    assert re.search(r"about .* s left", file.getvalue())


@pytest.mark.parametrize(
    ("elapsed", "typical", "fraction", "expected"),
    [(0.0, 100.0, 0.0, 100.0), (50.0, 100.0, 1.0, 0.0), (200.0, 100.0, 0.0, 0.0)],
)
def test_the_estimate_goes_from_typical_to_shown(
    elapsed: float, typical: float, fraction: float, expected: float
) -> None:
    assert left(elapsed, typical, fraction) == expected


def test_times_are_written_for_people() -> None:
    assert [clock(seconds) for seconds in (0, 59.4, 60, 754)] == [
        "0 s",
        "59 s",
        "1 min 0 s",
        "12 min 34 s",
    ]
