"""If a node is added to 500 validated nodes, only the new node is validated."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.proofs.e2e.project import Project, figures
from tests.proofs.validation import ways
from tests.proofs.validation.conftest import ADDED
from tests.proofs.validation.requests import about_validations

pytestmark = pytest.mark.full

NODES, GPUS = 500, 8
JOBS = "/namespaces/gpu-validation/jobs"


def test_a_node_that_is_added_to_five_hundred_is_the_only_one_validated(
    project: Project, record_property: Callable[[str, object], None]
) -> None:
    def declare(nodes: int) -> None:
        pool = {"name": "big", "nodes": [f"big-[001-{nodes}]"], "gpusPerNode": GPUS}
        way = ways.declared(project.stack, ways.WAYS["exclusive"])
        project.write({**way, "pools": [pool], "validation": {"timeoutSeconds": 500}})

    declare(NODES)
    assert figures(project.up())[:2] == (NODES * GPUS, NODES * GPUS)
    declare(NODES + 1)
    with about_validations(project.stack) as asked:
        assert figures(project.up())[:2] == ((NODES + 1) * GPUS, (NODES + 1) * GPUS)
    made = [path for verb, path in asked if verb == "create" and JOBS in path]
    logs = [path for _, path in asked if "/log?" in path]
    with about_validations(project.stack) as none:
        assert figures(project.up())[2] == 0
    record_property(ADDED, f"{len(made)} of {NODES} nodes validated after adding one")
    assert len(made) == 1
    assert logs == [], "the result is in the pod's status"
    assert none == []
