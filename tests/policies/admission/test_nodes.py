"""Admission warns about nodes whose driver is below a security floor, and never denies a node."""

from __future__ import annotations

import httpx
import pytest

from gpu_rules.admission import Enforcement
from gpu_rules.admission.manifests import manifests
from gpu_rules.facts.floors import Floor, Software, floors, parse
from gpu_rules.rules import Context, Severity
from tests.policies.admission.cluster import Answer, Json, apply, create, edit
from tests.policies.facts.borders import just_below, name

LABEL = "nvidia.com/cuda.driver-version.full"
DRIVERS = [entry for entry in floors() if entry.part is Software.DRIVER]
LAST = {entry.branch: entry for entry in sorted(DRIVERS, key=lambda each: parse(each.fixed))}


def node(driver: str, of: str = "gpu-1") -> Json:
    labels = {LABEL: driver}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": of, "labels": labels}}


def said_of(api: httpx.Client, driver: str) -> str:
    said: Answer = create(api, node(driver))
    assert said.taken, said.text
    assert said.rules <= {"GPU072"}
    return said.text


@pytest.mark.slow
@pytest.mark.promise(
    "A node that reports a driver below a security floor gets a warning at admission that names "
    "the bulletin and the fixed version; it is never refused."
)
@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry, id=name(entry), marks=pytest.mark.versions("bulletin", entry.bulletin))
        for entry in DRIVERS
    ],
)
def test_each_border_of_a_driver_is_told_at_admission(api: httpx.Client, entry: Floor) -> None:
    last = LAST[entry.branch]
    told = f"{last.fixed} or later of branch {entry.branch}: NVIDIA bulletin {last.bulletin} of "
    assert told in said_of(api, just_below(entry))
    at_the_border = said_of(api, entry.fixed)
    assert (told in at_the_border) is (entry.fixed != last.fixed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("driver", "wanted"),
    [
        ("570.211.01", "580.159.03 or later: its own branch has no fix"),
        ("390.157", "535.309.01 or later: its own branch has no fix"),
        ("535.309.01-1ubuntu1", ""),
        ("580.159.3", ""),
        ("620.10.01", ""),
        ("", ""),
        ("none", ""),
    ],
)
def test_what_the_label_may_say(api: httpx.Client, driver: str, wanted: str) -> None:
    text = said_of(api, driver)
    assert (wanted in text) if wanted else not text


@pytest.mark.parametrize("severity", [Severity.MANDATORY, Severity.ADVISORY])
@pytest.mark.parametrize(
    ("actions", "wanted"), [(["Deny", "Audit"], ["Warn", "Audit"]), (["Audit"], ["Audit"])]
)
def test_no_policy_can_refuse_a_node(
    severity: Severity, actions: list[str], wanted: list[str]
) -> None:
    """Neither the validation actions nor the failure policy may deny a Node."""
    how = Enforcement(dict.fromkeys(Severity, actions))
    made = manifests(Context(severities={"GPU072": severity}), how)
    policy, binding = (
        each["spec"] for each in made if each["metadata"]["name"] == f"gpu-rules-nodes-{severity}"
    )
    assert policy["failurePolicy"] == "Ignore"
    assert binding["validationActions"] == wanted


@pytest.mark.slow
def test_only_a_change_of_labels_is_judged(api: httpx.Client) -> None:
    made = node("580.126.20", "gpu-9")
    assert create(api, made, dry=False).rules == {"GPU072"}
    said = edit(api, made, lambda live: live["spec"].update(unschedulable=True))
    assert (said.status, said.text) == (200, "")
    said = edit(api, made, lambda live: live["metadata"]["labels"].update({LABEL: "580.126.21"}))
    assert said.rules == {"GPU072"}
    said = edit(api, made, lambda live: live["metadata"]["labels"].update({LABEL: "580.159.03"}))
    assert said.text == ""
    apply(api, node("580.159.03", "gpu-9"))
