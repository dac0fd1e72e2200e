"""Comments and labels of a pull request at GitHub.

Source of paths and bodies: github/rest-api-description, descriptions/api.github.com, version
2022-11-28.
"""

from __future__ import annotations

import re
from typing import ClassVar
from urllib.parse import quote

import httpx

from gpu_cluster.commands.forges.comment_markdown import LABELS, MARK
from gpu_cluster.commands.forges.forge import TIMEOUT, Forge, ForgeError, Note

VERSION = "2022-11-28"
"""Version of the REST API."""
AUTHOR = "github-actions[bot]"
"""Author of comments that are written with a workflow's `GITHUB_TOKEN`."""
_PART = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9_.-]{1,100}"
_REPOSITORY = re.compile(f"{_PART}/{_PART}")


def client(address: str, token: str) -> httpx.Client:
    """Return an HTTP client that sends a token.

    The client follows no redirects, so no other server gets the token.
    """
    return httpx.Client(
        base_url=address.rstrip("/"),
        timeout=TIMEOUT,
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {token}",
            "X-GitHub-Api-Version": VERSION,
        },
    )


class GitHub(Forge):
    """A pull request at GitHub.

    Attributes:
        repository: The repository that gets the comment, such as `owner/name`.
        number: Number of the pull request.
        author: Login whose comments count as comments of this program.
    """

    cures: ClassVar = {
        301: "the repository has moved: run from its new place",
        401: "check the token (GITHUB_TOKEN)",
        403: "give the job `pull-requests: write`, and allow it in the repository's settings",
        404: "check the repository and the number, and that the token may read it",
        410: "the pull request's issue was deleted, or issues are disabled",
        422: "read the message; a body has at most 65,536 characters",
    }

    def __init__(
        self, client: httpx.Client, repository: str, number: int, author: str = AUTHOR
    ) -> None:
        """Create the client of one pull request.

        Raises:
            ForgeError: The repository's name does not have the form `owner/name`.
        """
        super().__init__(client)
        if not _REPOSITORY.fullmatch(repository):
            raise ForgeError(
                f"repository: found {repository!r}; wanted: owner/name; cure: write it in this form"
            )
        self.root, self.number, self.author = f"/repos/{repository}", number, author

    def notes(self) -> list[Note]:
        """Return the comments of the pull request that this program wrote, oldest first."""
        return [
            Note(number=int(each["id"]), body=str(each.get("body") or ""))
            for each in self.listed(f"{self.root}/issues/{self.number}/comments")
            if (each.get("user") or {}).get("login") == self.author
            and MARK.match(str(each.get("body") or ""))
        ]

    def create(self, body: str) -> None:
        """Create a comment."""
        path = f"{self.root}/issues/{self.number}/comments"
        self.request("POST", path, json={"body": body})

    def update(self, note: Note, body: str) -> None:
        """Replace the text of a comment."""
        self.rewrite("PATCH", f"{self.root}/issues/comments/{note.number}", body)

    def labelled(self) -> frozenset[str]:
        """Return the labels of the pull request that this program manages."""
        found = self.listed(f"{self.root}/issues/{self.number}/labels")
        return frozenset(str(each.get("name")) for each in found) & frozenset(LABELS)

    def label(self, add: frozenset[str], remove: frozenset[str]) -> None:
        """Add and remove labels of the pull request."""
        path = f"{self.root}/issues/{self.number}/labels"
        if add:
            self.request("POST", path, json={"labels": sorted(add)})
        for name in sorted(remove):
            self.request("DELETE", f"{path}/{quote(name, safe='')}", missing=True)


def pull_of(client: httpx.Client, repository: str, head: str, commit: str) -> int | None:
    """Return the number of the open pull request whose head is a commit; None if there is none.

    Args:
        client: HTTP client.
        repository: The repository that the pull request is for.
        head: Owner and branch that the pull request comes from, as `owner:branch`.
        commit: Previewed commit; a pull request with a newer head commit does not count.
    """
    forge = GitHub(client, repository, 0)
    for each in forge.listed(f"{forge.root}/pulls", state="open", head=head):
        if (each.get("head") or {}).get("sha") == commit:
            return int(each["number"])
    return None
