"""The plan of an upgrade: each step is supported, and an edit of the stack file that loads."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.commands import upgrade_plan
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.stack_edit import Edit, edited
from gpu_cluster.commands.upgrade_plan import declared_versions, plan, targets
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_rules.facts.transitions import Verdict, histories
from gpu_rules.faults import FaultError

TODAY = date(2026, 11, 29)
HOST = {
    "name": "gpu-1",
    "address": "192.0.2.1",
    "hostKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPVVJnWq0RGVDc6v0ocP1kZbAnZ3WQ2GuMHyM9Ea5kT",
}


def text(platform: str = "gpu-operator", **sections: Any) -> str:
    """Return the text of a stack file."""
    cluster = {
        "version": "v1",
        "kubernetes": {"context": "gpu-cluster-none"},
        "platform": platform,
        "pools": [{"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": 8}],
        **sections,
    }
    return yaml.safe_dump({"config": {"gpu-cluster:cluster": cluster}}, sort_keys=False)


def steps_of(chart: str, version: str, running: str = "", **sections: Any) -> list[Any]:
    versions = declared_versions(sections, chart, version)
    wanted = targets(versions, running, TODAY)
    return list(plan(versions, wanted, running, sections))


@pytest.mark.parametrize(
    ("chart", "version", "running", "sections", "expected"),
    [
        (
            "gpu-operator",
            "v25.3.4",
            "v1.33.6",
            {"gpuOperator": {"version": "v25.3.4", "unknownVersion": True}},
            "v25.10.1 v26.3.3 v26.7.1",
        ),
        ("gpu-operator", "v26.7.1", "v1.36.3", {}, ""),
        # 26.7 is not supported with 1.32: 26.3 is the newest that is.
        ("gpu-operator", "v26.3.0", "v1.32.1", {}, "v26.3.3"),
        ("nvidia-device-plugin", "0.19.2", "v1.36.3", {}, "0.20.1"),
        (
            "nvidia-device-plugin",
            "0.20.1",
            "",
            {"kubernetesPackages": {"version": "1.34.4"}},
            "1.35.10 1.36.6 1.37.2",
        ),
        # Kubernetes 1.37 is not supported with any operator that was read.
        (
            "gpu-operator",
            "v26.3.3",
            "",
            {"kubernetesPackages": {"version": "1.35.4"}},
            "v26.7.1 1.36.6",
        ),
        ("hami", "2.10.0", "v1.36.3", {}, ""),
        # Branch 570 has ended; branch 580 gets fixes.
        ("hami", "2.10.0", "", {"driver": {"version": "570.211.01"}}, "580.159.03"),
        ("hami", "2.10.0", "", {"driver": {"version": "580.95.05"}}, "580.159.03"),
        ("hami", "2.10.0", "", {"driver": {"version": "595.91.07"}}, ""),
        ("hami", "2.10.0", "", {"runtime": {"toolkit": {"version": "1.18.0"}}}, "1.19.1"),
    ],
)
def test_the_steps_lead_to_the_newest_versions_that_work_together(
    chart: str, version: str, running: str, sections: Any, expected: str
) -> None:
    assert [step.now for step in steps_of(chart, version, running, **sections)] == expected.split()


def test_no_step_is_one_that_the_makers_do_not_support() -> None:
    for software, history in histories().items():
        if software not in ("gpu-operator", "nvidia-device-plugin"):
            continue
        for version in history.releases:
            for step in steps_of(software, version, "v1.35.4"):
                assert step.verdict is Verdict.SUPPORTED, step


def test_the_plan_is_followed_step_by_step_until_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Pulumi.lab.yaml"
    file.write_text(
        text(
            gpuOperator={"version": "v25.3.4", "unknownVersion": True},
            hosts=[HOST],
            kubernetesPackages={"version": "1.33.13"},
        )
    )
    monkeypatch.setattr(Stack, "file", property(lambda _: file))
    taken = []
    for _ in range(10):
        answer: dict[str, Any] = {}
        upgrade_plan.run(Stack("lab"), write=True, json_output=answer, today=TODAY)
        if not answer["steps"]:
            break
        load_stack_file(file)
        taken.append(f"{answer['steps'][0]['software']} {answer['steps'][0]['now']}")
    assert taken == [
        "gpu-operator v25.10.1",
        "gpu-operator v26.3.3",
        "gpu-operator v26.7.1",
        "kubernetes 1.34.13",
        "kubernetes 1.35.10",
        "kubernetes 1.36.6",
    ]
    assert "declares the newest versions" in capsys.readouterr().out
    declared = yaml.safe_load(file.read_text())["config"]["gpu-cluster:cluster"]
    assert declared["gpuOperator"] == {"version": "v26.7.1", "unknownVersion": False}


def test_without_write_the_file_stays_and_the_edit_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Pulumi.lab.yaml"
    before = text(hosts=[HOST], gpuOperator={"version": "v26.3.3"})
    file.write_text(before)
    monkeypatch.setattr(Stack, "file", property(lambda _: file))
    upgrade_plan.run(Stack("lab"), write=False, json_output={}, today=TODAY)
    assert file.read_text() == before
    out = capsys.readouterr().out
    assert "Kubernetes unknown: its API server does not answer" in out
    assert "to edit in Pulumi.lab.yaml: gpuOperator.version: v26.7.1" in out


@pytest.mark.parametrize(
    ("before", "edit", "after"),
    [
        (
            "  dra: {version: 0.4.1}\n",
            Edit(("dra", "version"), "0.5.0"),
            "  dra: {version: 0.5.0}\n",
        ),
        (
            "  dra: # ours\n    namespace: d\n",
            Edit(("dra", "version"), "0.5.0"),
            "  dra: # ours\n    version: 0.5.0\n    namespace: d\n",
        ),
        (
            "  dra: {namespace: d} # ours\n",
            Edit(("dra", "version"), "0.5.0"),
            "  dra: {version: 0.5.0, namespace: d} # ours\n",
        ),
        (
            "  version: v1\n",
            Edit(("dra", "version"), "0.5.0"),
            "  dra: {version: 0.5.0}\n  version: v1\n",
        ),
        (
            "  cuda: {version: '12.8'}\n",
            Edit(("cuda", "version"), "13.0"),
            '  cuda: {version: "13.0"}\n',
        ),
    ],
)
def test_an_edit_changes_one_setting_and_no_other_character(
    before: str, edit: Edit, after: str
) -> None:
    head = "# A stack.\nconfig:\n gpu-cluster:cluster:\n"
    assert edited(head + before, [edit]) == head + after


def test_a_form_that_cannot_be_edited_is_refused() -> None:
    head = "config:\n gpu-cluster:cluster:\n  dra: &d {version: 0.4.1}\n  other: *d\n"
    with pytest.raises(FaultError, match="write the printed edits by hand"):
        edited(head, [Edit(("dra", "version"), "0.5.0")])
