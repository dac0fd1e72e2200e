"""The preview jobs that `init` writes preview a pull request against the deployed base.

Their shell lines run as they are, in their order. Git does a checkout as the action does it: it
also deletes what git does not know, unless the step says `clean: false`. `python -m venv` also
installs the wheels, and pip does nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from string import Template

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
SHELL = ("bash", "-e", "-o", "pipefail", "-c")
"""How both forges run the shell lines of a job."""


def run(site: Site, *command: str | Path, **more: str) -> str:
    done = site.shell_out(list(command), "", more)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def preview_at_github(site: Site, environment: dict[str, str]) -> None:
    """Run the steps of the job that previews on an embedded cluster, each in a shell of its own."""
    file = site.folder / ".github" / "workflows" / "preview.yml"
    branches = iter(("base", "head"))
    for step in yaml.safe_load(file.read_text())["jobs"]["embedded"]["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            run(site, *GIT, "checkout", "-q", next(branches))
            if step["with"].get("clean", True):
                run(site, *GIT, "clean", "-qffdx")
        elif "run" in step:
            run(site, *SHELL, step["run"], **environment)


def preview_at_gitlab(site: Site, environment: dict[str, str]) -> None:
    """Run the lines of the job `preview`, in one shell, as GitLab's runner does."""
    run(site, *GIT, "checkout", "-q", "head")
    run(site, *GIT, "clean", "-qffdx")
    job = yaml.safe_load((site.folder / ".gitlab-ci.yml").read_text())["preview"]
    variables = {
        "GITLAB_CI": "true",
        "CI_PROJECT_DIR": str(site.folder),
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": run(site, *GIT, "rev-parse", "base"),
        "CI_COMMIT_SHA": run(site, *GIT, "rev-parse", "head"),
    }
    of_job = {name: Template(text).substitute(variables) for name, text in job["variables"].items()}
    cache = Path(of_job["GPU_CLUSTER_CACHE"])
    # The embedded cluster of the job is in a folder of the job, which the cleaned checkout lacks.
    cache.parent.mkdir(parents=True)
    make_cache(cache)
    site.environment["GPU_CLUSTER_CACHE"] = str(cache)
    lines = "\n".join([*job["before_script"], *job["script"]])
    run(site, *SHELL, lines, **{**environment, **variables, **of_job})
    reports = job["artifacts"]["reports"]
    assert isinstance(json.loads((site.folder / reports["codequality"]).read_text()), list)


FORGES = {"github": preview_at_github, "gitlab": preview_at_gitlab}


@pytest.mark.promise(
    "A site's workflow previews a pull request against the base that it deployed before, without "
    "any secret."
)
@pytest.mark.parametrize("forge", FORGES)
def test_a_pull_request_is_previewed_against_the_deployed_base(
    forge: str, constraints_file: Path, address: str, tmp_path: Path
) -> None:
    site = make_site(tmp_path / "site", make_cache(tmp_path / "cache"))
    install(site.venv, address, ("gpu-rules", "gpu-cluster", "gpu-cluster-lab"))
    site.succeeds("init", "--forge", forge, "--constraints", str(constraints_file))
    use_free_ports(site)
    for words in (("init", "-q", "-b", "base"), ("add", "."), ("commit", "-qm", "Base")):
        run(site, *GIT, *words)
    file = site.folder / "Pulumi.dev.yaml"
    run(site, *GIT, "checkout", "-qb", "head")
    file.write_text(file.read_text().replace("gpu-[1-4]", "gpu-[1-3]"))
    run(site, *GIT, "commit", "-qam", "Fewer nodes")
    try:
        FORGES[forge](site, runner(tmp_path, address))
        change = json.loads((site.folder / "change.json").read_text())
        assert change["gpus"] == {"before": 32, "after": 24}
        assert change["outcome"] == "changed"
        assert [edit["path"] for edit in change["edits"]] == ["pools[a100].nodes"]
        assert not [each for each in change["resources"] if each["operation"] == "create"]
    finally:
        subprocess.run([*GIT, "checkout", "-q", "base"], cwd=site.folder, check=False)
        done = site.run("gpu-cluster", "down")
    assert done.returncode == 0, done.stdout + done.stderr


def runner(folder: Path, address: str) -> dict[str, str]:
    """Return the environment of a forge's runner, whose Python also installs the wheels."""
    programs = folder / "bin"
    (folder / "runner").mkdir()
    programs.mkdir()
    (folder / "helper.py").write_text(HELPER.format(address=address))
    root = Path(__file__).parents[3]
    paths = os.pathsep.join(
        str(root / name) for name in (".", "components", "policies", "embedded")
    )
    line = f"PYTHONPATH='{paths}' exec '{sys.executable}' '{folder}/helper.py' \"$@\""
    (programs / "python").write_text(f"#!/bin/sh\n{line}\n")
    (programs / "python").chmod(0o755)
    return {
        "PATH": f"{programs}{os.pathsep}{PATH}",
        "RUNNER_TEMP": str(folder / "runner"),
        "STACK": "dev",
    }
