"""The wheels of a release have one import name each and all files, and work in an empty folder."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from gpu_cluster.commands.files import ROOT, project_files
from gpu_cluster.operation import command_line
from gpu_cluster.programs import PROGRAMS
from maintenance.constraints import constraints, needed
from tests.fixtures.programs import run_program
from tests.fixtures.wheels import build, make_environment
from tests.policies.check.samples import BAD

SOURCES = {
    "gpu_cluster": "components/",
    "gpu_cluster_lab": "embedded/",
    "gpu_rules": "policies/",
}
FILES = {
    "gpu_cluster": "pyproject.toml",
    "gpu_cluster_lab": "embedded/pyproject.toml",
    "gpu_rules": "policies/pyproject.toml",
}
LIGHT = """
import sys
import gpu_cluster, gpu_cluster_lab, gpu_rules
print(sorted({"pulumi", "pydantic"} & sys.modules.keys()))
"""
PUBLIC = """
from gpu_cluster import GpuCluster, GpuClusterArgs, GpuDevicePlugin, GpuGuardrails, GpuHosts
from gpu_cluster import GpuOperator, GpuValidation
print(GpuCluster.TYPE, GpuClusterArgs.__module__)
"""


TYPED = """
from gpu_cluster import GpuClusterArgs

GpuClusterArgs(settings={}, kubeconfigs="")
"""
"""A program with a wrong argument in its last line."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the wheels of the project's files, by package."""
    return build(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def installed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a program whose environment has the wheels, and nothing of the clone."""
    folder = tmp_path_factory.mktemp("site")
    make_environment(folder / "venv", wheels.values())
    return folder


def run(folder: Path, *command: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command with an empty home folder, without an activated environment."""
    path = os.pathsep.join(["/usr/local/bin", "/usr/bin", "/bin"])
    return run_program(
        command,
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8"},
        input=given,
        timeout=120,
    )


@pytest.mark.promise(
    "A release's wheels have one import name each: gpu_cluster, gpu_cluster_lab and gpu_rules."
)
def test_each_wheel_has_one_import_name_and_all_files_of_its_package(
    wheels: dict[str, Path],
) -> None:
    assert wheels.keys() == SOURCES.keys()
    for package, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as archive:
            files = {name for name in archive.namelist() if ".dist-info/" not in name}
        source = SOURCES[package]
        assert files == {
            name.removeprefix(source)
            for name in project_files()
            if name.startswith(f"{source}{package}/")
        }


def test_the_packages_need_what_the_program_needs() -> None:
    """The names in requirements.txt, without the simulator's and the tests'."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    wanted = {line.partition("#")[0].strip() for line in lines if not line.startswith("#")}
    bounds = {f"gpu-rules=={project['version']}", "pulumi>=3.272,<4", "pulumi-policy>=1.21,<2"}
    exact = {line for line in wanted if line.startswith(("pulumi==", "pulumi-policy=="))}
    others = {line for line in wanted if line.startswith(("aiohttp", "pytest"))}
    assert set(project["dependencies"]) == bounds | (wanted - exact - others)


@pytest.mark.parametrize("package", FILES)
@pytest.mark.promise("A package's dependencies bring all that its modules import.")
def test_a_package_depends_on_what_its_modules_import(package: str) -> None:
    """The packages that it finds by chance, in an environment of others, are no dependencies."""
    project = tomllib.loads((ROOT / FILES[package]).read_text())["project"]
    own = (f"gpu-{name}" for name in ("rules", "cluster") if f"gpu-{name}==" in str(project))
    brought = needed(FILES[package], *(FILES[name.replace("-", "_")] for name in own))
    for extra in project.get("optional-dependencies", {}).values():
        brought |= {re.split(r"[<>=]", name)[0] for name in extra}
        brought |= {"grpcio", "protobuf"} if "pulumi" in brought else set()
    distributions = metadata.packages_distributions()
    for module in (ROOT / SOURCES[package] / package).rglob("*.py"):
        for name in imported(module) - sys.stdlib_module_names - SOURCES.keys():
            of_name = {str(canonicalize_name(each)) for each in distributions[name]}
            assert of_name & brought, f"{module} imports {name}, which {package} does not bring"


def imported(module: Path) -> set[str]:
    """Return the first parts of the names of all modules that a module imports."""
    tree = [*ast.walk(ast.parse(module.read_text()))]
    names = [alias.name for node in tree if isinstance(node, ast.Import) for alias in node.names]
    names += [
        node.module
        for node in tree
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
    ]
    return {name.partition(".")[0] for name in names}


def test_importing_the_packages_loads_neither_pulumi_nor_pydantic(installed: Path) -> None:
    done = run(installed, "venv/bin/python", "-c", LIGHT)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.promise("`from gpu_cluster import GpuCluster, GpuClusterArgs` works in any program.")
def test_a_program_imports_the_components_from_the_package(installed: Path) -> None:
    done = run(installed, "venv/bin/python", "-c", PUBLIC)
    assert done.stdout == "gpucluster:index:GpuCluster gpu_cluster.cluster\n", done.stderr


@pytest.mark.slow
@pytest.mark.promise("A type checker reads the types of the installed package.")
def test_a_type_checker_names_a_wrong_argument_of_the_installed_package(installed: Path) -> None:
    program = installed / "typed.py"
    program.write_text(TYPED)
    mypy = [sys.executable, "-P", "-m", "mypy", "--config-file=", "--follow-imports=silent"]
    own = ["--python-executable", installed / "venv" / "bin" / "python", "--no-incremental"]
    done = run(installed, *mypy, *own, "typed.py")
    assert done.stdout.startswith('typed.py:4: error: Unexpected keyword argument "kubeconfigs"')
    assert "Found 1 error in 1 file" in done.stdout


@pytest.mark.promise("The command of a local Command is found without an activated environment.")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_command_finds_the_installed_programs(installed: Path, program: str) -> None:
    done = run(installed, "sh", "-c", command_line(program, "none"), given="{}")
    assert done.returncode == 1
    assert "the action none" in done.stderr, done.stderr


def test_the_installed_plugin_serves_the_component_package(installed: Path) -> None:
    plugin = [installed / "venv" / "bin" / "pulumi-resource-gpucluster", "127.0.0.1:1"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(installed)}
    with subprocess.Popen(plugin, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline().strip().isdigit()
        finally:
            server.kill()
    assert (installed / ".pulumi" / "gpu-cluster" / "gpu-cluster-program").exists()


def test_the_installed_checker_reads_stack_files(installed: Path) -> None:
    (installed / "Pulumi.dev.yaml").write_bytes((ROOT / "Pulumi.dev.yaml").read_bytes())
    (installed / "bad.yaml").write_text(BAD)
    done = run(installed, "venv/bin/gpu-rules", "check", "bad.yaml", "--stack", "dev")
    assert done.returncode == 1, done.stderr
    assert "bad.yaml:9: mandatory GPU001" in done.stdout


@pytest.mark.slow
@pytest.mark.promise("A release's constraints file installs its wheels with pip --require-hashes.")
def test_the_constraints_install_the_wheels_from_a_folder_without_a_network(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    file, house = tmp_path / "constraints.txt", tmp_path / "wheelhouse"
    others = constraints(())
    file.write_text(others)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    got = run_program(
        [*pip, "download", "--no-deps", "--require-hashes", "--dest", house, "-r", file],
        timeout=600,
    )
    if got.returncode:
        pytest.skip(f"no package index has the packages: {got.stderr[-300:]}")
    for wheel in wheels.values():
        shutil.copy(wheel, house)
    file.write_text(constraints(wheels.values()))
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    own = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-index"]
    hashed = [*own, "--find-links", house, "--require-hashes", "-r", file]
    assert run(tmp_path, *hashed).returncode == 0
    done = run(tmp_path, python, "-c", PUBLIC)
    assert done.stdout == "gpucluster:index:GpuCluster gpu_cluster.cluster\n", done.stderr
    changed = file.read_text().replace("--hash=sha256:", "--hash=sha256:0000", 1)
    file.write_text(re.sub(r"sha256:0000(\w{60})\w{4}", r"sha256:0000\1", changed, count=1))
    refused = run(tmp_path, *hashed, "--force-reinstall")
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stderr
