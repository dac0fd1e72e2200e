"""GitHub and GitLab get exactly one comment per stack, also after errors and lost responses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from gpu_cluster.base.nesting import LOADER
from gpu_cluster.change.document import ClusterChange, Document, Outcome, Problem
from gpu_cluster.commands import comment, init
from gpu_cluster.commands.forges import github, gitlab
from gpu_cluster.commands.forges.comment_markdown import LABELS, Origin, mark
from gpu_cluster.commands.forges.forge import ATTEMPTS, LARGEST, Forge, ForgeError, Note, publish
from tests.commands.forges.descriptions import Description
from tests.commands.forges.forges import OPERATIONS, TEXT, TEXTS, Fake, Operation, served
from tests.components.change.edits import document_of

AUTHORS = {"github": "github-actions[bot]", "gitlab": "bot"}
FORGES = sorted(AUTHORS)
SECRET = "s3cr3t-of-the-forge"
NOWHERE = Origin()
FEWER = "a node fewer, with a pod on it"


@pytest.fixture(params=FORGES)
def fake(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with served(Fake(request.param)) as made:
        yield made
        assert made.refused == [], "each request fits the forge's description"


def client_of(fake: Fake) -> httpx.Client:
    return (github if fake.kind == "github" else gitlab).client(fake.address, SECRET)


def forge_of(fake: Fake, client: httpx.Client) -> Forge:
    if fake.kind == "github":
        return github.GitHub(client, "acme/gpus", 12)
    return gitlab.GitLab(client, "acme/gpus", 12)


def keep(fake: Fake, document: Document, origin: Origin = NOWHERE) -> str:
    with client_of(fake) as client:
        return comment.kept(forge_of(fake, client), document, origin)


def keep_quickly(fake: Fake, body: str | None = "") -> tuple[str, list[float]]:
    """Publish a comment without waiting; return what was done, and the pauses in seconds."""
    pauses: list[float] = []
    text = f"{mark('dev', ['gpus'])}\nhello" if body == "" else body
    with client_of(fake) as client:
        forge = forge_of(fake, client)
        return publish(forge, "dev", text, lambda old: f"{old} outdated", pauses.append), pauses


def nothing() -> Document:
    return Document(stack="dev", outcome=Outcome.UNCHANGED, clusters=(ClusterChange(name="c"),))


@pytest.mark.promise(
    "A pull request has one comment per stack, which each push updates, and which says that it is "
    "outdated once nothing changes any more."
)
def test_one_comment_per_stack_is_created_updated_and_marked_outdated(fake: Fake) -> None:
    half = document_of(FEWER)
    assert keep(fake, half) == "created"
    assert sorted(fake.labels) == ["disruptive", "gpus"]
    assert keep(fake, half) == "unchanged"
    assert keep(fake, document_of("a label removed by hand")) == "updated"
    assert fake.labels == ["drift"]
    assert keep(fake, document_of(FEWER).model_copy(update={"stack": "prod"})) == "created"
    assert sorted(fake.labels) == ["disruptive", "drift", "gpus"]
    assert keep(fake, nothing(), Origin(commit="a" * 40)) == "outdated"
    assert sorted(fake.labels) == ["disruptive", "gpus"], "those of the other stack stay"
    assert keep(fake, nothing(), Origin(commit="a" * 40)) == "unchanged"
    assert len(fake.comments) == 2
    outdated = fake.comments[0]["body"]
    assert "no changes any more" in outdated
    assert "<summary>Outdated" in outdated
    assert keep(fake, half) == "updated"
    assert "Outdated" not in fake.comments[0]["body"]


def test_nothing_is_said_where_nothing_changes(fake: Fake) -> None:
    assert keep(fake, nothing()) == "unchanged"
    assert fake.comments == []
    assert not [each for each in fake.seen if not each.startswith("GET")]


def test_a_failed_preview_has_a_comment_with_its_cause(fake: Fake) -> None:
    failed = Document(
        stack="dev",
        outcome=Outcome.FAILED,
        cause="node gpu-9: found no such node",
        faults=(Problem(text="node gpu-9: found no such node", file="Pulumi.dev.yaml", line=9),),
    )
    assert keep(fake, failed) == "created"
    assert "the preview failed" in fake.comments[0]["body"]
    assert "Pulumi.dev.yaml:9: node gpu-9: found no such node" in fake.comments[0]["body"]


def test_comments_of_others_are_neither_changed_nor_believed(fake: Fake) -> None:
    forged = f"{mark('dev', LABELS)}\nnothing to see"
    fake.comments.append(fake.comment(forged, "mallory"))
    fake.comments.append(fake.comment("a talk", AUTHORS[fake.kind]))
    assert keep(fake, document_of("a new label")) == "created"
    assert fake.comments[0]["body"] == forged
    assert fake.comments[1]["body"] == "a talk"
    assert fake.labels == []


def test_labels_of_others_stay(fake: Fake) -> None:
    fake.labels += ["bug", "gpus"]
    keep(fake, document_of("a label removed by hand"))
    assert sorted(fake.labels) == ["bug", "drift"]


def test_a_comment_behind_three_hundred_others_is_found(fake: Fake) -> None:
    keep(fake, document_of(FEWER))
    own = fake.comments.pop()
    for number in range(300):
        fake.comments.append(fake.comment(f"talk {number}", "somebody"))
    own["id"] = 301
    fake.comments.append(own)
    assert keep(fake, document_of("a new label")) == "updated"


def limited(**headers: str) -> tuple[int, dict[str, str], str]:
    return 403, headers, '{"message": "API rate limit exceeded"}'


SECONDARY = '{"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}'
TEMPORARY: dict[str, tuple[list[Any], float]] = {
    "429 to the list": ([429], 1.0),
    "429 with a time": ([(429, {"Retry-After": "7"}, "{}")], 7.0),
    "403 as a rate limit": ([limited(**{"x-ratelimit-remaining": "0"})], 1.0),
    "403 as a secondary limit": ([limited(**{"Retry-After": "1"})], 1.0),
    "403 as a secondary limit by its message": ([(403, {}, SECONDARY)], 60.0),
    "no answer to the list": (["hang up"], 1.0),
    "500 to the creation": (["pass", 500], 1.0),
    "no answer to the creation": (["pass", "hang up"], 1.0),
    "502 to the update": (["pass", 502], 1.0),
    "a comment that is deleted before its update": (["pass", "deleted"], 1.0),
    "503 to the reading of labels": (["pass", "pass", 503], 1.0),
    "504 to the change of labels": (["pass", "pass", "pass", 504], 1.0),
    "four 503 in a row": ([503, 503, 503, 503], 1.0),
}
LATER = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "99999999999"}
REFUSED: dict[str, tuple[list[Any], str]] = {
    "301": ([(301, {"Location": "http://127.0.0.1:9/x"}, "{}")], "found HTTP 301"),
    "401": ([401], "check the token"),
    "403": ([403], "found HTTP 403"),
    "404": ([404], "that the token may read it"),
    "410": ([410], "found HTTP 410"),
    "422 to the creation": (["pass", 422], "found HTTP 422"),
    "a rate limit for an hour": ([limited(**LATER)], "run again later"),
    "five 503 in a row": ([503] * ATTEMPTS, "run again later"),
    "a pause of an hour": ([(429, {"Retry-After": "3600"}, "{}")], "run again later"),
    "no JSON": ([(200, {}, "<html>a proxy's page</html>")], "found no JSON"),
    "another JSON": ([(200, {}, '{"a": 1}')], "cure: check"),
}
"""Answers for the first requests, and what the command says. GitLab's first request is GET /user,
which has one more answer before the list.
"""


def scripted(fake: Fake, steps: list[Any]) -> None:
    """Set the fake's responses to the next requests.

    GitLab's first request, GET /user before the list of notes, gets a normal response.
    """
    fake.script = [*(["pass"] if fake.kind == "gitlab" else []), *steps]


def test_twenty_four_answers_of_a_forge_are_handled() -> None:
    assert len(TEMPORARY) + len(REFUSED) == 24


@pytest.mark.parametrize("name", TEMPORARY)
def test_a_temporary_answer_ends_in_one_comment(fake: Fake, name: str) -> None:
    steps, pause = TEMPORARY[name]
    if "update" in name:
        fake.comments.append(fake.comment(f"{mark('dev', [])}\nearlier", AUTHORS[fake.kind]))
    scripted(fake, steps)
    if name == "four 503 in a row":
        fake.script = [503, 503, 503, 503]
    _, pauses = keep_quickly(fake)
    assert [each["body"] for each in fake.comments] == [f"{mark('dev', ['gpus'])}\nhello"]
    assert fake.labels == ["gpus"]
    assert len(pauses) == (4 if name.startswith("four") else 1)
    assert pauses[0] == pause


def test_a_forge_says_until_when_no_request_is_left(fake: Fake) -> None:
    soon = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + 30)}
    scripted(fake, [limited(**soon)])
    done, (pause,) = keep_quickly(fake)
    assert done == "created"
    assert 1 < pause <= 30


@pytest.mark.parametrize("text", ["[" * 100_000, "[1]", "null"])
def test_json_of_another_form_is_refused(fake: Fake, text: str) -> None:
    scripted(fake, [(200, {}, text)])
    with pytest.raises(ForgeError, match="found no"):
        keep_quickly(fake)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_what_to_do_and_leaves_no_comment(fake: Fake, name: str) -> None:
    steps, text = REFUSED[name]
    scripted(fake, steps)
    if name.startswith("five"):
        fake.script = [503] * ATTEMPTS
    with pytest.raises(ForgeError) as raised:
        keep_quickly(fake)
    assert text in str(raised.value)
    assert SECRET not in str(raised.value)
    assert fake.comments == []
    assert str(raised.value).isprintable()


def test_a_creation_that_succeeded_without_an_answer_is_not_repeated(fake: Fake) -> None:
    """The forge had stored the comment, but the connection ended before the response."""
    body = f"{mark('dev', ['gpus'])}\nhello"
    fake.comments.append(fake.comment(body, AUTHORS[fake.kind]))
    assert keep_quickly(fake, body)[0] == "unchanged"
    assert len(fake.comments) == 1


def test_a_token_is_sent_to_no_other_address(fake: Fake) -> None:
    fake.script = [(302, {"Location": f"{fake.address}/elsewhere"}, "{}")]
    with pytest.raises(ForgeError):
        keep_quickly(fake)
    assert not [each for each in fake.seen if "elsewhere" in each]


@pytest.mark.parametrize(
    "repository", ["", "acme", "acme/gpus/more", "../x", "acme/gpus?x", "a b/c", "acme/gpus\n"]
)
def test_a_repository_of_another_form_is_refused(repository: str) -> None:
    client = github.client("http://127.0.0.1:9", "token")
    with pytest.raises(ForgeError, match="owner/name"):
        github.GitHub(client, repository, 1)


def test_a_pull_request_is_found_by_its_head_and_not_once_it_has_moved_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with served(Fake("github")) as fake, client_of(fake) as client:
        head = {"label": "fork:edit", "sha": "a" * 40}
        fake.pulls = [
            {"number": 3, "head": {**head, "sha": "b" * 40}},
            {"number": 4, "head": head},
        ]
        assert github.pull_of(client, "acme/gpus", "fork:edit", "a" * 40) == 4
        assert github.pull_of(client, "acme/gpus", "fork:edit", "c" * 40) is None
        assert github.pull_of(client, "acme/gpus", "fork:other", "a" * 40) is None
        assert fake.refused == []


def environment(fake: Fake, path: Path, **more: str) -> dict[str, str]:
    return {
        "FORGE": fake.kind, "CHANGE": str(path), "GITHUB_API_URL": fake.address,
        "GITHUB_REPOSITORY": "acme/gpus", "GITHUB_TOKEN": "t", "CI_API_V4_URL": fake.address,
        "CI_PROJECT_ID": "5", "CI_PIPELINE_ID": "77", "GITLAB_TOKEN": "t", **more,
    }  # fmt: skip


def run(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    monkeypatch.delenv("STACK", raising=False)
    names = (
        "CHANGE", "FORGE", "PULL", "HEAD", "COMMIT", "BASE", "RUN", "JOB", "BASE_JOB", "FORKS",
        "CONCLUSION",
    )  # fmt: skip
    options: dict[str, Any] = {
        name.lower(): variables.get(name) == "true" for name in ("EXPECTED", "BY_BASE")
    }
    for name, value in variables.items():
        if name in names:
            options[name.lower()] = value
        else:
            monkeypatch.setenv(name, value)
    comment.main(**options)


def test_the_command_keeps_the_comment(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "change.json"
    path.write_text(document_of(FEWER).write())
    run(monkeypatch, environment(fake, path, PULL="12", COMMIT="a" * 40, BASE="main"))
    assert capsys.readouterr().out == "comment: created\n"
    assert "32 → 24" in fake.comments[0]["body"]
    assert "Simulated: `main`" in fake.comments[0]["body"]
    assert "own code reported this, also if it comes from a fork" in fake.comments[0]["body"]
    more = environment(fake, path, PULL="12", COMMIT="a" * 40, BASE="main", BY_BASE="true")
    run(monkeypatch, more)
    assert "own code reported this" not in fake.comments[0]["body"]
    assert "settings only, and none of its code ran" in fake.comments[0]["body"]


@pytest.mark.promise("The workflow of a site posts the comment of a pull request.")
def test_the_workflow_of_a_site_keeps_the_comment(fake: Fake, tmp_path: Path) -> None:
    files = init.site_files(fake.kind, init.values_of(("prod",), ""))
    variables = environment(fake, tmp_path / "base" / "change.json") | {
        "BY_BASE": "--by-base", "HEAD": "ann:branch", "COMMIT": "a" * 40, "BASE": "main",
        "CI_DEFAULT_BRANCH": "main", "EXPECTED": "", "CONCLUSION": "success", "STACK": "dev",
        "PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"], "RUN": "",
        "NO_PROXY": "127.0.0.1",
    }  # fmt: skip
    if fake.kind == "github":
        steps = yaml.safe_load(files[".github/workflows/comment.yml"])["jobs"]["comment"]["steps"]
        (step,) = (each for each in steps if each.get("name") == "Comment")
        script = step["run"]
        assert step["env"].keys() <= variables.keys()
        del variables["FORGE"]
        fake.pulls = [{"number": 4, "head": {"label": "ann:branch", "sha": "a" * 40}}]
    else:
        fake.job, fake.artifacts = "preview", {31: document_of(FEWER).write()}
        pipelines = [{"id": 9, "project_id": 5, "sha": "a" * 40}]
        fake.pulls = [{"iid": 1, "sha": "a" * 40, "pipelines": pipelines}]
        (script,) = yaml.safe_load(files[".gitlab-ci.yml"])["comments"]["script"]
    Path(variables["CHANGE"]).parent.mkdir()
    Path(variables["CHANGE"]).write_text(document_of(FEWER).write())
    program = tmp_path / "venv/bin/gpu-cluster"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -P -m gpu_cluster.commands \"$@\"\n")
    program.chmod(0o755)
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(": created\n")
    assert len(fake.comments) == 1


@pytest.mark.parametrize(
    ("content", "variables", "text"),
    [
        ("{}", {}, "wanted: what `gpu-cluster preview` writes"),
        (None, {}, "wanted: a change document"),
        ("good", {"PULL": "0"}, "the number of a pull request"),
        ("good", {"PULL": "1; rm"}, "the number of a pull request"),
        ("good", {"STACK": "prod"}, "in place of prod"),
    ],
)
def test_what_the_command_cannot_use_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None,
    variables: dict[str, str], text: str,
) -> None:  # fmt: skip
    path = tmp_path / "change.json"
    if content is not None:
        path.write_text(document_of(FEWER).write() if content == "good" else content)
    with served(Fake("github")) as fake, pytest.raises(SystemExit) as raised:
        run(monkeypatch, environment(fake, path, **{"PULL": "12", **variables}))
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("expected", "conclusion", "comments"),
    [("true", "failure", 1), ("true", "success", 0), ("", "failure", 0), ("true", "cancelled", 0)],
)
def test_a_preview_that_left_no_document_has_failed_or_never_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: str, conclusion: str, comments: int
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with served(Fake("github")) as fake:
        more = {"STACK": "dev", "EXPECTED": expected, "CONCLUSION": conclusion}
        run(monkeypatch, environment(fake, tmp_path / "change.json", PULL="12", **more))
        assert len(fake.comments) == comments
        if comments:
            assert "the job failed before its preview started" in fake.comments[0]["body"]


def test_without_a_forge_the_comment_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "change.json"
    path.write_text(document_of(FEWER).write())
    run(monkeypatch, {"CHANGE": str(path)})
    assert capsys.readouterr().out.startswith("<!-- gpu-cluster change: stack=dev")


def test_a_pipeline_of_the_default_branch_collects_what_merge_requests_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of the merge requests has an invalid change document, as one from a fork may have."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with served(Fake("gitlab")) as fake:
        fake.artifacts = {31: document_of(FEWER).write()}
        pipelines = [{"id": 9, "project_id": 5, "sha": "a" * 40}]
        fake.pulls = [
            {"iid": 1, "sha": "a" * 40, "pipelines": pipelines},
            {"iid": 2, "sha": "b" * 40, "pipelines": pipelines},
        ]
        run(monkeypatch, environment(fake, Path("none"), PULL="all", STACK="dev"))
        assert "merge request 1: created" in capsys.readouterr().out
        assert len(fake.comments) == 1
        fake.artifacts = {32: "[]"}
        run(monkeypatch, environment(fake, Path("none"), PULL="all", STACK="dev"))
        assert "merge request 1: skipped" in capsys.readouterr().out
        assert fake.refused == []


HOSTILE = {
    "a private fork": ("skipped", "/projects/101/pipelines/9/jobs", 404, "{}"),
    "a fork for members only": ("skipped", "/projects/101/pipelines/9/jobs", 403, "{}"),
    "no pipelines": ("skipped", "/projects/5/merge_requests/1/pipelines", 403, "{}"),
    "a file that is no document": ("skipped", "/projects/101/jobs/31/artifacts/change.json", 200,
                                   "[" * 100_000),
    "a document that is too large": ("skipped", "/projects/101/jobs/31/artifacts/change.json", 200,
                                     " " * (LARGEST + 1)),
    "a redirect": ("skipped", "/projects/101/jobs/31/artifacts/change.json", 302, ""),
    "too many notes": ("failed", "/projects/5/merge_requests/1/notes", 200,
                       json.dumps([{"id": 1}] * 100)),
    "a locked discussion": ("failed", "/projects/5/merge_requests/1/notes", 403, "{}"),
}  # fmt: skip
"""What the first merge request may be: what becomes of it, and one answer of the forge."""


@pytest.mark.promise(
    "A merge request that can't be read or commented is named, and the others get their comments."
)
@pytest.mark.parametrize("case", HOSTILE)
def test_a_merge_request_takes_no_comment_from_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    end, path, status, text = HOSTILE[case]
    with served(Fake("gitlab")) as fake:
        fake.artifacts = {31: document_of(FEWER).write()}
        fake.answers = {path: (status, text)}
        fake.pulls = [
            {"iid": number, "sha": "a" * 40, "pipelines": [
                {"id": 9, "project_id": 100 + number, "sha": "a" * 40}]}
            for number in (1, 2, 3)
        ]  # fmt: skip
        try:
            run(monkeypatch, environment(fake, Path("none"), PULL="all", STACK="dev"))
            exit_text = ""
        except SystemExit as error:
            exit_text = str(error)
        output = capsys.readouterr().out.splitlines()
        assert [line.partition(": ")[2].partition(": ")[0] for line in output] == [
            f"merge request {number}" for number in (1, 2, 3)
        ]
        assert output[0].startswith(f"comment: merge request 1: {end}: ")
        # The fake has one list of comments for all merge requests.
        assert output[1] == "comment: merge request 2: created"
        assert output[2] == "comment: merge request 3: unchanged"
        assert ("merge request 1: no comment" in exit_text) == (end == "failed")
        assert fake.refused == []


@pytest.mark.promise(
    "At GitLab, too, the comment about a fork's settings is made of the base's own preview."
)
def test_at_gitlab_the_preview_of_the_base_replaces_a_forks_document_that_lies(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with served(Fake("gitlab")) as fake:
        fake.artifacts = {31: nothing().write()}
        pipelines = [{"id": 9, "project_id": 101, "sha": "a" * 40}]
        fake.pulls = [{"iid": 1, "sha": "a" * 40, "pipelines": pipelines}]
        variables = environment(fake, Path("none"), PULL="all", STACK="dev", BASE="main",
                                BASE_JOB="fork settings")  # fmt: skip
        # The fork's document says that nothing changes.
        run(monkeypatch, variables)
        assert fake.comments == []
        # A preview of another commit is not about this one.
        of_base = document_of(FEWER).write()
        fake.base_job = ("fork settings", 40, {f"base-1-{'b' * 40}.json": of_base})
        run(monkeypatch, variables)
        assert fake.comments == []
        fake.base_job = ("fork settings", 40, {f"base-1-{'a' * 40}.json": of_base})
        run(monkeypatch, variables)
        (written,) = fake.comments
        assert "32 → 24" in written["body"]
        assert "settings only, and none of its code ran" in written["body"]
        assert "own code reported this" not in written["body"]
        assert fake.refused == []
        # A merge request that changes more has only the fork's document, and the comment says so.
        fake.base_job = ("fork settings", 41, {})
        fake.artifacts = {31: document_of(FEWER).write()}
        run(monkeypatch, variables)
        assert "own code reported this, also if it comes from a fork" in written["body"]


def test_at_gitlab_the_open_merge_requests_of_forks_are_listed_with_the_jobs_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("GITLAB_TOKEN", raising=False)
    fork = {"target_branch": "main", "source_project_id": 101, "target_project_id": 5}
    with served(Fake("gitlab")) as fake:
        fake.pulls = [
            {"iid": 4, "sha": "a" * 40, **fork},
            {"iid": 3, "sha": "b" * 40, **fork, "source_project_id": 5},
            {"iid": 2, "sha": "c" * 40, **fork, "target_branch": "other"},
            {"iid": 1, "sha": None, **fork},
        ]
        file = tmp_path / "forks.txt"
        variables = environment(
            fake, Path("none"), FORKS=str(file), CI_JOB_TOKEN="job", BASE="main"
        )
        run(monkeypatch, {**variables, "GITLAB_TOKEN": ""})
        assert file.read_text() == f"4 {'a' * 40}\n"
        assert fake.refused == []
    sent = gitlab.client("https://g", "", "job").headers
    assert (sent["JOB-TOKEN"], "PRIVATE-TOKEN" in sent) == ("job", False)


def test_a_bad_gateway_before_the_list_of_merge_requests_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with served(Fake("gitlab")) as fake:
        fake.script = [502]
        run(monkeypatch, environment(fake, Path("none"), PULL="all", STACK="dev"))
        assert capsys.readouterr().out == ""
        assert fake.seen == ["GET /projects/5/merge_requests"] * 2


def test_a_note_has_the_stack_and_the_labels_of_its_first_line_alone() -> None:
    note = Note(number=1, body=f"{mark('dev', ['gpus'])}\n{mark('prod', LABELS)}")
    assert (note.stack, note.labels) == ("dev", {"gpus"})
    other = Note(number=1, body="<!-- gpu-cluster change: stack=dev labels=gpus,admin -->")
    assert other.labels == {"gpus"}
    assert Note(number=1, body="a talk").stack == ""


DESCRIPTIONS = os.environ.get("FORGES_OPENAPI", "")


@pytest.mark.skipif(not DESCRIPTIONS, reason="FORGES_OPENAPI names no folder with descriptions")
@pytest.mark.parametrize("kind", FORGES)
def test_the_facts_are_those_of_the_descriptions(kind: str) -> None:
    """`FORGES_OPENAPI` names a folder with the OpenAPI descriptions github.json and gitlab.yaml."""
    folder = Path(DESCRIPTIONS)
    if kind == "github":
        described = Description(json.loads((folder / "github.json").read_text()))
    else:
        text = (folder / "gitlab.yaml").read_text()
        described = Description(yaml.load(text, Loader=LOADER), "/api/v4")  # noqa: S506
    assert [each for one in OPERATIONS[kind] for each in described.differences(one)] == []


PATH = "/things/{number}"
NUMBER = {"in": "path", "name": "number", "schema": {"type": "integer"}, "required": True}
SORT = {"in": "query", "name": "sort", "schema": {"enum": ["asc", "desc"], "type": "string"}}
BODY = {
    "type": "object", "properties": {"labels": {"oneOf": [TEXT, TEXTS]}}, "required": ["labels"],
}  # fmt: skip
PUT = {
    "responses": {"200": {}, "404": {}}, "parameters": [NUMBER, {"$ref": "#/sort"}],
    "requestBody": {"content": {"application/json": {"schema": BODY}}},
}  # fmt: skip
SMALL = Description({"paths": {PATH: {"put": PUT}}, "sort": SORT})
FACTS = Operation(
    "PUT", PATH, {"sort": {"enum": ["asc"]}}, numbers=("number",), answers=(200, 404),
    body={"type": "object", "properties": {"labels": TEXTS}, "required": ["labels"]},
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, ""),
        ({"method": "POST"}, "not described"),
        ({"described": False}, "described"),
        ({"answers": (200,)}, "the answers are"),
        ({"numbers": ()}, "the numbers in the path"),
        ({"query": {"page": {"type": "integer"}}}, "query parameter page"),
        ({"query": {"sort": {"enum": ["newest"]}}}, "query parameter sort"),
        ({"body": {"type": "object", "properties": {}}}, "needs ['labels']"),
        (
            {"body": {**(FACTS.body or {}), "properties": {"labels": {"type": "integer"}}}},
            "property labels",
        ),
    ],
)
def test_a_fact_that_a_description_does_not_have_is_named(
    change: dict[str, Any], text: str
) -> None:
    found = [*SMALL.differences(replace(FACTS, **change))]
    assert len(found) == bool(text)
    assert all(text in each for each in found)
