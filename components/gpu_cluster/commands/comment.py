"""Run `gpu-cluster comment`: print a comment about a change, or post it to a pull request.

The program reads a change document and runs no code of the previewed branch, so it may have a
token. The document is untrusted input: the program checks its schema and escapes all of its texts.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import httpx

from gpu_cluster.base.stack_option import DEFAULT
from gpu_cluster.change.document import Document, Outcome
from gpu_cluster.commands.forges import github, gitlab
from gpu_cluster.commands.forges.comment_markdown import (
    MARK,
    Origin,
    is_silent,
    mark,
    outdated,
    rendered,
)
from gpu_cluster.commands.forges.forge import Forge, ForgeError, publish, retry
from gpu_rules.faults import PartError
from gpu_rules.printable import printable

CHANGE = "change.json"
"""Default name of the file with the change document; CHANGE overrides the name."""
GITHUB = "https://api.github.com"
_HEAD = re.compile(r"[A-Za-z0-9_.-]{1,100}:[^\s:?*\[\\^~]{1,250}")
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
LOST = "the job failed before its preview started; the log of the job shows the reason"
"""Cause to report if a failed preview left no change document."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The user's options of the comment.

    Attributes:
        forge: `github`, `gitlab`, or empty: the comment is only printed.
        pull: Number of the pull request; for GitHub also empty, if `head` names it, and for GitLab
            `all`.
        head: Owner and branch of the pull request, as `owner:branch`.
        origin: Commit and run that the document comes from.
        change: Path of the document.
        job: Job of a GitLab pipeline that writes the document.
        base_job: Job of this GitLab pipeline in which the base's program previews forks' settings.
            Empty: there is none.
        forks: File that gets the open merge requests of forks at GitLab. Empty: comments are
            written.
        stack: Name of the stack that the document must be about. Empty: any stack.
        lost: Whether a missing document means that the preview failed.
        optional: Whether a missing document means that no preview ran.
    """

    forge: str
    pull: str
    head: str
    origin: Origin
    change: Path
    job: str
    base_job: str
    forks: str
    stack: str
    lost: bool
    optional: bool


def body_of(document: Document, origin: Origin) -> str | None:
    """Return the comment about a change document; None if the change needs no comment."""
    return None if is_silent(document) else rendered(document, origin)


def kept(forge: Forge, document: Document, origin: Origin) -> str:
    """Create or update the pull request's comment about the stack; return the action as text."""
    match = MARK.match(mark(document.stack, ()))
    stack = match["stack"] if match else "_"
    body = body_of(document, origin)
    gpus = document.gpus.after if document.clusters else None
    return publish(forge, stack, body, lambda earlier: outdated(earlier, origin, gpus))


def _document(stack: str, text: bytes) -> Document:
    """Parse a change document and check its stack; an empty stack name accepts any stack.

    Raises:
        ValueError: The text is not a change document, or is about another stack.
    """
    document = Document.read(text)
    if stack and document.stack != stack:
        raise PartError(f"stack {document.stack!r} in place of {stack}")
    return document


def _fail(text: str) -> NoReturn:
    sys.exit(f"comment: {printable(text)}")


def _read(request: Request) -> Document:
    if request.lost and not request.change.exists():
        return Document(stack=request.stack, outcome=Outcome.FAILED, cause=LOST)
    try:
        return _document(request.stack, request.change.read_bytes())
    except ValueError as error:
        _fail(
            f"{request.change}: found {error}; wanted: what `gpu-cluster preview` writes to "
            "--file; cure: run the preview of this release again"
        )
    except OSError as error:
        _fail(f"{request.change}: found {error.strerror}; wanted: a change document; cure: "
              f"gpu-cluster preview --file {request.change}")  # fmt: skip


def _number(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,9}", text):
        _fail(f"--pull: found {text!r}; wanted: the number of a pull request")
    return int(text)


def _at_github(request: Request, environment: Mapping[str, str]) -> None:
    if request.optional and not request.lost and not request.change.exists():
        print("comment: no preview of this stack; nothing to do")
        return
    repository = environment.get("GITHUB_REPOSITORY", "")
    address = environment.get("GITHUB_API_URL") or GITHUB
    with github.client(address, environment.get("GITHUB_TOKEN", "")) as client:
        number: int | None
        if request.pull:
            number = _number(request.pull)
        elif _HEAD.fullmatch(request.head) and request.origin.commit:
            head, commit = request.head, request.origin.commit
            number = retry(lambda: github.pull_of(client, repository, head, commit))
        else:
            _fail("found neither --pull nor --head with --commit; wanted: which pull request it is")
        if number is None:
            print("comment: no open pull request has this commit as its head; nothing to do")
            return
        author = environment.get("COMMENT_AUTHOR") or github.AUTHOR
        done = kept(
            github.GitHub(client, repository, number, author), _read(request), request.origin
        )
    print(f"comment: {done}")


