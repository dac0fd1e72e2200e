"""The simulated MIG manager applies its node's label, and never partitions GPUs in use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpu_cluster_lab.simulator import marks
from gpu_cluster_lab.simulator.controller import operands
from tests.proofs.simulator.operating import create_policy, operating
from tests.proofs.simulator.running import Running, until

MAPS = "/api/v1/namespaces/default/configmaps"
NODE = "gpu-1"


def layouts(profile: str) -> dict[str, Any]:
    text = (
        "version: v1\nmig-configs:\n  all-disabled: [{devices: all, mig-enabled: false}]\n"
        f"  a100: [{{devices: all, mig-enabled: true, mig-devices: {{{profile}: 2}}}}]\n"
    )
    return {"metadata": {"name": "layouts"}, "data": {"config.yaml": text}}


@pytest.fixture
def divided(cluster: Running) -> Iterator[Running]:
    """Yield a cluster with the simulated operator, and with MIG layouts in a ConfigMap."""
    with operating(cluster):
        cluster.request("POST", MAPS, layouts("1g.5gb"))
        config = {"name": "layouts", "default": "all-disabled"}
        create_policy(cluster, mig={"strategy": "single"}, migManager={"config": config})
        wait(cluster, "success")
        cluster.wait_gpus(NODE, "8", "8")
        try:
            yield cluster
        finally:
            cluster.request("DELETE", f"{operands.POLICIES}/{operands.POLICY}")
            cluster.request("DELETE", f"{MAPS}/layouts")
            until(lambda: marks.MIG in cluster.node(NODE)["metadata"]["annotations"],
                  lambda value: not value)  # fmt: skip
            gone = {key: None for key in (operands.MIG_LAYOUT, operands.MIG_STATE)}
            for node in cluster.items("/api/v1/nodes"):
                path = f"/api/v1/nodes/{node['metadata']['name']}"
                cluster.request("PATCH", path, {"metadata": {"labels": gone}})


def choose(cluster: Running, layout: str | None) -> None:
    labels = {operands.MIG_LAYOUT: layout, operands.MIG_STATE: None}
    cluster.request("PATCH", f"/api/v1/nodes/{NODE}", {"metadata": {"labels": labels}})


def state(cluster: Running) -> str | None:
    labels = cluster.node(NODE)["metadata"]["labels"]
    return labels.get(operands.MIG_STATE)  # type: ignore[no-any-return]


def wait(cluster: Running, wanted: str) -> None:
    until(lambda: state(cluster), lambda value: value == wanted)


def test_a_node_offers_the_devices_of_its_label_s_layout(divided: Running) -> None:
    assert divided.node(NODE)["metadata"]["labels"][operands.MIG_LAYOUT] == "all-disabled"
    choose(divided, "a100")
    wait(divided, "success")
    divided.wait_gpus(NODE, "16", "16")
    choose(divided, "all-disabled")
    wait(divided, "success")
    divided.wait_gpus(NODE, "8", "8")


def test_a_layout_s_other_content_reaches_no_gpu_and_an_unknown_name_is_refused(
    divided: Running,
) -> None:
    choose(divided, "a100")
    wait(divided, "success")
    divided.wait_gpus(NODE, "16", "16")
    before = divided.node(NODE)["metadata"]["annotations"][marks.MIG]
    divided.request("PATCH", f"{MAPS}/layouts", layouts("3g.20gb"))
    choose(divided, "a100-2")
    wait(divided, "failed")
    assert divided.node(NODE)["metadata"]["annotations"][marks.MIG] == before
    pods = divided.pods(app="nvidia-mig-manager")
    for pod in pods:  # The MIG manager only reads the layouts when its pod starts.
        if pod["spec"]["nodeName"] == NODE:
            name = pod["metadata"]["name"]
            divided.request("DELETE", f"/api/v1/namespaces/default/pods/{name}")
    choose(divided, "a100")
    until(
        lambda: divided.node(NODE)["metadata"]["annotations"][marks.MIG],
        lambda value: value == "3g.20gb=2",
    )


def test_gpus_in_use_keep_their_layout(divided: Running) -> None:
    divided.hold("train", NODE, 1, tolerations=[{"operator": "Exists"}])
    choose(divided, "a100")
    wait(divided, "failed")
    divided.wait_gpus(NODE, "8", "8")
    divided.request("DELETE", "/api/v1/namespaces/default/pods/train")
