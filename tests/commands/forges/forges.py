"""Fakes of GitHub's and GitLab's REST API, each a real HTTP server on loopback.

A fake answers a request only if the request fits the forge's published OpenAPI description: path,
path parameters, query parameters and body. `OPERATIONS` restates as facts what the descriptions say
about the operations that this program uses. Sources: GitHub's description in the npm package
@octokit/openapi 23.0.2 (generated/api.github.com.json); GitLab's in gitlabhq/gitlabhq,
doc/api/openapi/openapi_v3.yaml (of 2026), and its documentation for the one operation that the
description lacks. With a folder of the two descriptions in FORGES_OPENAPI, a test compares each
fact with them (`test_the_facts_are_those_of_the_descriptions`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import jsonschema

from gpu_cluster_lab.simulator.http_servers import QuietHandler, running

Json = dict[str, Any]
TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "integer"}
TEXTS: Json = {"type": "array", "items": TEXT}
PAGED: Json = {"per_page": NUMBER, "page": NUMBER}
BODY: Json = {"type": "object", "properties": {"body": TEXT}, "required": ["body"]}
GITHUB_LIMIT = 65_536
"""Characters of a comment: GitHub's answer 422 says "Body is too long (maximum is 65536
characters)" (liatrio/terraform-change-pr-commenter, issue 91).
"""
GITLAB_LIMIT = 1_000_000
"""Characters of a note (GitLab documentation, "GitLab application limits")."""
MOST_PER_PAGE = 100


@dataclass(frozen=True)
class Operation:
    """What a description says about one operation.

    Attributes:
        method: HTTP method.
        path: Path with parameters in braces.
        query: JSON schema of each query parameter.
        body: JSON schema of the body; None: no body. GitLab ignores other properties than those of
            the schema; this fake refuses them, to find mistakes.
        numbers: Path parameters that are integers.
        answers: Statuses that the description lists.
        described: Whether the description has the operation.
    """

    method: str
    path: str
    query: Json = field(default_factory=dict)
    body: Json | None = None
    numbers: tuple[str, ...] = ()
    answers: tuple[int, ...] = ()
    described: bool = True


_GH = "/repos/{owner}/{repo}"
_GL = "/projects/{id}"
OPERATIONS: dict[str, tuple[Operation, ...]] = {
    "github": (
        Operation(
            "GET", f"{_GH}/issues/{{issue_number}}/comments", {**PAGED, "since": TEXT},
            numbers=("issue_number",), answers=(200, 404, 410),
        ),
        Operation(
            "POST", f"{_GH}/issues/{{issue_number}}/comments", body=BODY,
            numbers=("issue_number",), answers=(201, 403, 404, 410, 422),
        ),
        Operation(
            "PATCH", f"{_GH}/issues/comments/{{comment_id}}", body=BODY, numbers=("comment_id",),
            answers=(200, 422),
        ),
        Operation(
            "GET", f"{_GH}/issues/{{issue_number}}/labels", PAGED, numbers=("issue_number",),
            answers=(200, 301, 404, 410),
        ),
        Operation(
            "POST", f"{_GH}/issues/{{issue_number}}/labels", numbers=("issue_number",),
            answers=(200, 301, 404, 410, 422),
            body={
                "type": "object",
                "properties": {"labels": {"type": "array", "items": TEXT, "minItems": 1}},
            },
        ),
        Operation(
            "DELETE", f"{_GH}/issues/{{issue_number}}/labels/{{name}}", numbers=("issue_number",),
            answers=(200, 301, 404, 410),
        ),
        Operation(
            "GET", f"{_GH}/pulls",
            {
                **PAGED, "state": {"enum": ["open", "closed", "all"]}, "head": TEXT, "base": TEXT,
                "sort": {"enum": ["created", "updated", "popularity", "long-running"]},
                "direction": {"enum": ["asc", "desc"]},
            },
            answers=(200, 304, 422),
        ),
    ),
    "gitlab": (
        Operation("GET", "/user", answers=(200, 401, 403)),
        Operation(
            "GET", f"{_GL}/merge_requests/{{noteable_id}}/notes", numbers=("noteable_id",),
            answers=(200, 400, 404),
            query={
                **PAGED, "sort": {"enum": ["asc", "desc"]},
                "order_by": {"enum": ["created_at", "updated_at"]},
                "activity_filter": {"enum": ["all_notes", "only_comments", "only_activity"]},
            },
        ),
        Operation(
            "POST", f"{_GL}/merge_requests/{{noteable_id}}/notes", numbers=("noteable_id",),
            answers=(201, 400, 404),
            body={**BODY, "properties": {"body": TEXT, "internal": {"type": "boolean"},
                                         "created_at": TEXT}},
        ),
        Operation(
            "PUT", f"{_GL}/merge_requests/{{noteable_id}}/notes/{{note_id}}", body=BODY,
            numbers=("noteable_id", "note_id"), answers=(200, 400, 404),
        ),
        Operation(
            "GET", f"{_GL}/merge_requests/{{merge_request_iid}}", numbers=("merge_request_iid",),
            answers=(200, 404),
        ),
        Operation(
            "PUT", f"{_GL}/merge_requests/{{merge_request_iid}}", numbers=("merge_request_iid",),
            answers=(200, 400, 404, 409, 422),
            body={
                "type": "object",
                "properties": dict.fromkeys(("add_labels", "remove_labels", "labels"), TEXTS),
            },
        ),
        Operation(
            "GET", f"{_GL}/merge_requests",
            {**PAGED, "state": {"enum": ["opened", "closed", "locked", "merged", "all"]}},
            answers=(200, 401, 404, 422),
        ),
        # No pages in the description; GitLab's documentation has them.
        Operation(
            "GET", f"{_GL}/merge_requests/{{merge_request_iid}}/pipelines",
            numbers=("merge_request_iid",), answers=(200, 404),
        ),
        Operation(
            "GET", f"{_GL}/pipelines/{{pipeline_id}}/jobs", PAGED,
            numbers=("pipeline_id",), answers=(200, 401, 403, 404),
        ),
        # Source: GitLab documentation, "Job artifacts API", a single file of a job.
        Operation(
            "GET", f"{_GL}/jobs/{{job_id}}/artifacts/{{artifact_path}}", numbers=("job_id",),
            answers=(200, 400, 401, 403, 404), described=False,
        ),
    ),
}  # fmt: skip


@dataclass
class Fake:
    """A forge with one repository and its pull requests.

    Attributes:
        kind: `github` or `gitlab`.
        comments: Comments of the pull request, oldest first.
        labels: Labels of the pull request.
        pulls: Open pull requests, as the forge lists them.
        job: Name of the job that left the artifacts.
        artifacts: Change document by job number.
        base_job: Name, number and files of a job of the project's own pipeline 77.
        script: Answers for the next requests, in order: a status, a status with headers and text,
            `hang up`, `pass` for a normal answer, or `deleted` for a normal answer after somebody
            deleted all comments.
        answers: Status and text of the answer to each request for a path, whatever the method.
        refused: Requests that don't fit the description, with the reason.
        seen: Requests as `METHOD path`.
    """

    kind: str
    comments: list[Json] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    pulls: list[Json] = field(default_factory=list)
    job: str = "preview dev"
    artifacts: dict[int, str] = field(default_factory=dict)
    base_job: tuple[str, int, dict[str, str]] = ("", 0, {})
    script: list[Any] = field(default_factory=list)
    answers: dict[str, tuple[int, str]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    address: str = ""

    def answer(self, method: str, target: str, content: bytes) -> tuple[int, dict[str, str], str]:
        """Return status, headers and text of the answer to a request."""
        split = urlsplit(target)
        self.seen.append(f"{method} {unquote(split.path)}")
        query = {key: values[-1] for key, values in parse_qs(split.query).items()}
        found = self._operation(method, split.path)
        if found is None:
            self.refused.append(f"{method} {split.path}: no such operation")
            return 404, {}, '{"message": "Not Found"}'
        operation, names = found
        try:
            body = _checked(operation, names, query, content)
        except (jsonschema.ValidationError, ValueError) as error:
            self.refused.append(f"{method} {split.path}: {error}")
            return 400, {}, '{"message": "Bad Request"}'
        step: Any = self.script.pop(0) if self.script else "pass"
        if step == "deleted":
            self.comments.clear()
        elif step != "pass":
            if isinstance(step, int):
                return step, {}, json.dumps({"message": f"scripted {step}"})
            return step[0], step[1], step[2]
        if path_answer := self.answers.get(split.path):
            status, text = path_answer
            return status, {"Location": "http://203.0.113.1/"} if status == 302 else {}, text
        status, value = getattr(self, f"_{self.kind}")(operation, names, query, body)
        if status < 400 and status not in operation.answers:
            self.refused.append(f"{method} {split.path}: {status} is not described")
        return status, {}, value if isinstance(value, str) else json.dumps(value)

    def _operation(self, method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
        for operation in OPERATIONS[self.kind]:
            pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", operation.path)
            match = re.fullmatch(pattern, path)
            if match and operation.method == method:
                return operation, {key: unquote(text) for key, text in match.groupdict().items()}
        return None

    def _page(self, items: list[Any], query: dict[str, str]) -> list[Any]:
        size = min(int(query.get("per_page", 20)), MOST_PER_PAGE)
        start = (int(query.get("page", 1)) - 1) * size
        return items[start : start + size]

    def _github(
        self, operation: Operation, names: dict[str, str], query: dict[str, str], body: Json
    ) -> tuple[int, Any]:
        path = operation.path
        if path.endswith("/pulls"):
            found = [
                each for each in self.pulls
                if query.get("head", each["head"]["label"]) == each["head"]["label"]
            ]  # fmt: skip
            return 200, self._page(found, query)
        if path.endswith("/labels") and operation.method == "GET":
            return 200, self._page([{"name": name} for name in self.labels], query)
        if path.endswith("/labels"):
            self.labels += [name for name in body["labels"] if name not in self.labels]
            return 200, [{"name": name} for name in self.labels]
        if path.endswith("/{name}"):
            if names["name"] not in self.labels:
                return 404, {"message": "Label does not exist"}
            self.labels.remove(names["name"])
            return 200, [{"name": name} for name in self.labels]
        if operation.method == "GET":
            return 200, self._page(self.comments, query)
        if len(body["body"]) > GITHUB_LIMIT:
            message = f"Body is too long (maximum is {GITHUB_LIMIT} characters)"
            return 422, {"message": "Validation Failed", "errors": [{"message": message}]}
        return self._written(operation, names.get("comment_id"), body, "github-actions[bot]")

    def _gitlab(
        self, operation: Operation, names: dict[str, str], query: dict[str, str], body: Json
    ) -> tuple[int, Any]:
        path = operation.path
        if path == "/user":
            return 200, {"id": 7, "username": "bot"}
        if path.endswith("/pipelines"):
            return 200, self._of(names)["pipelines"]
        name, number, files = self.base_job
        if path.endswith("/jobs") and names["pipeline_id"] == "77":
            return 200, [{"id": number, "name": name}] if name else []
        if path.endswith("/{artifact_path}") and int(names["job_id"]) == number:
            text = files.get(names["artifact_path"], "")
            return (200, text) if text else (404, {"message": "404 Not Found"})
        if path.endswith("/jobs"):
            jobs = [{"id": number, "name": self.job} for number in self.artifacts]
            return 200, self._page(jobs, query)
        if path.endswith("/{artifact_path}"):
            text = self.artifacts.get(int(names["job_id"]), "")
            return (200, text) if text else (404, {"message": "404 Not Found"})
        if path.endswith("/merge_requests"):
            return 200, self._page(self.pulls, query)
        if path.endswith("/{merge_request_iid}"):
            add, remove = (body.get(f"{word}_labels", []) for word in ("add", "remove"))
            self.labels += [each for each in add if each not in self.labels]
            self.labels = [each for each in self.labels if each not in remove]
            return 200, {"labels": self.labels}
        if operation.method == "GET":
            return 200, self._page(self.comments, query)
        if len(body["body"]) > GITLAB_LIMIT:
            return 400, {"message": {"note": ["is too long (maximum is 1000000 characters)"]}}
        return self._written(operation, names.get("note_id"), body, "bot")

    def _of(self, names: dict[str, str]) -> Json:
        number = int(names["merge_request_iid"])
        return next(each for each in self.pulls if each["iid"] == number)

    def _written(
        self, operation: Operation, number: str | None, body: Json, author: str
    ) -> tuple[int, Any]:
        if number is None:
            self.comments.append(self.comment(body["body"], author))
            return 201, self.comments[-1]
        for each in self.comments:
            if each["id"] == int(number):
                each["body"] = body["body"]
                return 200, each
        return 404, {"message": "Not Found"}

    def comment(self, body: str, author: str) -> Json:
        """Return a new comment of an author, as the forge's API returns it."""
        number = len(self.comments) + 1
        who = {"login": author, "id": 7 if author == "bot" else 9}
        return {"id": number, "body": body, "user": who, "author": who}


def _checked(
    operation: Operation, names: dict[str, str], query: dict[str, str], content: bytes
) -> Json:
    """Return a request's JSON body after checking the request against the operation's schemas."""
    for name in operation.numbers:
        jsonschema.validate(int(names[name]), NUMBER)
    for key, text in query.items():
        if key not in operation.query:
            raise ValueError(f"query parameter {key} is not described")
        schema = operation.query[key]
        jsonschema.validate(int(text) if schema.get("type") == "integer" else text, schema)
    if operation.body is None:
        if content:
            raise ValueError("a body is not described")
        return {}
    body = json.loads(content)
    jsonschema.validate(body, {**operation.body, "additionalProperties": False})
    return dict(body)


@contextmanager
def served(fake: Fake) -> Iterator[Fake]:
    """Serve the fake forge on loopback while the context is open."""

    class Handler(QuietHandler):
        def _do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            content = self.rfile.read(length)
            if fake.script and fake.script[0] == "hang up":
                fake.script.pop(0)
                fake.seen.append(f"{self.command} hang up")
                self.close_connection = True
                return
            status, headers, text = fake.answer(self.command, self.path, content)
            data = text.encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _do

    with running(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as fake.address:
        yield fake
