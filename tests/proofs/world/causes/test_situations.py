"""What `gpu-cluster why` says in situations of public reports."""

from __future__ import annotations

import re

import pytest

from gpu_cluster.nodes.causes.cause import Around, Cause
from gpu_cluster.nodes.causes.pod import cause_of, cause_of_missing
from tests.proofs.world.causes.rows import Situation, rows

REPEATS = ("delete the pod", "delete them", "delete such pods", "or delete ")
"""What no cure says: the pod that is made again fails again, or other people's work is lost."""


def explained(row: Situation) -> Cause | None:
    around = Around(**row.objects())
    if row.missing is None:
        return cause_of(row.pod.made(), around)
    return cause_of_missing(row.missing.name, around)


def lacking(patterns: tuple[str, ...], text: str) -> list[str]:
    """Return the patterns that a text doesn't match."""
    return [each for each in patterns if not re.search(each, text, re.IGNORECASE)]


@pytest.mark.promise(
    "`gpu-cluster why` names the words of the scheduler, the kubelet, the runtime or the pod's own "
    "log first, and no cure of it makes the same pod fail again."
)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.advice("cause", name)) for name in rows()]
)
def test_the_cause_of_a_public_report_is_true_and_its_cure_can_be_followed(name: str) -> None:
    row = rows()[name]
    cause = explained(row)
    if row.none:
        assert cause is None, cause
        return
    assert cause is not None, row.truth
    assert not lacking(row.says, cause.text), (cause.text, row.truth)
    assert not lacking(row.cure, cause.cure), (str(cause), row.truth)
    unwanted = (*row.never, *REPEATS)
    assert lacking(unwanted, str(cause)) == list(unwanted), (str(cause), row.truth)
