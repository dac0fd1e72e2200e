"""Each process imports only the modules that it uses, because imports delay a preview."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Modules that `__main__.py` imports. `__main__.py` itself can't be imported without a Pulumi
# engine.
PROGRAM = (
    "gpu_cluster.inspection.observe",
    "pulumi",
    "pulumi_kubernetes",
    "gpu_cluster.loading.loader",
    "gpu_cluster.desired.resolve",
    "gpu_cluster.cluster",
    "gpu_cluster.outputs",
    "gpu_cluster.hosts.observed.table",
    "gpu_rules.guard",
)

COMMANDS = tuple(
    f"gpu_cluster.commands.{path.stem}"
    for path in sorted((ROOT / "components/gpu_cluster/commands").glob("[a-z]*.py"))
    if path.stem != "embedded_cluster"
)
"""All modules of commands but the one that drives the lab."""
READING = tuple(f"gpu_cluster.commands.{name}" for name in ("status", "who", "why"))
"""Commands that only read: they start without the engine's libraries, SSH and the rules."""


def loaded(*modules: str) -> set[str]:
    """Return the modules that a new Python interpreter has loaded after importing `modules`."""
    program = "import importlib, json, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    ending = "\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program + ending, *modules],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("modules", "without"),
    [
        (
            ("gpu_cluster.inspection.observed_cluster", "gpu_cluster.hosts.observed.inspect"),
            {"pulumi"},
        ),
        (("gpu_cluster.kubernetes.resources",), {"pydantic", "pulumi", "kr8s", "httpx"}),
        (PROGRAM, {"kubernetes", "jinja2", "lab", "gpu_cluster_lab"}),
        (("gpu_rules.check.__main__",), {"pulumi", "lab", "gpu_cluster_lab", "gpu_cluster"}),
        (("gpu_cluster.guardrails.check",), {"lab", "gpu_cluster_lab"}),
        (
            ("maintenance.audit", "maintenance.secret_scan", "gpu_cluster.commands.files"),
            {"lab", "gpu_cluster_lab"},
        ),
        (COMMANDS, {"lab"}),
        (READING, {"asyncssh", "gpu_rules.rules", "grpc", "jsonschema", "lab", "pulumi"}),
    ],
    ids=[
        "inspection",
        "names of resources",
        "the program",
        "checker",
        "project's checker",
        "audit",
        "commands on a real cluster",
        "commands that read",
    ],
)
def test_no_process_imports_what_it_does_not_use(
    modules: tuple[str, ...], without: set[str]
) -> None:
    assert not loaded(*modules) & without


def test_each_driver_and_resource_is_named_once() -> None:
    """Only one module of `components` defines each of these names.

    `policies` and the simulator may have copies, because they don't import that module.
    """
    assigned = re.compile(r'^\w+(?:: \w+)? = "(?:nvidia\.com/gpu|gpu\.nvidia\.com)"', re.M)
    sources = (ROOT / "components").rglob("*.py")
    homes = {path.name for path in sources if assigned.search(path.read_text())}
    assert homes == {"resources.py"}
