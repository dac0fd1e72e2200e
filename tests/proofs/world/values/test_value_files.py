"""Tests that a converted Helm value file renders the same objects as the original file.

The files in `files.yaml` are reduced to the values that matter; names of people, hosts and private
registries are replaced. The charts come from the folder `GPU_CHARTS`: `<chart>-<version>`, or
`<chart>` if it has that version. Without the folder the stack files are only loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.charts.contents import ChartContents, of_folder
from gpu_cluster.loading.loader import load
from lab.helm import Helm
from tests.proofs.platform.chart_folders import FAKE_CHARTS, REAL
from tests.proofs.world.values.convert import convert, plugin_files
from tests.resolved import platform_of

Json = dict[str, Any]
FILES: list[Json] = yaml.safe_load((Path(__file__).parent / "files.yaml").read_text())
NAMES = [str(file["name"]) for file in FILES]

# A user's Helm values are converted to a stack file. Between the objects that the chart renders
# for both, only these kinds of difference are accepted, each with its explanation.
CONFIGURATION = "configuration"
TOLERATIONS = "tolerations"
TOOLKIT = "toolkit"
NULLS = "nulls"
REASONS = {
    CONFIGURATION: "gpu_cluster/platforms/device_plugin/values.py: all settings of the plugin are "
    "in one ConfigMap of this program; with a ConfigMap the chart adds config-manager and its "
    "account (nvidia-device-plugin 0.20.0, templates/daemonset-device-plugin.yml, hasConfigMap)",
    TOLERATIONS: "gpu_cluster/platforms/tolerations.py: pods tolerate the declared taints; Node "
    "Feature Discovery's worker runs where they run",
    TOOLKIT: "gpu_cluster/platforms/gpu_operator/values.py, _toolkit: the toolkit keeps the form "
    "of containerd's file, and containers get GPUs by declared ways",
    NULLS: "a null takes a default of the chart away; Pulumi drops it (pulumi-kubernetes 4.25.0, "
    "provider/pkg/provider/helm_release.go, SkipNulls)",
}
# Taint that kubeadm has not set since Kubernetes 1.25 (kubernetes#107533). Older charts tolerate
# it.
NO_TAINT = "node-role.kubernetes.io/master"
# Parts of object paths that differ if the device plugin reads its configuration elsewhere.
_CONFIGURED = (
    "ConfigMap ",
    "ServiceAccount ",
    "Role",
    "ClusterRole",
    ".initContainers",
    ".volumes",
    ".volumeMounts",
    ".serviceAccountName",
    ".automountServiceAccountToken",
    ".shareProcessNamespace",
    ".checksum/config",
    # Without a ConfigMap the chart assumes that no MIG device is used, and omits SYS_ADMIN.
    ".securityContext.capabilities",
    ".securityContext.allowPrivilegeEscalation",
    "-sidecar",
    "-ctr.env",
    "mps-control-daemon",
    ".devicePlugin.config",
)


@cache
def chart(name: str, version: str) -> Path | None:
    """Return the chart's folder below `GPU_CHARTS`; None if this version is missing."""
    for folder in (REAL / f"{name}-{version}", REAL / name) if REAL else ():
        if folder.is_dir() and of_folder(folder).version.lstrip("v") == version.lstrip("v"):
            return folder
    return None


@cache
def contents(name: str, version: str) -> ChartContents:
    return of_folder(chart(name, version) or FAKE_CHARTS / name)


def stack(file: Json) -> Json:
    return convert(
        contents(file["chart"], str(file["version"])), str(file["version"]), file["values"]
    )


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helm]:
    started = Helm(tmp_path_factory.mktemp("helm"))
    yield started
    started.close()


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and value of each leaf; list items with a name are indexed by the name."""
    if isinstance(tree, dict) and tree:
        for key, item in tree.items():
            yield from leaves(item, f"{path}.{key}")
    elif path.endswith(".tolerations"):
        yield path, [item for item in tree if item.get("key") != NO_TAINT]
    elif isinstance(tree, list) and tree and all(isinstance(i, dict) and "name" in i for i in tree):
        for item in tree:
            yield from leaves(item, f"{path}.{item['name']}")
    elif tree not in (None, {}, [], ""):
        yield path, tree


def flat(objects: list[Json]) -> Json:
    return {
        f"{item['kind']} {item['metadata']['name']}{path}": value
        for item in objects
        for path, value in leaves(item)
    }


def kind_of(path: str) -> str:
    """Return the accepted kind of a difference at a path; the path itself if it is not accepted."""
    if ".tolerations" in path:
        return TOLERATIONS
    if ".toolkit.env" in path:
        return TOOLKIT
    if any(part in path for part in _CONFIGURED):
        return CONFIGURATION
    return path


def has_null(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is None or any(map(has_null, inner))


def differences(file: Json, theirs: Json, ours: Json) -> set[str]:
    """Return the kinds of all differences; the path of each difference that is not accepted."""
    paths = [path for path in theirs.keys() | ours.keys() if theirs.get(path) != ours.get(path)]
    kinds = {path: kind_of(path) for path in paths}
    if has_null(file["values"]):
        # A null in the value file removes a default that the stack's objects still have.
        kinds |= {p: NULLS for p, kind in kinds.items() if kind == p and p not in theirs}
    return set(kinds.values())


def test_there_are_more_than_40_files_and_each_names_its_source() -> None:
    assert len(FILES) >= 40
    assert len(set(NAMES)) == len(NAMES)
    for file in FILES:
        assert file["source"]


@pytest.mark.clusters("file")
@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_a_value_file_of_others_is_a_stack_file(file: Json) -> None:
    assert platform_of(load(stack(file))).values()


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_the_plugins_configuration_keeps_every_setting_of_the_file(file: Json) -> None:
    declared = load(stack(file))
    plugin = declared.gpu_operator.device_plugin or declared.device_plugin
    written = plugin_files(file["values"])
    for name, ours in {**plugin.configs, "": plugin.config}.items():
        theirs = {path: listed(value) for path, value in leaves(written.get(name, {}))}
        held = {path: listed(value) for path, value in leaves(ours.document())}
        assert theirs.items() <= held.items()


def listed(value: Any) -> str:
    """Return a value as text; a single value equals a list with this value, as in the plugin."""
    return str(value if isinstance(value, list) else [value])


@pytest.mark.clusters("objects")
@pytest.mark.promise("A value file can be said as a stack file that makes the same objects.")
@pytest.mark.skipif(REAL is None, reason="GPU_CHARTS names no folder of charts")
@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_a_stack_file_makes_the_objects_of_the_value_file(helm: Helm, file: Json) -> None:
    folder = chart(file["chart"], str(file["version"]))
    if folder is None:
        pytest.skip(f"GPU_CHARTS holds no {file['chart']} {file['version']}")
    platform = platform_of(load(stack(file)))
    # Both renderings use the chart's name as the release's name, so that object names are equal.
    theirs = flat(helm.render(folder, file["values"], platform.namespace, file["chart"]))
    ours = flat(helm.render(folder, platform.values(), platform.namespace, file["chart"]))
    found = differences(file, theirs, ours)
    assert found == set(file.get("differs", []))
    assert len(found - {NULLS}) <= 2
