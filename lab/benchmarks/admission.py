"""Benchmark B6, admission policies: how much their rules delay pod creation (99th percentile).

The goal compares them with policies that have no rules. What any policies cost is printed too.
"""

from __future__ import annotations

import copy
import statistics
import time
from typing import Any

import httpx

from gpu_rules.admission import Enforcement, manifests
from gpu_rules.rules import Context, NodeTaint, PluginFacts, PoolFacts, Severity
from lab.benchmarks.api_server import await_true, running
from lab.benchmarks.measure import BenchmarkError

GOAL = 1.1
ROUNDS = 10
PODS = 300
"""Number of pods in one round, on each side."""

_GPU = "nvidia.com/gpu"
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
_PATHS = {
    "ValidatingAdmissionPolicy": f"{_POLICIES}ies",
    "ValidatingAdmissionPolicyBinding": f"{_POLICIES}ybindings",
}
_PODS = "/api/v1/namespaces/default/pods"
_REFUSED = "too-large"

Json = dict[str, Any]


def context() -> Context:
    """Return facts about a cluster with four pools in which every rule applies."""
    taints = (NodeTaint(_GPU, "present"),)
    pools = tuple(
        PoolFacts(name, 8, taints, {_GPU: "true", "pool": name}, nodes=100, gpu_memory_mib=81920)
        for name in ("a100", "h100", "l4", "t4")
    )
    return Context(
        pools=pools,
        platform="device-plugin",
        plugin=PluginFacts(),
        runtime_class="",
        max_gpus_per_container=8,
        max_gpus_per_pod=8,
    )


def pod(name: str, gpus: int = 8) -> Json:
    """Return a typical training pod: two containers, an init container, shared memory."""
    size = {"cpu": "4", "memory": "16Gi"}

    def container(role: str, devices: Json) -> Json:
        resources = {"requests": size, "limits": {"memory": "16Gi", **devices}}
        mounts = [{"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108
        image = "registry.example.com/train:1.4.2"
        return {"name": role, "image": image, "resources": resources, "volumeMounts": mounts}

    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "train"}},
        "spec": {
            "initContainers": [container("fetch", {})],
            "containers": [container("train", {_GPU: str(gpus)}), container("metrics", {})],
            "tolerations": [{"key": _GPU, "operator": "Exists", "effect": "NoSchedule"}],
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
        },
    }


def percentile(samples: list[float], part: float) -> float:
    """Return a percentile: the sample at position `part` (0 to 1) of the sorted samples."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def empty(made: list[Json]) -> list[Json]:
    """Return an empty copy of each pod policy, to measure the API server's own cost of policies.

    The copies contain no rules, but have bindings. So the API server converts each pod for CEL. The
    copies only reject pods with one special name; this rejection shows that they are in force.
    """
    copies = copy.deepcopy([policy for policy in made if "-pods-" in policy["metadata"]["name"]])
    for policy in copies:
        name = policy["metadata"]["name"].replace("gpu-rules", "empty")
        policy["metadata"]["name"] = name
        if policy["kind"] == "ValidatingAdmissionPolicyBinding":
            policy["spec"] |= {"policyName": name, "validationActions": ["Deny"]}
            continue
        condition = {"name": "probe", "expression": f'object.metadata.name == "{_REFUSED}"'}
        refusal = {"expression": "false", "reason": "Forbidden"}
        policy["spec"] |= {"matchConditions": [condition], "validations": [refusal]}
        del policy["spec"]["variables"], policy["spec"]["auditAnnotations"]
    return copies


def _switch_policies(client: httpx.Client, bindings: list[Json], on: bool) -> None:
    """Create or delete the policies' bindings, and wait until the change is in force."""
    path = _PATHS["ValidatingAdmissionPolicyBinding"]
    for binding in bindings:
        if on:
            _post(client, path, binding)
        else:
            client.delete(f"{path}/{binding['metadata']['name']}").raise_for_status()
    too_large = pod(_REFUSED, 9)

    def refused() -> bool:
        return client.post(f"{_PODS}?dryRun=All", json=too_large).status_code == 403

    await_true(f"policies {'on' if on else 'off'}", lambda: not bindings or refused() is on)


