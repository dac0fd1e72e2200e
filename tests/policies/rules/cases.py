"""Helpers that build manifests in few words and return the rules that they break."""

from __future__ import annotations

from typing import Any

from gpu_rules.rules import Context, NodeTaint, PoolFacts, Severity
from tests.policies.rules.messages import judge, judge_stack

GPU, SHARED, MIG = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"
CORE, MEMORY = "tencent.com/vcuda-core", "tencent.com/vcuda-memory"
TAINT = NodeTaint(GPU, "present")
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
PRIVILEGED = {"securityContext": {"privileged": True}}
POOL = PoolFacts("a100", 8, (TAINT,), {"gpu": "a100"}, nodes=2)
PRODUCTS = frozenset({CORE, "nvidia.com/gpumem"})
"""Resources that ask for the rules about gpu-manager and HAMi."""
CONTEXT = Context(pools=(POOL,), resource_names=PRODUCTS)
PRACTICE = {"GPU048", "GPU049", "GPU050", "GPU051", "GPU060"}
"""Ids of advisory rules that the short test manifests break, so the helpers leave them out."""


def container(limits: Any = None, requests: Any = None, **fields: Any) -> dict[str, Any]:
    given = {"limits": limits, "requests": requests}
    resources = {key: value for key, value in given.items() if value is not None}
    return {"name": "cuda", "image": "cuda:13", "resources": resources, **fields}


def gpus(count: Any = 1, **fields: Any) -> dict[str, Any]:
    return container({GPU: count}, **fields)


def spec(*containers: Any, **fields: Any) -> dict[str, Any]:
    return {"tolerations": [TOLERATION], "containers": list(containers), **fields}


def pod(*containers: Any, namespace: Any = None, **fields: Any) -> dict[str, Any]:
    return resource("Pod", namespace=namespace, spec=spec(*containers, **fields))


def resource(kind: str, api: str = "v1", **fields: Any) -> dict[str, Any]:
    metadata = {"name": fields.pop("name", "train")}
    for key in ("namespace", "labels", "annotations"):
        if (value := fields.pop(key, None)) is not None:
            metadata[key] = value
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


def workload(kind: str, *containers: Any, pod_spec: Any = None, **fields: Any) -> dict[str, Any]:
    """Return a workload; `pod_spec` adds fields to its pod template's spec.

    `name`, `namespace` and `annotations` are those of the workload itself; other fields go to its
    spec.
    """
    api = {"Job": "batch/v1", "CronJob": "batch/v1", "ReplicationController": "v1"}
    own = {key: fields.pop(key) for key in ("name", "namespace", "annotations") if key in fields}
    template = {"spec": spec(*containers, **(pod_spec or {}))}
    body: dict[str, Any] = {"template": template, **fields}
    if kind == "CronJob":
        body = {"jobTemplate": {"spec": body}}
    return resource(kind, api.get(kind, "apps/v1"), spec=body, **own)


def release(chart: str = "gpu-operator", **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "helm.sh/v3",
        "kind": "Release",
        "name": chart,
        "chart": chart,
        "version": "v26.7.0",
        "repositoryOpts": {"repo": "https://helm.example.com"},
        **fields,
    }


def ids(manifest: Any, context: Context = CONTEXT, **options: Any) -> list[str]:
    """Return the ids of the rules that one manifest breaks, without the advice in `PRACTICE`."""
    rules = [violation.rule.id for violation in judge(manifest, context, **options)]
    return [rule_id for rule_id in rules if rule_id not in PRACTICE]


def paths(rule_id: str, manifest: Any, context: Context = CONTEXT) -> list[str]:
    """Return the paths at which a manifest breaks a rule."""
    return [
        violation.path for violation in judge(manifest, context) if violation.rule.id == rule_id
    ]


def stack_ids(*manifests: Any, context: Context = CONTEXT) -> list[str]:
    """Return the rules that manifests break only together, with the name of the object."""
    violations = judge_stack(manifests, context)
    assert all(violation.severity is not Severity.OFF for violation in violations)
    return [f"{violation.rule.id} {violation.subject}" for violation in violations]
