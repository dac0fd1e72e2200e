"""Shared part of the clients of GitHub and GitLab (the forges): requests, retries, comments."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import httpx

from gpu_cluster.commands.forges.comment_markdown import LABELS, MARK
from gpu_rules.printable import printable

T = TypeVar("T")

TIMEOUT = 20.0
"""Time limit of each wait for the forge, in seconds."""
LONGEST_ANSWER = 120.0
"""Time limit of one response, in seconds, however steadily its bytes arrive."""
ATTEMPTS = 5
"""Maximum number of attempts to publish a comment after temporary errors."""
PAUSES = (1.0, 3.0, 10.0, 30.0)
"""Seconds to wait before each further attempt, if the response has no `Retry-After`."""
LONGEST_PAUSE = 60.0
"""Longest accepted `Retry-After`, in seconds; the command fails if a forge requests more."""
PAGE = 100
"""Number of comments per page, the maximum of both forges."""
PAGES = 50
"""Maximum number of pages of comments that are read."""
LARGEST = 32 * 1024 * 1024
"""Maximum size of a response in bytes."""
KEPT = (
    "content-type",
    "location",
    "retry-after",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
)
"""Headers of a response that are kept; others, such as `Content-Encoding`, no longer apply."""
TEMPORARY = frozenset({429, 500, 502, 503, 504})
"""HTTP statuses after which the same request may succeed later."""
SECONDARY = "secondary rate limit"
"""Part of GitHub's message about a limit that it reports without a header."""


class ForgeError(Exception):
    """A forge's response that prevents the comment; the error text says what to do."""


class Temporary(Exception):
    """A temporary error of a forge, after which the comment is published again.

    Attributes:
        pause: Seconds to wait. None: the response has no `Retry-After`.
    """

    def __init__(self, text: str, pause: float | None = None) -> None:
        """Create the error from its text and the pause."""
        super().__init__(text)
        self.pause = pause


@dataclass(frozen=True, kw_only=True)
class Note:
    """A comment that this program wrote.

    Attributes:
        number: Number of the comment at the forge.
        body: Text of the comment.
    """

    number: int
    body: str

    @property
    def stack(self) -> str:
        """Return the stack that the comment is about."""
        match = MARK.match(self.body)
        return match["stack"] if match else ""

    @property
    def labels(self) -> frozenset[str]:
        """Return the pull request labels that are recorded in the comment."""
        match = MARK.match(self.body)
        return frozenset(match["labels"].split(",")) & set(LABELS) if match else frozenset()


