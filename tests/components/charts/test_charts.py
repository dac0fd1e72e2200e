"""The stack's Helm values, rendered with fake and real charts by Helm's own engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.charts import value_table
from gpu_cluster.charts.images import NFD
from gpu_cluster.charts.value_check import check
from gpu_cluster.driver_daemonset.component import daemon_set as driver_daemon_set
from gpu_cluster.platforms.device_plugin.excluded_gpus import daemon_sets
from gpu_cluster.platforms.needed import images as needed
from gpu_cluster.property_values import strings
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.nodes.pool import gpu_pools
from gpu_cluster.settings.nodes.taint import STARTUP_TAINT
from lab.helm import Helm, HelmRefused
from tests.fixtures import platforms
from tests.fixtures.clusters import INSTALLERS
from tests.proofs.platform import chart_folders
from tests.proofs.platform.chart_folders import FAKE_CHARTS, FOLDERS, REAL
from tests.proofs.platform.clusters import CLUSTERS, MIRROR, OWN_DRIVER, chart_of, operator, plugin
from tests.resolved import platform_of

Json = dict[str, Any]
needs_real = pytest.mark.skipif(REAL is None, reason="GPU_CHARTS names no folder of charts")


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helm]:
    started = Helm(tmp_path_factory.mktemp("helm"))
    yield started
    started.close()


def rendered(helm: Helm, folder: Path, declared: Cluster) -> dict[tuple[str, str], Json]:
    chart, wanted, namespace, values = chart_of(declared)
    exact = folder / f"{chart}-{wanted}"
    found = exact if exact.is_dir() else folder / chart
    if value_table.series_of(wanted) != value_table.series_of(chart_folders.version(found)):
        pytest.skip(f"the folder's {chart} is of another series than {wanted}")
    objects = helm.render(found, values, namespace, chart)
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in objects}


@pytest.mark.parametrize("name", CLUSTERS)
def test_our_own_values_pass_the_check_of_extra_values(name: str) -> None:
    chart, wanted, _, values = chart_of(CLUSTERS[name])
    assert list(check(value_table.table(chart, wanted), values, (), decided=False)) == []


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("name", CLUSTERS)
def test_helm_renders_our_values(helm: Helm, folder: Path, name: str) -> None:
    assert rendered(helm, folder, CLUSTERS[name])


@needs_real
@pytest.mark.parametrize("name", CLUSTERS)
def test_a_stand_in_renders_no_object_and_no_label_that_the_real_chart_does_not(
    helm: Helm, name: str
) -> None:
    assert REAL is not None
    real, ours = (rendered(helm, folder, CLUSTERS[name]) for folder in (REAL, FAKE_CHARTS))
    assert ours.keys() <= real.keys()
    for key, manifest in ours.items():
        for place in (["metadata"], ["spec", "template", "metadata"]):
            mine, theirs = (_labels(item, place) for item in (manifest, real[key]))
            assert mine == theirs, key


def _labels(item: Json, place: list[str]) -> Json:
    for step in place:
        item = item.get(step) or {}
    versions = ("helm.sh/chart", "app.kubernetes.io/version")
    return {k: v for k, v in (item.get("labels") or {}).items() if k not in versions}


@needs_real
@pytest.mark.parametrize("name", [name for name in CLUSTERS if name.startswith("plugin")])
def test_a_stand_ins_daemon_sets_run_where_and_as_the_real_ones(helm: Helm, name: str) -> None:
    assert REAL is not None
    real, ours = (rendered(helm, folder, CLUSTERS[name]) for folder in (REAL, FAKE_CHARTS))
    for key, manifest in ours.items():
        if key[0] != "DaemonSet":
            continue
        mine, theirs = (item["spec"] for item in (manifest, real[key]))
        assert mine["selector"] == theirs["selector"]
        for field in ("nodeSelector", "affinity", "tolerations", "imagePullSecrets"):
            assert mine["template"]["spec"].get(field) == theirs["template"]["spec"].get(field)
        for field in ("priorityClassName", "runtimeClassName", "serviceAccountName"):
            assert mine["template"]["spec"].get(field) == theirs["template"]["spec"].get(field)
        named = {c["name"]: c for c in theirs["template"]["spec"]["containers"]}
        for container in mine["template"]["spec"]["containers"]:
            same = named[container["name"]]
            assert container["image"] == same["image"]
            assert container.get("resources") == same.get("resources")


@needs_real
@pytest.mark.parametrize("name", [name for name in CLUSTERS if name.startswith("operator")])
def test_a_stand_ins_policy_says_what_the_real_one_says(helm: Helm, name: str) -> None:
    assert REAL is not None
    real, ours = (rendered(helm, folder, CLUSTERS[name]) for folder in (REAL, FAKE_CHARTS))
    for key in ours:
        if key[0] in ("ClusterPolicy", "NVIDIADriver"):
            mine, theirs = (dict(_leaves(item[key]["spec"])) for item in (ours, real))
            # The fake chart's ClusterPolicy has all fields of the real one, its NVIDIADriver some.
            paths = mine.keys() | (theirs.keys() if key[0] == "ClusterPolicy" else set())
            different = {
                path
                for path in paths
                if (mine.get(path) or None) != (theirs.get(path) or None) and not _added(path)
            }
            assert different == set()


def _added(path: str) -> bool:
    """Return whether this path of a custom resource may differ between real and fake chart.

    Only the real chart's templates set these paths, or the chart's source tree has no version.
    """
    added = ("daemonsets.labels", "nodeStatusExporter.version", "validator.version")
    return path.startswith(added)


def _leaves(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict) and tree:
        for key, item in tree.items():
            yield from _leaves(item, f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, tree


@needs_real
@pytest.mark.parametrize("chart", chart_folders.CHARTS)
def test_a_stand_ins_defaults_are_the_real_ones(chart: str) -> None:
    assert REAL is not None
    if chart_folders.version(REAL / chart) != chart_folders.version(FAKE_CHARTS / chart):
        pytest.skip("the folder's chart is of another version than the fake")
    real = dict(_leaves(chart_folders.values(REAL / chart)))
    ours = dict(_leaves(chart_folders.values(FAKE_CHARTS / chart)))
    empty = ("nfd", "node-feature-discovery", "operator.annotations")
    assert {k: v for k, v in ours.items() if k not in empty and real.get(k, ...) != v} == {}


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("name", ["plugin-private", "operator-private"])
def test_with_a_private_registry_no_image_comes_from_elsewhere(
    helm: Helm, folder: Path, name: str
) -> None:
    objects = rendered(helm, folder, CLUSTERS[name])
    texts = [text for item in objects.values() for text in strings(item)]
    assert [text for text in texts if text.startswith(("nvcr.io", "registry.k8s.io"))] == []
    assert sum(text.startswith(MIRROR) for text in texts) > 1
    for kind, workload in objects.items():
        if kind[0] in ("DaemonSet", "Deployment"):
            secrets = workload["spec"]["template"]["spec"].get("imagePullSecrets")
            assert secrets == [{"name": "registry-credentials"}], kind


def deployed(declared: Cluster) -> set[str]:
    """Return the expected images of all pods: by digest, unless a mirror is declared."""
    return {
        image.name
        if declared.registry.mirror or not image.digest
        else f"{image.name}@{image.digest}"
        for image in needed(*platforms.deployed(declared))
    }


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("name", CLUSTERS)
def test_the_list_of_images_holds_every_image_of_the_rendered_workloads(
    helm: Helm, folder: Path, name: str
) -> None:
    declared = CLUSTERS[name]
    listed = deployed(declared)
    version = declared.gpu_operator.version
    for kind, workload in rendered(helm, folder, declared).items():
        if kind[0] in ("DaemonSet", "Deployment"):
            for container in workload["spec"]["template"]["spec"]["containers"]:
                image = container["image"].replace("main-latest", version)
                assert image in listed, kind


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("name", [name for name in CLUSTERS if name.startswith("operator")])
def test_the_list_of_images_holds_every_image_of_the_policy(
    helm: Helm, folder: Path, name: str
) -> None:
    declared = CLUSTERS[name]
    listed = {image.split("-<")[0] for image in deployed(declared)}
    policy = rendered(helm, folder, declared)[("ClusterPolicy", "cluster-policy")]["spec"]
    sandbox = policy["sandboxWorkloads"]
    off = {"kata": "sandboxDevicePlugin", "kubevirt": "kataSandboxDevicePlugin"}[sandbox["mode"]]
    only_sandbox = {"vgpuDeviceManager", "vfioManager", "sandboxDevicePlugin", "ccManager"}
    only_sandbox |= {"kataSandboxDevicePlugin"}
    for key, section in policy.items():
        if not isinstance(section, dict) or "repository" not in section:
            continue
        if section.get("enabled") is False or key in (off, "nodeStatusExporter"):
            continue
        if key in only_sandbox and (
            not sandbox["enabled"] or (key == "ccManager" and sandbox["mode"] != "kata")
        ):
            continue
        version = str(section["version"]).replace("main-latest", declared.gpu_operator.version)
        assert f"{section['repository']}/{section['image']}:{version}" in listed, key


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize(
    ("name", "there"),
    [("plugin", False), ("plugin-nfd", True), ("plugin-existing-nfd", False)],
)
def test_nfd_is_installed_only_where_the_stack_says_so(
    helm: Helm, folder: Path, name: str, there: bool
) -> None:
    objects = rendered(helm, folder, CLUSTERS[name])
    result = any(text.startswith(NFD) for item in objects.values() for text in strings(item))
    assert result == there


def tolerated(tolerations: list[Json], taint: Json) -> bool:
    """Return whether a pod with these tolerations tolerates the taint (core/v1, Toleration)."""
    return any(
        toleration.get("key") in (None, taint["key"])
        and toleration.get("effect") in (None, taint["effect"])
        and (
            toleration.get("operator") == "Exists"
            or toleration.get("value", "") == taint.get("value", "")
        )
        for toleration in tolerations
    )


QUEUE = {"key": "example.com/queue", "value": "batch", "effect": "NoSchedule"}
RESERVED = {"key": "example.com/reserved", "value": "", "effect": "NoExecute"}
TAINTED: Json = {
    "pools": [{"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8, "taints": [QUEUE]}],
    "scheduling": {"nodes": {"gpu-1": {"taints": [RESERVED]}}},
}


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize(
    "declared",
    [plugin(devicePlugin={"gfd": True}, **TAINTED), operator(**TAINTED)],
    ids=["plugin", "operator"],
)
def test_feature_discovery_runs_wherever_gpus_are(
    helm: Helm, folder: Path, declared: Cluster
) -> None:
    """Without the labels of feature discovery, no device plugin runs and the node has no GPUs."""
    objects = rendered(helm, folder, declared)
    (worker,) = (
        manifest
        for (kind, name), manifest in objects.items()
        if kind == "DaemonSet" and name.endswith("-worker")
    )
    tolerations = worker["spec"]["template"]["spec"]["tolerations"]
    for taint in (QUEUE, RESERVED):
        assert tolerated(tolerations, taint), taint
    assert not tolerated(tolerations, {**QUEUE, "key": "example.com/other"})


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize(
    ("chart", "namespace", "values"),
    [
        ("nvidia-device-plugin", "default", {}),
        ("nvidia-device-plugin", "ns", {"config": {"name": "a", "map": {"b": "version: v1"}}}),
        ("gpu-operator", "ns", {"gpuCluster": {"deployCR": True}}),
        ("gpu-operator", "ns", {"cdi": {"enabled": False, "nriPluginEnabled": True}}),
        ("gpu-operator", "ns", {"cdi": {"nriPluginEnabled": True}, "toolkit": {"enabled": False}}),
        ("gpu-operator", "ns", {"devicePlugin": {"config": {"create": True}}}),
    ],
)
def test_what_the_stack_file_refuses_helm_refuses_too(
    helm: Helm, folder: Path, chart: str, namespace: str, values: Json
) -> None:
    if "v26.3" in chart_folders.version(folder / chart):
        pytest.skip("this series refuses less")
    with pytest.raises(HelmRefused):
        helm.render(folder / chart, values, namespace)


def test_the_plugin_gets_the_drivers_root_by_chart_where_cdi_needs_the_mount() -> None:
    assert chart_of(CLUSTERS["plugin-cdi"])[3]["nvidiaDriverRoot"] == "/"
    assert "nvidiaDriverRoot" not in chart_of(CLUSTERS["plugin"])[3]


def test_toolkit_keeps_reading_the_file_beside_more_environment() -> None:
    """More environment variables must not replace the toolkit's own.

    Without its own variable, the toolkit converts the drop-in file, and containerd 2.3 exits.

    Source: NVIDIA/gpu-operator#2646.
    """
    extra = {"extraValues": {"toolkit": {"env": [{"name": "A", "value": "b"}]}}}
    declared = operator(driver=OWN_DRIVER, gpuOperator=extra)
    variables = chart_of(declared)[3]["toolkit"]["env"]
    environment = {variable["name"]: variable["value"] for variable in variables}
    assert environment["RUNTIME_CONFIG_SOURCE"] == "file"
    assert environment["A"] == "b"


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_plugin_beside_a_driver_installer_gets_the_memory_that_is_declared(
    helm: Helm, folder: Path
) -> None:
    """The plugin's memory is 30Mi unless the stack declares another value (kubespray's default).

    A value for the plugin alone takes precedence over the one for all containers.
    """
    expected: Json = {"limits": {"cpu": "50m", "memory": "30Mi"}, "requests": {"memory": "30Mi"}}
    declared = CLUSTERS["plugin-driver"]
    chart = chart_of(declared)[3]
    own = daemon_sets(declared.device_plugin, platform_of(declared).site, chart)
    objects = rendered(helm, folder, declared)
    sets = [*own, objects["DaemonSet", "nvidia-device-plugin"]]
    for item in sets:
        plugin_of = {c["name"]: c for c in item["spec"]["template"]["spec"]["containers"]}
        assert plugin_of["nvidia-device-plugin-ctr"]["resources"] == expected
    assert len(sets) == 2
    images = {"images": INSTALLERS}
    for section, memory in (
        ({"driverInstaller": {"pluginMemory": "60Mi", **images}}, {"memory": "60Mi"}),
        (
            {
                "driverInstaller": images,
                "devicePlugin": {"resources": {"limits": {"memory": "1Gi"}}},
            },
            {"memory": "1Gi"},
        ),
    ):
        source = {"source": "daemonset", "version": "595.91.07"}
        assert chart_of(plugin(driver=source, **section))[3]["resources"]["limits"] == memory
    assert "resources" not in chart_of(CLUSTERS["plugin"])[3]


def tolerates(found: list[Json], key: str) -> bool:
    return any(
        item.get("operator") == "Exists"
        and item.get("key") in (None, key)
        and item.get("effect") in (None, "NoSchedule")
        for item in found
    )


def operands(objects: dict[tuple[str, str], Json]) -> Iterator[tuple[str, list[Json]]]:
    """Yield the name and the tolerations of each pod that makes a node's GPUs available."""
    for (kind, name), item in objects.items():
        if kind == "DaemonSet":
            yield name, item["spec"]["template"]["spec"].get("tolerations") or []
        if kind == "ClusterPolicy":
            yield f"operands of {name}", item["spec"]["daemonsets"].get("tolerations") or []


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("name", CLUSTERS)
def test_every_operand_comes_onto_nodes_that_wait_for_their_validation(
    helm: Helm, folder: Path, name: str
) -> None:
    declared = CLUSTERS[name]
    if not any(pool.has_startup_taint for pool in declared.pools):
        pytest.skip("no pool of this cluster starts closed")
    result = dict(operands(rendered(helm, folder, declared)))
    assert result
    _, _, _, values = chart_of(declared)
    for part in ("node-feature-discovery", "nfd"):
        if worker := values.get(part, {}).get("worker"):
            result[f"{part}.worker"] = worker["tolerations"]
    for item in daemon_sets(declared.device_plugin, platform_of(declared).site, {}):
        result[item["metadata"]["name"]] = item["spec"]["template"]["spec"]["tolerations"]
    if declared.pools[0].driver.managed_by_daemonset:
        for pool in gpu_pools(declared.pools):
            made = driver_daemon_set(declared.driver_installer, platform_of(declared).site, pool)
            result[made["metadata"]["name"]] = made["spec"]["template"]["spec"]["tolerations"]
    closed = [name for name, given in result.items() if not tolerates(given, STARTUP_TAINT.key)]
    assert closed == []


def test_feature_discovery_comes_onto_nodes_that_wait_for_their_validation() -> None:
    for declared, part in (
        (operator(), "node-feature-discovery"),
        (plugin(devicePlugin={"gfd": True}), "nfd"),
    ):
        _, _, _, values = chart_of(declared)
        assert tolerates(values[part]["worker"]["tolerations"], STARTUP_TAINT.key)