def _post(client: httpx.Client, path: str, manifest: Json) -> None:
    answer = client.post(path, json=manifest)
    if answer.status_code != 201:
        raise BenchmarkError(f"POST {path}: {answer.status_code} {answer.text}")
    if "warning" in answer.headers:
        raise BenchmarkError(f"POST {path}: {answer.headers['warning']}")


def _run_round(client: httpx.Client) -> list[float]:
    """Create `PODS` pods one after the other; return the seconds of each creation.

    The pods are deleted afterwards.
    """
    samples = []
    for number in range(PODS):
        manifest = pod(f"train-{number}")
        started = time.perf_counter()
        _post(client, _PODS, manifest)
        samples.append(time.perf_counter() - started)
    client.delete(f"{_PODS}?gracePeriodSeconds=0").raise_for_status()
    await_true("pods deleted", lambda: not client.get(f"{_PODS}?limit=1").json()["items"])
    return samples


def run() -> dict[str, Any]:
    """Measure pod creation with and without admission policies; print and return the results.

    All rounds use one API server. They alternate between no policies, empty policies and the rules'
    policies, in changing order.

    Returns:
        `met`: True if the 99th percentile with the rules' policies is at most `goal` times that
            with policies without rules; `bare` (no policies), `empty` (policies without rules) and
            `guarded` (the rules' policies): seconds of every creation.
    """
    actions = {Severity.MANDATORY: ("Deny", "Audit"), Severity.ADVISORY: ("Warn", "Audit")}
    made = manifests(context(), Enforcement(actions, excluded=("kube-system",)))
    made += empty(made)
    sides: dict[str, list[Json]] = {"bare": [], "empty": [], "guarded": []}
    for policy in made:
        if policy["kind"] == "ValidatingAdmissionPolicyBinding":
            side = "empty" if policy["metadata"]["name"].startswith("empty") else "guarded"
            sides[side].append(policy)
    samples: dict[str, list[float]] = {side: [] for side in sides}
    with running("bench-admission") as server:
        client = server.client
        for manifest in made:
            if manifest["kind"] != "ValidatingAdmissionPolicyBinding":
                _post(client, _PATHS[manifest["kind"]], manifest)
        _run_round(client)  # This round only warms up the API server; its samples are not used.
        for number in range(ROUNDS):
            for side in list(sides)[:: -1 if number % 2 else 1]:
                _switch_policies(client, sides[side], True)
                samples[side] += _run_round(client)
                _switch_policies(client, sides[side], False)
    times = {
        name: {"p50": statistics.median(measured), "p99": percentile(measured, 0.99)}
        for name, measured in samples.items()
    }
    ratios, whole, floor = (
        {key: times[side][key] / times[other][key] for key in ("p50", "p99")}
        for side, other in (("guarded", "empty"), ("guarded", "bare"), ("empty", "bare"))
    )
    for name, quantiles in times.items():
        print(
            f"B6: creation of a pod, {name}: "
            f"p50 {quantiles['p50'] * 1000:.1f} ms, p99 {quantiles['p99'] * 1000:.1f} ms"
        )
    print(f"B6: the rules cost a factor of {ratios['p99']:.2f} at p99 (goal ≤ {GOAL})")
    print(f"B6: against no policies {whole['p99']:.2f}, policies without rules {floor['p99']:.2f}")
    return {
        "goal": GOAL,
        "pods": ROUNDS * PODS,
        "ratio": ratios["p99"],
        "ratio_p50": ratios["p50"],
        "whole": whole["p99"],
        "whole_p50": whole["p50"],
        "floor": floor["p99"],
        "floor_p50": floor["p50"],
        **samples,
        "met": ratios["p99"] <= GOAL,
    }
