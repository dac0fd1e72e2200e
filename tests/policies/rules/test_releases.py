"""Rules about charts and drivers judge each form in which a release is declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_rules.rules import EXAMPLES, Context, Subject, charts, evaluate
from gpu_rules.rules.unread import unread
from tests.policies.rules.messages import judge

VALUES: dict[str, Any] = {
    "driver": {"version": "latest", "upgradePolicy": {"maxParallelUpgrades": 0}},
    "toolkit": {"version": "v1.14.0"},
}
BROKEN = {
    "GPU053": "driver.version",
    "GPU054": "toolkit.version",
    "GPU055": "driver.upgradePolicy.maxParallelUpgrades",
}


def custom(api: str, kind: str, spec: Any) -> Any:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "gpu-operator"}, "spec": spec}


FLUX = custom(
    "helm.toolkit.fluxcd.io/v2",
    "HelmRelease",
    {"chart": {"spec": {"chart": "gpu-operator", "version": ">=24.0.0"}}, "values": VALUES},
)
SOURCE = {"chart": "gpu-operator", "repoURL": "https://helm.ngc.nvidia.com/nvidia"}
ARGO = custom(
    "argoproj.io/v1alpha1",
    "Application",
    {"source": {**SOURCE, "targetRevision": "24.*", "helm": {"valuesObject": VALUES}}},
)
SEVERAL = custom(
    "argoproj.io/v1alpha1",
    "Application",
    {
        "sources": [
            {"repoURL": "https://git.example.com/values", "ref": "values"},
            {**SOURCE, "targetRevision": "24.*", "helm": {"values": yaml.safe_dump(VALUES)}},
        ]
    },
)

POLICY = custom("nvidia.com/v1", "ClusterPolicy", VALUES)
FORMS: dict[str, tuple[Any, str, str]] = {
    "Flux": (FLUX, "spec.values", "spec.chart.spec.version"),
    "Argo CD": (ARGO, "spec.source.helm.valuesObject", "spec.source.targetRevision"),
    "Argo CD's several sources": (
        SEVERAL,
        "spec.sources[1].helm.values",
        "spec.sources[1].targetRevision",
    ),
    "ClusterPolicy": (POLICY, "spec", ""),
}


@pytest.mark.promise(
    "Rules about charts and drivers judge Flux's HelmRelease, Argo CD's Application, ClusterPolicy "
    "and NVIDIADriver as they judge Pulumi's Release."
)
@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_a_release_is_judged_at_its_own_paths(form: str) -> None:
    manifest, values, version = FORMS[form]
    wanted = {id_: f"{values}.{path}" for id_, path in BROKEN.items()}
    if version:
        wanted["GPU052"] = version
    broken = {v.rule.id: v.path for v in judge(manifest, Context())}
    assert {id_: broken.get(id_) for id_ in wanted} == wanted
    assert "GPU052" in wanted or "GPU052" not in broken


def of_flux(release: Any) -> Any:
    chart = {"chart": release["chart"], "version": release["version"]}
    return custom(
        "helm.toolkit.fluxcd.io/v2",
        "HelmRelease",
        {"chart": {"spec": chart}, "values": release.get("values", {})},
    )


def of_argo(release: Any, **helm: Any) -> Any:
    source = {"repoURL": "https://example.com", "chart": release["chart"]}
    source |= {"targetRevision": release["version"], "helm": helm}
    return custom("argoproj.io/v1alpha1", "Application", {"source": source})


def of_kustomize(release: Any) -> Any:
    chart = {"name": release["chart"], "repo": "https://example.com"}
    chart |= {"version": release["version"], "valuesInline": release.get("values", {})}
    api = "kustomize.config.k8s.io/v1beta1"
    return {"apiVersion": api, "kind": "Kustomization", "helmCharts": [chart]}


CONVERTED: dict[str, Callable[[Any], Any]] = {
    "Flux": of_flux,
    "Argo CD's object": lambda each: of_argo(each, valuesObject=each.get("values", {})),
    "Argo CD's text": lambda each: of_argo(each, values=yaml.safe_dump(each.get("values", {}))),
    "kustomize": of_kustomize,
    "values": lambda each: {
        "apiVersion": "helm.sh/v3",
        "kind": "Values",
        **each.get("values", {}),
    },
    "ClusterPolicy": lambda each: custom("nvidia.com/v1", "ClusterPolicy", each.get("values", {})),
}
"""The forms of a release of the GPU Operator, made of Pulumi's Release."""
OF_CHARTS = [
    id_
    for id_, example in EXAMPLES.items()
    if yaml.safe_load(example.failing).get("kind") == "Release"
]


