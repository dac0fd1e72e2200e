"""Notes and labels of a merge request at GitLab.

Source of paths and bodies: GitLab's OpenAPI description (gitlabhq/gitlabhq,
doc/api/openapi/openapi_v3.yaml); it lacks the path of one file in a job's artifacts, which is in
GitLab's documentation, "Job artifacts API".
"""

from __future__ import annotations

import re
from typing import Any, ClassVar
from urllib.parse import quote

import httpx

from gpu_cluster.commands.forges.comment_markdown import LABELS, MARK
from gpu_cluster.commands.forges.forge import TIMEOUT, Forge, ForgeError, Note, retry

_PROJECT = re.compile(r"[A-Za-z0-9_.-]{1,255}(/[A-Za-z0-9_.-]{1,255}){0,20}")


def client(address: str, token: str, job_token: str = "") -> httpx.Client:
    """Return an HTTP client that sends a token.

    The client follows no redirects, so no other server gets the token.

    Args:
        address: Address of GitLab's API.
        token: Access token; empty: the job's token is sent.
        job_token: The token that GitLab gives each job, which may list merge requests
            (GitLab's documentation, "GitLab CI/CD job token", "Job token access").
    """
    headers = {"JOB-TOKEN": job_token} if job_token and not token else {"PRIVATE-TOKEN": token}
    return httpx.Client(base_url=address.rstrip("/"), timeout=TIMEOUT, headers=headers)


class GitLab(Forge):
    """A merge request at GitLab.

    Attributes:
        project: Number of the project, or its path such as `group/name`.
        number: Number of the merge request within the project (`iid`).
    """

    cures: ClassVar = {
        400: "read the message; a note has at most 1,000,000 characters",
        401: "check the token (GITLAB_TOKEN): a project access token with scope api",
        403: "give the token's user the role Reporter or higher in the project",
        404: "check the project and the number, and that the token may read it",
        422: "read the message",
    }

    def __init__(self, client: httpx.Client, project: str, number: int) -> None:
        """Create the client of one merge request.

        Raises:
            ForgeError: The project is neither a number nor a path such as `group/name`.
        """
        super().__init__(client)
        if not _PROJECT.fullmatch(project):
            raise ForgeError(
                f"project: found {project!r}; wanted: a project's number, or group/name; cure: "
                "write it in one of these forms"
            )
        self.project = f"/projects/{quote(project, safe='')}"
        self.root = f"{self.project}/merge_requests/{number}"

    def notes(self) -> list[Note]:
        """Return the notes of the merge request that this program wrote, oldest first."""
        me = self.read(self.request("GET", "/user"))
        found = self.listed(f"{self.root}/notes", sort="asc", order_by="created_at")
        return [
            Note(number=int(each["id"]), body=str(each.get("body") or ""))
            for each in found
            if (each.get("author") or {}).get("id") == me.get("id")
            and MARK.match(str(each.get("body") or ""))
        ]

    def create(self, body: str) -> None:
        """Create a note."""
        self.request("POST", f"{self.root}/notes", json={"body": body})

    def update(self, note: Note, body: str) -> None:
        """Replace the text of a note."""
        self.rewrite("PUT", f"{self.root}/notes/{note.number}", body)

    def labelled(self) -> frozenset[str]:
        """Return the labels of the merge request that this program manages."""
        found = self.read(self.request("GET", self.root))
        return frozenset(map(str, found.get("labels") or ())) & frozenset(LABELS)

    def label(self, add: frozenset[str], remove: frozenset[str]) -> None:
        """Add and remove labels of the merge request."""
        body = {"add_labels": sorted(add), "remove_labels": sorted(remove)}
        self.request("PUT", self.root, json={key: value for key, value in body.items() if value})


