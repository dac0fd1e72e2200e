"""The text of a preview fits one screen and starts with the number of GPUs."""

from __future__ import annotations

import re

import pytest
import yaml

from gpu_cluster.change.document import (
    ClusterChange,
    Document,
    Operation,
    Outcome,
    Resource,
    Statement,
)
from gpu_cluster.change.names import listed, ranges
from gpu_cluster.change.text import lines, object_lines, only_uninspected, statement_text
from gpu_cluster.findings import Aspect, aspect_text
from tests.components.change.edits import EDITS, TOLD

EXPECTED: dict[str, str] = yaml.safe_load(TOLD.read_text())
SCREEN = (24, 200)
"""Lines and columns of one screen."""


def test_a_digest_is_said_to_be_one() -> None:
    found = Statement(
        subject="node", names=("gpu-1",), aspect=Aspect.FACT, key="DaemonSet plugin",
        was="afa49ebf8cd2", now="1bf082f1b4a9",
    )  # fmt: skip
    assert statement_text(found) == (
        "validated with another DaemonSet plugin: its pod template changed, digest "
        "afa49ebf8cd2 → 1bf082f1b4a9"
    )


def test_what_hosts_record_of_packages_is_said_in_words() -> None:
    assert aspect_text(Aspect.RECORDED, "PACKAGES") == "packages to install"
    assert aspect_text(Aspect.RECORDED, "HEADERS").startswith("kernel headers")


def test_what_a_fault_says_is_not_said_again_as_not_inspected() -> None:
    text = "host gpu-1: no answer within 15 s"
    cluster = EDITS["nothing"].change.model_copy(update={"uninspected": (text, "host gpu-2: x")})
    assert only_uninspected(cluster) == [text, "host gpu-2: x"]
    assert only_uninspected(cluster.with_faults([f"{text}; cure: y"])) == ["host gpu-2: x"]


@pytest.mark.promise(
    "A preview says in one screen what an edit of the stack file does to GPUs, pods and nodes."
)
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_told_in_one_screen(name: str) -> None:
    text = EDITS[name].text
    assert text == EXPECTED[name].rstrip("\n")
    height, width = SCREEN
    assert len(text.splitlines()) <= height
    assert max(map(len, text.splitlines())) <= width
    assert text.replace("\n", "").isprintable()


def test_there_are_sixty_edits_and_no_text_is_left_over() -> None:
    assert len(EDITS) >= 60
    assert EXPECTED.keys() == EDITS.keys()


def test_no_text_shows_a_digest_a_placeholder_or_a_resource_of_the_engine() -> None:
    """A digest of settings tells a user nothing; the text must show the number of GPUs."""
    for edit in EDITS.values():
        for word in ("stdin", "04da6b54", "[secret]", "command:", "settings was", "→ 23 lines"):
            assert word not in edit.text
        for each in edit.change.changes:
            assert not (each.subject == "node" and re.fullmatch(r"[0-9a-f]{8}", each.now))


def test_an_edit_of_a_user_is_never_called_drift() -> None:
    by_others = {name for name in EDITS if "by hand" in name or "changed on a host" in name}
    for name, edit in EDITS.items():
        assert bool(edit.change.drift) == (name in by_others), name


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], []),
        (["gpu-1"], ["gpu-1"]),
        (["gpu-1", "gpu-2", "gpu-4"], ["gpu-1..2", "gpu-4"]),
        (["h-08", "h-09", "h-10"], ["h-08..10"]),
        (["h-9", "h-10"], ["h-9..10"]),
        (["h-09", "h-010"], ["h-09", "h-010"]),
        (["a1-1", "a2-2"], ["a1-1", "a2-2"]),
        (["x", "y"], ["x", "y"]),
        (["gpu-2", "gpu-1"], ["gpu-1..2"]),
    ],
)
def test_consecutive_names_are_ranges(names: list[str], text: list[str]) -> None:
    assert ranges(names) == text


def test_many_ranges_are_counted() -> None:
    assert listed([f"n-{n}" for n in range(0, 40, 2)]).endswith(" and 14 more")


def test_objects_that_only_the_engine_knows_are_counted() -> None:
    made: list[tuple[Operation, str, str]] = [
        ("update", "command:local:Command", "gpu-cluster-validation.pools"),
        ("create", "kubernetes:core/v1:ConfigMap", "a"),
        ("create", "kubernetes:core/v1:ConfigMap", "b"),
        ("update", "kubernetes:helm.sh/v3:Release", "c"),
    ]
    resources = tuple(Resource(operation=o, type=t, name=n) for o, t, n in made)
    document = Document(stack="dev", outcome=Outcome.CHANGED, resources=resources)
    assert list(object_lines(document)) == [
        "objects: create 2 ConfigMap",
        "objects: update 1 Release",
    ]


def test_a_cluster_that_is_not_known_yet_says_so_first() -> None:
    change = ClusterChange(name="c", unknown="c: unknown until its cluster exists")
    assert lines(change)[0] == "c: unknown until its cluster exists"
