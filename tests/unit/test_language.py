"""The list of discouraged phrases finds them in text, and accepts plain English."""

from __future__ import annotations

import pytest

from commands.language import phrases


@pytest.mark.parametrize(
    "text",
    [
        "it lets us not in",
        "a stand-in for containerd",
        "The look at hosts",
        "what a Node says of its GPUs",
        "this is no list",
        "it would else keep a file",
        "labels are taken back",
        "a pending reboot is told, no more",
        "nodes shall have labels",
    ],
)
def test_a_phrase_is_found_with_its_line_and_a_better_one(text: str) -> None:
    ((line, phrase, instead),) = phrases(f"first line\n{text}\n")
    assert line == 2
    assert phrase in text
    assert instead


@pytest.mark.parametrize(
    "text",
    [
        "There is no such node",
        "nothing to do is no error",
        "it does what it is told",
        "the path lab/simulator/hosts/fake.kubeconfig",
        "is no longer declared",
    ],
)
def test_plain_english_is_left_alone(text: str) -> None:
    assert list(phrases(text)) == []