def open_merge_requests(client: httpx.Client, project: str) -> list[tuple[int, str]]:
    """Return number and newest commit of each open merge request of a project.

    Raises:
        ForgeError: The forge rejects a request, or its temporary errors don't end in time.
    """
    forge = GitLab(client, project, 0)
    listed = retry(lambda: list(forge.listed(f"{forge.project}/merge_requests", state="opened")))
    return [(int(request["iid"]), str(request.get("sha") or "")) for request in listed]


def forks(client: httpx.Client, project: str, branch: str) -> list[tuple[int, str]]:
    """Return number and newest commit of each open merge request from a fork into a branch.

    Raises:
        ForgeError: The forge rejects a request, or its temporary errors don't end in time.
    """
    forge = GitLab(client, project, 0)
    listed = retry(lambda: list(forge.listed(f"{forge.project}/merge_requests", state="opened")))
    return [
        (int(request["iid"]), str(request.get("sha") or ""))
        for request in listed
        if request.get("target_branch") == branch
        and request.get("source_project_id") != request.get("target_project_id")
    ]


def newest_job(client: httpx.Client, project: str, pipeline: int, name: str) -> int | None:
    """Return the number of a pipeline's newest job with a name; None without such a job.

    Raises:
        ForgeError: The forge rejects a request, or its temporary errors don't end in time.
    """
    forge = GitLab(client, project, 0)
    return retry(lambda: _newest_job(forge, f"{forge.project}/pipelines/{pipeline}", name))


def base_document(
    client: httpx.Client, project: str, job: int, number: int, commit: str
) -> bytes | None:
    """Return the change document of a merge request that the base's program made; None without it.

    The file is read by its name; a download of all artifacts could replace files of the checkout.

    Args:
        client: HTTP client.
        project: Number or path of the project.
        job: Number of the job of the default branch that previewed forks' settings.
        number: Number of the merge request.
        commit: Newest commit of the merge request.

    Raises:
        ForgeError: The forge rejects a request, or its temporary errors don't end in time.
    """
    forge = GitLab(client, project, number)
    return retry(lambda: _file(forge, forge.project, job, f"base-{number}-{commit}.json"))


def change_document(
    client: httpx.Client, project: str, number: int, commit: str, job: str
) -> bytes | None:
    """Return the change document of a merge request's newest pipeline; None if it left none.

    A pipeline of a fork runs in the fork's project, which has no token of this project. So a
    pipeline of the default branch collects the change documents that merge requests' pipelines left
    as artifacts.

    Args:
        client: HTTP client.
        project: Number or path of the project.
        number: Number of the merge request.
        commit: Newest commit of the merge request.
        job: Name of the job that writes the document `change.json`.

    Raises:
        ForgeError: The fork can't be read, the document is too large, or temporary errors of the
            forge don't end in time.
    """
    forge = GitLab(client, project, number)

    def read() -> bytes | None:
        # GitLab's API description documents no pages for this request. The newest pipelines come
        # first, so the first page has the newest commit's pipeline.
        for pipeline in forge.objects(forge.request("GET", f"{forge.root}/pipelines")):
            if pipeline.get("sha") == commit:
                return _artifact(forge, pipeline, job)
        return None

    return retry(read)


def _artifact(forge: GitLab, pipeline: dict[str, Any], job: str) -> bytes | None:
    """Return the newest change document of a pipeline's job; None if the job left none."""
    root = f"/projects/{int(pipeline['project_id'])}"
    number = _newest_job(forge, f"{root}/pipelines/{int(pipeline['id'])}", job)
    return None if number is None else _file(forge, root, number, "change.json")


def _newest_job(forge: GitLab, pipeline: str, name: str) -> int | None:
    jobs = forge.listed(f"{pipeline}/jobs")
    return max((int(each["id"]) for each in jobs if each.get("name") == name), default=None)


def _file(forge: GitLab, project: str, job: int, name: str) -> bytes | None:
    """Return a file of a job's artifacts; None if the job left none."""
    answer = forge.request("GET", f"{project}/jobs/{job}/artifacts/{name}", missing=True)
    return answer.content if answer.is_success else None
