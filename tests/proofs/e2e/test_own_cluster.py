"""Test that follows the section "Your own cluster" in README.md word for word.

It uses a second kubeconfig and no terminal. Only addresses and host keys are replaced, because
README.md can't know them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator import hosts as simulated_hosts
from tests.fixtures.programs import run_program
from tests.guard import own_name
from tests.proofs.e2e.project import LIMIT, Project, started

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^ *```(yaml|sh)\n(.*?)^ *```$", re.M | re.S)


def section() -> str:
    """Return the text of the section "Your own cluster" in README.md."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.partition("## Your own cluster\n")[2].partition("\n## ")[0]


def blocks(kind: str) -> list[str]:
    """Return the section's code blocks in one language, without their indentation."""
    bodies = [body for language, body in BLOCK.findall(section()) if language == kind]
    return [re.sub(r"^ {3}", "", body, flags=re.M) for body in bodies]


@dataclass
class Shell:
    """A user's shell in a copy of the project; variables that a code block exports are kept."""

    folder: Path
    environment: dict[str, str]

    def run(self, script: str) -> str:
        """Run a script without a terminal; return its output.

        The script must succeed.
        """
        done = run_program(
            ["bash", "-euc", f"{script}\nenv -0 >environment.txt"],
            cwd=self.folder,
            env=self.environment,
            stderr=subprocess.STDOUT,
            timeout=LIMIT,
        )
        assert done.returncode == 0, done.stdout
        told = (self.folder / "environment.txt").read_text().split("\0")
        self.environment = dict(line.split("=", 1) for line in told if "=" in line)
        return done.stdout


def stack_file(project: Project) -> dict[str, Any]:
    """Return the stack file in README.md with the real host's address and host key."""
    (text,) = blocks("yaml")
    content: dict[str, Any] = yaml.safe_load(text)
    (host,) = content["config"]["gpu-cluster:cluster"]["hosts"]
    simulated = next(item for item in project.read()["hosts"] if item["name"] == host["name"])
    host |= {key: simulated[key] for key in ("address", "port", "hostKey")}
    return content


def home(project: Project, folder: Path) -> Path:
    """Create a home folder with the SSH key and a kubeconfig whose context has another name."""
    kubeconfig = project.kubeconfig
    content = yaml.safe_load(kubeconfig.read_text())
    content["contexts"][0]["name"] = content["current-context"] = "my-cluster"
    key, _ = simulated_hosts.client_key(project.stack)
    files = {".kube/config": yaml.safe_dump(content), ".ssh/gpu-cluster": key.read_text()}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Start a second embedded cluster with four nodes, one of which is an SSH host."""
    made = Project.make(tmp_path_factory.mktemp("own"), own_name("own"))
    made.edit(lambda declared: declared.update(hosts=declared["hosts"][:1]))
    with started(made):
        yield made


@pytest.fixture
def shell(cluster: Project, tmp_path: Path) -> Iterator[Shell]:
    (cluster.root / "Pulumi.lab.yaml").write_text(yaml.safe_dump(stack_file(cluster)))
    # Because requirements.lock has an old time stamp, `make` does not rebuild the virtual
    # environment.
    os.utime(cluster.root / "requirements.lock", (0, 0))
    environment = {
        **{key: text for key, text in cluster.environment.items() if key != "STACK"},
        "PATH": f"{cluster.root / 'venv/bin'}{os.pathsep}{cluster.environment['PATH']}",
        "HOME": str(home(cluster, tmp_path)),
        "GPU_CLUSTER_CACHE": str(toolchain.cache_dir()),
        "PULUMI_BACKEND_URL": f"file://{tmp_path}",
    }
    made = Shell(cluster.root, environment)
    yield made
    made.run("pulumi destroy --yes --skip-preview || true")


def test_readmes_steps_bring_another_cluster_up_without_a_terminal(shell: Shell) -> None:
    make, change = blocks("sh")
    shell.run(make)
    said = shell.run(change)
    assert "passphrase" not in said
    gpus = json.loads(shell.run("pulumi stack output gpus --json"))
    assert gpus["declared"] == 32
    shell.run("pulumi preview --expect-no-changes")
    destroyed = shell.run("pulumi destroy --yes --skip-preview")
    assert "Resources:" in destroyed
