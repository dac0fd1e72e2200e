"""The jobs that `gpu-cluster init` writes: their shell lines run, and call the commands."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.commands import init
from tests.policies.check.samples import BAD

SHELL = ("bash", "-e", "-o", "pipefail", "-c")
"""How both forges run the shell lines of a job."""
INSTALL = "pip install"
SHOW = """\
#!/bin/sh
echo "$0 $* STACK=$STACK" >>"$LOG"
[ -z "$KUBECONFIG" ] || { stat -c %a "$KUBECONFIG"; cat "$KUBECONFIG"; } >>"$LOG"
"""
"""Program in place of the command: writes its arguments, its stack and its kubeconfig."""
JOBS = {
    ("github", "check"): ".github/workflows/check.yml",
    ("github", "deploy"): ".github/workflows/deploy.yml",
    ("github", "status"): ".github/workflows/status.yml",
    ("gitlab", "check"): ".gitlab-ci.yml",
    ("gitlab", "deploy"): ".gitlab-ci.yml",
    ("gitlab", "status"): ".gitlab-ci.yml",
}
VERBS = {
    "check": ["gpu-rules check --mixed ."],
    "deploy": ["gpu-cluster up", "gpu-cluster preview-state"],
    "status": ["gpu-cluster status"],
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    return tmp_path


def scripts(site: Path, forge: str, job: str) -> Iterator[str]:
    """Write a site; yield the shell lines of a job, without the installation of the packages."""
    init.write_files(site, init.site_files(forge, init.values_of(("prod", "lab"), "@org/gpu")))
    file = JOBS.get((forge, job), ".gitlab-ci.yml")
    content: dict[str, Any] = yaml.safe_load((site / file).read_text())
    if forge == "gitlab":
        yield "\n".join(content[job]["script"])
        return
    for step in content["jobs"][job]["steps"]:
        if "run" in step and INSTALL not in step["run"]:
            yield step["run"]


def run(site: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SHELL, script],
        cwd=site,
        env={"PATH": "/usr/bin:/bin", "STACK": "prod", **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(("forge", "job"), JOBS)
def test_a_job_calls_its_verbs_with_the_kubeconfig_of_its_environment(
    forge: str, job: str, site: Path
) -> None:
    log, secret = site / "log", "kind: Config # of prod"
    for name in ("gpu-cluster", "gpu-rules"):
        (site / "venv" / "bin" / name).write_text(SHOW)
        (site / "venv" / "bin" / name).chmod(0o755)
    for script in scripts(site, forge, job):
        done = run(site, script, LOG=str(log), RUNNER_TEMP=str(site), KUBECONFIG_TEXT=secret)
        assert (done.returncode, done.stderr) == (0, ""), script
    # At GitLab a variable of the type file is the kubeconfig, and previews have no copy of a state.
    kept = ["600", secret] if forge == "github" and job != "check" else []
    verbs = VERBS[job] if forge == "github" else VERBS[job][:1]
    expected = [line for verb in verbs for line in (f"venv/bin/{verb} STACK=prod", *kept)]
    assert log.read_text().splitlines() == expected


@pytest.mark.parametrize("forge", init.FORGES)
@pytest.mark.promise("A site's job `check` passes as `init` wrote it, and stops a violation.")
def test_the_check_of_a_site_passes_at_first_and_stops_a_violation(forge: str, site: Path) -> None:
    program = site / "venv" / "bin" / "gpu-rules"
    program.write_text(f"#!/bin/sh\nPYTHONPATH='{':'.join(sys.path)}' exec '{sys.executable}' "
                       "-P -m gpu_rules \"$@\"\n")  # fmt: skip
    program.chmod(0o755)
    (script,) = scripts(site, forge, "check")
    passed = run(site, script)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    (site / "bad.yaml").write_text(BAD)
    stopped = run(site, script)
    assert stopped.returncode == 1
    assert "mandatory GPU001" in stopped.stdout


def test_one_real_stack_can_be_deployed_by_hand(site: Path) -> None:
    init.write_files(site, init.site_files("github", init.values_of(("prod", "lab"), "")))
    workflow = yaml.safe_load((site / JOBS["github", "deploy"]).read_text())
    # YAML 1.1 reads the key `on` as true.
    (chosen,) = workflow[True]["workflow_dispatch"]["inputs"].values()
    assert (chosen["type"], chosen["options"]) == ("choice", ["prod", "lab"])
    stacks = workflow["jobs"]["deploy"]["strategy"]["matrix"]["stack"]
    assert stacks.startswith("${{ fromJSON(inputs.stack && format('[\"{0}\"]', inputs.stack) || ")


GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=b")
PROGRAM = """\
#!/bin/sh
case $1 in
comment) printf '%b' "$LISTED" >forks.txt ;;
preview) { cat Pulumi.prod.yaml; echo "$CI_JOB_TOKEN"; } >"$GPU_CLUSTER_CHANGE" ;;
esac
echo "$1: $(cat Pulumi.prod.yaml)" >>"$LOG"
[ "$1" != start ] || ! grep -q broken Pulumi.prod.yaml
"""
"""Program in place of the command: a preview's document is the stack file that it saw."""


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [*GIT, *words], cwd=folder, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def test_at_gitlab_the_base_previews_settings_of_forks_and_nothing_else(tmp_path: Path) -> None:
    site, log, commits = tmp_path / "site", tmp_path / "log", {}
    (site / "venv/bin").mkdir(parents=True)
    (script,) = scripts(site, "gitlab", "fork settings")
    (site / "Pulumi.prod.yaml").write_text("base")
    (site / "venv/bin/gpu-cluster").write_text(PROGRAM)
    (site / "venv/bin/gpu-cluster").chmod(0o755)
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "Base")):
        git(site, *words)
    git(tmp_path, "clone", "-q", "site", "remote")
    changes = {4: ("Pulumi.prod.yaml", "broken"), 3: ("__main__.py", "lie"),
               2: ("Pulumi.prod.yaml", "two"), 1: ("Pulumi.new.yaml", "one")}  # fmt: skip
    for number, (name, text) in changes.items():
        git(tmp_path / "remote", "checkout", "-q", "-B", "fork", "origin/HEAD")
        (tmp_path / "remote" / name).write_text(text)
        git(tmp_path / "remote", "add", ".")
        git(tmp_path / "remote", "commit", "-qm", "Change")
        commits[number] = git(tmp_path / "remote", "rev-parse", "HEAD")
        reference = f"refs/merge-requests/{number}/head"
        git(tmp_path / "remote", "update-ref", reference, commits[number])
    git(site, "remote", "add", "origin", str(tmp_path / "remote"))
    listed = "".join(f"{number} {commit}\\n" for number, commit in commits.items())
    done = run(site, script, LOG=str(log), LISTED=listed, FORKS="forks.txt", CI_JOB_TOKEN="secret",
               GPU_CLUSTER="venv/bin/gpu-cluster", CI_DEFAULT_BRANCH="b")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    documents = {path.name: path.read_text() for path in site.glob("base-*.json")}
    assert documents == {
        f"base-2-{commits[2]}.json": "two\n",
        f"base-1-{commits[1]}.json": "base\n",
    }
    assert "merge request 4: the preview failed" in done.stdout
    assert log.read_text().split("down: base")[0].split() == (
        ["comment:", "base", "up:", "base", "start:", "broken"]
    )
    assert log.read_text().count("up: base") == log.read_text().count("down: base") == 3
    assert not (site / "Pulumi.new.yaml").exists()
