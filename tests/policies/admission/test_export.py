"""The exports for Kyverno and Gatekeeper: their form, and the settings in them."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpu_rules.admission import (
    ACTIONS,
    TARGETS,
    Enforcement,
    exported,
    grants,
    judged_partly,
    left_out,
    manifests,
    placing,
    summary,
)
from gpu_rules.check.parse import documents
from gpu_rules.command import main
from gpu_rules.context import ExemptionFacts
from gpu_rules.rules import RULES, TWINS, Context, Severity
from gpu_rules.rules.twin import Twin
from tests.policies.admission.cluster import EVERYTHING

Json = dict[str, Any]
CONTROLLERS = ("kyverno", "gatekeeper")
BY_API_SERVER = {grants.NAME, placing.NAME}
HOSTILE = '"] || true || [\n#"\\u0022${x}{{y}}'


def closed(**fields: Json) -> Json:
    """Return the schema of a mapping that has these fields and no others; `_` marks optional."""
    return {
        "type": "object",
        "properties": {name.rstrip("_"): schema for name, schema in fields.items()},
        "required": [name for name in fields if not name.endswith("_")],
        "additionalProperties": False,
    }


def listed(schema: Json) -> Json:
    return {"type": "array", "items": schema, "minItems": 1}


def one_of(*values: str) -> Json:
    return {"enum": list(values)}


TEXT: Json = {"type": "string", "minLength": 1}
TEXTS = listed(TEXT)
LABEL: Json = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
METADATA = closed(name=LABEL, labels={"type": "object", "additionalProperties": TEXT})
EXPRESSIONS = listed(closed(name=TEXT, expression=TEXT))
FAILURE = one_of("Fail", "Ignore")
VALIDATIONS = {"expression": TEXT, "message": TEXT, "messageExpression": TEXT}
RULE = closed(
    apiGroups=listed({"type": "string"}),
    apiVersions=TEXTS,
    operations=listed(one_of("CREATE", "UPDATE")),
    resources=TEXTS,
    scope=one_of("Namespaced", "Cluster"),
)
REQUIREMENT = closed(key=TEXT, operator=one_of("NotIn"), values=TEXTS)
SELECTOR = closed(matchExpressions=listed(REQUIREMENT))
SCHEMAS = {
    # Source: kyverno/api api/policies.kyverno.io/v1alpha1/validating_policy.go, as of kyverno
    # 1.19.1, without the fields that the exports don't use.
    "ValidatingPolicy": closed(
        apiVersion=one_of("policies.kyverno.io/v1"),
        kind=TEXT,
        metadata=METADATA,
        spec=closed(
            failurePolicy=FAILURE,
            matchConstraints=closed(namespaceSelector=SELECTOR, resourceRules=listed(RULE)),
            matchConditions_=EXPRESSIONS,
            variables=EXPRESSIONS,
            auditAnnotations=listed(closed(key=TEXT, valueExpression=TEXT)),
            validations=listed(closed(**VALIDATIONS, reason=TEXT)),
            validationActions=listed(one_of("Deny", "Warn", "Audit")),
            autogen=closed(podControllers=closed(controllers={"type": "array", "maxItems": 0})),
        ),
    ),
    # Source: open-policy-agent/frameworks constraint/pkg/apis/templates/v1, gatekeeper v3.23.1
    # pkg/drivers/k8scel/schema/schema.go.
    "ConstraintTemplate": closed(
        apiVersion=one_of("templates.gatekeeper.sh/v1"),
        kind=TEXT,
        metadata=METADATA,
        spec=closed(
            crd=closed(spec=closed(names=closed(kind=TEXT))),
            targets=listed(
                closed(
                    target=one_of("admission.k8s.gatekeeper.sh"),
                    code=listed(
                        closed(
                            engine=one_of("K8sNativeValidation"),
                            source=closed(
                                failurePolicy=FAILURE,
                                matchCondition=EXPRESSIONS,
                                variables=EXPRESSIONS,
                                validations=listed(closed(**VALIDATIONS)),
                                generateVAP={"const": False},
                            ),
                        )
                    ),
                )
            ),
        ),
    ),
}
# Source: gatekeeper v3.23.1 pkg/mutation/match/match_types.go and pkg/util/enforcement_action.go.
CONSTRAINT = closed(
    apiVersion=one_of("constraints.gatekeeper.sh/v1beta1"),
    kind=TEXT,
    metadata=METADATA,
    spec=closed(
        enforcementAction=one_of("deny", "warn", "dryrun"),
        match=closed(
            kinds=listed(closed(apiGroups=listed({"type": "string"}), kinds=TEXTS)),
            namespaceSelector=SELECTOR,
        ),
    ),
)


def of(target: str, context: Context = EVERYTHING, mode: str = "enforce") -> list[Json]:
    """Return the objects of an export that are not the API server's own."""
    objects = exported(target, context, Enforcement(ACTIONS[mode], excluded=("kube-system",)))
    return [item for item in objects if item["metadata"]["name"] not in BY_API_SERVER]


