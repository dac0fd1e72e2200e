"""Judge manifests by the exports, with the programs of Kyverno and Gatekeeper."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpu_rules import reference
from gpu_rules.admission import ACTIONS, Enforcement, exported
from gpu_rules.rules import EXAMPLES, RULES, TWINS, Context, evaluate
from gpu_rules.rules.exemptions import GRANT, PREFIX
from gpu_rules.rules.registry import items
from gpu_rules.rules.twin import NoTwin, Twin
from tests.fixtures.programs import run_program

Json = dict[str, Any]
ENFORCE = Enforcement(ACTIONS["enforce"])
NOT_JUDGED = "not judged"
"""Stands for the rules of an object for which an expression has failed."""
LIMIT = 900
_CLUSTER_SCOPED = {"DeviceClass", "Namespace", "Node", "PersistentVolume"}
_QUANTITIES = {"limits", "requests", "hard", "max", "min", "default", "defaultRequest", "overhead"}
_RULE = re.compile(r"(?:^|; )(GPU\d{3}) ")


@dataclass(frozen=True)
class Case:
    """An object, and the rules that it breaks by the Python form of the rules.

    Attributes:
        rule: The rule whose example has the object.
        failing: Whether it is the failing example.
        manifest: The object as an API server stores it, but for defaults. Its name ends with a
            number, so that the programs can name it in their results.
        context: Facts about the cluster.
        broken: The broken rules that are also judged at admission.
        refused: Whether the API server itself refuses the object.
        exempted: Whether an annotation exempts the object from a rule.
    """

    rule: str
    failing: bool
    manifest: Json
    context: Context
    broken: frozenset[str]
    refused: bool
    exempted: bool

    @property
    def name(self) -> str:
        """Return the name of the object."""
        return str(self.manifest["metadata"]["name"])


def cases() -> Iterator[Case]:
    """Yield the objects of all rules' examples, passing and failing."""
    for rule, example in EXAMPLES.items():
        context = reference.context_for(example)
        for failing in (False, True):
            manifest = yaml.safe_load(example.failing if failing else example.passing)
            for _, item in items(manifest):
                if "helm.sh" not in item["apiVersion"] and "command" not in item["apiVersion"]:
                    yield _case(rule, failing, dict(item), context)


def _case(rule: str, failing: bool, manifest: Json, context: Context) -> Case:
    metadata = {
        **manifest.get("metadata", {}),
        # The API server sets the time before it asks policies.
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    metadata["name"] = f"{metadata.get('name', 'x')}-{rule[3:]}{int(failing)}"
    if manifest["kind"] not in _CLUSTER_SCOPED:
        metadata.setdefault("namespace", "default")
    manifest = {**manifest, "metadata": metadata}
    manifest = _with_texts(manifest)
    found = {v.rule.id for v in evaluate(manifest, context) if not v.exemption}
    refused = [id_ for id_ in found if isinstance(it := TWINS[id_], NoTwin) and it.enforced]
    broken = frozenset(id_ for id_ in found if isinstance(TWINS[id_], Twin))
    exempted = any(key.startswith(PREFIX) for key in metadata.get("annotations", ()))
    return Case(rule, failing, manifest, context, broken, bool(refused), exempted)


def _with_texts(value: Any, quantities: bool = False) -> Any:
    """Return a part of a manifest with its quantities as texts, as an API server writes them."""
    if isinstance(value, dict):
        inside = {key: _with_texts(item, key in _QUANTITIES) for key, item in value.items()}
        return {k: str(v) if quantities and type(v) is int else v for k, v in inside.items()}
    if isinstance(value, list):
        return [_with_texts(item) for item in value]
    return str(value) if isinstance(value, float) else value


def together(given: Sequence[Case]) -> list[tuple[Context, list[Case]]]:
    """Return the cases by their facts about the cluster, which are part of the exports."""
    groups: list[tuple[Context, list[Case]]] = []
    for case in given:
        for context, group in groups:
            if context == case.context and case.name not in {other.name for other in group}:
                group.append(case)
                break
        else:
            groups.append((case.context, [case]))
    return groups


def namespaces(given: Sequence[Json]) -> list[Json]:
    """Return the Namespaces in which objects are; they grant exemptions from all rules."""
    granted = {f"{GRANT}{rule}": "2099-12-31 for tests" for rule in RULES}
    names = {item["metadata"]["namespace"] for item in given if "namespace" in item["metadata"]}
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/metadata.name": name},
                "annotations": granted,
            },
        }
        for name in sorted(names)
    ]


