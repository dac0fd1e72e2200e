"""The settings of each how-to pass preflight with hosts that report facts of real machines.

Simulated hosts report that they are simulated, and then several checks are off. Hosts of
gpu-manager are of its time (`docs/how-to/shared-cards.md`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import yaml

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.preflight import validate_host
from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.findings import Surroundings
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.nodes.node_range import expand
from gpu_cluster.settings.nodes.pool import Pool
from gpu_rules.faults import Fault, FaultSeverity
from tests.fixtures.clusters import HOST_KEY
from tests.proofs.docs.pages import blocks, manuals
from tests.proofs.docs.settings import KEY, declared, merged, of_block, whole_file
from tests.resolved import platform_of

Json = dict[str, Any]
TODAY = HostFacts(
    os="ubuntu",
    os_version="24.04",
    os_name="Ubuntu 24.04.3 LTS",
    arch="x86_64",
    kernel="6.8.0-79-generic",
    headers=True,
    driver="595.91.07",
    containerd="2.1.4",
    runc="1.3.0",
    toolkit="1.20.2",
    cgroup=2,
    disk_free_mib=99_999,
)
EARLIER = replace(
    TODAY,
    os_version="22.04",
    os_name="Ubuntu 22.04.5 LTS",
    kernel="5.15.0-153-generic",
    driver="470.256.02",
    containerd="1.7.28",
    default_runtime="runc",
    cgroup=1,
    kubelet_cgroup_v1=True,
)
FACTS = {"gpu-manager": (EARLIER, "v1.34.4")}
"""Facts of hosts and version of the cluster, by platform; other platforms have those of today."""


@dataclass(frozen=True)
class Shown:
    """Settings of a page up to one of its YAML blocks."""

    page: str
    line: int
    settings: Json


def shown() -> Iterator[Shown]:
    for path in manuals():
        settings = declared()
        for block in blocks(path):
            if (file := whole_file(block)) is not None:
                whole = yaml.safe_load(file[1])["config"][KEY]
                yield Shown(block.page, block.line, whole)
            elif (added := of_block(block)) is not None:
                settings = merged(settings, added)
                yield Shown(block.page, block.line, settings)


SHOWN = list(shown())


def names_of(pool: Pool) -> list[str]:
    return [name for pattern in pool.nodes or () for name in expand(str(pattern))]


def with_hosts(settings: Json) -> Cluster:
    """Return the declared cluster, with a host for the first node of its pool if it has none."""
    cluster = load(settings)
    if cluster.hosts:
        return cluster
    name, *_ = names_of(cluster.pools[0])
    host = {"name": name, "address": "192.0.2.1", "hostKey": HOST_KEY}
    return load({**settings, "hosts": [host]})


def facts_of(cluster: Cluster, host: DesiredHost, facts: HostFacts) -> HostFacts:
    """Return the facts of a host that has what its settings say that it has already."""
    driver = host.sections.driver
    loaded = None if driver.in_container else driver.version or facts.driver
    gpus = [pool.gpus_per_node for pool in cluster.pools if host.node in names_of(pool)]
    number = max(gpus, default=0) if host.role.has_gpus else 0
    return replace(facts, nvidia_devices=number, driver=loaded if number else None)


def faults_of(cluster: Cluster) -> list[Fault]:
    facts, version = FACTS.get(cluster.platform, (TODAY, "v1.36.3"))
    hosts = resolve(cluster, "dev").hosts
    by_node = {host.node: facts_of(cluster, host, facts) for host in hosts}
    found = [fault for host in hosts for fault in validate_host(host, by_node[host.node])]
    seen = Surroundings(
        version=version,
        groups={"resource.k8s.io": ["v1"]},
        engines={node: f"containerd://{facts.containerd}" for node in by_node},
        service_ranges=("10.96.0.0/12",),
    )
    return [*found, *platform_of(cluster).validate_cluster(seen, by_node)]


@pytest.mark.documents("how-to")
@pytest.mark.parametrize(
    "block", [pytest.param(each, id=f"{each.page}:{each.line}") for each in SHOWN]
)
def test_a_how_to_passes_preflight_with_facts_of_real_hosts(block: Shown) -> None:
    found = faults_of(with_hosts(block.settings))
    assert [str(each) for each in found if each.severity is FaultSeverity.ERROR] == []


def test_a_host_of_today_is_refused_for_gpu_manager() -> None:
    (block,) = (each for each in SHOWN if each.settings["platform"] == "gpu-manager")
    cluster = with_hosts(block.settings)
    today = {host.node: facts_of(cluster, host, TODAY) for host in resolve(cluster, "dev").hosts}
    found = [*platform_of(cluster).validate_cluster(Surroundings(version="v1.34.4"), today)]
    assert any("cgroup v2" in each.found for each in found)
