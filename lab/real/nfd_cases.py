"""Cases of Node Feature Discovery: node labels, their lifetime, and NodeFeatureRules."""

from __future__ import annotations

from typing import Any

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_cluster_lab.simulator.controller.discovery import DIVISIBLE, PCI
from lab.real import nfd
from lab.real.behaviours import Act, Inspect
from lab.real.case import Case, Phase
from lab.real.lab import REAL, SIMULATED, Json, Lab

_MASTER = "node-feature-discovery v0.17.3, pkg/nfd-master/nfd-master.go"
_WORKER = "node-feature-discovery v0.17.3, pkg/nfd-worker/nfd-worker.go"
_RULES = "node-feature-discovery v0.17.3, pkg/apis/nfd/validate/validate.go"
_CHART = "nvidia-device-plugin 0.19.3, values.yaml, nfd.worker.tolerations"
_GFD = "k8s-device-plugin v0.19.3, internal/lm/output.go"
_SHARED = "k8s-device-plugin v0.19.3, internal/lm/nvml.go, newSharingLabeler"

RULES = f"{nfd.GROUP}/nodefeaturerules"


def label(name: str) -> Inspect:
    """Return a function that reads the value of a node's label."""
    return lambda lab, node: lab.node(node)["metadata"]["labels"].get(name)


def rule(pool: str, labels: Json) -> Json:
    """Return the NodeFeatureRule that this project renders for a pool selected by its GPUs."""
    pool_section = {"name": pool, "selector": {PCI: "true"}, "count": 1, "gpusPerNode": 8}
    document = nfd.declared() | {
        "scheduling": {"nodeFeatures": "rule"},
        "pools": [{**pool_section, "labels": labels}],
    }
    cluster = load(document)
    return resolve(cluster, "real").scheduling.objects[f"rule-{pool}"]


def _others_rule() -> Json:
    """Return another client's NodeFeatureRule, whose name sorts before this project's rule.

    NFD adds its own prefix to label keys without a prefix. It ignores labels with Kubernetes'
    prefixes, and ignores taints with either kind of key.
    """
    rule_object = rule("a", {"example.com/team": "a"})
    (rule_entry,) = rule_object["spec"]["rules"]
    rule_entry["labels"] |= {"team": "a", "node-role.kubernetes.io/team": "a"}
    keys = ("team", "node.kubernetes.io/team", "example.com/team")
    rule_entry["taints"] = [{"key": key, "effect": "NoSchedule"} for key in keys]
    return rule_object


def _seen_elsewhere(lab: Lab, node: str) -> None:
    """Wait until the second node of the same kind (real or simulated) has the GPU label.

    This shows that Node Feature Discovery runs.
    """
    other_node = (REAL if node in REAL else SIMULATED)[1]
    lab.until(
        f"node {other_node}: {PCI}",
        lambda: label(PCI)(lab, other_node),
        lambda label_value: label_value == "true",
    )


def _untaint(lab: Lab, node: str) -> None:
    lab.request("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": None}})


def _restart_worker(lab: Lab, node: str) -> None:
    (pod,) = lab.pods(node, **nfd.WORKER)
    path = f"/api/v1/namespaces/{nfd.NAMESPACE}/pods/{pod['metadata']['name']}"
    lab.request("DELETE", path)
    uid = pod["metadata"]["uid"]

    def other_workers() -> list[str]:
        pods = [pod for pod in lab.pods(node, **nfd.WORKER) if pod["metadata"]["uid"] != uid]
        return [str(pod["status"].get("phase")) for pod in pods]

    lab.until("another worker", other_workers, lambda phases: phases == ["Running"])


def _by_rules(lab: Lab, node: str) -> tuple[dict[str, str], list[str]]:
    """Return a node's labels named `team` with any prefix, and the keys of its taints."""
    item = lab.node(node)
    labels = item["metadata"]["labels"]
    taints = item["spec"].get("taints") or []
    return (
        {key: value for key, value in labels.items() if key.rpartition("/")[2] == "team"},
        sorted(taint["key"] for taint in taints),
    )


def _add_rule(item: Any) -> Act:
    return lambda lab, node: nfd.ensure(lab, item(), RULES)


def _take_rules(lab: Lab, node: str) -> None:
    for name in ("a", "b"):
        nfd.drop(lab, f"{RULES}/gpu-cluster-real-{name}")


def _discover(lab: Lab, node: str) -> None:
    nfd.ensure(lab, nfd.named(nfd.DISCOVERY))


def _take_workers(lab: Lab, node: str) -> None:
    nfd.drop(lab, nfd.place(nfd.named(f"{nfd.NAME}-worker")))


PHASES = (
    Phase(
        nfd.KEY,
        (
            Case(
                "a taint that discovery's worker doesn't tolerate leaves GPUs unseen",
                label(PCI),
                None,
                _CHART,
                _seen_elsewhere,
            ),
            Case("without that taint they are seen", label(PCI), "true", _MASTER, _untaint),
            Case(
                "discovery's worker says nothing of dividing GPUs",
                label(DIVISIBLE),
                None,
                _GFD,
            ),
            Case(
                "the label outlives its worker's pod",
                label(PCI),
                "true",
                _WORKER,
                _restart_worker,
            ),
            Case(
                "a rule of ours labels and taints the nodes that it finds",
                _by_rules,
                ({"example.com/team": "b"}, ["nvidia.com/gpu"]),
                _MASTER,
                _add_rule(lambda: rule("b", {"example.com/team": "b"})),
            ),
            Case(
                "of two rules the later name wins; strange keys are changed or left out",
                _by_rules,
                (
                    {"example.com/team": "b", "feature.node.kubernetes.io/team": "a"},
                    ["example.com/team", "nvidia.com/gpu"],
                ),
                _RULES,
                _add_rule(_others_rule),
            ),
            Case("with rules go what they gave", _by_rules, ({}, []), _MASTER, _take_rules),
            Case(
                "feature discovery says that GPUs can be divided",
                label(DIVISIBLE),
                "true",
                _GFD,
                _discover,
            ),
            Case(
                "feature discovery says that MPS doesn't share the GPUs",
                label("nvidia.com/mps.capable"),
                "false",
                _SHARED,
            ),
            Case("the label goes with its DaemonSet", label(PCI), None, _WORKER, _take_workers),
        ),
    ),
)
