"""The list of images and charts that a site without internet access must mirror."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import yaml

from gpu_cluster.charts.digests import chart_digest
from gpu_cluster.charts.images import UnknownImages
from gpu_cluster.charts.value_table import table
from gpu_cluster.commands.images import chart_checks
from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.needed import charts, images
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.registry import RegistrySettings
from tests.fixtures.documents import stack_document
from tests.fixtures.platforms import deployed
from tests.fixtures.programs import run_program
from tests.proofs.platform.chart_folders import ROOT
from tests.resolved import platform_of


def cluster(platform: str, **sections: Any) -> Cluster:
    return load(stack_document(platform=platform, nodes=["gpu-1"]) | sections)


@pytest.mark.parametrize(
    ("image", "moved"),
    [
        ("nvcr.io/nvidia/driver:1", "r.example.com:5000/x/nvidia/driver:1"),
        ("localhost/a:1", "r.example.com:5000/x/a:1"),
        ("ubuntu:24.04", "r.example.com:5000/x/library/ubuntu:24.04"),
        ("nvidia/cuda:12", "r.example.com:5000/x/nvidia/cuda:12"),
        ("host:5000/a/b@sha256:" + "0" * 64, "r.example.com:5000/x/a/b@sha256:" + "0" * 64),
    ],
)
def test_an_image_keeps_its_path_in_the_private_registry(image: str, moved: str) -> None:
    assert RegistrySettings(mirror="r.example.com:5000/x").rewritten(image) == moved
    assert RegistrySettings().rewritten(image) == image


def test_each_image_stands_once_and_a_known_digest_is_whole() -> None:
    listed = images(*deployed(cluster("gpu-operator", driver={"source": "operator"})))
    names = [image.upstream for image in listed]
    assert len(names) == len(set(names))
    known = [image.digest for image in listed if image.digest]
    assert len(known) >= 5
    assert all(len(digest) == len("sha256:") + 64 for digest in known)


KNOWN = [
    ("device-plugin", {}, ("image", "tag"), "v0.20.0@sha256:"),
    ("gpu-operator", {}, ("toolkit", "version"), "v1.20.0@sha256:"),
    ("gpu-operator", {}, ("driver", "manager", "version"), "v0.12.0@sha256:"),
]
VERSIONS = {"devicePlugin": {"version": "0.20.0"}, "gpuOperator": {"version": "v26.7.0"}}


def value_of(declared: Cluster, path: tuple[str, ...]) -> Any:
    found: Any = platform_of(declared).values()
    for step in path:
        found = found.get(step, {})
    return found


@pytest.mark.parametrize(("platform", "sections", "path", "start"), KNOWN)
def test_an_image_is_deployed_by_the_digest_that_its_makers_publish(
    platform: str, sections: dict[str, Any], path: tuple[str, ...], start: str
) -> None:
    own = {"driver": {"source": "operator"}} if platform == "gpu-operator" else {}
    mine = {"device-plugin": "devicePlugin", "gpu-operator": "gpuOperator"}[platform]
    chosen = {**own, mine: VERSIONS[mine], **sections}
    value = str(value_of(cluster(platform, **chosen), path))
    assert value.startswith(start)
    assert len(value) == len(start) + 64
    # A mirror may have an image for only one CPU architecture, whose digest differs. Images that
    # are loaded on nodes have only tags.
    for registry in ({"mirror": "r.example.com"}, {"digests": False}):
        by_tag = value_of(cluster(platform, registry=registry, **chosen), path)
        assert "@" not in str(by_tag)
    # The known digests don't belong to a site's own image.
    given: dict[str, Any] = {"repository": "own.example.com/x"}
    for step in reversed(path[:-1]):
        given = {step: given}
    extra = {**chosen, mine: {**VERSIONS[mine], "extraValues": given}}
    assert "@" not in str(value_of(cluster(platform, **extra), path))


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("v26.7.0", ["container-toolkit:v1.20.0", "driver:595.91.07", "k8s-device-plugin:v0.20.0"]),
        ("v26.7.1", ["container-toolkit:v1.20.1", "driver:595.91.07", "k8s-device-plugin:v0.20.1"]),
    ],
)
def test_each_release_of_the_operator_has_its_own_images(version: str, found: list[str]) -> None:
    own = {"driver": {"source": "operator"}, "gpuOperator": {"version": version}}
    listed = {
        image.upstream.rpartition("/")[2]
        for image in images(*deployed(cluster("gpu-operator", **own)))
    }
    assert all(any(name.startswith(wanted) for name in listed) for wanted in found)
    assert f"gpu-operator:{version}" in listed


def test_each_release_of_the_plugin_has_its_own_image() -> None:
    for version in ("0.19.3", "0.20.0", "0.20.1"):
        declared = cluster("device-plugin", devicePlugin={"version": version})
        assert value_of(declared, ("image", "tag")).startswith(f"v{version}@sha256:")


def test_an_image_beside_a_chart_is_deployed_by_its_digest() -> None:
    image = "nvcr.io/nvidia/k8s/dcgm-exporter:4.6.1-4.8.4-distroless"
    given = f"{image}@sha256:{'1' * 64}"
    assert RegistrySettings().deployed(image).startswith(f"{image}@sha256:")
    assert RegistrySettings().deployed(given) == given
    assert RegistrySettings(digests=False).deployed(image) == image
    assert RegistrySettings(mirror="r.example.com").deployed(image) == "r.example.com/" + image[8:]


def test_a_version_without_a_list_is_refused_by_name() -> None:
    declared = cluster("gpu-operator", gpuOperator={"version": "v26.7.9"})
    with pytest.raises(UnknownImages, match=r"found v26\.7\.9.*v26\.7\.0"):
        images(*deployed(declared))


def test_an_image_that_extra_values_name_is_listed_where_they_say() -> None:
    extra = {"dcgm": {"enabled": True, "version": "4.7.0"}}
    declared = cluster("gpu-operator", gpuOperator={"extraValues": extra})
    listed = [image.upstream for image in images(*deployed(declared))]
    assert "nvcr.io/nvidia/cloud-native/dcgm:4.7.0" in listed


def test_a_driver_image_of_the_sites_own_is_not_moved() -> None:
    declared = cluster(
        "gpu-operator",
        driver={
            "source": "operator",
            "version": "550.90.07",
            "imageRepository": "own.example.com/d",
        },
        registry={"mirror": "r.example.com"},
    )
    names = [image.name for image in images(*deployed(declared))]
    assert "own.example.com/d/driver:550.90.07-<os>" in names
    assert all(name.startswith(("own.example.com/", "r.example.com/")) for name in names)


def test_charts_come_from_where_the_stack_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPU_CHARTS", raising=False)
    sources = {}
    for section in ({}, {"directory": "charts"}, {"oci": "oci://r.example.com/charts"}):
        declared = cluster("device-plugin", charts=section)
        (chart,) = charts(platform_of(declared), declared.charts)
        sources[str(section)] = chart.source
    assert list(sources.values()) == [
        "https://nvidia.github.io/k8s-device-plugin",
        "./charts/nvidia-device-plugin",
        "oci://r.example.com/charts/nvidia-device-plugin",
    ]


@pytest.mark.parametrize("section", [{}, {"directory": "charts"}, {"oci": "oci://r.example.com/c"}])
def test_the_vendor_s_archive_is_pulled_and_checked_wherever_the_stack_takes_it_from(
    section: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPU_CHARTS", raising=False)
    declared = cluster("device-plugin", charts=section, devicePlugin={"version": "0.20.0"})
    (line,) = chart_checks(charts(platform_of(declared), declared.charts))
    name = "nvidia-device-plugin"
    pull = f"helm pull {name} --repo https://nvidia.github.io/k8s-device-plugin --version 0.20.0"
    known = chart_digest(name, "0.20.0").removeprefix("sha256:")
    assert line.endswith(f": {pull} && echo '{known}  {name}-0.20.0.tgz' | sha256sum --check")


def test_a_declared_digest_of_a_manifest_is_not_one_of_an_archive() -> None:
    digests = {"gpu-operator": f"sha256:{64 * '1'}"}
    own = {"oci": "oci://r.example.com/c", "digests": digests}
    for section, sums in ((own, "sha256sum gpu-op"), ({"digests": digests}, f"echo '{64 * '1'}")):
        declared = cluster("gpu-operator", charts=section)
        (line,) = chart_checks(charts(platform_of(declared), declared.charts))
        assert sums in line


def test_a_chart_of_a_registry_is_pulled_without_a_repository() -> None:
    declared = cluster("dra")
    (line,) = chart_checks(charts(platform_of(declared), declared.charts))
    assert ": helm pull oci://registry.k8s.io/dra-driver-nvidia/charts/" in line
    assert "--repo" not in line


@pytest.mark.parametrize("stack", ["dev", "staging", "prod"])
def test_make_images_prints_a_line_per_image(stack: str) -> None:
    done = run_program(
        [sys.executable, "-m", "gpu_cluster.commands", "images"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "STACK": stack},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    pairs = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert pairs
    assert all(len(pair) == 2 for pair in pairs)
    assert "<" not in "".join(pair[0] for pair in pairs)


def test_the_sections_of_the_image_list_are_sections_of_the_charts_values() -> None:
    facts = yaml.safe_load((ROOT / "components/gpu_cluster/charts/images.yaml").read_text())
    for path in facts["operator"]:
        known = table("gpu-operator", "v26.7.0").values
        assert f"{path}.repository" in known
        assert f"{path}.version" in known
