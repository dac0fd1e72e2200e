"""Tests of the project's GitHub workflows.

Actions are pinned, permissions are minimal, pull requests of forks get no secrets, and the shell
steps can run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.base import yaml_file
from gpu_cluster_lab import toolchain

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ENVIRONMENT = ".github/scripts/environment.sh"
STATUS = ".github/scripts/status.sh"
PROPOSE = ".github/scripts/propose.sh"
STACKS = ".github/scripts/stacks.sh"
MERGED = ".github/scripts/merged_settings.sh"
PINNED = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def workflow(path: Path) -> dict[str, Any]:
    return dict(yaml_file.read(path).value)


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in FILES:
        for name, job in workflow(path)["jobs"].items():
            yield f"{path.stem}.{name}", job


def jobs_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from workflow(path)["jobs"].items()


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, job in jobs():
        for number, step in enumerate(job.get("steps", []), start=1):
            yield f"{name}.{number}", step


JOBS = dict(jobs())
RUNS = {name: step for name, step in steps() if "run" in step}
PREVIEW = workflow(ROOT / ".github" / "workflows" / "preview.yml")


def by_name(value: str) -> str:
    return value


def test_the_workflows_are_there() -> None:
    names = [path.stem for path in FILES]
    assert names == [
        "analysis", "audit", "check", "comment", "deploy", "facts", "preview", "proofs",
        "release", "status",
    ]  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_commit(path: Path) -> None:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    lines = [line for line in lines if "uses: ./.github/workflows/" not in line]
    assert lines
    assert [line for line in lines if PINNED.search(line) is None] == []


def test_one_action_has_one_commit_everywhere() -> None:
    pins: dict[str, set[str]] = {}
    for _, step in steps():
        if "uses" in step:
            action, _, commit = step["uses"].partition("@")
            pins.setdefault(action, set()).add(commit)
    assert {action: len(commits) for action, commits in pins.items()} == dict.fromkeys(pins, 1)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_permissions_are_none_at_the_top_and_named_in_each_job(path: Path) -> None:
    content = workflow(path)
    assert content["permissions"] == {}
    for job in content["jobs"].values():
        writes = {scope for scope, access in job["permissions"].items() if access == "write"}
        if job.get("environment") == "release":
            assert path.stem == "release"
            assert writes == {"contents", "id-token", "attestations"}
            continue
        if path.stem in ("facts", "proofs"):
            assert writes == {"contents", "pull-requests"}
            continue
        assert job["permissions"]["contents"] == "read"
        assert writes <= ({"security-events"} if path.stem == "analysis" else {"pull-requests"})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_workflow_runs_a_forks_code_with_our_rights(path: Path) -> None:
    """A workflow that runs after the preview workflow checks out only the default branch.

    It has rights that code of a pull request must not get.
    """
    events = set(workflow(path)["on"])
    assert "pull_request_target" not in events
    assert ("workflow_run" in events) == (path.stem == "comment")
    if path.stem != "comment":
        return
    for _, job in jobs_of(path):
        checkouts = [s for s in job["steps"] if s.get("uses", "").startswith("actions/checkout@")]
        (chosen,) = [step["with"] for step in checkouts]
        assert chosen.items() <= {"persist-credentials": False, "fetch-depth": 0}.items()
        runs = [step["run"] for step in job["steps"] if "run" in step]
        if MERGED in runs:
            assert job["permissions"] == {"contents": "read"}
            assert "secrets." not in str(job)
            assert "github.token" not in str(job)
            assert "environment" not in job
            continue
        (run,) = runs
        assert run in ("make comment", STACKS)
        assert "secrets." not in str(job)
        if run == STACKS:
            assert job["permissions"] == {"contents": "read"}
            continue
        theirs, ours = (s for s in job["steps"] if "download-artifact" in s.get("uses", ""))
        assert theirs["with"]["path"] == "change", "no file of the checkout can be replaced"
        assert (ours["with"]["path"], "run-id" in ours["with"]) == ("base", False)


@pytest.mark.parametrize("name", JOBS, ids=by_name)
def test_every_job_ends_and_keeps_no_credentials_in_its_checkout(name: str) -> None:
    job = JOBS[name]
    # A job that calls another workflow has no time limit; the jobs of the called workflow have.
    if "uses" in job:
        assert job["uses"].startswith("./.github/workflows/")
        return
    assert job["timeout-minutes"] <= (360 if name == "proofs.proofs" else 120)
    for step in job["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_a_fork_gets_no_secret_no_write_access_and_no_runner_of_ours() -> None:
    embedded, ours = PREVIEW["jobs"]["embedded"], PREVIEW["jobs"]["preview"]
    assert "secrets." not in str(embedded)
    assert "vars." not in str(embedded)
    assert "environment" not in embedded
    assert embedded["permissions"] == {"contents": "read"}
    assert embedded["env"]["EMBEDDED"] == "1"
    assert "github.event.pull_request.head.repo.full_name == github.repository" in ours["if"]
    for name in ("check", "audit"):
        text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text(encoding="utf-8")
        assert "secrets." not in text


def listed(folder: Path, **files: str) -> tuple[list[dict[str, Any]], str]:
    """Return the stacks that the workflows' script finds in a folder with some stack files.

    Also return what the script says on standard error.
    """
    script = folder / STACKS
    script.parent.mkdir(parents=True)
    script.write_bytes((ROOT / STACKS).read_bytes())
    script.chmod(0o755)
    for name, context in files.items():
        (folder / f"Pulumi.{name}.yaml").write_text(context)
    output = folder / "output"
    environment = {"PATH": os.environ["PATH"], "GITHUB_OUTPUT": str(output)}
    done = subprocess.run(
        [script], env=environment, check=True, capture_output=True, text=True, timeout=60
    )
    (line,) = output.read_text().splitlines()
    found = json.loads(line.removeprefix("stacks="))
    return found, done.stderr


@pytest.mark.promise("Previews and comments of pull requests follow the repository's stack files.")
def test_every_stack_file_is_previewed_and_commented(tmp_path: Path) -> None:
    files = {path.name.split(".")[1]: path.read_text() for path in ROOT.glob("Pulumi.*.yaml")}
    found, _ = listed(tmp_path, **files)
    assert {each["stack"]: each["embedded"] for each in found} == {
        name: name == "dev" for name in files
    }
    for jobs in (PREVIEW["jobs"], workflow(ROOT / ".github/workflows/comment.yml")["jobs"]):
        for job in (job for job in jobs.values() if "needs" in job):
            assert "stacks" in job["needs"]
            assert job["strategy"]["matrix"] == {
                "include": "${{ fromJSON(needs.stacks.outputs.stacks) }}"
            }
        assert jobs["stacks"]["steps"][-1]["run"] == STACKS
    ours = PREVIEW["jobs"]["preview"]["strategy"]["matrix"]["stack"]
    assert set(re.findall(r'"(\w+)"', ours)) <= files.keys() - {"dev"}


@pytest.mark.parametrize(
    ("text", "embedded"),
    [
        ("    kubernetes:\n      context: gpu-cluster-lab\n", True),
        ('    kubernetes: {context: "gpu-cluster-lab"}\n', True),
        ("    kubernetes: {context: gpu-cluster-lab, x: y}\n", True),
        ("    context: 'gpu-cluster-lab' # ours\n", True),
        ("    context: gpu-cluster-lab2\n", False),
        ("    context: gpu-cluster-dev\n", False),
        ("    # context: gpu-cluster-lab\n", False),
        ("    context: my-cluster\n", False),
        ("", False),
    ],
)
def test_a_stack_is_brought_up_only_on_an_embedded_cluster_of_its_own(
    tmp_path: Path, text: str, embedded: bool
) -> None:
    assert listed(tmp_path, lab=text)[0] == [{"stack": "lab", "embedded": embedded}]


def test_a_file_name_of_a_pull_request_becomes_no_part_of_a_job(tmp_path: Path) -> None:
    hostile = ['a"},{"stack":"b', "a$(id)", "a b", "-x", "x" * 65, "a\nstacks=[]", "$GITHUB_ENV"]
    many = {f"s{number:02}": "" for number in range(25)}
    found, said = listed(tmp_path, **dict.fromkeys(hostile, ""), **many)
    assert [each["stack"] for each in found] == [f"s{number:02}" for number in range(20)]
    assert said.count("left out: ") == len(hostile) + 5
    assert said.replace("\n", "").isprintable()


def test_no_stack_file_gives_no_job(tmp_path: Path) -> None:
    assert listed(tmp_path) == ([], "")


@pytest.mark.promise(
    "A pull request, also from a fork, gets a comment without any credential: what it changes of "
    "the base, on an embedded cluster."
)
def test_a_preview_of_the_base_and_the_change_leaves_a_document_and_another_workflow_comments() -> (
    None
):
    embedded = PREVIEW["jobs"]["embedded"]["steps"]
    base, _, up, head, preview, upload = embedded
    assert base["with"]["ref"] == "${{ github.event.pull_request.base.ref }}"
    assert "ref" not in head["with"]
    assert (up["run"], preview["run"]) == ("make up", "make start preview")
    assert base["if"] == "matrix.embedded"
    assert up["if"].startswith("matrix.embedded && hashFiles(")
    assert upload["if"] == "always() && matrix.embedded"
    assert preview["env"] == {"GPU_CLUSTER_CHANGE": upload["with"]["path"]}
    (comment,) = [step for step in JOBS["comment.comment"]["steps"] if "run" in step]
    steps = JOBS["comment.comment"]["steps"]
    download, of_base = [step for step in steps if "download" in step.get("uses", "")]
    paths = [f"{each['with']['path']}/{upload['with']['path']}" for each in (of_base, download)]
    by_base = f"hashFiles('{paths[0]}') != ''"
    assert comment["env"]["CHANGE"] == f"${{{{ {by_base} && '{paths[0]}' || '{paths[1]}' }}}}"
    assert comment["env"]["BY_BASE"] == f"${{{{ {by_base} }}}}"
    assert download["with"]["name"] == upload["with"]["name"] == "change-${{ matrix.stack }}"
    for job in PREVIEW["jobs"].values():
        assert job["permissions"] == {"contents": "read"}


GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=b")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [*GIT, *words], cwd=folder, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def write_stack(folder: Path) -> None:
    (folder / "Pulumi.dev.yaml").write_text("nodes: 3\n")


def write_symlink(folder: Path) -> None:
    write_stack(folder)
    (folder / "Pulumi.prod.yaml").symlink_to("/etc/passwd")


def write_program(folder: Path) -> None:
    write_stack(folder)
    (folder / "Makefile").write_text("up:\n\tid\n")


def write_hardware(folder: Path) -> None:
    write_stack(folder)
    (folder / "lab/hardware").mkdir(parents=True)
    (folder / "lab/hardware/dev.yaml").write_text("machines: []\n")
    (folder / "Pulumi.old.yaml").unlink()


def write_conflict(folder: Path) -> None:
    (folder / "Pulumi.dev.yaml").write_text("nodes: 1\nother: 1\n")
    git(folder, "commit", "-qam", "Other")
    git(folder, "checkout", "-q", "HEAD^")
    (folder / "Pulumi.dev.yaml").write_text("nodes: 9\n")


@pytest.mark.promise(
    "A fork's change of settings is previewed by the base's program; the comment of another change "
    "says that the fork's own code wrote it."
)
@pytest.mark.parametrize(
    ("write", "taken"),
    [
        (write_stack, {"Pulumi.dev.yaml": "nodes: 3\n"}),
        (
            write_hardware,
            {"Pulumi.dev.yaml": "nodes: 3\n", "lab/hardware/dev.yaml": "machines: []\n"},
        ),
        (write_program, None),
        (write_symlink, None),
        (write_conflict, None),
        (lambda folder: (folder / "Pulumi.a b.yaml").write_text("x"), None),
        (lambda folder: (folder / "Pulumi.dev.yaml").chmod(0o755), None),
    ],
)
def test_the_base_previews_a_change_of_settings_and_takes_nothing_else(
    write: Callable[[Path], object], taken: dict[str, str] | None, tmp_path: Path
) -> None:
    base, fork, output = tmp_path / "base", tmp_path / "fork", tmp_path / "output"
    script = base / MERGED
    script.parent.mkdir(parents=True)
    shutil.copy(ROOT / MERGED, script)
    (base / "Pulumi.dev.yaml").write_text("nodes: 2\n")
    (base / "Pulumi.old.yaml").write_text("nodes: 2\n")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "Base")):
        git(base, *words)
    git(tmp_path, "clone", "-q", "base", "fork")
    git(base, "remote", "add", "origin", str(fork))
    (base / "README.md").write_text("The base goes on.\n")
    git(base, "add", ".")
    git(base, "commit", "-qm", "More")
    write(fork)
    git(fork, "add", ".")
    git(fork, "commit", "-qm", "Change")
    commit = git(fork, "rev-parse", "HEAD")
    if write is write_conflict:
        (base / "Pulumi.dev.yaml").write_text("nodes: 4\n")
        git(base, "commit", "-qam", "Conflict")
    before = git(base, "status", "--porcelain", "--ignored")
    environment = {"PATH": os.environ["PATH"], "GITHUB_OUTPUT": str(output), "COMMIT": commit}
    for more in ({}, {"TAKE": "1"}):
        subprocess.run([script], env=environment | more, check=True, timeout=60)
        is_settings = "true" if taken else "false"
        assert output.read_text().splitlines()[-1] == f"only={is_settings}"
        if not more or taken is None:
            assert git(base, "status", "--porcelain", "--ignored") == before
    for name, text in (taken or {}).items():
        assert (base / name).read_text() == text
        assert not (base / name).stat().st_mode & stat.S_IXUSR
    if write is write_hardware:
        assert not (base / "Pulumi.old.yaml").exists()


GITLAB = dict(yaml_file.read(ROOT / ".gitlab-ci.yml").value)


def test_at_gitlab_only_the_default_branch_runs_beside_the_token() -> None:
    previews, comments = GITLAB["preview dev"], GITLAB["comments"]
    assert previews["rules"] == [{"if": '$CI_PIPELINE_SOURCE == "merge_request_event"'}]
    (rule,) = comments["rules"]
    assert "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH" in rule["if"]
    assert '$CI_PIPELINE_SOURCE == "schedule"' in rule["if"]
    assert comments["script"] == ["make comment"]
    assert (comments["variables"]["JOB"], comments["variables"]["PULL"]) == ("preview dev", "all")
    assert "TOKEN" not in str(previews)
    settings = GITLAB["fork settings"]
    assert settings["rules"] == comments["rules"]
    assert "environment" not in settings, "the token has the environment scope of `comments`"
    assert comments["environment"] == {"name": "comments", "action": "access"}
    assert comments["needs"] == [{"job": "fork settings", "artifacts": False}]
    assert (settings["allow_failure"], comments["variables"]["BASE_JOB"]) == (True, "fork settings")
    assert previews["artifacts"]["when"] == "always"
    assert previews["variables"]["GPU_CLUSTER_CHANGE"].endswith(previews["artifacts"]["paths"][0])


@pytest.mark.parametrize("name", ["preview.preview", "preview.embedded", "deploy.deploy"])
def test_an_engine_at_work_is_not_cancelled_and_waits_for_its_stack(name: str) -> None:
    concurrency = JOBS[name]["concurrency"]
    assert concurrency["cancel-in-progress"] is False
    assert "${{ matrix.stack }}" in concurrency["group"]


def test_a_deployment_needs_its_stacks_environment_and_the_main_branch() -> None:
    deploy = JOBS["deploy.deploy"]
    assert deploy["environment"] == "${{ matrix.stack }}"
    assert "github.ref == 'refs/heads/main'" in deploy["if"]
    assert deploy["strategy"]["max-parallel"] == 1


@pytest.mark.parametrize("name", RUNS, ids=by_name)
def test_a_shell_part_is_short_and_has_no_expression_pasted_in(name: str) -> None:
    text = RUNS[name]["run"]
    assert "${{" not in text
    assert len(text.splitlines()) <= 3


@pytest.mark.parametrize("name", RUNS, ids=by_name)
def test_a_shell_part_is_a_make_target_with_a_recipe_or_a_script_of_ours(name: str) -> None:
    """A shell step must be a command that CI or other tests also run, so that it is tested."""
    if name.startswith("release.publish."):
        # The job `publish` of the release workflow has no checkout, so it runs no file of the
        # repository.
        return
    program, *arguments = RUNS[name]["run"].split()
    if program == "make":
        done = subprocess.run(
            ["make", "--dry-run", "--always-make", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()
    else:
        assert program in (ENVIRONMENT, MERGED, PROPOSE, STACKS, STATUS)
        assert os.access(ROOT / program, os.X_OK)


@pytest.mark.promise("What signs and publishes a release runs nothing of the repository.")
def test_a_release_is_built_without_the_rights_to_sign_and_publish() -> None:
    build, publish = JOBS["release.build"], JOBS["release.publish"]
    assert build["permissions"] == {"contents": "read"}
    assert "environment" not in build
    assert "secrets." not in str(build)
    assert publish["environment"] == "release"
    assert publish["needs"] == "build"
    used = [step.get("uses", "").partition("@")[0] for step in publish["steps"]]
    assert used == ["actions/download-artifact", "", "actions/attest-build-provenance", ""]
    for step in publish["steps"]:
        assert "make" not in step.get("run", "").split()


CHANGES: dict[str, Callable[[Path], object]] = {
    "": lambda _: None,
    "an archive": lambda folder: (folder / "a.tar.gz").write_text("other"),
    "a file more": lambda folder: (folder / "more").write_text("x"),
    "a file less": lambda folder: (folder / "a.tar.gz").unlink(),
    "archive and list": lambda folder: (folder / "SHA256SUMS").write_text(
        f"{hashlib.sha256(b'other').hexdigest()}  a.tar.gz\n"
    ),
}


@pytest.mark.parametrize("changed", CHANGES)
def test_what_was_changed_between_build_and_signature_is_not_signed(
    tmp_path: Path, changed: str
) -> None:
    """The publishing job must detect a file that was changed after the build job."""
    dist = tmp_path / "dist"
    dist.mkdir()
    (dist / "a.tar.gz").write_text("archive")
    digest = hashlib.sha256(b"archive").hexdigest()
    (dist / "SHA256SUMS").write_text(f"{digest}  a.tar.gz\n")
    output = tmp_path / "output"
    shutil.copy(ROOT / "Makefile", tmp_path)
    makefile = ["make", "--silent", "release-sums"]
    environment = {**os.environ, "GITHUB_OUTPUT": str(output)}
    subprocess.run(makefile, cwd=tmp_path, env=environment, check=True, timeout=60)
    CHANGES[changed](dist)
    if changed == "archive and list":
        (dist / "a.tar.gz").write_text("other")
    (step,) = [step for step in JOBS["release.publish"]["steps"] if "sums" in step.get("name", "")]
    done = subprocess.run(
        # GitHub's runner starts a shell step with `bash -e` too.
        ["bash", "-e", "-c", step["run"]],
        cwd=dist,
        env={**os.environ, "SUMS": output.read_text().strip().removeprefix("sums=")},
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode == 0) == (changed == "")


def test_the_documents_name_who_may_push_tags_and_what_protects_a_release() -> None:
    text = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")
    assert "**Tags `v*`**" in text
    assert "**Environment `release`**" in text


def run_environment(tmp_path: Path, **given: str) -> tuple[int, str, dict[str, str]]:
    """Run a shell script as a step of a GitHub workflow does.

    Returns:
        The exit status, all output, and the variables that the script wrote to GITHUB_ENV.
    """
    handed_on = tmp_path / "github_env"
    handed_on.touch()
    kept = {"PATH", "HOME", "LANG", "GPU_CLUSTER_CACHE"}
    done = subprocess.run(
        [f"./{ENVIRONMENT}"],
        cwd=ROOT,
        env={
            **{name: value for name, value in os.environ.items() if name in kept},
            "GITHUB_ENV": str(handed_on),
            "RUNNER_TEMP": str(tmp_path),
            **given,
        },
        capture_output=True,
        text=True,
        timeout=1800,
    )
    lines = handed_on.read_text().splitlines()
    return done.returncode, done.stdout + done.stderr, dict(line.split("=", 1) for line in lines)


@pytest.fixture
def made_venv() -> None:
    if not (ROOT / "venv" / "bin" / "gpu-cluster").exists():
        pytest.skip("venv/ was not made by `make`; the script would make it anew")


@pytest.mark.usefixtures("made_venv")
def test_the_environment_of_the_embedded_stack_has_the_toolchain(tmp_path: Path) -> None:
    empty = dict.fromkeys(("BACKEND_URL", "PASSPHRASE", "KUBECONFIG_TEXT"), "")
    status, output, handed_on = run_environment(tmp_path, STACK="dev", **empty)
    assert status == 0, output
    version = subprocess.run(
        ["pulumi", "version"], env=handed_on, capture_output=True, text=True, timeout=60
    )
    assert version.stdout.strip() == f"v{toolchain.ensure('pulumi')['pulumi'].version}"
    assert handed_on["PULUMI_BACKEND_URL"].startswith("file://")
    assert Path(handed_on["PULUMI_CONFIG_PASSPHRASE_FILE"]).is_file()
    assert handed_on["KUBECONFIG"].endswith("/embedded/dev/kubeconfig")


@pytest.mark.usefixtures("made_venv")
def test_secrets_go_to_files_that_nobody_else_reads(tmp_path: Path) -> None:
    secrets = {"PASSPHRASE": "canary-passphrase", "KUBECONFIG_TEXT": "canary: kubeconfig\n"}
    status, output, handed_on = run_environment(
        tmp_path, STACK="staging", BACKEND_URL="https://api.example.com", **secrets
    )
    assert status == 0, output
    assert "canary" not in output + (tmp_path / "github_env").read_text()
    assert handed_on["PULUMI_BACKEND_URL"] == "https://api.example.com"
    for name in ("PULUMI_CONFIG_PASSPHRASE_FILE", "KUBECONFIG"):
        path = Path(handed_on[name])
        assert "canary" in path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_real_stack_without_a_backend_is_refused(tmp_path: Path) -> None:
    status, output, handed_on = run_environment(tmp_path, STACK="staging", BACKEND_URL="")
    assert (status, handed_on) == (1, {})
    assert "found no PULUMI_BACKEND_URL" in output


def test_a_missing_stack_name_is_refused(tmp_path: Path) -> None:
    status, output, _ = run_environment(tmp_path)
    assert status != 0
    assert "wanted the name of a stack" in output


def test_the_nightly_status_runs_mains_code_and_only_reads() -> None:
    (job,) = [job for name, job in JOBS.items() if name == "status.status"]
    path = next(path for path in FILES if path.stem == "status")
    assert set(workflow(path)["on"]) == {"schedule", "workflow_dispatch"}
    assert "github.ref_name == github.event.repository.default_branch" in job["if"]
    assert job["permissions"] == {"contents": "read"}
    assert job["environment"] == "status-${{ matrix.stack }}"
    assert set(re.findall(r"secrets\.(\w+)", str(job))) == {"KUBECONFIG", "PROBE_KEY"}


@pytest.mark.parametrize("key", ["", "canary-key"])
def test_the_nightly_status_hands_on_its_secrets_in_files_and_the_exit_code(
    tmp_path: Path, key: str
) -> None:
    """The workflow passes secrets to `make` in files and keeps the exit code of `make`.

    A fake `make` prints its environment and arguments, and exits with 2, as it does on drift.
    """
    project = tmp_path / "project"
    (project / ".github" / "scripts").mkdir(parents=True)
    script = project / STATUS
    script.write_bytes((ROOT / STATUS).read_bytes())
    script.chmod(0o755)
    fake = tmp_path / "make"
    fake.write_text('#!/bin/sh\nenv | sort\necho "$*"\nexit 2\n')
    fake.chmod(0o755)
    done = subprocess.run(
        [script],
        env={
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "STACK": "prod",
            "RUNNER_TEMP": str(tmp_path),
            "KUBECONFIG_TEXT": "canary-config",
            "PROBE_KEY_TEXT": key,
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    given = (project / "status.json").read_text()
    assert done.returncode == 2, done.stderr
    assert "canary" not in given + done.stdout + done.stderr
    assert "JSON=1" in given
    assert given.endswith("--silent status\n")
    assert (tmp_path / "kubeconfig").read_text() == "canary-config\n"
    assert stat.S_IMODE((tmp_path / "kubeconfig").stat().st_mode) == 0o600
    assert ("GPU_CLUSTER_INSPECTION=cluster" in given) == (not key)
    assert ("GPU_CLUSTER_PROBE_KEY_FILE=" in given) == bool(key)
