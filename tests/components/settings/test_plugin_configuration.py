"""A changed device plugin configuration reaches running plugins by a rollout of their pods."""

from __future__ import annotations

from typing import Any

from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.device_plugin.excluded_gpus import daemon_sets
from gpu_cluster.platforms.device_plugin.values import CHECKSUM
from gpu_cluster.settings.cluster import Cluster
from tests.fixtures.documents import stack_document
from tests.resolved import platform_of

SHARING = {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}}


def cluster(**plugin: Any) -> Cluster:
    pool = {
        "name": "a100",
        "nodes": ["gpu-1", "gpu-2"],
        "gpusPerNode": 8,
        "unhealthyDevices": {"gpu-1": {"index": [3]}},
    }
    return load(stack_document(pools=[pool], devicePlugin=plugin))


def checksums(declared: Cluster) -> set[str]:
    """Return the checksums in the chart's pods and in those on nodes with an excluded GPU."""
    chart = platform_of(declared).values()
    own = [
        each["spec"]["template"]["metadata"]
        for each in daemon_sets(declared.device_plugin, platform_of(declared).site, chart)
    ]
    assert own
    return {chart["podAnnotations"][CHECKSUM], *(each["annotations"][CHECKSUM] for each in own)}


def test_all_plugins_have_the_checksum_of_their_configurations() -> None:
    assert len(checksums(cluster())) == 1


def test_another_configuration_is_another_checksum() -> None:
    plain = cluster()
    for changed in (
        cluster(config={"sharing": SHARING}),
        cluster(configs={"shared": {"sharing": SHARING}}),
    ):
        assert not checksums(plain) & checksums(changed)


def test_another_setting_leaves_the_pods() -> None:
    assert checksums(cluster()) == checksums(cluster(namespace="gpus"))


def test_annotations_of_the_user_stay_beside_it() -> None:
    declared = cluster(extraValues={"podAnnotations": {"example.com/owner": "platform"}})
    chart = platform_of(declared).values()
    assert set(chart["podAnnotations"]) == {CHECKSUM, "example.com/owner"}
