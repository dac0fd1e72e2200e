"""Checks of Node Feature Discovery on real nodes, which need a node's kernel and PCI bus."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

from gpu_cluster.desired.scheduling_classes import FEATURE, features
from gpu_cluster_lab.simulator.controller.discovery import PCI
from lab.real import nfd
from lab.real.facts import Fact, require
from lab.real.lab import GPUS, REAL, Lab
from lab.real.nfd_cases import RULES, label, rule

NODE = REAL[1]
_TEAM = "example.com/team"
_COUNT = "nvidia.com/gpu.count"
_MARKS = "nfd.node.kubernetes.io/"


def _node_labels(lab: Lab) -> dict[str, str]:
    labels: dict[str, str] = lab.node(NODE)["metadata"]["labels"]
    return labels


def _wait(lab: Lab, name: str, value: str | None) -> None:
    lab.until(
        f"node {NODE}: {name}",
        partial(label(name), lab, NODE),
        lambda label_value: label_value == value,
    )


def _check_system_labels(lab: Lab) -> None:
    _wait(lab, PCI, "true")
    node, labels = lab.nodes[NODE], _node_labels(lab)
    system_words = node.run('. /etc/os-release; echo "$ID $VERSION_ID"; uname -r').split()
    names = ("system-os_release.ID", "system-os_release.VERSION_ID", "kernel-version.full")
    require("system and kernel", [labels[f"{FEATURE}{name}"] for name in names], system_words)


def _found_by_each(lab: Lab) -> None:
    labels = {key: value for key, value in _node_labels(lab).items() if key.startswith(FEATURE)}
    feature_labels = {key: value for key, value in labels.items() if features({key: value})}
    for prefix in ("pci-", "cpu-model.", "kernel-version.", "system-os_release."):
        require(prefix, any(key.startswith(f"{FEATURE}{prefix}") for key in feature_labels), True)
    rule_object = rule("all", {_TEAM: "all"})
    rule_object["spec"]["rules"][0] |= {"matchFeatures": features(feature_labels), "taints": []}
    lab.request("POST", RULES, rule_object)
    _wait(lab, _TEAM, "all")
    nfd.drop(lab, f"{RULES}/{rule_object['metadata']['name']}")
    _wait(lab, _TEAM, None)


def _check_discovery(choice: str, *expected_names: str) -> Callable[[Lab], None]:
    """Return a check of which NodeFeature objects a feature discovery configuration leaves.

    Args:
        choice: Name of the device plugin configuration that the node's label selects.
        expected_names: Expected names of NodeFeature objects.
    """

    def check(lab: Lab) -> None:
        _choose(lab, choice)
        lab.request("POST", nfd.PLACES["DaemonSet"], nfd.named(nfd.DISCOVERY))
        _wait(lab, _COUNT, str(GPUS))
        # NodeFeatures of earlier pods are deleted only after the garbage collector has noticed that
        # the pods are gone.
        lab.until(
            "NodeFeatures",
            partial(_list_features, lab),
            lambda names: names == sorted(expected_names),
        )
        nfd.drop(lab, nfd.place(nfd.named(nfd.DISCOVERY)))
        _wait(lab, _COUNT, None)
        _choose(lab, None)

    return check


def _list_features(lab: Lab) -> list[str]:
    listed = lab.request("GET", nfd.FEATURES, labelSelector=f"{_MARKS}node-name={NODE}")
    return sorted(item["metadata"]["name"] for item in listed["items"])


def _choose(lab: Lab, choice: str | None) -> None:
    label = {"nvidia.com/device-plugin.config": choice}
    lab.request("PATCH", f"/api/v1/nodes/{NODE}", {"metadata": {"labels": label}})


def _check_unplugged(lab: Lab) -> None:
    nfd.unplug(lab, NODE)
    _wait(lab, PCI, None)
    nfd.plug(lab, NODE)
    _wait(lab, PCI, "true")


def _gone_node(lab: Lab) -> None:
    feature = {"metadata": {"name": "gone", "labels": {f"{_MARKS}node-name": "gone"}}}
    lab.request("POST", "/api/v1/nodes", {"metadata": {"name": "gone"}})
    body = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeature", "spec": {}, **feature}
    lab.request("POST", nfd.FEATURES, body)
    lab.request("DELETE", "/api/v1/nodes/gone")
    path = f"{nfd.FEATURES}/gone"
    lab.until(
        "NodeFeature of a node that is gone", partial(lab.exists, path), lambda exists: not exists
    )


def _left_behind(lab: Lab) -> None:
    for name in (f"{nfd.NAME}-master", f"{nfd.NAME}-worker"):
        nfd.drop(lab, nfd.place(nfd.named(name)))
    path = f"{nfd.FEATURES}/{NODE}"
    lab.until("NodeFeature without a worker", partial(lab.exists, path), lambda exists: not exists)
    require("label without a master", _node_labels(lab).get(PCI), "true")
    for item in copy.deepcopy(nfd.hooks()):
        # Select the real node, because on a simulated node no program would run.
        if item["kind"] == "Job":
            item["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": NODE}
        lab.request("POST", nfd.PLACES[item["kind"]], item)
    _wait(lab, PCI, None)
    lab.until(
        "annotations of discovery",
        lambda: [key for key in lab.node(NODE)["metadata"]["annotations"] if _MARKS in key],
        lambda labels_found: not labels_found,
    )


FACTS = tuple(
    Fact(name, check, nfd.KEY)
    for name, check in (
        ("labels of a node's system and kernel are as the node says itself", _check_system_labels),
        ("a rule of ours finds a node by all of its labels that it understands", _found_by_each),
        (
            "what feature discovery finds comes as labels, and goes with it",
            _check_discovery("config", NODE, f"nvidia-features-for-{NODE}"),
        ),
        (
            "with useNodeFeatureAPI: false it comes by a file of the node",
            _check_discovery("file", NODE),
        ),
        ("the label of GPUs goes with them", _check_unplugged),
        ("features of a node that is gone are deleted", _gone_node),
        ("labels outlive worker and master, and go by the chart's last job", _left_behind),
    )
)
