"""Cures of the comment at a forge are followed: afterwards the comment is created.

The forges are HTTP servers on loopback, which refuse what the forges' descriptions refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gpu_cluster.commands.forges import forge as client_module
from gpu_cluster.commands.forges import github, gitlab
from gpu_cluster.commands.forges.comment_markdown import mark
from gpu_cluster.commands.forges.forge import ATTEMPTS, ForgeError, publish
from tests.commands.forges.forges import GITHUB_LIMIT, Fake, served
from tests.proofs.advice.rows import Record, note

FORGES = "components/gpu_cluster/commands/forges"
SOURCE = f"{FORGES}/forge.py"
GZIP = (200, {"Content-Encoding": "gzip"}, "no gzip")
Change = Callable[[Fake], object]


def _talk(fake: Fake, number: int, text: str = "talk") -> None:
    fake.comments[:] = [{**fake.comment(text, "ann"), "id": 1 + one} for one in range(number)]


def _publish(fake: Fake, length: int = 0) -> str:
    """Publish a comment with a text of a length, without waiting."""
    body = f"{mark('dev', ['gpus'])}\nhello{'x' * length}"
    with github.client(fake.address, "token") as client:
        forge = github.GitHub(client, "acme/gpus", 12)
        return publish(forge, "dev", body, lambda old: old, lambda _: None)


ROWS: dict[str, tuple[str, Change, Change]] = {
    "a proxy's page": (
        "check the forge's address",
        lambda fake: fake.script.append((200, {}, "<html>a proxy's page</html>")),
        lambda _: None,
    ),
    "another service": (
        "check the address",
        lambda fake: fake.script.append((200, {}, '{"a": 1}')),
        lambda _: None,
    ),
    "no gzip": ("check the address", lambda fake: fake.script.append(GZIP), lambda _: None),
    "many comments": (
        "delete old comments",
        lambda fake: _talk(fake, 2 * client_module.PAGE),
        lambda fake: fake.comments.__delitem__(slice(0, client_module.PAGE)),
    ),
    "a large comment": (
        "find out which comment or label is so large, and shorten it",
        lambda fake: _talk(fake, 1, "x" * 60_000),
        lambda fake: _talk(fake, 1, "x" * 60),
    ),
    "an overloaded forge": (
        "run again later",
        lambda fake: fake.script.extend([503] * ATTEMPTS),
        lambda _: None,
    ),
}
"""Words of the cure, what breaks the forge, and what the cure changes. A service at another address
answers the first request only: the right address is the one of the second run.
"""


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits, so that few bytes and pages exceed them."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(client_module, "LARGEST", 50_000)
    monkeypatch.setattr(client_module, "PAGES", 2)


@pytest.mark.promise("A cure of the comment at a forge removes the fault and brings no new one.")
@pytest.mark.advice("several")
@pytest.mark.parametrize("name", ROWS)
def test_a_cure_of_a_forge_is_followed(name: str, record_property: Record) -> None:
    cure, breaks, follow = ROWS[name]
    with served(Fake("github")) as fake:
        breaks(fake)
        with pytest.raises(ForgeError) as refused:
            _publish(fake)
        follow(fake)
        assert _publish(fake) == "created"
        assert fake.refused == []
    note(record_property, SOURCE, refused.value, cure)


@pytest.mark.advice("several")
def test_a_shorter_comment_is_accepted(record_property: Record) -> None:
    with served(Fake("github")) as fake:
        with pytest.raises(ForgeError) as refused:
            _publish(fake, GITHUB_LIMIT)
        assert _publish(fake, 10_000) == "created"
    note(record_property, SOURCE, refused.value, "a body has at most 65,536 characters")


@pytest.mark.advice("several")
def test_a_slow_answer_is_requested_again(
    monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    with served(Fake("github")) as fake:
        with monkeypatch.context() as slow:
            slow.setattr(client_module, "LONGEST_ANSWER", -1.0)
            with pytest.raises(ForgeError) as refused:
                _publish(fake)
        assert _publish(fake) == "created"
    note(record_property, SOURCE, refused.value, "run again")


NAMES: tuple[tuple[str, Any, str, str, str], ...] = (
    ("github", github.GitHub, "gpus", "acme/gpus", "write it in this form"),
    ("gitlab", gitlab.GitLab, "acme gpus", "acme/gpus", "write it in one of these forms"),
    ("gitlab", gitlab.GitLab, "acme gpus", "5", "write it in one of these forms"),
)


@pytest.mark.advice("several")
@pytest.mark.parametrize(("kind", "made", "wrong", "right", "cure"), NAMES)
def test_a_name_in_the_form_of_the_cure_is_accepted(
    kind: str, made: Any, wrong: str, right: str, cure: str, record_property: Record
) -> None:
    with httpx.Client() as client:
        with pytest.raises(ForgeError) as refused:
            made(client, wrong, 1)
        assert made(client, right, 1).client is client
    note(record_property, f"{FORGES}/{kind}.py", refused.value, cure)
