"""Fields that the API server drops because of an old CustomResourceDefinition."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gpu_cluster.charts.availability import WantedChart
from gpu_cluster.charts.contents import of_folder
from gpu_cluster.kubernetes.api import Refused
from gpu_cluster.platforms.requests import Expected, HelmRelease
from gpu_cluster.release import definitions
from tests.proofs.platform.chart_folders import FAKE_CHARTS

Json = dict[str, Any]
CHART = of_folder(FAKE_CHARTS / "gpu-operator")
POLICY = "clusterpolicies.nvidia.com"
RELEASE = HelmRelease(name="gpu-operator", namespace="gpu-operator")


class Cluster:
    """Fake API client of a cluster with one definition and one object."""

    def __init__(self, definition: Json | None, live: Json | None = None, code: int = 404) -> None:
        self.definition, self.live, self.code = definition, live, code

    async def find(self, url: str, *, base: str = "") -> Json | None:
        if self.code == 403:
            raise Refused(url, 403, "Forbidden", "")
        return self.definition if url.endswith(POLICY) else None

    async def request(self, method: str, url: str, **_: Any) -> Json:
        if not url:
            resource = {"kind": "ClusterPolicy", "name": "clusterpolicies", "namespaced": False}
            return {"resources": [resource]}
        if self.live is None:
            raise Refused(url, self.code, "NotFound", "")
        return self.live


def old_definition() -> Json:
    definition: Json = json.loads(json.dumps(CHART.definitions[POLICY]))
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["sandboxWorkloads"]["properties"]["mode"]
    return definition


def outdated(cluster: Cluster) -> list[str]:
    wanted = WantedChart(place="x", chart="gpu-operator", version="v26.7.0")
    faults = asyncio.run(definitions.outdated(cluster, CHART, wanted, None))  # type: ignore[arg-type]
    return [str(fault) for fault in faults]


@pytest.mark.clusters("stale", "old definition")
def test_an_old_definition_in_the_cluster_is_a_fault_before_the_change() -> None:
    (text,) = outdated(Cluster(old_definition()))
    place = f"CustomResourceDefinition {POLICY}"
    assert text.startswith(f"{place}: found a definition without v1 spec.sandbox")
    assert "kubectl apply --server-side" in text
    assert outdated(Cluster(dict(CHART.definitions[POLICY]))) == []


@pytest.mark.parametrize("code", [403, 404])
def test_a_definition_that_is_not_there_or_not_readable_is_no_fault(code: int) -> None:
    assert outdated(Cluster(None, code=code)) == []


def dropped(live: Json | None) -> list[str]:
    spec = {"sandboxWorkloads": {"enabled": True, "mode": "kata"}, "driver": {"env": []}}
    item = Expected("nvidia.com/v1", "ClusterPolicy", "", "p", json.dumps({"spec": spec}))
    other = Expected("v1", "Service", "", "s", json.dumps({"spec": {"type": "x"}}))
    cluster = Cluster(None, live)
    faults = asyncio.run(definitions.dropped(cluster, [item, other], "ns"))  # type: ignore[arg-type]
    return [str(fault) for fault in faults]


@pytest.mark.clusters("stale", "dropped fields")
def test_what_the_api_server_dropped_is_found_by_reading_back() -> None:
    (text,) = dropped({"spec": {"sandboxWorkloads": {"enabled": True}}})
    assert text.startswith("ClusterPolicy p: found an object without spec.sandboxWorkloads.mode")
    assert dropped({"spec": {"sandboxWorkloads": {"enabled": False, "mode": "kata"}}}) == []
    assert dropped(None) == []
