"""The table of kinds says which rules judge which kinds, and leaves out no rule."""

from __future__ import annotations

from gpu_rules import kinds, reference
from gpu_rules.rules import RULES

JOBS = {"Job", "CronJob", "PyTorchJob", "MPIJob", "RayJob", "JobSet", "Workflow"}
COMPLETED = {"TrainingRuntime", "WorkflowTemplate", "InferenceService", "ServingRuntime"}
"""Kinds to which another object adds fields, so that a missing field is no fault."""


def test_each_rule_judges_a_kind_of_the_table() -> None:
    judged = set().union(*map(kinds.judged_by, kinds.KINDS), *kinds.without_pods().values())
    assert judged == RULES.keys()


def test_a_privileged_pod_with_gpus_is_found_in_each_kind() -> None:
    for kind in kinds.KINDS:
        assert {"GPU001", "GPU022", "GPU051"} <= kinds.judged_by(kind), kind


def test_jobs_of_each_program_are_asked_for_a_deadline_and_no_server_is() -> None:
    asked = {kind.name for kind in kinds.KINDS if "GPU048" in kinds.judged_by(kind)}
    assert asked == JOBS


def test_missing_fields_are_no_fault_where_another_object_adds_them() -> None:
    for kind in kinds.KINDS:
        assert ("GPU050" in kinds.judged_by(kind)) == (kind.name not in COMPLETED), kind


def test_the_reference_has_the_table() -> None:
    assert kinds.table() in reference.PAGE.read_text()
