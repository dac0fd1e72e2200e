"""Test site for MIG: a cluster with operator and MIG manager, and changes of MIG layouts."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.rollout import MigLayoutsRequest
from gpu_cluster.findings import Finding
from gpu_cluster.inspection.observe import nodes_of
from gpu_cluster.inspection.plans import planned_mig_layouts as planned
from gpu_cluster.kubernetes.api import ClusterError, connect
from gpu_cluster.kubernetes.resources import MIG_LABEL, MIG_STATE
from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.gpu_operator.mig_config import CONFIG_MAP
from gpu_cluster.rollout import mig_layouts, mig_targets
from gpu_cluster.rollout.mig_layouts_component import MigLayoutsArgs, mig_layouts_request
from gpu_cluster.rollout.mig_layouts_plan import MigLayoutsPlan
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster_lab import simulator
from tests.proofs.rollout.site import Site
from tests.proofs.simulator.operating import create_policy, start_operator
from tests.proofs.simulator.running import Running, until
from tests.resolved import platform_of
from tests.simulated import simulate

Json = dict[str, Any]
SPACE = "default"
"""Namespace of the operator's pod."""
MAPS = f"/api/v1/namespaces/{SPACE}/configmaps"
VALIDATION = "gpu-validation"


class Divided(Site):
    """Cluster with four nodes of eight GPUs each, which the MIG manager partitions."""

    def __init__(self, name: str) -> None:
        self.begun = self.ended = self.unconsented = 0
        self.name = name
        self.document: Json = {
            "version": "v1",
            "kubernetes": {"context": f"gpu-cluster-{name}"},
            "platform": "gpu-operator",
            "runtime": {"defaultRuntime": "nvidia"},
            "pools": [{"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8}],
            "rollout": {"drainTimeoutSeconds": 60},
            "validation": {"timeoutSeconds": 60},
        }
        embedded = simulate(name, load(self.document))
        os.environ["KUBECONFIG"] = str(embedded.kubeconfig)
        self.cluster = Running(embedded)

    def start(self) -> None:
        """Start the simulated GPU Operator, and create the objects that validation pods need."""
        start_operator(self.cluster)
        self.serve(self.declared_with({"1g.5gb": 1}))
        config = {"name": CONFIG_MAP, "default": "all-disabled"}
        create_policy(self.cluster, mig={"strategy": "single"}, migManager={"config": config})
        self.request("POST", "namespaces", body={"metadata": {"name": VALIDATION}})
        body = {"metadata": {"name": VALIDATION}, "value": -1000}
        self.request("POST", "priorityclasses", base="/apis/scheduling.k8s.io", body=body)
        until(lambda: self.states(), lambda states: states == ["success"] * 4)

    def close(self) -> None:
        simulator.down(self.name)

    def declared_with(self, mig: Json | None, **sections: Any) -> Cluster:
        """Return the configuration whose pool declares these MIG devices, or none."""
        (pool,) = self.document["pools"]
        pools = [{**pool, "mig": mig} if mig else pool]
        return load({**self.document, "pools": pools, **sections})

    def serve(self, cluster: Cluster) -> None:
        """Write the ConfigMap of MIG layouts, as the Helm release does.

        MIG manager pods read it when they start.
        """
        config = platform_of(cluster).values().get("migManager", {}).get("config", {})
        body = {"metadata": {"name": CONFIG_MAP}, "data": config.get("data", {})}
        known = [item["metadata"]["name"] for item in self.cluster.items(MAPS)]
        if CONFIG_MAP in known:
            self.cluster.request("PATCH", f"{MAPS}/{CONFIG_MAP}", body)
        else:
            self.cluster.request("POST", MAPS, body)

    def asked(self, cluster: Cluster) -> MigLayoutsRequest:
        """Return the request that the program `mig-layouts` reads as its input."""
        desired = resolve(cluster, "t")
        args = MigLayoutsArgs(
            rollout=desired.rollout,
            layouts=replace(desired.layouts, namespace=SPACE),
            pools=desired.validation.pools,
            private_key="",
            has_hosts=False,
        )
        return mig_layouts_request(args, "")

    def layout_plan(self, cluster: Cluster) -> MigLayoutsPlan:
        """Return the plan that an inspection makes for a change of MIG layouts."""

        async def differences() -> dict[str, Finding]:
            async with connect(self.document["kubernetes"]["context"]) as client:
                nodes = await client.list("nodes")
            return mig_targets.differences(nodes, self.asked(cluster).layouts)

        return planned(
            resolve(cluster, "t").rollout,
            asyncio.run(differences()),
            nodes_of(resolve(cluster, "t").rollout),
        )[0]

    def divide(self, mig: Json | None, **sections: Any) -> list[str]:
        """Change the MIG layout; this must succeed. Return the changed nodes in order."""
        cluster = self.declared_with(mig, **sections)
        self.serve(cluster)
        document = self.asked(cluster)
        self.begun += len(self.layout_plan(cluster).names)
        with self.guarded(document.rollout.consent):
            done = asyncio.run(mig_layouts.apply(document))
        self.ended += len(done["changed"])
        return list(done["changed"])

    def refused(self, mig: Json | None, *, served: bool = True, **sections: Any) -> str:
        """Change the MIG layout, check that this fails, and return the error message."""
        cluster = self.declared_with(mig, **sections)
        if served:
            self.serve(cluster)
        document = self.asked(cluster)
        with self.guarded(document.rollout.consent), pytest.raises(ClusterError) as raised:
            asyncio.run(mig_layouts.apply(document))
        return str(raised.value)

    def states(self) -> list[str]:
        """Return the state that the MIG manager reports for each node."""
        labels = [self.node(f"gpu-{i}")["metadata"]["labels"] for i in range(1, 5)]
        return [found.get(MIG_STATE, "") for found in labels]

    def layout(self, name: str) -> str:
        """Return the MIG layout in a node's label."""
        return str(self.node(name)["metadata"]["labels"].get(MIG_LABEL, ""))

    def gpus(self, name: str) -> str:
        """Return the number of GPUs that a node advertises, as text."""
        return str(self.node(name)["status"]["allocatable"].get("nvidia.com/gpu", "0"))

    def offer(self, names: tuple[str, ...], count: str) -> None:
        """Wait until all nodes advertise `count` GPUs or MIG devices."""
        until(lambda: [self.gpus(name) for name in names], lambda found: set(found) == {count})

    def manager(self, name: str) -> str:
        """Return the name of the MIG manager's pod on a node."""
        pods = self.cluster.pods(app="nvidia-mig-manager")
        (found,) = (p["metadata"]["name"] for p in pods if p["spec"].get("nodeName") == name)
        return str(found)
