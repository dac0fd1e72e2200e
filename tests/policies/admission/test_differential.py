"""Policy pack, checker and admission policies report the same broken rules for every manifest.

The policy pack gets a manifest as a Pulumi resource, and the checker gets it as text. A real API
server evaluates the admission policies, which have the rules as CEL expressions.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from gpu_rules import declared
from gpu_rules.check import document
from gpu_rules.check.stream import StreamPart
from gpu_rules.kube.gpu_resources import BY_CLASS as BY_CLASSES
from gpu_rules.rules import TWINS as RULE_TWINS
from gpu_rules.rules import Context
from gpu_rules.rules.twin import NoTwin
from tests.policies.admission.cluster import CONTEXTS, GPU, TWINS, context_name, create, maker
from tests.policies.admission.generate import SHARES
from tests.policies.admission.generate_specs import CORE, LIMIT_KEY, MEMORY, MIG, SHARED, VARIABLE
from tests.proofs.rules import results
from tests.proofs.rules.sample import FULL, SEED

PARTS = range(1, 11) if FULL else random.Random(SEED).sample(range(1, 11), 2)  # noqa: S311
SHARES_IN_ALL = sum(SHARES.values())
CASES = 1_000
"""Number of cases in each part; all ten parts together have ten thousand."""
FEW = 10 * len(PARTS)
"""Number of manifests that must break each rule, and that must follow it."""


def packed(manifest: Mapping[str, Any], context: Context) -> set[str]:
    """Return the rules that the policy pack reports for a manifest, as a Pulumi resource."""
    version = manifest["apiVersion"]
    token = f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}"
    violations = declared.judge(token, manifest, context)
    return {violation.rule.id for violation in violations if not violation.exemption}


def checked(manifest: Mapping[str, Any], context: Context) -> set[str]:
    """Return the rules that the command-line checker reports for a manifest, as JSON text."""
    source = document.Source("a.json", StreamPart(1, 1, json.dumps(manifest)))
    (judged,) = document.judge(source, context)
    return {found.rule for found in judged.found if not found.exemption}


def compare(api: httpx.Client, manifest: Mapping[str, Any]) -> tuple[bool, dict[str, set[str]]]:
    """Return whether the API server accepts a manifest, and the broken rules by tool.

    The tools are policy pack, checker and admission policies.
    """
    said = create(api, manifest, user=maker(manifest))
    assert said.taken or said.status in (400, 422), said.text
    observed = "uid" in manifest["metadata"]
    context = replace(CONTEXTS[context_name(manifest)], observed=observed)
    pack, checker = packed(manifest, context), checked(manifest, context)
    # The API server rejects an invalid object before it evaluates policies. Only policy pack and
    # checker are compared then.
    if not said.taken:
        return False, {"pack": pack, "checker": checker}
    # Only rules that also exist in CEL apply at admission, so only these are compared.
    if pack == checker:
        pack = checker = pack & TWINS
    return True, {"pack": pack, "checker": checker, "admission": set(said.rules)}


def agree(answers: Mapping[str, set[str]]) -> bool:
    first, *others = answers.values()
    return all(other == first for other in others)


@dataclass
class Figures:
    """Counts of a test run: compared manifests, invalid manifests, broken rules and differences."""

    cases: int = 0
    refused: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    different: list[dict[str, Any]] = field(default_factory=list)

    def add(self, api: httpx.Client, manifest: dict[str, Any]) -> None:
        taken, answers = compare(api, manifest)
        if not agree(answers):
            found = {who: sorted(rules) for who, rules in answers.items()}
            self.different.append({**found, "manifest": manifest})
        if not taken:
            self.refused += 1
            return
        self.cases += 1
        self.rejected.update(answers["pack"])

    @property
    def rules(self) -> dict[str, dict[str, int]]:
        """Return for each rule how many manifests followed it and how many broke it."""
        return {
            rule: {"accepted": self.cases - self.rejected[rule], "rejected": self.rejected[rule]}
            for rule in sorted(TWINS)
        }

    def document(self) -> dict[str, Any]:
        """Return the counts as plain data; `make test-rules` prints them in its last line."""
        reasons = [twin for twin in RULE_TWINS.values() if isinstance(twin, NoTwin)]
        return {
            "at_admission": len(TWINS),
            "by_the_api_server": sum(reason.enforced for reason in reasons),
            "cases": self.cases,
            "agree": max(0, self.cases - len(self.different)),
            "refused_by_the_api_server": self.refused,
            "rules": self.rules,
            "different": self.different,
        }


def run(api: httpx.Client, figures: Figures, examples: int, number: int) -> None:
    """Compare the tools on generated manifests of all kinds, and add the results to the counts.

    Args:
        api: Client of an API server with the admission policies.
        figures: The counts.
        examples: Number of manifests; a few more, because each kind has at least one.
        number: Seed of the generators.
    """
    for strategy, share in SHARES.items():
        _run(api, figures, strategy(), math.ceil(examples * share / SHARES_IN_ALL), number)


def _run(
    api: httpx.Client,
    figures: Figures,
    strategy: st.SearchStrategy[dict[str, Any]],
    examples: int,
    number: int,
) -> None:
    @seed(number)
    @given(strategy)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    def add(manifest: dict[str, Any]) -> None:
        figures.add(api, manifest)

    add()


def workload(kind: str, namespace: str, spec: dict[str, Any], **fields: Any) -> dict[str, Any]:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **fields},
    }


def pod(namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def container(limits: dict[str, Any]) -> dict[str, Any]:
    return {"name": "a", "image": "cuda", "resources": {"limits": limits}}


def own(limit: int | None, request: int | None) -> dict[str, Any]:
    """Return a container with a resource of which it may request less than its limit."""
    amounts = {"limits": limit, "requests": request}
    listed = {key: {OWN: amount} for key, amount in amounts.items() if amount is not None}
    return {"name": "a", "image": "cuda", "resources": listed}


def annotated(limit: str) -> dict[str, Any]:
    made = pod("vcuda", {"containers": [container({})]})
    made["metadata"]["annotations"] = {LIMIT_KEY: limit}
    return made


def secret(**fields: Any) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "plugin"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **fields}


def owned(kind: str, controller: bool) -> dict[str, Any]:
    made = pod("plugin", {"containers": [container({})], "tolerations": [{"operator": "Exists"}]})
    version = "apps/v1" if kind == "DaemonSet" else "batch/v1"
    owner = {"apiVersion": version, "kind": kind, "name": "a", "uid": "0"}
    made["metadata"]["ownerReferences"] = [{**owner, "controller": controller}]
    made["metadata"]["uid"] = "1"
    return made


def sized(limits: dict[str, Any], memory: str) -> dict[str, Any]:
    return container({**limits, "memory": memory})


def claimed(namespace: str, name: str, count: int, requests: int) -> dict[str, Any]:
    exactly = {"deviceClassName": name, "count": count}
    devices = [{"name": f"r{index}", "exactly": exactly} for index in range(requests)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"devices": {"requests": devices}},
    }


BY_CLASS = f"{BY_CLASSES}gpu.nvidia.com"
OWN = "npu.kubernetes.io/card"
DIFFERED = {
    "a limit above the cap, and a request of 0": pod("whole", {"containers": [own(4, 0)]}),
    "a limit above the cap, and a request below it": pod("whole", {"containers": [own(4, 2)]}),
    "a request above the cap, without a limit": pod("whole", {"containers": [own(None, 4)]}),
    "requests above the cap of a pod, without limits": pod(
        "whole", {"containers": [own(None, 2), {**own(None, 2), "name": "b"}]}
    ),
    "limits of a template above the cap of a pod, and requests below it": workload(
        "ReplicaSet", "whole", {"containers": [own(2, 1), {**own(2, 1), "name": "b"}]}
    ),
    "an init container that requests 0 of its limit": pod(
        "whole", {"containers": [own(1, 1)], "initContainers": [{**own(9, 0), "name": "b"}]}
    ),
    "overhead of a resource that a container only requests": workload(
        "ReplicaSet", "whole", {"containers": [own(None, 1)], "overhead": {OWN: 9}}
    ),
    "100 exa cores are a multiple of 100": pod(
        "unknown", {"containers": [container({CORE: "100E"})]}
    ),
    "several devices by name count once each": pod(
        "infrastructure",
        {
            "containers": [container({})],
            "initContainers": [container({GPU: "0", MEMORY: "0", SHARED: "08"}) | {"name": "b"}],
        },
    ),
    "overhead counts for the toleration that the API server adds": workload(
        "DaemonSet",
        "infrastructure",
        {"containers": [container({GPU: 0})], "overhead": {GPU: 2, "cpu": "100m"}},
    ),
    "overhead of a resource that no container lists": workload(
        "Deployment",
        "plugin",
        {
            "containers": [container({CORE: 1, SHARED: 1})],
            "overhead": {GPU: 2, "cpu": "100m"},
            "tolerations": [{"operator": "Exists"}],
        },
        replicas=8,
        strategy={"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "50%"}},
    ),
    "a limit of devices by class without a request": pod(
        "plugin",
        {
            "containers": [
                {
                    "name": "a",
                    "image": "cuda",
                    "resources": {"limits": {BY_CLASS: 1}, "requests": {BY_CLASS: 0}},
                }
            ],
            "tolerations": [{"operator": "Exists"}],
        },
    ),
    "a limit of cores with zeros before it": annotated("0000000050"),
    "a limit of cores of ten digits": annotated("0000000500"),
    "no devices, by a Secret in base64": secret(data={VARIABLE: "bm9uZQ=="}),
    "all devices, by a Secret in base64": secret(data={VARIABLE: "YWxs"}),
    "what is base64 and looks like no devices": secret(data={VARIABLE: "none"}),
    "text over base64": secret(data={VARIABLE: "YWxs"}, stringData={VARIABLE: "none"}),
    "a DaemonSet's pod": owned("DaemonSet", controller=True),
    "a pod that a DaemonSet does not control": owned("DaemonSet", controller=False),
    "a Job's pod": owned("Job", controller=True),
    "a pod that claims devices": pod(
        "plugin",
        {
            "containers": [
                {"name": "a", "image": "cuda", "resources": {"claims": [{"name": "gpu"}]}}
            ],
            "tolerations": [{"operator": "Exists"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        },
    ),
    "a claim counts as one GPU beside the resources": pod(
        "infrastructure",
        {
            "containers": [
                {
                    "name": "a",
                    "image": "cuda",
                    "resources": {"limits": {GPU: 2}, "claims": [{"name": "gpu"}]},
                }
            ],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "one-gpu"}],
        },
    ),
    "three claims": pod(
        "infrastructure",
        {
            "containers": [{"name": "a", "image": "cuda"}],
            "resourceClaims": [
                {"name": f"gpu-{number}", "resourceClaimName": "one-gpu"} for number in range(3)
            ],
        },
    ),
    "claims and resources together at the cap": pod(
        "whole",
        {
            "containers": [container({GPU: 2})],
            "initContainers": [{**container({GPU: 2}), "name": "b", "restartPolicy": "Always"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        },
    ),
    "a claim of an init container": pod(
        "plugin",
        {
            "containers": [container({})],
            "initContainers": [
                {"name": "b", "image": "cuda", "resources": {"claims": [{"name": "gpu"}]}}
            ],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
            "tolerations": [{"operator": "Exists"}],
        },
    ),
    "a claim for another device and one for a GPU": pod(
        "infrastructure",
        {
            "containers": [container({GPU: 2})],
            "resourceClaims": [
                {"name": "gpu", "resourceClaimName": "one-gpu"},
                {"name": "nic", "resourceClaimName": "nic"},
            ],
            "hostPID": True,
        },
    ),
    **{
        f"a privileged pod that may have GPUs by {name}": pod(
            "plugin",
            {
                "containers": [{**container(limits), "securityContext": {"privileged": True}}],
                "resourceClaims": [{"name": "it", "resourceClaimName": claim} for claim in claims],
                "nodeName": "gpu-1",
                "runtimeClassName": "nvidia",
            },
        )
        for name, limits, claims in (
            ("a claim named nic", {}, ["nic"]),
            ("a claim that the settings don't list", {}, ["mine"]),
            ("a network device of NVIDIA", {"nvidia.com/hostdev": 1}, []),
            ("no amount of GPUs", {GPU: 0}, []),
        )
    },
    "a claim without GPUs by the settings": pod(
        "vcuda",
        {
            "containers": [{**container({}), "securityContext": {"privileged": True}}],
            "resourceClaims": [{"name": "it", "resourceClaimName": "mine"}],
            "tolerations": [{"operator": "Exists"}],
        },
    ),
    "a class of GPUs in capitals": pod(
        "plugin", {"containers": [container({f"{BY_CLASSES}GPU": 1})], "hostPID": True}
    ),
    "a class that the settings name": pod(
        "vcuda", {"containers": [container({f"{BY_CLASSES}npu.example.com": 3})], "hostPID": True}
    ),
    "memory of the pod as a whole, of which containers request a part": pod(
        "plugin",
        {
            "containers": [sized({GPU: 1}, "1Gi")],
            "resources": {"limits": {"memory": "2Gi", "cpu": 1}},
        },
    ),
    "cpu of the pod as a whole": pod(
        "plugin", {"containers": [sized({GPU: 1}, "1Gi")], "resources": {"limits": {"cpu": 4}}}
    ),
    "cpu of another container": pod(
        "plugin",
        {
            "containers": [
                {"name": "b", "image": "a:1", "resources": {"requests": {"cpu": 1}}},
                sized({GPU: 1}, "1Gi"),
            ],
            "resources": {"limits": {"memory": "2Gi"}},
        },
    ),
    "a request of memory of the pod as a whole, without a limit": pod(
        "plugin",
        {
            "containers": [sized({GPU: 1}, "1Gi")],
            "resources": {"requests": {"cpu": 1, "memory": "2Gi"}},
        },
    ),
    "memory of the pods of a template as a whole": workload(
        "ReplicaSet",
        "plugin",
        {
            "containers": [sized({GPU: 1}, "1Gi")],
            "resources": {"limits": {"memory": "2Gi", "cpu": 1}},
        },
    ),
    "cpu of the pods of a template as a whole": workload(
        "ReplicaSet",
        "plugin",
        {"containers": [sized({GPU: 1}, "1Gi")], "resources": {"limits": {"cpu": 4}}},
    ),
    "claims that count 0": claimed("plugin", "gpu.nvidia.com", 0, 7),
    "claims for channels between nodes": claimed("plugin", "imex.nvidia.com", 8, 2),
    "claims of a class that the settings name": claimed("vcuda", "npu.example.com", 3, 1),
    "no cores": pod("vcuda", {"containers": [container({CORE: 0})]}),
    "no cores for memory": pod("vcuda", {"containers": [container({CORE: 0, MEMORY: 1})]}),
    "no cores in an init container": pod(
        "vcuda",
        {
            "containers": [container({})],
            "initContainers": [{**container({CORE: 0}), "name": "first"}],
        },
    ),
    "GPUs, and no cores": pod("vcuda", {"containers": [container({GPU: 1, CORE: 0})]}),
    "no cores on another platform": pod("whole", {"containers": [container({CORE: 0})]}),
    "cores on another platform": pod("whole", {"containers": [container({CORE: 100})]}),
    "no shared GPUs": pod("whole", {"containers": [container({SHARED: "0"})]}),
    "shared GPUs": pod("whole", {"containers": [container({SHARED: 1})]}),
    "no MIG devices": pod("whole", {"containers": [container({MIG: 0})]}),
    "MIG devices": pod("whole", {"containers": [container({MIG: 1})]}),
    "no devices by class": pod("whole", {"containers": [container({BY_CLASS: 0})]}),
    "devices by class": pod("whole", {"containers": [container({BY_CLASS: 1})]}),
    "cores, and no GPUs": pod("vcuda", {"containers": [container({GPU: 0, CORE: 100})]}),
}
"""Manifests for which the Python and CEL forms of a rule once disagreed, or might disagree."""


@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFERED)
def test_what_once_differed_agrees(api: httpx.Client, name: str) -> None:
    taken, answers = compare(api, DIFFERED[name])
    assert taken
    assert agree(answers), answers


@pytest.mark.slow
def test_twins_agree_with_the_rules_in_a_slice(api: httpx.Client) -> None:
    figures = Figures()
    run(api, figures, 700, 0)
    assert figures.different == []
    assert figures.cases >= 200
    silent = [rule for rule, counts in figures.rules.items() if not counts["rejected"]]
    assert len(silent) <= 5, f"never rejected: {silent}"


@pytest.mark.full
@pytest.mark.parametrize("part", PARTS)
def test_pack_checker_and_admission_agree_in_a_tenth_of_ten_thousand_cases(
    api: httpx.Client, part: int
) -> None:
    figures = Figures()
    number = part * 1_000
    while figures.cases < CASES:
        number += 1
        run(api, figures, min(500, 2 * (CASES - figures.cases) + 20), number)
    results.store(f"admission-{part}", figures.document())
    assert figures.different == []


def few(whole: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the rules that fewer than `FEW` manifests broke or fewer than `FEW` followed."""
    return {rule: counts for rule, counts in whole["rules"].items() if min(counts.values()) < FEW}


@pytest.mark.full
def test_the_cases_show_something_of_each_rule(api: httpx.Client) -> None:
    """If fewer than `FEW` manifests break or follow a rule, more manifests are generated."""
    parts = [found for part in PARTS if (found := results.load(f"admission-{part}"))]
    if len(parts) < len(PARTS):
        pytest.skip(f"{len(parts)} of {len(PARTS)} parts have run")
    more = Figures()
    whole = results.together(parts)
    while few(whole) and more.cases < 2 * len(PARTS) * CASES:
        run(api, more, 500, 100_000 + more.cases)
        whole = results.together([*parts, more.document()])
    results.store("admission", whole)
    assert whole["different"] == []
    assert whole["cases"] >= len(PARTS) * CASES
    assert few(whole) == {}