def source(item: Json) -> Json:
    """Return the part of a policy or template that has the CEL."""
    spec = item["spec"]
    return dict(spec["targets"][0]["code"][0]["source"] if "targets" in spec else spec)


def cel(item: Json) -> dict[str, str]:
    """Return the variables of a policy or template; a Constraint has none."""
    return {each["name"]: each["expression"] for each in source(item).get("variables", ())}


def judged(objects: list[Json]) -> set[str]:
    return {name for item in objects for name in cel(item) if re.fullmatch(r"GPU\d{3}", name)}


@pytest.mark.parametrize("context", [Context(), EVERYTHING], ids=["unknown", "everything"])
@pytest.mark.parametrize("target", CONTROLLERS)
def test_an_export_has_only_fields_that_the_target_knows(target: str, context: Context) -> None:
    objects = of(target, context)
    assert len({(item["kind"], item["metadata"]["name"]) for item in objects}) == len(objects)
    for item in objects:
        jsonschema.validate(item, SCHEMAS.get(item["kind"], CONSTRAINT))


def test_each_constraint_follows_the_template_of_its_kind() -> None:
    objects = of("gatekeeper")
    templates = [item for item in objects if item["kind"] == "ConstraintTemplate"]
    kinds = [item["spec"]["crd"]["spec"]["names"]["kind"] for item in templates]
    assert [item["metadata"]["name"] for item in templates] == [kind.lower() for kind in kinds]
    assert [item["kind"] for item in objects] == ["ConstraintTemplate"] * len(kinds) + kinds


@pytest.mark.promise(
    "Each rule is either in an export or listed as left out, with the reason, as are the rules "
    "that a target judges in part."
)
@pytest.mark.parametrize("context", [Context(), EVERYTHING], ids=["unknown", "everything"])
@pytest.mark.parametrize("target", TARGETS)
def test_each_rule_is_exported_or_listed_with_a_reason(target: str, context: Context) -> None:
    without = left_out(context)
    assert judged(of(target, context)) == set(RULES) - set(without)
    assert all(without.values())
    assert set(judged_partly(target, context)).isdisjoint(without)
    told = "\n".join(summary(target, context))
    for id_ in RULES:
        assert re.search(rf"^Not judged: {id_}: .+" if id_ in without else id_, told, re.MULTILINE)
    if context is EVERYTHING:
        assert set(RULES) - set(without) == {k for k, it in TWINS.items() if isinstance(it, Twin)}


@pytest.mark.parametrize("target", CONTROLLERS)
def test_the_exported_cel_is_that_of_the_admission_policies(target: str) -> None:
    made = manifests(EVERYTHING, Enforcement(ACTIONS["enforce"]))
    own = [item for item in made if "variables" in item["spec"]]
    kept = [item for item in of(target) if cel(item)]
    assert list(map(cel, kept)) == list(map(cel, own))
    for item, policy in zip(kept, own, strict=True):
        wanted = policy["spec"].get("matchConditions", [])
        given = source(item).get("matchConditions", source(item).get("matchCondition", []))
        assert [each for each in given if each["name"] != "operation-and-subresource"] == wanted


