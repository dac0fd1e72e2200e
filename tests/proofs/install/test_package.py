"""`pulumi package` works with the plugin of the installed package, and installs nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gpu_cluster.cluster import GpuCluster
from gpu_cluster.settings.validation import ValidationSettings
from gpu_cluster_lab import toolchain
from gpu_rules.version import VERSION
from tests.fixtures.wheels import ADDRESS, make_environment
from tests.proofs.install.site import Site, pulumi_path

pytestmark = pytest.mark.full

NO_NETWORK = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
"""Variables by which a request to another machine fails: port 9 (discard) is closed."""
PIP = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_BUILD_ISOLATION": "0",
    "PIP_NO_INDEX": "1",
}
"""Variables by which pip builds a package with this machine's setuptools."""
PROJECT = {"name": "other", "runtime": "yaml"}
USER = """\
import pulumi_gpucluster as package
pool = package.PoolArgs(name="a100", nodes=["gpu-1"], gpus_per_node=8)
assert pool.gpus_per_node == 8
assert package.ValidationSettingsArgs().timeout_seconds == {timeout}
print(package.GpuCluster.pulumi_type)
"""
"""A program that uses the generated SDK."""


@pytest.fixture
def plugin(site: Site) -> Path:
    """Return the installed plugin."""
    return site.venv / "bin" / "pulumi-resource-gpucluster"


@pytest.fixture
def variables(site: Site, tmp_path: Path) -> dict[str, str]:
    """Return the variables of a shell with Pulumi, without a network."""
    toolchain.ensure("pulumi-language-yaml", "pulumi-generate-python")
    return {
        **NO_NETWORK,
        "PATH": pulumi_path(site),
        "PULUMI_HOME": str(tmp_path / "home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "GPU_CLUSTER_PYTHON": str(site.venv / "bin" / "python"),
    }


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder by their paths, without the byte code of Python."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.mark.promise(
    "`pulumi package add` adds the installed package without a network; it changes nothing in the "
    "environment, and a second time changes nothing at all."
)
def test_a_program_adds_the_package_and_nothing_is_installed(
    site: Site, plugin: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump(PROJECT))
    environment = files_of(site.venv)
    added = []
    for _ in range(2):
        line = f"cd '{folder}' && pulumi package add '{plugin}' --non-interactive"
        shown = site.shell(line, **variables)
        assert "Added package GPU cluster" in shown
        assert "nstall" not in shown.replace(str(folder), "")
        assert "ownload" not in shown
        added.append(files_of(folder))
        assert files_of(site.venv) == environment
    assert added[0] == added[1]
    project = yaml.safe_load((folder / "Pulumi.yaml").read_text())
    assert project["packages"]["gpucluster"]


def python_program(folder: Path, requirements: str) -> Path:
    """Write a program in Python with an environment of its own; return the environment."""
    folder.mkdir()
    project = {"name": "other", "runtime": {"name": "python", "options": {"virtualenv": "venv"}}}
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump(project))
    (folder / "requirements.txt").write_text(requirements)
    make_environment(folder / "venv", ())
    return folder / "venv"


@pytest.mark.promise(
    "`pulumi package add` adds the installed package to a program in Python, whose requirements "
    "then have the SDK once."
)
def test_a_program_in_python_adds_the_package_and_imports_it(
    site: Site, plugin: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "program"
    environment = python_program(folder, "pulumi\n")
    line = f"cd '{folder}' && pulumi package add '{plugin}' --non-interactive"
    for _ in range(2):
        assert "import pulumi_gpucluster" in site.shell(line, **variables, **PIP)
        assert (folder / "requirements.txt").read_text() == "pulumi\nsdks/gpucluster\n"
    program = folder / "program.py"
    program.write_text(USER.format(timeout=ValidationSettings().timeout_seconds))
    done = site.shell_out([environment / "bin" / "python", program], "", {})
    assert (done.returncode, done.stdout) == (0, f"{GpuCluster.TYPE}\n"), done.stderr


def test_a_locked_program_in_python_gets_nothing_installed(
    site: Site, plugin: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "program"
    locked = (site.folder / "requirements.txt").read_text()
    environment = files_of(python_program(folder, locked))
    line = f"cd '{folder}' && pulumi package add '{plugin}' --non-interactive"
    done = site.shell_out(["sh", "-c", line], "", {**variables, **PIP})
    assert done.returncode != 0
    assert "can't verify hashes" in (done.stdout + done.stderr).lower()
    assert files_of(folder / "venv") == environment


@pytest.mark.promise(
    "The installed package's schema has defaults, descriptions, typed outputs, the licence and the "
    "addresses of the release, and Pulumi generates a Python SDK of it that loads."
)
def test_the_schema_of_the_package_is_whole_and_an_sdk_is_generated_of_it(
    site: Site, plugin: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    shown = site.shell(f"pulumi package get-schema '{plugin}' 2>/dev/null", **variables)
    schema = json.loads(shown)
    assert schema["version"] == VERSION
    assert (schema["license"], schema["homepage"], schema["repository"]) == (
        "Apache-2.0",
        ADDRESS,
        ADDRESS,
    )
    whole = schema["resources"][GpuCluster.TYPE]
    every = [*whole["inputProperties"].values(), *whole["properties"].values()]
    assert all(each["description"] for each in every)
    assert whole["properties"]["nodes"]["items"]["$ref"].endswith(":NodeResult")
    assert whole["properties"]["tests"]["items"]["$ref"].endswith(":TestResult")
    validation = schema["types"]["gpucluster:index:ValidationSettings"]["properties"]
    timeout = validation["timeoutSeconds"]["default"]
    environment = files_of(site.venv)
    out = tmp_path / "sdk"
    line = f"pulumi package gen-sdk '{plugin}' --language python --out '{out}'"
    site.shell(line, **variables)
    assert files_of(site.venv) == environment
    # The SDK asks for the version of its own distribution.
    installed = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--target", installed]
    subprocess.run([*pip, *options, out / "python"], check=True)
    program = tmp_path / "program.py"
    program.write_text(USER.format(timeout=timeout))
    done = site.run("python", program, PYTHONPATH=str(installed))
    assert (done.returncode, done.stdout) == (0, f"{GpuCluster.TYPE}\n"), done.stderr
