"""The cluster of the proof: the nodes of the examples wait for no host that nobody prepares."""

from __future__ import annotations

from pathlib import Path

import yaml

from gpu_cluster.loading.loader import load
from gpu_cluster.settings.nodes.node_range import expand
from gpu_cluster_lab.simulator import marks
from gpu_cluster_lab.simulator.nodes import manifest, node_specs
from tests.proofs.e2e.project import Project
from tests.proofs.reach.conftest import move_hosts
from tests.simulated import declared_hardware

ROOT = Path(__file__).parents[3]


def test_the_nodes_of_the_examples_need_no_prepared_host(tmp_path: Path) -> None:
    cluster = Project(tmp_path, tmp_path, "reach").declared()
    move_hosts(cluster)
    specs = {spec.name: spec for spec in node_specs(declared_hardware(load(cluster)))}
    example = yaml.safe_load((ROOT / "examples" / "yaml" / "Pulumi.yaml").read_text())
    pools = example["resources"]["gpus"]["properties"]["pools"]
    names = [name for pool in pools for text in pool["nodes"] for name in expand(text)]
    assert names
    for name in names:
        assert manifest(specs[name])["metadata"]["annotations"][marks.PREPARED] == "assumed"
    assert {spec.name for spec in specs.values() if spec.host} == {"gpu-5", "gpu-6"}
