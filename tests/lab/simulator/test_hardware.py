"""Tests of the hardware file of the simulator.

All errors in the file are reported, and the file can be generated from a stack.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.commands import embedded_cluster, stack
from gpu_cluster.loading.loader import load
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_cluster.settings.nodes.node_range import ranges
from gpu_cluster_lab.simulator import marks, nodes
from gpu_cluster_lab.simulator.hardware import (
    Hardware,
    NodeHardware,
    absent,
    load_hardware,
    write_hardware,
)
from gpu_rules.faults import ConfigError
from tests.fixtures.documents import stack_document
from tests.simulated import declared_hardware

ROOT = Path(__file__).parents[3]
HOST = {"name": "gpu-1", "port": 22101}


def declared(*pools: dict[str, Any], **sections: Any) -> Any:
    document = {"version": "v1", "kubernetes": {"context": "c"}, "platform": "device-plugin"}
    return load({**document, "pools": list(pools), **sections})


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "lab.yaml"
    path.write_text(text)
    return path


def test_the_committed_hardware_is_what_the_committed_stack_needs() -> None:
    stack = load_stack_file(ROOT / "Pulumi.dev.yaml")
    assert load_hardware(ROOT / "lab" / "hardware" / "dev.yaml") == declared_hardware(stack)


@pytest.mark.parametrize("stack", ["dev", "staging", "prod"])
def test_what_is_written_is_read_again(tmp_path: Path, stack: str) -> None:
    cluster = load_stack_file(ROOT / f"Pulumi.{stack}.yaml")
    hardware = declared_hardware(cluster, with_hosts=stack == "dev")
    write_hardware(tmp_path / "new" / "lab.yaml", "lab", hardware)
    assert load_hardware(tmp_path / "new" / "lab.yaml") == hardware
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["lab.yaml"]


def test_every_problem_of_a_file_is_reported_at_once_with_its_line(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """\
version: v1
nodes:
  - {names: ["gpu-[1-2]"], gpus: 800}
  - {names: [gpu-3], gpu: 8}
  - {names: [gpu-4], faults: [on-fire]}
  - {names: [gpu-5]}
  - {names: [gpu-5]}
hosts:
  - {name: gpu-5, port: 22101, address: 192.0.2.1}
  - {name: gpu-6, port: 22102, system: windows}
  - {name: gpu-7, port: 22103}
""",
    )
    with pytest.raises(ConfigError) as raised:
        load_hardware(path)
    text = str(raised.value)
    for place in (
        "nodes[0].gpus (line 3): found 800; wanted: a whole number from 0 to",
        'nodes[1].gpu (line 4): found an unknown key "gpu"',
        'nodes[2].faults[0] (line 5): found "on-fire"; wanted: one of driver-missing',
        "nodes[4].names (line 7): found node gpu-5, which another entry has, too",
        'hosts[0].address (line 9): found "192.0.2.1"; wanted: an address of 127.0.0.0/8',
        'hosts[1].system (line 10): found "windows"; wanted: debian, docker',
        'hosts[2].node (line 11): found "gpu-7"; wanted: a node of this file',
    ):
        assert place in text, text
    assert text.startswith("lab.yaml: 7 problems")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "found an empty list; wanted: a mapping with version, nodes and hosts"),
        ("version: v1\n", "nodes (line 1): found nothing; wanted: a list of kinds of nodes"),
        ("version: v1\nversion: v1\n", "line 2"),
    ],
)
def test_a_file_that_is_no_hardware_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_hardware(written(tmp_path, text))
    assert problem in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.yaml: 1 problem\n.*wanted: a hardware file"):
        load_hardware(tmp_path / "none.yaml")


def test_a_declaration_needs_its_pools_its_hosts_and_a_control_plane() -> None:
    cluster = declared(
        {"name": "a100", "nodes": ["gpu-[1-12]"], "gpusPerNode": 8},
        {"name": "l4", "selector": {"kind": "l4"}, "count": 2, "gpusPerNode": 1},
    )
    hardware = declared_hardware(cluster)
    assert [kind.names for kind in hardware.nodes] == [
        ("gpu-[1-12]",),
        ("l4-[1-2]",),
        ("control-plane-1",),
    ]
    assert [dict(kind.labels) for kind in hardware.nodes] == [{}, {"kind": "l4"}, {}]
    specs = {spec.name: spec for spec in nodes.node_specs(hardware)}
    assert len(specs) == 15
    assert (specs["gpu-12"].gpus, specs["l4-2"].gpus) == (8, 1)
    assert specs["control-plane-1"].control_plane


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["a", "gpu-1", "gpu-2", "gpu-4"], ["a", "gpu-[1-2]", "gpu-4"]),
        (["n-9", "n-10", "n-11"], ["n-[9-11]"]),
        (["n-08", "n-09", "n-10"], ["n-[08-10]"]),
        (["n-09", "n-010"], ["n-09", "n-010"]),
        (["b-1", "b-2"], ["b-[1-2]"]),
        ([], []),
    ],
)
def test_names_are_written_in_short(names: list[str], short: list[str]) -> None:
    assert list(ranges(names)) == short
    if short:
        hardware = Hardware(version="v1", nodes=(NodeHardware(names=tuple(short)),))
        assert [spec.name for spec in nodes.node_specs(hardware)] == names


def test_a_host_shows_the_gpus_of_its_node(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """\
version: v1
nodes: [{names: [gpu-1], gpus: 4}, {names: [cpu-1]}]
hosts:
  - {name: gpu-1, port: 22101, driver: null}
  - {name: machine, node: cpu-1, port: 22102, user: admin, system: rocky}
