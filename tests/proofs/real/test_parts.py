"""Unit tests of the helpers for tests with real components; no node is started."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.loading.loader import load
from gpu_cluster_lab.simulator import faults
from gpu_cluster_lab.toolchain import pins
from lab.real import (
    build,
    case,
    cases,
    dra,
    fault_cases,
    image,
    judge,
    mock,
    nfd,
    objects,
    parts,
    stack,
    stack_cases,
)
from lab.real.settings import kubelet_settings
from tests.resolved import platform_of

ROOT = Path(__file__).resolve().parents[3]
HEADER = """
nvmlReturn_t DECLDIR nvmlInit_v2(void);
DEPRECATED(13.0) nvmlReturn_t DECLDIR nvmlOld(nvmlDevice_t device);
const DECLDIR char* nvmlErrorString(nvmlReturn_t result);
"""
CASE = case.Case("a case", lambda lab, node: None, 8, "a file")
LISTED = case.Case(next(iter(cases.DIFFERENCES)), lambda lab, node: None, 8, "a file")


def test_every_function_of_the_header_has_a_stub() -> None:
    found = re.findall(r"int (\w+)\(void\) \{ return 3; \}", build.stubs(HEADER))
    assert found == ["nvmlInit_v2", "nvmlOld"]


def test_each_part_is_built_from_a_module_that_names_its_version() -> None:
    every = map(parts.kubernetes, pins.KUBERNETES_MODULES)
    for part in (*parts.PARTS, parts.MOCK, parts.ARITHMETIC, *every):
        text = (part.folder / "go.mod").read_text(encoding="utf-8")
        assert f" v{part.version}" in text
        assert (part.folder / "go.sum").is_file()


def test_the_parts_are_the_newest_that_are_pinned_and_are_told() -> None:
    told = parts.versions()
    for name in (f"kubelet {pins.KUBERNETES}", "containerd 2.4.2", "nvidia-device-plugin 0.19.3"):
        assert name in told.split(", ")
    assert f"nvidia-container-runtime {pins.NVIDIA_CTK}" in told.split(", ")


@pytest.mark.parametrize(
    ("each", "real", "simulated", "problem"),
    [
        (CASE, 8, 8, ""),
        (CASE, 7, 8, "mend the case"),
        (CASE, 8, 7, "mend the simulator, or list"),
        (LISTED, 8, 7, ""),
        (LISTED, 7, 7, "mend the case"),
        (LISTED, 8, 8, "take it off the list"),
    ],
)
def test_a_case_is_wrong_unless_both_agree_or_the_difference_is_listed(
    each: case.Case, real: int, simulated: int, problem: str
) -> None:
    found = judge.Verdict(each, real, simulated)
    assert bool(problem) == bool(found.problem)
    assert problem in found.problem
    assert found.agrees == (real == simulated == 8)


def test_each_listed_difference_is_a_case_and_has_a_reason() -> None:
    groups = (*cases.PHASES, *stack_cases.STEPS)
    names = [each.name for group in groups for each in group.cases]
    assert len(set(names)) == len(names)
    assert set(cases.DIFFERENCES) <= set(names)
    assert all(cases.DIFFERENCES.values())


def test_the_page_lists_every_difference() -> None:
    path = Path(__file__).parents[3] / "docs" / "explanation" / "real-parts.md"
    page = path.read_text(encoding="utf-8")
    for name, reason in cases.DIFFERENCES.items():
        assert f"| {name} | {reason} |" in page


def test_each_fault_of_the_simulator_is_compared_with_its_real_counterpart() -> None:
    compared, unseen = fault_cases.COUNTERPARTS, fault_cases.UNSEEN
    names = [each.partition("=")[0] for each in faults.NAMES]
    assert sorted([*compared, *unseen]) == sorted(names)
    known = {each.name for phase in cases.PHASES for each in phase.cases}
    for name in (each for group in compared.values() for each in group):
        path, is_test, function = name.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8") if is_test else ""
        assert f"def {function}(" in text if is_test else name in known, name


def test_the_page_lists_the_counterpart_of_each_fault() -> None:
    page = (ROOT / "docs/explanation/real-parts.md").read_text(encoding="utf-8")
    for fault, names in fault_cases.COUNTERPARTS.items():
        shown = "; ".join(f"`{name}`" if "::" in name else name for name in names)
        assert f"| `{fault}` | {shown} |" in page
    for fault, reason in fault_cases.UNSEEN.items():
        assert f"| `{fault}` | none: {reason} |" in page


def test_configurations_of_all_phases_exist() -> None:
    keys = {phase.key for phase in cases.PHASES if phase.key}
    assert keys - {dra.KEY, nfd.KEY} <= objects.configurations()["data"].keys()


def test_uuids_of_two_nodes_differ_and_say_that_they_are_a_mock() -> None:
    uuids = {*mock.Mock("real-1").uuids, *mock.Mock("real-2").uuids}
    assert len(uuids) == 16
    assert all(re.fullmatch(r"GPU-6d6f636b(-[0-9a-f]{4}){3}-[0-9a-f]{12}", each) for each in uuids)


def test_a_fault_is_told_once_and_healed(tmp_path: Path) -> None:
    gpus = mock.Mock("real-1")
    gpus.fault(0, "xid", 79)
    gpus.heal()
    gpus.fault(1, "lost")
    gpus.write(tmp_path / "state")
    read = json.loads((tmp_path / "state").read_text())
    assert read["faults"] == [{"serial": 2, "gpu": 1, "kind": "lost", "value": 0}]


def test_an_image_holds_programs_and_the_c_library(tmp_path: Path) -> None:
    programs = {name: Path("/bin/sh").resolve() for name in image.PROGRAMS}
    image.write(tmp_path / "image.tar", programs)
    with tarfile.open(tmp_path / "image.tar") as archive:
        index: Any = json.load(archive.extractfile("index.json"))  # type: ignore[arg-type]
        blobs = {entry.name.rpartition("/")[2] for entry in archive if "sha256/" in entry.name}
        named = {each["annotations"]["io.containerd.image.name"] for each in index["manifests"]}
        assert named == set(image.NAMES)
        entry = index["manifests"][0]
        manifest: Any = json.load(
            archive.extractfile(f"blobs/sha256/{entry['digest'][7:]}")  # type: ignore[arg-type]
        )
        layer = manifest["layers"][0]["digest"][7:]
        assert {layer, manifest["config"]["digest"][7:]} <= blobs
        with tarfile.open(fileobj=archive.extractfile(f"blobs/sha256/{layer}")) as files:
            names = files.getnames()
    assert {f"usr/bin/{name}" for name in image.PROGRAMS} <= set(names)
    assert any(Path(name).name.startswith("libc.so") for name in names)


def test_an_archive_also_holds_the_images_that_a_test_adds(tmp_path: Path) -> None:
    other = image.LayeredImage.of(image.layer_of(image.system("sleep")), {"User": "1000:1000"})
    image.write(tmp_path / "image.tar", {"probe": Path("/bin/sh").resolve()}, {"other:1": other})
    with tarfile.open(tmp_path / "image.tar") as archive:
        index: Any = json.load(archive.extractfile("index.json"))  # type: ignore[arg-type]
        (entry,) = (
            each
            for each in index["manifests"]
            if each["annotations"]["io.containerd.image.name"] == "other:1"
        )
        assert entry["digest"] == other.manifest
        assert {f"blobs/{digest.replace(':', '/')}" for digest in other.blobs} <= set(
            archive.getnames()
        )


def test_scripts_find_their_shell_where_they_name_it() -> None:
    layer = image.layer_of(image.system("bash"))
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        assert files.getmember("bin").linkname == "usr/bin"
        assert {"usr/bin/bash", "usr/bin/sh"} <= set(files.getnames())


def test_a_kubelet_answers_its_node_alone() -> None:
    settings = kubelet_settings("real-1", 10250)
    assert settings["address"] == "127.0.0.1"
    assert settings["authentication"]["anonymous"] == {"enabled": False}
    assert settings["authorization"] == {"mode": "Webhook"}


def test_the_image_has_the_names_that_our_stack_asks_for() -> None:
    cluster = load(stack.declared("a-context"))
    wanted = {*platform_of(cluster).images(), cluster.validation.image}
    assert wanted <= set(image.NAMES)


def test_each_step_leaves_a_stack_file_that_loads() -> None:
    document = stack.declared("a-context")
    for step in stack_cases.STEPS:
        step.change(document)
        assert load(document).device_plugin.version == parts.PLUGIN


def test_discovery_comes_with_its_chart_and_its_hooks_wait() -> None:
    kinds = [item["kind"] for item in nfd.rendered() if item not in nfd.hooks()]
    assert kinds[:3] == ["CustomResourceDefinition"] * 3
    assert set(kinds) <= set(nfd.PLACES)
    assert [item["kind"] for item in nfd.hooks()][-1] == "Job"
    assert nfd.named(f"{nfd.NAME}-worker")["spec"]["selector"]["matchLabels"].items() >= (
        nfd.WORKER.items()
    )
