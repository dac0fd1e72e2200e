"""The previews in the documentation of day-two procedures are those of the procedures' edits."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from tests.components.change.edits import EDITS

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "how-to" / "day-two.md").read_text(encoding="utf-8")
PROCEDURES = {
    "A sick GPU": "a sick GPU left out",
    "A replaced GPU": "a sick GPU back",
    "A node out for repair": "a node in maintenance",
    "A node back from repair": "a node back from maintenance",
    "A node that goes for good": "a node fewer, with a pod on it",
    "Ten new nodes": "ten nodes more",
    "Another name of a pool": "a renamed pool",
    "Another driver": "the driver goes up",
}
"""Edit of each procedure that edits the cluster's settings, by its heading."""
WITHOUT = {"Another SSH key"}
"""Procedures that edit a secret only, which no inspection compares."""


def sections() -> dict[str, str]:
    """Return the text of each procedure on the page by the procedure's heading."""
    parts = re.split(r"(?m)^## (.+)$", PAGE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_each_procedure_has_its_preview() -> None:
    assert sections().keys() == PROCEDURES.keys() | WITHOUT


@pytest.mark.promise("The procedures of day two show what their previews really say.")
@pytest.mark.parametrize("heading", PROCEDURES)
def test_the_preview_of_a_procedure_is_what_its_edit_gives(heading: str) -> None:
    blocks = re.findall(r"(?ms)^ *```(\w*)\n(.*?)^ *```$", sections()[heading])
    shown = [textwrap.dedent(text).strip() for language, text in blocks if not language]
    assert shown == [EDITS[PROCEDURES[heading]].text]


@pytest.mark.promise(
    "A pool that only gets another name drains no node, validates none and changes no label."
)
def test_a_renamed_pool_changes_nothing_on_nodes() -> None:
    change = EDITS["a renamed pool"].change
    assert [each.what for each in change.changes] == ["pool"]
    assert (change.drift, change.due, change.gaps, change.limits, change.pods) == ((),) * 5
    assert not any(n.validated or n.drained or n.rebooted or n.outage for n in change.nodes)


def test_a_pool_with_partitioned_gpus_that_is_renamed_is_not_partitioned_again() -> None:
    change = EDITS["a renamed pool with partitioned GPUs"].change
    assert [each.what for each in change.changes] == ["pool"]
    assert (change.gaps, change.pods) == ((), ())


def test_a_node_that_leaves_with_a_pod_on_it_names_the_pod_and_says_that_it_stays() -> None:
    (pod,) = EDITS["a node fewer, with a pod on it"].change.pods
    assert (pod.node, pod.name, pod.gpus) == ("gpu-4", "train-0", 8)


def test_the_lines_of_previews_on_the_page_about_mig_are_those_of_its_edits() -> None:
    page = (ROOT / "docs" / "how-to" / "mig.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?ms)^ *```\n( *4 nodes partitioned.*?)^ *```$", page)
    for block, name in zip(blocks, ("partitioned GPUs", "whole GPUs again"), strict=True):
        told = EDITS[name].text.splitlines()
        assert [line for line in block.splitlines() if line.strip() not in told] == []