class Forge(ABC):
    """A pull request at a forge.

    Attributes:
        client: HTTP client with the forge's address and the token.
    """

    cures: ClassVar[dict[int, str]]

    def __init__(self, client: httpx.Client) -> None:
        """Create the forge from an HTTP client."""
        self.client = client

    @abstractmethod
    def notes(self) -> list[Note]:
        """Return the comments of the pull request that this program wrote, oldest first."""

    @abstractmethod
    def create(self, body: str) -> None:
        """Create a comment."""

    @abstractmethod
    def update(self, note: Note, body: str) -> None:
        """Replace the text of a comment."""

    @abstractmethod
    def labelled(self) -> frozenset[str]:
        """Return the labels of the pull request that this program manages."""

    @abstractmethod
    def label(self, add: frozenset[str], remove: frozenset[str]) -> None:
        """Add and remove labels of the pull request."""

    def request(
        self, method: str, path: str, *, missing: bool = False, **options: Any
    ) -> httpx.Response:
        """Send a request; return the response if it is a success.

        Args:
            method: HTTP method.
            path: Path below the client's address.
            missing: Whether status 404 counts as a success, too.
            options: Keyword arguments of `httpx.Client.request`.

        Raises:
            Temporary: The same request may succeed later.
            ForgeError: The forge refuses the request.
        """
        request_text = f"{method} {path}"
        try:
            response = self._sent(method, path, **options)
        except httpx.TransportError as error:
            raise Temporary(f"{request_text}: {type(error).__name__}") from None
        except httpx.HTTPError as error:
            fault_text = f"a response with {type(error).__name__}"
            raise ForgeError(
                f"{request_text}: found {fault_text}; cure: check the address"
            ) from None
        if response.is_success or (missing and response.status_code == 404):
            return response
        response_text = printable(response.text, 200)
        text = f"{request_text}: found HTTP {response.status_code} {response_text}"
        if response.status_code in TEMPORARY or _is_limited(response):
            raise Temporary(text, _pause(response))
        cure = self.cures.get(response.status_code, "check the forge's status page, then run again")
        raise ForgeError(f"{text}; wanted: a successful response; cure: {cure}")

    def _sent(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request; return the response, whose content is at most `LARGEST` bytes.

        Raises:
            ForgeError: The response is larger, or does not end in `LONGEST_ANSWER` seconds.
        """
        latest = time.monotonic() + LONGEST_ANSWER
        content = bytearray()
        with self.client.stream(method, path, **options) as response:
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > LARGEST:
                    raise ForgeError(
                        f"{method} {path}: found more than {LARGEST} bytes; cure: find out "
                        "which comment or label is so large, and shorten it"
                    )
                if time.monotonic() > latest:
                    raise ForgeError(
                        f"{method} {path}: found an answer that did not end within "
                        f"{LONGEST_ANSWER:.0f} s; cure: run again"
                    )
        return httpx.Response(
            response.status_code,
            headers={k: v for k, v in response.headers.items() if k in KEPT},
            content=bytes(content),
            request=response.request,
        )

    def rewrite(self, method: str, path: str, body: str) -> None:
        """Replace the text of a comment by a request to the comment's own path.

        Raises:
            Temporary: Somebody deleted the comment after it was listed.
            ForgeError: The forge refuses the request.
        """
        response = self.request(method, path, missing=True, json={"body": body})
        if not response.is_success:
            raise Temporary(f"{method} {path}: found that the comment was deleted meanwhile")

    def objects(self, response: httpx.Response) -> list[dict[str, Any]]:
        """Return the content of a response, which must be a list of objects.

        Raises:
            ForgeError: The content is no list of objects.
        """
        items = self.read(response)
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            request_text = f"GET {response.url.path}"
            raise ForgeError(f"{request_text}: found no list of objects; cure: check the address")
        return items

    def listed(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        """Yield the items of all pages of a list.

        Raises:
            ForgeError: The response is not a list of objects, or there are too many pages.
        """
        for page in range(1, PAGES + 1):
            params = {**query, "per_page": PAGE, "page": page}
            items = self.objects(self.request("GET", path, params=params))
            yield from items
            if len(items) < PAGE:
                return
        raise ForgeError(
            f"GET {path}: found more than {PAGES * PAGE} entries; "
            "cure: delete old comments, or close old pull requests"
        )

    def read(self, response: httpx.Response) -> Any:
        """Return the JSON content of a response.

        Raises:
            ForgeError: The response is not JSON.
        """
        try:
            return response.json()
        except (ValueError, RecursionError):
            start = printable(response.text, 80)
            raise ForgeError(
                f"GET {response.url.path}: found no JSON ({start}); cure: check the forge's address"
            ) from None


def _is_limited(response: httpx.Response) -> bool:
    """Return whether an error response reports a rate limit.

    GitHub reports a rate limit by status 403 with one of these headers, or in its message (GitHub
    documentation, "Rate limits for the REST API").
    """
    if response.status_code != 403:
        return False
    return _is_used_up(response) or "retry-after" in response.headers or SECONDARY in response.text


def _is_used_up(response: httpx.Response) -> bool:
    """Return whether no request is left until the time in the header `x-ratelimit-reset`."""
    return bool(response.headers.get("x-ratelimit-remaining") == "0")


def _pause(response: httpx.Response) -> float | None:
    """Return the seconds to wait that the forge's response names; None if it names none.

    The header `x-ratelimit-reset` is a time in seconds since 1970, and counts only if no request is
    left. A limit without any header takes a minute (GitHub documentation, as above).
    """
    if (seconds := _number(response.headers.get("retry-after", ""))) is not None:
        return seconds
    reset = _number(response.headers.get("x-ratelimit-reset", ""))
    if _is_used_up(response) and reset is not None:
        return max(0.0, reset - time.time())
    return LONGEST_PAUSE if SECONDARY in response.text else None


def _number(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


def publish(
    forge: Forge,
    stack: str,
    body: str | None,
    replace: Callable[[str], str],
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Create or update the comment about a stack, and set the labels; return the action as text.

    After a temporary error all comments are read again, so that no second comment is created.

    Args:
        forge: The pull request.
        stack: Name of the stack, by which an earlier comment is found.
        body: Text of the comment. None: nothing changes, so an earlier comment becomes outdated.
        replace: Function that returns the text of an earlier comment, marked as outdated.
        sleep: Function that waits for a number of seconds.

    Raises:
        ForgeError: The forge rejects a request, or its temporary errors don't end in time.
    """
    return retry(lambda: _publish(forge, stack, body, replace), sleep)


def retry(act: Callable[[], T], sleep: Callable[[float], None] = time.sleep) -> T:
    """Return what a function returns; call it again after a temporary error of the forge.

    Raises:
        ForgeError: The forge rejects a request, or its temporary errors don't end in time.
    """
    for attempt in range(ATTEMPTS):
        try:
            return act()
        except Temporary as error:
            pause = error.pause if error.pause is not None else PAUSES[min(attempt, 3)]
            if attempt + 1 == ATTEMPTS or pause > LONGEST_PAUSE:
                raise ForgeError(
                    f"{error}; wanted: an answer within {ATTEMPTS} attempts; cure: run again later"
                ) from None
            sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def _publish(forge: Forge, stack: str, body: str | None, replace: Callable[[str], str]) -> str:
    notes = forge.notes()
    stack_notes = [note for note in notes if note.stack == stack]
    done = "unchanged"
    if stack_notes:
        newest = stack_notes[-1]
        new_body = replace(newest.body) if body is None else body
        if new_body.strip() != newest.body.strip():
            forge.update(newest, new_body)
            done = "outdated" if body is None else "updated"
    elif body is not None:
        forge.create(body)
        done = "created"
    other_labels = [note.labels for note in notes if note.stack != stack]
    asked_labels = Note(number=0, body=body).labels if body else frozenset()
    wanted_labels = asked_labels.union(*other_labels)
    forge_labels = forge.labelled()
    add, remove = wanted_labels - forge_labels, forge_labels - wanted_labels
    if add or remove:
        forge.label(frozenset(add), frozenset(remove))
    return done
