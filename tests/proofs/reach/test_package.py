"""Tests of the component package in the Pulumi engine: schema, preview and rejected inputs.

The test's Python program does not import the components. It registers a component by its type
token, like the classes that Pulumi generates for other languages.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.components.package.kubeconfig import CANARY, KUBECONFIG
from tests.fixtures.wheels import build, make_environment
from tests.proofs.reach.program import Program

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[3]
PROGRAM = """
import os

import pulumi
import pulumi_command


class GpuCluster(pulumi.ComponentResource):
    def __init__(self, name, properties):
        outputs = {"nodes": None}
        super().__init__(
            "gpucluster:index:GpuCluster", name, {**properties, **outputs}, None, remote=True
        )


made = pulumi_command.local.Command(
    "made",
    create='cat "$CLUSTER_KUBECONFIG"',
    opts=pulumi.ResourceOptions(additional_secret_outputs=["stdout"]),
)
site = GpuCluster(
    "site",
    {
        "kubeconfig": made.stdout,
        "kubernetes": {"context": "other"},
        "platform": "device-plugin",
        "pools": [{"name": "a100", "nodes": [os.environ["TEST_NODES"]], "gpusPerNode": 8}],
    },
)
pulumi.export("nodes", site.nodes)
"""


@pytest.fixture
def program(pulumi_env: dict[str, str], tmp_path: Path) -> Program:
    folder = tmp_path / "program"
    folder.mkdir()
    project = {
        "name": "other",
        "runtime": {"name": "python", "options": {"virtualenv": str(ROOT / "venv")}},
        "plugins": {"providers": [{"name": "gpucluster", "path": str(ROOT / "package")}]},
    }
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump(project))
    (folder / "__main__.py").write_text(PROGRAM)
    (tmp_path / "state").mkdir()
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    environment = {
        **pulumi_env,
        "CLUSTER_KUBECONFIG": str(tmp_path / "kubeconfig"),
        "PULUMI_BACKEND_URL": f"file://{tmp_path}/state",
        "PULUMI_HOME": str(tmp_path / "home"),
        "TEST_NODES": "gpu-[1-4]",
    }
    made = Program(folder, "organization/other/t", environment)
    made.pulumi("stack", "init")
    return made


def test_the_engine_loads_the_package_and_finds_no_fault_in_its_schema(program: Program) -> None:
    shown = program.pulumi("package", "get-schema", str(ROOT / "package"), stack=False)
    file = program.folder / "schema.json"
    file.write_text(shown[shown.index("{\n") :])
    program.pulumi("schema", "check", str(file), stack=False)


@pytest.mark.promise(
    "A first preview of a program that uses the package shows what the component will create, "
    "though the kubeconfig of its cluster is unknown."
)
def test_a_preview_with_an_unknown_kubeconfig_shows_what_is_created(program: Program) -> None:
    shown = program.pulumi("preview")
    assert "site: its kubeconfig is known as soon as its cluster exists" in shown
    assert "GPUs ? → 32" in shown
    assert "site-gpu-platform-release" in shown
    assert "site-validation.pools" in shown


def test_the_example_in_python_declares_two_parts(program: Program) -> None:
    shutil.copytree(ROOT / "examples" / "python", program.folder, dirs_exist_ok=True)
    for name in ("components", "policies", "venv"):
        (program.folder / name).symlink_to(ROOT / name)
    program.stack = "organization/gpus-in-python/t"
    program.pulumi("stack", "init")
    shown = program.pulumi("preview")
    assert "plugin-gpu-platform-release" in shown
    assert "validation-validation.pools" in shown
    assert "plugin-validation" not in shown
    assert "validation-gpu-platform" not in shown


def test_the_engine_names_the_property_that_is_refused(program: Program) -> None:
    program.environment["TEST_NODES"] = "gpu-[4-1]"
    shown = program.pulumi("preview", succeeds=False)
    assert 'property pools[0].nodes[0] with value "gpu-[4-1]" has a problem: found' in shown
    assert str(ROOT / "components") not in shown


def test_a_kubeconfig_of_another_cluster_is_refused_when_it_is_known(program: Program) -> None:
    shown = program.pulumi("up", "--yes", "--skip-preview", succeeds=False)
    assert "kubernetes.context of gpucluster site: found other" in shown
    assert CANARY not in shown + program.pulumi("stack", "export")


@pytest.mark.promise("The engine loads the plugin of a clone, and installs nothing.")
def test_the_plugin_of_a_clone_is_loaded_without_an_installation(program: Program) -> None:
    plugin = str(ROOT / "package" / "pulumi-resource-gpucluster")
    shown = program.pulumi("package", "get-schema", plugin, stack=False)
    assert '"gpucluster:index:GpuCluster"' in shown
    assert "Requirement already satisfied" not in shown
    assert "nstalling" not in shown


@pytest.mark.promise("The engine loads the installed plugin, and installs nothing.")
def test_the_engine_loads_the_plugin_of_the_installed_package(
    program: Program, tmp_path: Path
) -> None:
    (tmp_path / "wheels").mkdir()
    wheels = build(tmp_path / "wheels")
    python = make_environment(tmp_path / "venv", wheels.values())
    before = sorted(python.parents[1].rglob("*.dist-info"))
    plugin = python.with_name("pulumi-resource-gpucluster")
    shown = program.pulumi("package", "get-schema", str(plugin), stack=False)
    assert '"gpucluster:index:GpuCluster"' in shown
    project = yaml.safe_load((program.folder / "Pulumi.yaml").read_text())
    project["plugins"]["providers"] = [{"name": "gpucluster", "path": str(plugin.parent)}]
    (program.folder / "Pulumi.yaml").write_text(yaml.safe_dump(project))
    assert "site-validation.pools" in program.pulumi("preview")
    assert sorted(python.parents[1].rglob("*.dist-info")) == before
