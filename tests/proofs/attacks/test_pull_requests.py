"""Attack: a pull request from a fork or a branch.

Only the text of the GitHub workflows is checked.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.base import yaml_file

pytestmark = pytest.mark.static
ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def workflow(name: str) -> dict[str, Any]:
    return dict(yaml_file.read(ROOT / ".github" / "workflows" / f"{name}.yml").value)


DEPLOY, PREVIEW, CHECK = (workflow(name) for name in ("deploy", "preview", "check"))


def test_a_deployment_waits_for_the_checks() -> None:
    deploy = DEPLOY["jobs"]["deploy"]
    assert deploy["needs"] == "check"
    assert DEPLOY["jobs"]["check"]["uses"] == "./.github/workflows/check.yml"
    assert "workflow_call" in CHECK["on"]
    assert "always()" not in str(deploy) + str(DEPLOY["jobs"]["check"])
    assert "continue-on-error" not in str(DEPLOY) + str(CHECK)


def test_nothing_that_a_branch_wrote_runs_beside_deploy_credentials() -> None:
    assert set(DEPLOY["on"]) == {"push", "workflow_dispatch"}
    assert DEPLOY["on"]["push"] == {"branches": ["main"]}
    for job in DEPLOY["jobs"].values():
        assert "github.ref == 'refs/heads/main'" in job["if"]
    environments = {
        file.stem: [job.get("environment") for job in workflow(file.stem)["jobs"].values()]
        for file in FILES
    }
    deploying = [name for name, result in environments.items() if "${{ matrix.stack }}" in result]
    assert deploying == ["deploy"]


def test_previews_and_deployments_share_no_runner_and_no_cache() -> None:
    jobs = (PREVIEW["jobs"]["preview"], DEPLOY["jobs"]["deploy"])
    runners = [set(re.findall(r"vars\.(\w+)", job["runs-on"])) for job in jobs]
    assert runners == [{"PREVIEW_RUNNER"}, {"DEPLOY_RUNNER"}]
    caches = [job["env"]["GPU_CLUSTER_CACHE"] for job in jobs]
    assert len(set(caches)) == 2
    assert all("github.workspace" in cache for cache in caches)
    for file in FILES:
        assert "actions/cache" not in file.read_text()


def test_a_preview_against_a_real_stack_is_off_until_somebody_turns_it_on() -> None:
    job = PREVIEW["jobs"]["preview"]
    assert "vars.PREVIEW == 'true'" in job["if"]
    assert job["environment"] == "preview-${{ matrix.stack }}"
    # Previews log in to hosts only with the probe key, which can only run the inspection.
    assert "SSH_PRIVATE_KEY" not in str(job)
    assert "secrets.PROBE_KEY" in str(job)


def names(job: dict[str, Any], kind: str) -> set[str]:
    return set(re.findall(rf"{kind}\.(\w+)", str(job)))


def test_a_preview_holds_nothing_that_opens_what_deployments_encrypt() -> None:
    preview, deploy = PREVIEW["jobs"]["preview"], DEPLOY["jobs"]["deploy"]
    assert names(preview, "secrets") == {"PREVIEW_PASSPHRASE", "PROBE_KEY", "KUBECONFIG"}
    # Both jobs have a secret KUBECONFIG, but from different GitHub environments, so its values
    # differ.
    assert names(preview, "secrets") & names(deploy, "secrets") == {
        "PREVIEW_PASSPHRASE",
        "KUBECONFIG",
    }
    assert preview["environment"] != deploy["environment"]
    assert "PULUMI_BACKEND_URL" in names(deploy, "vars") - names(preview, "vars")
    steps = [step.get("run") or step.get("uses") for step in preview["steps"]]
    assert steps.index("make preview-secrets") < steps.index("make preview")


def test_only_deployments_write_the_state_of_previews() -> None:
    writers = [file.stem for file in FILES if "make preview-state" in file.read_text()]
    assert writers == ["deploy"]
    runs = [step.get("run") for step in DEPLOY["jobs"]["deploy"]["steps"]]
    assert runs.index("make preview-state") > runs.index("make up")


def test_every_pull_request_is_previewed_without_a_secret() -> None:
    job = PREVIEW["jobs"]["embedded"]
    assert "if" not in job
    assert "secrets." not in str(job)
    assert "vars." not in str(job)
    assert job["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_condition_rests_on_who_pushed_last(file: Path) -> None:
    """Workflows must not decide by `github.actor`.

    This is the user of the last event, who may not have opened the pull request.
    """
    text = file.read_text()
    assert "github.actor" not in text
    assert "github.triggering_actor" not in text


def test_a_release_is_made_of_a_checked_tag_and_its_provenance_is_signed() -> None:
    made = workflow("release")
    assert made["on"] == {"push": {"tags": ["v*"]}}
    build, job = made["jobs"]["build"], made["jobs"]["publish"]
    assert (build["needs"], job["needs"]) == ("check", "build")
    assert made["jobs"]["check"]["uses"] == "./.github/workflows/check.yml"
    assert job["environment"] == "release"
    assert "make release" in [step.get("run") for step in build["steps"]]
    names = [step.get("name") for step in job["steps"]]
    assert names == [None, "Compare the sums", "Provenance", "Publish"]
    (attested,) = (step for step in job["steps"] if "attest" in step.get("uses", ""))
    assert attested["with"] == {"subject-path": "dist/*"}


@pytest.mark.parametrize("job", ["codeql", "scorecard"])
def test_code_and_repository_are_analysed_and_nothing_of_them_is_run(job: str) -> None:
    made = workflow("analysis")["jobs"][job]
    assert made["permissions"] == {"contents": "read", "security-events": "write"}
    assert [step for step in made["steps"] if "run" in step] == []
    assert "secrets." not in str(made)
    used = [step["uses"].partition("@")[0] for step in made["steps"]]
    analysers = {"codeql": "github/codeql-action/analyze", "scorecard": "ossf/scorecard-action"}
    assert analysers[job] in used


def test_an_audit_that_could_not_look_fails_in_ci() -> None:
    (job,) = workflow("audit")["jobs"].values()
    (step,) = (step for step in job["steps"] if step.get("run") == "make audit")
    assert step["env"] == {"AUDIT": "strict"}
    assert "schedule" in workflow("audit")["on"]


OWNERS = ROOT / ".github" / "CODEOWNERS"
GUARDED = (".github/", "policies/", "components/gpu_cluster/guardrails/", "Pulumi.*.yaml",
           "requirements*.txt", "requirements.lock", "embedded/gpu_cluster_lab/toolchain/",
           "Makefile", "__main__.py", "SECURITY.md")  # fmt: skip
PLACEHOLDER = "@OWNER/REPLACE-ME"


def rules() -> dict[str, list[str]]:
    lines = [line.split("#")[0].split() for line in OWNERS.read_text().splitlines()]
    return {words[0]: words[1:] for words in lines if words}


def test_what_decides_about_trust_has_owners() -> None:
    assert {f"/{path}" for path in GUARDED} <= set(rules())
    assert all(owners for owners in rules().values())


@pytest.mark.parametrize("pattern", sorted(rules()))
def test_each_owned_path_is_there(pattern: str) -> None:
    assert list(ROOT.glob(pattern.strip("/")))


def test_owners_are_a_placeholder_that_the_page_says_to_replace() -> None:
    for owners in rules().values():
        assert owners == [PLACEHOLDER]
    assert PLACEHOLDER in (ROOT / "docs" / "how-to" / "ci.md").read_text()
