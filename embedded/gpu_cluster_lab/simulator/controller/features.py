"""Simulate the master of Node Feature Discovery: set labels and taints from NodeFeatureRules.

Only the rule features that this project uses are supported: `matchFeatures` with the operator `In`,
over features derived from the labels of the simulated nodes. The labels and taints that were set
are recorded in the node annotation `marks.RULED` and removed together with their rule. Keys are
validated like in the real program (node-feature-discovery v0.17.3 and v0.19.0,
pkg/apis/nfd/validate/validate.go).
"""

from __future__ import annotations

import asyncio
import json
import logging
import re

from gpu_cluster_lab.simulator import marks
from gpu_cluster_lab.simulator.api import MERGE, Api, Json
from gpu_cluster_lab.simulator.controller.follow import Sources, follow
from gpu_cluster_lab.simulator.controller.queue import Queue

log = logging.getLogger(__name__)

RULES = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules"
WORKERS = 8
#: Prefix that Node Feature Discovery adds to label keys without a prefix.
OWN = "feature.node.kubernetes.io/"
_PCI = re.compile(r"feature\.node\.kubernetes\.io/pci-(?:([0-9a-f]{4})_)?([0-9a-f]{4})\.present")


def features(labels: dict[str, str]) -> dict[str, list[dict[str, str]]]:
    """Return the hardware features that are derived from a node's labels."""
    devices = [
        {"vendor": match[2], **({"class": match[1]} if match[1] else {})}
        for key in labels
        if (match := _PCI.fullmatch(key))
    ]
    return {"pci.device": devices}


def matches(rule: Json, node_features: dict[str, list[dict[str, str]]]) -> bool:
    """Check that a node with these features meets all terms of a NodeFeatureRule's rule."""
    return all(
        any(
            all(
                expression["op"] == "In" and instance.get(key) in expression["value"]
                for key, expression in term["matchExpressions"].items()
            )
            for instance in node_features.get(term["feature"], [])
        )
        for term in rule["matchFeatures"]
    )


def wanted(rules: list[Json], labels: dict[str, str]) -> Json:
    """Return the labels and taints that a node gets from NodeFeatureRules."""
    node_features = features(labels)
    result: Json = {"labels": {}, "taints": []}
    for item in sorted(rules, key=lambda item: str(item["metadata"]["name"])):
        for rule in item["spec"]["rules"]:
            if matches(rule, node_features):
                rule_labels = rule.get("labels") or {}
                full_labels = {
                    key if "/" in key else OWN + key: text for key, text in rule_labels.items()
                }
                result["labels"] |= {
                    key: text for key, text in full_labels.items() if _is_allowed_key(key)
                }
                result["taints"] += [
                    taint for taint in rule.get("taints") or [] if _is_allowed_key(taint["key"])
                ]
    return result


def _is_allowed_key(key: str) -> bool:
    """Check that a NodeFeatureRule may set a label or taint with this key.

    The key needs a prefix, and the prefix must not be one of Kubernetes' own.
    """
    prefix, slash, _ = key.partition("/")
    is_of_nfd = f".{prefix}/".endswith(f".{OWN}")
    return bool(slash) and (is_of_nfd or not f".{prefix}".endswith(".kubernetes.io"))


def patch(node: Json, rules: list[Json]) -> Json | None:
    """Return the merge patch that gives a node the labels and taints of the NodeFeatureRules.

    Return None if the node is already up to date.
    """
    metadata, notes = node["metadata"], node["metadata"].get("annotations") or {}
    before: Json = json.loads(notes.get(marks.RULED, '{"labels":{},"taints":[]}'))
    after = wanted(rules, metadata.get("labels") or {})
    if before == after:
        return None
    gone = dict.fromkeys(before["labels"].keys() - after["labels"].keys())
    other_taints = [t for t in node["spec"].get("taints") or [] if t not in before["taints"]]
    empty = not after["labels"] and not after["taints"]
    record = None if empty else json.dumps(after, sort_keys=True)
    return {
        "metadata": {"labels": {**gone, **after["labels"]}, "annotations": {marks.RULED: record}},
        "spec": {
            "taints": [*other_taints, *(t for t in after["taints"] if t not in other_taints)]
            or None
        },
    }


class Features:
    """Keep the labels and taints of nodes consistent with the cluster's NodeFeatureRules."""

    def __init__(self, api: Api) -> None:
        """Start without any known nodes and NodeFeatureRules."""
        self._api = api
        self._nodes: dict[str, Json] = {}
        self._rules: dict[str, Json] = {}
        self._queue = Queue(self._work)
        self.sources = Sources(2)
        self.nodes_listed = self.sources.source()

    async def run(self) -> None:
        """Watch objects and process nodes until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work_on())
            source = self.sources.source()
            group.create_task(follow(self._api, RULES, self._rule_changed, self._rule_gone, source))

    async def _work_on(self) -> None:
        await self.sources.complete.wait()
        await self._queue.run(WORKERS)

    def node_changed(self, item: Json) -> None:
        """Record a node that was added or changed, and add it to the queue."""
        if marks.FAKE_NODE in (item["metadata"].get("annotations") or {}):
            self._nodes[item["metadata"]["name"]] = item
            if patch(item, list(self._rules.values())):
                self._queue.add(item["metadata"]["name"])

    def node_gone(self, item: Json) -> None:
        """Forget a node that was deleted from the cluster."""
        self._nodes.pop(item["metadata"]["name"], None)

    def _rule_changed(self, item: Json) -> None:
        self._rules[item["metadata"]["uid"]] = item
        self._all()

    def _rule_gone(self, item: Json) -> None:
        self._rules.pop(item["metadata"]["uid"], None)
        self._all()

    def _all(self) -> None:
        for name in self._nodes:
            self._queue.add(name)

    async def _work(self, name: str) -> None:
        node = self._nodes.get(name)
        body = patch(node, list(self._rules.values())) if node else None
        if node and body:
            version = node["metadata"]["resourceVersion"]
            body["metadata"]["resourceVersion"] = version
            await self._api.request("PATCH", f"/api/v1/nodes/{name}", body, MERGE)
            log.info("node %s: labels and taints of NodeFeatureRules", name)