def _at_gitlab(request: Request, environment: Mapping[str, str]) -> None:
    project = environment.get("CI_PROJECT_ID", "")
    address = environment.get("CI_API_V4_URL") or "https://gitlab.com/api/v4"
    token = environment.get("GITLAB_TOKEN", "")
    if request.forks:
        with gitlab.client(address, token, environment.get("CI_JOB_TOKEN", "")) as client:
            _write_forks(request, client, project)
        return
    with gitlab.client(address, token) as client:
        if request.pull != "all":
            forge = gitlab.GitLab(client, project, _number(request.pull))
            print(f"comment: {kept(forge, _read(request), request.origin)}")
            return
        base_job = _base_job(request, client, environment)
        failed = []
        for number, commit in gitlab.open_merge_requests(client, project):
            where = f"comment: merge request {number}"
            try:
                text: bytes | None = None
                if base_job is not None and _COMMIT.fullmatch(commit):
                    text = gitlab.base_document(client, project, base_job, number, commit)
                is_by_base = text is not None
                if text is None:
                    text = gitlab.change_document(client, project, number, commit, request.job)
                document = None if text is None else _document(request.stack, text)
            except (ForgeError, ValueError) as error:
                # The fork may be private, and its job may leave any file.
                print(f"{where}: skipped: {printable(str(error))}")
                continue
            if document is None:
                continue
            origin = Origin(commit=commit, base=request.origin.base, is_by_base=is_by_base)
            try:
                print(f"{where}: {kept(gitlab.GitLab(client, project, number), document, origin)}")
            except ForgeError as error:
                print(f"{where}: failed: {printable(str(error))}")
                failed.append(str(number))
        if failed:
            _fail(f"merge request {', '.join(failed)}: no comment; cure: see the lines above")


def _write_forks(request: Request, client: httpx.Client, project: str) -> None:
    """Write number and commit of each open merge request from a fork to the user's file."""
    if not request.origin.base:
        _fail("--base: found no branch; wanted the branch into which the forks' changes go")
    found = gitlab.forks(client, project, request.origin.base)
    lines = (f"{number} {commit}\n" for number, commit in found if _COMMIT.fullmatch(commit))
    Path(request.forks).write_text("".join(lines), encoding="utf-8")


def _base_job(request: Request, client: httpx.Client, environment: Mapping[str, str]) -> int | None:
    """Return the number of the job that previewed forks' settings; None without such a job."""
    if not request.base_job:
        return None
    pipeline = environment.get("CI_PIPELINE_ID", "")
    if not re.fullmatch(r"[1-9][0-9]{0,18}", pipeline):
        _fail("CI_PIPELINE_ID: found no number; wanted the pipeline of the job --base-job")
    project = environment.get("CI_PROJECT_ID", "")
    return gitlab.newest_job(client, project, int(pipeline), request.base_job)


def main(
    *,
    change: str = "",
    forge: str = "",
    pull: str = "",
    head: str = "",
    commit: str = "",
    base: str = "",
    run: str = "",
    job: str = "",
    base_job: str = "",
    forks: str = "",
    conclusion: str = "",
    expected: bool = False,
    by_base: bool = False,
) -> None:
    """Print the comment, or post it to a pull request.

    Args:
        change: File of the change document.
        forge: `github`, `gitlab`, or empty: the comment is only printed.
        pull: Number of the pull request, or `all`.
        head: Owner and branch of the pull request, as `owner:branch`.
        commit: The commit that was previewed.
        base: The branch that the pull request is for.
        run: Address of the run that made the document.
        job: Job of a GitLab pipeline that writes the document.
        base_job: Job of this GitLab pipeline in which the base's program previews forks' settings.
        forks: File that gets number and commit of each open merge request from a fork at GitLab; no
            comment is written then.
        conclusion: How the preview's run ended; empty: it is not known.
        expected: Whether the run had a preview of this stack.
        by_base: Whether the program of the base branch made the document.
    """
    stack = os.environ.get("STACK", "")
    request = Request(
        forge=forge,
        pull=pull,
        head=head,
        origin=Origin(
            commit=commit if _COMMIT.fullmatch(commit) else "",
            base=base if _BRANCH.fullmatch(base) else "",
            run=run,
            is_by_base=by_base,
        ),
        change=Path(change or CHANGE),
        job=job or f"preview {stack or DEFAULT}",
        base_job=base_job,
        forks=forks,
        stack=stack,
        lost=expected and conclusion == "failure",
        optional=bool(conclusion),
    )
    try:
        if request.forge == "github":
            _at_github(request, os.environ)
        elif request.forge == "gitlab":
            _at_gitlab(request, os.environ)
        else:
            print(body_of(_read(request), request.origin) or "no change: no comment", end="")
    except ForgeError as error:
        _fail(str(error))
