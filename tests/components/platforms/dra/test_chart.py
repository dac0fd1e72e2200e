"""Charts of NVIDIA's DRA driver, rendered by Helm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.dra import values as chart
from gpu_cluster.settings.cluster import Cluster
from lab.helm import Helm, HelmRefused
from tests.proofs.platform import ways
from tests.proofs.platform.chart_folders import FAKE_CHARTS, REAL, values
from tests.resolved import platform_of

HAS_REAL = REAL is not None and (REAL / chart.CHART).is_dir()
needs_real = pytest.mark.skipif(not HAS_REAL, reason="GPU_CHARTS holds no dra-driver-nvidia-gpu")


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helm]:
    started = Helm(tmp_path_factory.mktemp("helm"))
    yield started
    started.close()


def cluster(**changes: Any) -> Cluster:
    return load(ways.declared("x", "dra", **changes))


def paths(tree: Any, prefix: str = "") -> set[str]:
    if isinstance(tree, dict) and tree:
        return {leaf for key, value in tree.items() for leaf in paths(value, f"{prefix}.{key}")}
    return {prefix}


@needs_real
def test_the_stand_in_has_the_real_ones_paths_objects_and_labels(helm: Helm) -> None:
    assert REAL is not None
    assert paths(values(FAKE_CHARTS / chart.CHART)) <= paths(values(REAL / chart.CHART))
    for domains in (False, True):
        given = platform_of(cluster(dra={"computeDomains": domains})).values()
        real, ours = (
            {
                (manifest["kind"], manifest["metadata"]["name"]): manifest
                for manifest in helm.render(folder / chart.CHART, given, "nvidia-dra-driver")
            }
            for folder in (REAL, FAKE_CHARTS)
        )
        assert ours.keys() <= real.keys()
        for key, item in ours.items():
            if key[0] == "DaemonSet":
                labels = [
                    manifest["spec"]["template"]["metadata"]["labels"]
                    for manifest in (item, real[key])
                ]
                assert labels[0] == labels[1]
                assert item["spec"]["selector"] == real[key]["spec"]["selector"]
            if key[0] == "DeviceClass":
                assert item["apiVersion"] == real[key]["apiVersion"]


def test_both_charts_refuse_gpus_without_the_override(helm: Helm) -> None:
    given = {**platform_of(cluster()).values(), "gpuResourcesEnabledOverride": False}
    for folder in (FAKE_CHARTS, *([REAL] if HAS_REAL and REAL else [])):
        with pytest.raises(HelmRefused, match="gpuResourcesEnabledOverride"):
            helm.render(folder / chart.CHART, given, "nvidia-dra-driver")


def test_a_private_registry_serves_the_driver(helm: Helm) -> None:
    given = platform_of(
        cluster(registry={"mirror": "registry.example/gpu", "pullSecret": "s"})
    ).values()
    for item in helm.render(FAKE_CHARTS / chart.CHART, given, "nvidia-dra-driver"):
        if item["kind"] == "DaemonSet":
            pod = item["spec"]["template"]["spec"]
            assert pod["imagePullSecrets"] == [{"name": "s"}]
            images = {container["image"] for container in pod["containers"]}
            assert images == {"registry.example/gpu/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.5.0"}
