"""The preview workflow that `init` writes previews a pull request against the deployed base.

Its shell lines run as they are, in their order. Git does a checkout as the action does it: it also
deletes what git does not know, unless the step says `clean: false`. `python -m venv` also installs
the wheels, and pip does nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.proofs.install.site import PATH, Site, install, make_cache, make_site, use_free_ports

pytestmark = pytest.mark.full

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
HELPER = """\
import sys
from pathlib import Path
from tests.proofs.install.site import install
folder = Path(sys.argv[3])
install(folder, {address!r}, ("gpu-rules", "gpu-cluster", "gpu-cluster-lab"))
(folder / "bin" / "pip").write_text("#!/bin/sh\\n")
(folder / "bin" / "pip").chmod(0o755)
"""
"""Program in place of ``python -m venv FOLDER``."""


def run(site: Site, *command: str | Path, **more: str) -> str:
    done = site.shell_out(list(command), "", more)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def steps(site: Site) -> list[dict[str, Any]]:
    """Return the steps of the job that previews on an embedded cluster."""
    file = site.folder / ".github" / "workflows" / "preview.yml"
    found: list[dict[str, Any]] = yaml.safe_load(file.read_text())["jobs"]["embedded"]["steps"]
    return found


@pytest.mark.promise(
    "A site's workflow previews a pull request against the base that it deployed before, without "
    "any secret."
)
def test_a_pull_request_is_previewed_against_the_deployed_base(
    constraints_file: Path, address: str, tmp_path: Path
) -> None:
    site = make_site(tmp_path / "site", make_cache(tmp_path / "cache"))
    install(site.venv, address, ("gpu-rules", "gpu-cluster", "gpu-cluster-lab"))
    site.succeeds("init", "--constraints", str(constraints_file))
    use_free_ports(site)
    for words in (("init", "-q", "-b", "base"), ("add", "."), ("commit", "-qm", "Base")):
        run(site, *GIT, *words)
    file = site.folder / "Pulumi.dev.yaml"
    run(site, *GIT, "checkout", "-qb", "head")
    file.write_text(file.read_text().replace("gpu-[1-4]", "gpu-[1-3]"))
    run(site, *GIT, "commit", "-qam", "Fewer nodes")
    programs = tmp_path / "bin"
    (tmp_path / "runner").mkdir()
    programs.mkdir()
    (tmp_path / "helper.py").write_text(HELPER.format(address=address))
    root = Path(__file__).parents[3]
    paths = os.pathsep.join(
        str(root / name) for name in (".", "components", "policies", "embedded")
    )
    line = f"PYTHONPATH='{paths}' exec '{sys.executable}' '{tmp_path}/helper.py' \"$@\""
    (programs / "python").write_text(f"#!/bin/sh\n{line}\n")
    (programs / "python").chmod(0o755)
    environment = {
        "PATH": f"{programs}{os.pathsep}{PATH}",
        "RUNNER_TEMP": str(tmp_path / "runner"),
        "STACK": "dev",
    }
    branches = iter(("base", "head"))
    try:
        for step in steps(site):
            if step.get("uses", "").startswith("actions/checkout@"):
                run(site, *GIT, "checkout", "-q", next(branches))
                if step["with"].get("clean", True):
                    run(site, *GIT, "clean", "-qffdx")
            elif "run" in step:
                run(site, "bash", "-e", "-o", "pipefail", "-c", step["run"], **environment)
        change = json.loads((site.folder / "change.json").read_text())
        assert change["gpus"] == {"before": 32, "after": 24}
        assert change["outcome"] == "changed"
        assert [edit["path"] for edit in change["edits"]] == ["pools[a100].nodes"]
        assert not [each for each in change["resources"] if each["operation"] == "create"]
    finally:
        subprocess.run([*GIT, "checkout", "-q", "base"], cwd=site.folder, check=False)
        done = site.run("gpu-cluster", "down")
    assert done.returncode == 0, done.stdout + done.stderr
