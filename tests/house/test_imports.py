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
    "components.inspection.observe",
    "pulumi",
    "pulumi_kubernetes",
    "components.loading.loader",
    "components.desired.resolve",
    "components.cluster",
    "components.outputs",
    "components.hosts.observed.table",
    "policies.guard",
)

COMMANDS = tuple(
    f"commands.{path.stem}"
    for path in sorted((ROOT / "commands").glob("[a-z]*.py"))
    if path.stem != "embedded_cluster"
)
"""All modules of commands but the one that drives the lab."""


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
            ("components.inspection.observed_cluster", "components.hosts.observed.inspect"),
            {"pulumi"},
        ),
        (("components.kubernetes.resources",), {"pydantic", "pulumi", "kr8s", "httpx"}),
        (PROGRAM, {"kubernetes", "jinja2", "lab", "toolchain"}),
        (("policies.check.__main__",), {"pulumi", "lab", "toolchain", "components"}),
        (("components.guardrails.check",), {"lab", "toolchain"}),
        (("maintenance.audit", "maintenance.secret_scan", "commands.files"), {"lab", "toolchain"}),
        (COMMANDS, {"lab"}),
    ],
    ids=[
        "inspection",
        "names of resources",
        "the program",
        "checker",
        "project's checker",
        "audit",
        "commands on a real cluster",
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