def by_gator(program: Path, context: Context, given: Sequence[Json], folder: Path) -> Answers:
    """Return the rules that each object breaks by `gator test`, by name of the object."""
    rules = exported("gatekeeper", context, ENFORCE)
    _write(folder / "rules.yaml", rules)
    _write(folder / "objects.yaml", [*namespaces(given), *given])
    command = [str(program), "test", "-f", "rules.yaml", "-f", "objects.yaml", "-o", "json"]
    answers: Answers = {item["metadata"]["name"]: set() for item in given}
    for result in json.loads(_run(command, folder) or "[]") or []:
        name = result["violatingObject"]["metadata"]["name"]
        if name in answers:
            answers[name] |= set(_RULE.findall(result["msg"])) or {NOT_JUDGED}
    return answers


def by_kyverno(program: Path, context: Context, given: Sequence[Json], folder: Path) -> Answers:
    """Return the rules that each object breaks by `kyverno apply`, by name of the object.

    The policies that stay ValidatingAdmissionPolicies are left out: `kyverno apply` would judge
    them too, without the authorizer that they ask.
    """
    rules = exported("kyverno", context, ENFORCE)
    _write(folder / "rules.yaml", [rule for rule in rules if rule["kind"] == "ValidatingPolicy"])
    _write(folder / "objects.yaml", list(given))
    values = {
        "apiVersion": "cli.kyverno.io/v1alpha1",
        "kind": "Values",
        "metadata": {"name": "values"},
        "namespaces": namespaces(given),
    }
    _write(folder / "values.yaml", [values])
    command = [str(program), "apply", "rules.yaml", "--resource", "objects.yaml"]
    command += ["--values-file", "values.yaml", "--policy-report", "--output-format", "json"]
    answers: Answers = {item["metadata"]["name"]: set() for item in given}
    for result in _report(_run(command, folder)):
        if result["result"] in ("pass", "skip"):
            continue
        for resource in result["resources"]:
            answers[resource["name"]] |= set(_RULE.findall(result["message"])) or {NOT_JUDGED}
    return answers


Answers = dict[str, set[str]]


def _report(output: str) -> Iterator[Mapping[str, Any]]:
    decoder, start = json.JSONDecoder(), output.find("{")
    while start >= 0:
        report, end = decoder.raw_decode(output, start)
        yield from report.get("results", ())
        start = output.find("{", end)


def _write(file: Path, objects: Sequence[Json]) -> None:
    file.write_text(yaml.safe_dump_all(objects, sort_keys=False))


def _run(command: Sequence[str], folder: Path) -> str:
    done = run_program(command, cwd=folder, timeout=LIMIT)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def agrees(case: Case, found: set[str]) -> bool:
    """Return whether a program has found what the Python form of the rules has found.

    Of an object that the API server refuses, the program may find anything: it is never asked.
    """
    return case.refused or found == case.broken


def verified(
    program: Path, kind: str, requests: Mapping[str, tuple[Json, bool]], folder: Path
) -> None:
    """Let `gator verify` judge requests by the Constraint of a kind.

    Args:
        program: Path of `gator`.
        kind: Kind of the Constraint.
        requests: The AdmissionReviews or objects by name, each with whether the Constraint is
            broken.
        folder: Folder for the files.
    """
    made = exported("gatekeeper", Context(), ENFORCE)
    template = next(item for item in made if item["metadata"]["name"] == kind.lower())
    constraint = next(item for item in made if item["kind"] == kind)
    # gator knows no namespaces here.
    del constraint["spec"]["match"]["namespaceSelector"]
    _write(folder / "template.yaml", [template])
    _write(folder / "constraint.yaml", [constraint])
    for name, (request, _) in requests.items():
        _write(folder / f"{name}.yaml", [request])
    judged = [
        {
            "name": name,
            "object": f"{name}.yaml",
            "assertions": [{"violations": "yes" if broken else "no"}],
        }
        for name, (_, broken) in requests.items()
    ]
    test = {"name": kind, "template": "template.yaml", "constraint": "constraint.yaml"}
    suite = {
        "apiVersion": "test.gatekeeper.sh/v1alpha1",
        "kind": "Suite",
        "metadata": {"name": "requests"},
        "tests": [{**test, "cases": judged}],
    }
    _write(folder / "suite.yaml", [suite])
    done = run_program([str(program), "verify", "suite.yaml", "-v"], cwd=folder, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("--- PASS") == len(requests) + 1, done.stdout


def review(operation: str, pod: Json, old: Json | None = None, subresource: str = "") -> Json:
    """Return the AdmissionReview of a request that creates or changes a pod."""
    request = {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": pod["metadata"]["name"],
        "namespace": pod["metadata"]["namespace"],
        "operation": operation,
        "userInfo": {},
        "object": pod,
        **({"oldObject": old} if old else {}),
        **({"subResource": subresource} if subresource else {}),
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