def test_the_rules_about_one_release_are_known() -> None:
    others = {"GPU047"}  # It compares the releases of a Pulumi program.
    folder = Path(inspect.getfile(charts)).parent
    rules = {file.name[:6].upper() for file in folder.glob("gpu0*.py")}
    assert rules - others == set(OF_CHARTS)


WITHOUT_VERSION = {"values", "ClusterPolicy"}


@pytest.mark.parametrize(
    ("id_", "form"),
    [
        (id_, form)
        for id_ in OF_CHARTS
        for form in CONVERTED
        if not (id_ == "GPU052" and form in WITHOUT_VERSION)
    ],
)
def test_each_rule_judges_each_form_as_a_release_of_pulumi(id_: str, form: str) -> None:
    example = EXAMPLES[id_]
    broken = [
        id_ in {v.rule.id for v in evaluate(CONVERTED[form](yaml.safe_load(text)), Context())}
        for text in (example.failing, example.passing)
    ]
    assert broken == [True, False]


def test_the_driver_of_a_pool_of_nodes_is_judged() -> None:
    manifest = custom("nvidia.com/v1alpha1", "NVIDIADriver", {"version": "latest"})
    assert {v.rule.id: v.path for v in judge(manifest, Context())} == {"GPU053": "spec.version"}


def test_a_release_with_several_pods_in_its_values_is_judged_once() -> None:
    pod = {"containers": [{"name": "a", "image": "a:1"}]}
    manifest = {**FLUX, "spec": {**FLUX["spec"], "values": {**VALUES, "a": pod, "b": pod}}}
    ids = [v.rule.id for v in judge(manifest, Context())]
    assert [ids.count(id_) for id_ in ("GPU052", "GPU053", "GPU054")] == [1, 1, 1]


@pytest.mark.parametrize(
    "spec",
    [
        {"chartRef": {"kind": "OCIRepository", "name": "gpu-operator"}, "values": {}},
        {"chart": {"spec": {"chart": "gpu-operator", "version": "v26.7.0"}}},
        {"chart": {"spec": {"chart": "web"}}, "values": VALUES},
        {"chart": {"spec": 7}, "values": []},
        None,
    ],
)
def test_a_release_without_faults_or_of_other_software_is_silent(spec: Any) -> None:
    broken = {v.rule.id for v in judge({**FLUX, "spec": spec}, Context())}
    assert not broken & {"GPU052", "GPU053", "GPU054", "GPU055"}


OLD = {"chart": {"spec": {"chart": "gpu-operator", "version": "v26.3.2"}}}
OLD_SOURCE = {**SOURCE, "targetRevision": "v26.3.2"}


def flux(**spec: Any) -> Any:
    return custom("helm.toolkit.fluxcd.io/v2", "HelmRelease", {**OLD, **spec})


def argo(**helm: Any) -> Any:
    return custom("argoproj.io/v1alpha1", "Application", {"source": {**OLD_SOURCE, "helm": helm}})


TOOLKIT = {"toolkit": {"version": "v1.14.0"}}
ELSEWHERE: dict[str, tuple[Any, str, bool]] = {
    "Flux, all values in the object": (flux(), "", True),
    "Flux, values of a ConfigMap": (
        flux(valuesFrom=[{"kind": "ConfigMap", "name": "a"}]),
        "spec.valuesFrom",
        False,
    ),
    "Flux, a value that is nearer than that of a ConfigMap": (
        flux(valuesFrom=[{"kind": "ConfigMap", "name": "a"}], values=TOOLKIT),
        "spec.valuesFrom",
        True,
    ),
    "Argo CD, all values in the object": (argo(), "", True),
    "Argo CD, values of a file": (
        argo(valueFiles=["$values/a.yaml"]),
        "spec.source.helm.valueFiles",
        False,
    ),
    "Argo CD, a value that is nearer than that of a file": (
        argo(valueFiles=["$values/a.yaml"], valuesObject=TOOLKIT),
        "spec.source.helm.valueFiles",
        True,
    ),
    "Argo CD, a parameter that is nearer than the value": (
        argo(parameters=[{"name": "toolkit.version", "value": "v1.20.2"}], valuesObject=TOOLKIT),
        "spec.source.helm.parameters",
        False,
    ),
}


@pytest.mark.parametrize("form", ELSEWHERE)
def test_values_that_stand_elsewhere_are_unknown_and_named(form: str) -> None:
    manifest, path, judged = ELSEWHERE[form]
    context = Context(toolkit_floor="v1.19.2")
    broken = {v.rule.id for v in judge(manifest, context)}
    assert ("GPU054" in broken) is judged
    left = unread(Subject.all_of(manifest), context)
    assert [one.path for one in left] == ([path] if path else [])