@pytest.mark.parametrize("target", CONTROLLERS)
def test_what_only_the_api_server_can_judge_stays_its_policy(target: str) -> None:
    how = Enforcement(ACTIONS["enforce"])
    wanted = [
        item for item in manifests(EVERYTHING, how) if item["metadata"]["name"] in BY_API_SERVER
    ]
    assert exported(target, EVERYTHING, how)[-len(wanted) :] == wanted
    assert len(wanted) == 4
    assert "authorizer" not in json.dumps(of(target))


@pytest.mark.parametrize(
    ("mode", "mandatory", "advisory"),
    [("enforce", "deny", "warn"), ("warn", "warn", "warn"), ("audit", "dryrun", "dryrun")],
)
def test_the_mode_and_the_levels_of_the_settings_are_exported(
    mode: str, mandatory: str, advisory: str
) -> None:
    levels = Context(severities={"GPU016": Severity.ADVISORY, "GPU017": Severity.OFF})
    named = {item["metadata"]["name"]: item for item in of("gatekeeper", levels, mode)}
    for severity, action in (("mandatory", mandatory), ("advisory", advisory)):
        spec = named[f"gpu-rules-pods-{severity}"]["spec"]
        assert spec["enforcementAction"] == action
    assert "GPU016" in cel(named["gpurulespodsadvisory"])
    assert "GPU016" not in cel(named["gpurulespodsmandatory"])
    assert "GPU017" not in judged(list(named.values()))
    for item in of("kyverno", levels, mode):
        severity = item["metadata"]["name"].rpartition("-")[2]
        if "nodes" not in item["metadata"]["name"]:
            assert item["spec"]["validationActions"] == list(ACTIONS[mode][Severity(severity)])


@pytest.mark.parametrize("target", TARGETS)
def test_names_in_the_settings_stay_texts(target: str) -> None:
    exemption = ExemptionFacts(
        rules=frozenset({"GPU022"}),
        until=date(2030, 12, 31),
        reason=HOSTILE,
        labels={HOSTILE: HOSTILE},
        images=(HOSTILE,),
    )
    hostile = Context(
        runtime_class=HOSTILE,
        runtime_classes=frozenset({HOSTILE}),
        infrastructure_namespaces=frozenset({HOSTILE}),
        exemptions=(exemption,),
    )
    literal = re.compile(r'"(?:[^"\\\n]|\\.)*"')
    plain = Context(
        runtime_class="a",
        runtime_classes=frozenset({"a"}),
        infrastructure_namespaces=frozenset({"a"}),
        exemptions=(
            ExemptionFacts(
                frozenset({"GPU022"}), date(2030, 12, 31), "a", labels={"a": "a"}, images=("a",)
            ),
        ),
    )
    for bad, good in zip(of(target, hostile), of(target, plain), strict=True):
        for name, expression in cel(bad).items():
            assert literal.sub("", expression) == literal.sub("", cel(good)[name]), name
            assert "\n" not in expression, name


@pytest.mark.parametrize("target", TARGETS)
def test_an_export_is_the_same_each_time_and_begins_with_what_is_in_it(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", target, "--exclude", "storage"]) == 0
    first = capsys.readouterr().out
    assert main(["export", target, "--exclude", "storage"]) == 0
    assert capsys.readouterr().out == first
    head, _, rest = first.partition("---\n")
    assert head == "".join(f"# {line}\n" for line in summary(target, Context()))
    assert not re.search(r"^\s*(\S+: )?[&*]id\d", rest, re.MULTILINE)
    assert list(documents(first)) == exported(
        target, Context(), Enforcement(ACTIONS["warn"], excluded=("kube-system", "storage"))
    )
    assert main(["export", target, "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == summary(target, Context())


@pytest.mark.parametrize("name", ["a b", "A", "a\n- b", "-a", "a" * 64, ""])
def test_what_is_no_namespace_is_not_exported(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["export", "kyverno", f"--exclude={name}"])
    assert "wanted: the name of a namespace" in capsys.readouterr().err