""",
    )
    hardware = load_hardware(path)
    gpu, cpu = hardware.machines()
    shown = hardware.host_settings()
    assert [shown.gpus_of(gpu), shown.driver_of(gpu), shown.system_of(gpu)] == [4, "", "debian"]
    assert [shown.gpus_of(cpu), shown.driver_of(cpu), shown.system_of(cpu)] == [0, "", "rocky"]
    assert (cpu.name, cpu.address, cpu.port, cpu.user) == ("machine", "127.0.0.1", 22102, "admin")


def test_faults_of_the_file_are_set_when_they_change_and_leave_those_that_a_person_set() -> None:
    def manifest(*faults: str) -> Any:
        return nodes.manifest(nodes.NodeSpec("n", gpus=8, faults=faults))

    present = manifest("unhealthy-gpus=2")
    notes = present["metadata"]["annotations"]
    assert notes[marks.FAULT] == "unhealthy-gpus=2"
    notes[marks.FAULT] = "driver-missing"
    assert nodes.difference(manifest("unhealthy-gpus=2"), present) is None
    changed = nodes.difference(manifest("slow=3"), present)
    assert changed is not None
    assert changed["metadata"]["annotations"][marks.FAULT] == "slow=3"
    healed = nodes.difference(manifest(), present)
    assert healed is not None
    assert healed["metadata"]["annotations"][marks.FAULT] is None
    by_hand = manifest()
    by_hand["metadata"]["annotations"][marks.FAULT] = "driver-missing"
    assert nodes.difference(manifest(), by_hand) is None


def test_declared_machines_that_the_hardware_lacks_are_named() -> None:
    there = declared_hardware(declared({"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8}))
    more = declared({"name": "a100", "nodes": ["gpu-[1-6]"], "gpusPerNode": 8})
    assert absent(there, more.pools, more.hosts) == ("gpu-5", "gpu-6")
    fewer = declared({"name": "b", "nodes": ["gpu-2"], "gpusPerNode": 8})
    assert absent(there, fewer.pools, fewer.hosts) == ()


def test_a_run_names_the_file_that_lacks_declared_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = {"name": "a100", "nodes": ["gpu-[1-6]"], "gpusPerNode": 8}
    document = stack_document(context="gpu-cluster-lab", pools=[pool])
    monkeypatch.setattr(stack, "ROOT", tmp_path)
    monkeypatch.setattr(embedded_cluster, "ROOT", tmp_path)
    content = {"config": {"gpu-cluster:cluster": document}}
    (tmp_path / "Pulumi.lab.yaml").write_text(yaml.safe_dump(content))
    embedded = embedded_cluster.EmbeddedCluster(stack.Stack("lab"))
    embedded.note_absent_machines()
    assert capsys.readouterr().out == ""
    text = "version: v1\nnodes: [{names: ['gpu-[1-4]'], gpus: 8}]\n"
    embedded.hardware_file.parent.mkdir(parents=True)
    embedded.hardware_file.write_text(text)
    embedded.note_absent_machines()
    assert capsys.readouterr().out == (
        "lab/hardware/lab.yaml has no gpu-[5-6], declared by Pulumi.lab.yaml. "
        "If they should exist, add them there and run `gpu-cluster start`.\n"
    )
