"""The subject of a rule: a manifest's names and pods, and the path of each field of a pod."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_rules.kube.pod_resources import ContainerRole
from gpu_rules.rules import custom
from gpu_rules.rules.pod_spec import find_pod
from gpu_rules.rules.resource_names import _letters_off
from gpu_rules.rules.rule import Subject
from gpu_rules.rules.twin import Twin, pods

SPEC = {"containers": [{"name": "a", "image": "b"}]}
HOME = "home"


def manifest(kind: str, api: str = "v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "one"}, **more}


DEPLOYMENT = manifest("Deployment", "apps/v1", spec={"template": {"spec": SPEC}})
CUSTOM = manifest("Train", "jobs.example.com/v1", spec={"worker": {"spec": SPEC}})


@pytest.mark.parametrize(
    ("of", "namespace"),
    [
        (manifest("Pod", spec=SPEC), HOME),
        (DEPLOYMENT, HOME),
        (CUSTOM, HOME),
        (manifest("ConfigMap"), HOME),
        (manifest("Namespace"), ""),
        (manifest("ConfigMap", metadata={"name": "one", "namespace": "own"}), "own"),
    ],
)
def test_what_belongs_into_a_namespace_goes_to_the_default_one(of: Any, namespace: str) -> None:
    (subject,) = Subject.all_of(of, HOME)
    assert subject.namespace == namespace
    (without,) = Subject.all_of(of)
    assert without.namespace == (namespace if namespace == "own" else "")
    if of is not CUSTOM:
        assert Subject.of(of, HOME) == subject
        assert Subject.of(of) == without


def test_only_a_custom_kind_is_searched_for_pods() -> None:
    (subject,) = Subject.all_of(manifest("ConfigMap", spec={"worker": {"spec": SPEC}}))
    assert subject.pod is None


@pytest.mark.parametrize(
    ("of", "path", "under", "name"),
    [
        (manifest("Pod", spec=SPEC), "", "spec.containers[0]", "metadata"),
        (DEPLOYMENT, "spec.template", "spec.template.spec.containers[0]", "spec.template.metadata"),
    ],
)
def test_fields_of_a_pod_lie_where_its_kind_has_them(
    of: Any, path: str, under: str, name: str
) -> None:
    found = find_pod(of)
    assert found is not None
    assert (found.path, found.containers[0].path) == (path, under)
    assert (found.under("metadata"), found.under("spec")) == (name, under.rpartition(".")[0])
    assert found.under("spec.hostPID") == f"{under.rpartition('.')[0]}.hostPID"


def test_a_kind_of_another_group_has_no_pod() -> None:
    assert find_pod({**DEPLOYMENT, "apiVersion": "example.com/v1"}) is None


def test_a_pod_of_a_custom_kind_lies_where_it_was_found() -> None:
    labels = {"labels": {"app": "a"}}
    (found,) = custom.pods({"spec": {"jobs": [{}, {"metadata": labels, "spec": SPEC}]}})
    assert (found.path, found.spec_path, found.metadata) == (
        "spec.jobs[1]", "spec.jobs[1].spec", labels,
    )  # fmt: skip
    assert found.containers[0].path == "spec.jobs[1].spec.containers[0]"


def test_a_spec_may_stand_around_one_container() -> None:
    step = {**SPEC, "metadata": {"labels": {"b": "c"}}, "container": {"image": "c"}}
    (found,) = custom.pods({"spec": {"tasks": [step]}})
    assert (found.path, found.metadata) == ("spec.tasks[0]", step["metadata"])
    assert found.under("spec") == "spec.tasks[0]"
    listed, one = found.containers
    assert (listed.name, one.name, one.role) == ("a", "#0", ContainerRole.APP)
    assert one.path == "spec.tasks[0].container"


@pytest.mark.parametrize(
    ("first", "second", "letters"),
    [
        ("", "", 0),
        ("ab", "ab", 0),
        ("ab", "abc", 1),
        ("abc", "ab", 1),
        ("b", "ab", 1),
        ("ab", "b", 1),
        ("ab", "ba", 2),
        ("abcd", "cd", 2),
        ("ab", "xy", 2),
        ("abcd", "a", 3),
    ],
)
def test_letters_between_two_texts_are_counted(first: str, second: str, letters: int) -> None:
    assert _letters_off(first, second) == letters


def test_a_twin_has_what_it_was_given() -> None:
    assert pods("[]") == Twin("[]")
    given = pods("[]", "DaemonSet", ephemeral=True, on_update="true", signs=())
    kinds = frozenset({"DaemonSet"})
    assert given == Twin("[]", kinds=kinds, ephemeral=True, on_update="true", signs=())
