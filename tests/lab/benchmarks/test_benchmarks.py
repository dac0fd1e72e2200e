"""Tests of the benchmarks: evaluation of times, and programs that imitate this project's."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from gpu_cluster.hosts.steps import every
from gpu_cluster.property_values import SECRET, SIGNATURE
from lab.benchmarks import (
    b1_cold,
    b14_kustomizations,
    fleet,
    growth,
    measure,
    overhead,
    peer,
    peer_tools,
)
from lab.benchmarks.measure import BenchmarkError, Sample

STACK = "urn:pulumi:dev::gpu-cluster::pulumi:pulumi:Stack::gpu-cluster-dev"
PROVIDER = "urn:pulumi:dev::gpu-cluster::pulumi:providers:kubernetes::kubernetes"
DEFAULT = "urn:pulumi:dev::gpu-cluster::pulumi:providers:command::default_1_2_1"
COMPONENT = "urn:pulumi:dev::gpu-cluster::gpucluster:index:GpuCluster::gpu-cluster"
NAMESPACE = "urn:pulumi:dev::gpu-cluster::kubernetes:core/v1:Namespace::space"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----"

STATE = [
    {"urn": STACK, "type": "pulumi:pulumi:Stack", "custom": False, "outputs": {"gpus": 8}},
    {
        "urn": PROVIDER,
        "type": "pulumi:providers:kubernetes",
        "custom": True,
        "parent": STACK,
        "inputs": {
            "__internal": {},
            "context": "c",
            "clusterIdentifier": "i",
            "kubeconfig": "/k",
            "upsertExistingObjects": "true",
            "version": "4",
        },
    },
    {"urn": DEFAULT, "type": "pulumi:providers:command", "custom": True, "inputs": {}},
    {
        "urn": COMPONENT,
        "type": "gpucluster:index:GpuCluster",
        "custom": False,
        "parent": STACK,
        "inputs": {},
        "outputs": {"nodes": []},
    },
    {
        "urn": NAMESPACE,
        "type": "kubernetes:core/v1:Namespace",
        "custom": True,
        "parent": COMPONENT,
        "provider": f"{PROVIDER}::1c354c61",
        "inputs": {"apiVersion": "v1", "metadata": {"name": "space", "__defaults": []}},
    },
    {
        "urn": "urn:pulumi:dev::gpu-cluster::command:remote:Command::host",
        "type": "command:remote:Command",
        "custom": True,
        "parent": COMPONENT,
        "provider": f"{DEFAULT}::66874f61",
        "dependencies": [NAMESPACE],
        "inputs": {
            "addPreviousOutputInEnv": False,
            "connection": {
                SIGNATURE: SECRET,
                "plaintext": json.dumps({"host": "127.0.0.1", "privateKey": KEY}),
            },
        },
    },
]


def test_the_files_that_all_tools_must_write_are_those_of_our_steps() -> None:
    written = {path.removeprefix("/") for step in every().values() for path in step.writes}
    assert set(fleet.FILES) <= written
    for peer_program in peer_tools.HERE.iterdir():
        assert [path for path in fleet.FILES if path not in peer_program.read_text()] == []


@pytest.mark.parametrize("wanted", [0.5, 1.0, 1.5])
def test_the_exponent_of_a_power_law_is_found(wanted: float) -> None:
    points = {nodes: 3 * nodes**wanted for nodes in growth.NODES}
    assert measure.exponent(points) == pytest.approx(wanted)


def test_a_ratio_is_the_median_of_pairs() -> None:
    assert measure.ratio([2, 30, 4], [1, 10, 4]) == 2


def test_a_command_that_fails_measures_nothing(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"exit code 3\nwhy"):
        measure.timed([sys.executable, "-c", "print('why'); raise SystemExit(3)"], tmp_path)


def test_hosts_that_could_watch_no_folder_are_refused_before_any_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "WATCHES", tmp_path / "max_user_instances")
    fleet.WATCHES.write_text("128\n")
    fleet.require_watches(50)
    with pytest.raises(BenchmarkError, match=r"128 inotify .* 200 hosts: .*max_user_instances=400"):
        fleet.require_watches(200)


def test_a_cold_start_is_held_against_the_floor_pyinfra_and_its_growth() -> None:
    def row(**walls: float) -> b1_cold.Row:
        each = {"ours": 4.0, "OpenSSH": 2.0, "engine": 2.0, "pyinfra": 5.0, **walls}
        return {name: Sample(wall, 100.0) for name, wall in each.items()}

    rows = {(20, 0): row(), (50, 0): row(ours=5.0), (200, 0): row(ours=5.1)}
    assert b1_cold.failures(rows) == []
    slow = {**rows, (50, 0): row(ours=5.7), (200, 0): row(ours=80.0, engine=70.0)}
    assert b1_cold.failures(slow) == [
        "50 hosts, 0 ms: 1.43 × (OpenSSH + engine), goal ≤ 1.4",
        "50 hosts, 0 ms: 1.14 × pyinfra, goal ≤ 1.0",
        "hosts^1.35, goal ≤ 1.15",
    ]


def test_our_preview_is_compared_with_each_of_the_bare_programs() -> None:
    samples = {
        "ours": [measure.Sample(3.0, 1.0)],
        "preview --refresh": [measure.Sample(6.0, 1.0)],
        "plain preview": [measure.Sample(2.0, 1.0)],
    }
    assert overhead.ratios(samples) == {"preview --refresh": 0.5, "plain preview": 1.5}


def test_the_peer_registers_every_resource_but_what_the_engine_makes() -> None:
    made = peer.program(STATE)
    assert made["outputs"] == {"gpus": 8}
    assert [resource["name"] for resource in made["resources"]] == [
        "kubernetes",
        "gpu-cluster",
        "space",
        "host",
    ]
    provider, component, space, host = made["resources"]
    assert provider["arguments"] == {
        "context": "c",
        "clusterIdentifier": "i",
        "kubeconfig": "/k",
        "upsertExistingObjects": "true",
    }
    assert component["component"]
    assert component["outputs"] == {"nodes": []}
    assert (space["parent"], space["provider"]) == ("gpu-cluster", "kubernetes")
    assert space["arguments"] == {"api_version": "v1", "metadata": {"name": "space"}}
    assert (host["provider"], host["dependsOn"]) == ("", ["space"])
    assert host["arguments"]["add_previous_output_in_env"] is False


def test_what_is_secret_in_the_state_is_a_secret_of_the_peer() -> None:
    *others, host = peer.program(STATE)["resources"]
    assert host["arguments"]["connection"] == {peer.MARK: {"host": "127.0.0.1", "privateKey": KEY}}
    assert KEY not in json.dumps(others)


def test_what_a_release_was_not_given_is_left_out() -> None:
    inputs = {"chart": "c", "version": "1", "disableCRDHooks": False, "createNamespace": True}
    release = {"type": "kubernetes:helm.sh/v3:Release", "inputs": inputs}
    assert peer.arguments(release) == {"chart": "c", "create_namespace": True}


def _point(seconds: float, resources: int = 19, on_hosts: int = 4) -> growth.Point:
    return growth.Point([Sample(seconds, seconds)], resources, on_hosts, 1000)


@pytest.mark.parametrize(
    ("points", "missed"),
    [
        ({50: _point(5), 100: _point(10)}, []),
        ({50: _point(5), 100: _point(20)}, ["exponent 2.00, goal ≤ 1.1"]),
        ({50: _point(5), 100: _point(9, on_hosts=5)}, ["5 resources on 2 hosts at 100 nodes"]),
        ({50: _point(5), 100: _point(9, resources=20)}, ["resources grow with nodes"]),
    ],
)
def test_each_goal_of_growth_can_be_missed(
    points: dict[int, growth.Point], missed: list[str]
) -> None:
    assert growth.failures(points) == missed


def _kustomizations(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "kustomization.yaml").write_text("namePrefix: a-\nresources: [a.yaml]\n")
        (folder / name / "a.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")


def test_kustomizations_are_taken_in_turn_from_each_repository(tmp_path: Path) -> None:
    _kustomizations(tmp_path, "a/1", "a/2", "a/3", "b/1", "b/.hidden", "c/in/1", "c/in/2")
    (tmp_path / "c/in/2/kustomization.yaml").write_text("kind: Component\n")
    (tmp_path / "file").touch()
    found = b14_kustomizations.candidates(tmp_path)
    names = [str(Path(folder).relative_to(tmp_path)) for folder in found]
    assert names == ["a/1", "b/1", "c/in/1", "a/2", "a/3"]


def test_without_repositories_no_kustomization_is_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert b14_kustomizations.run({})
    assert "0 repositories" in capsys.readouterr().out


@pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl on PATH")
@pytest.mark.parametrize("goal", [1e6, 0.0])
def test_the_checker_is_compared_with_the_builds_of_the_same_kustomizations(
    goal: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = tmp_path / "world"
    _kustomizations(world, "a/1", "a/2", "b/1")
    (world / "a/2/kustomization.yaml").write_text("resources: [missing.yaml]\n")
    monkeypatch.setattr(measure, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(b14_kustomizations, "ROUNDS", 1)
    monkeypatch.setattr(b14_kustomizations, "GOAL", goal)
    assert b14_kustomizations.run({"GPU_REPOSITORIES": str(world)}) is (goal > 0)
    assert "B14: 2 kustomizations of 2 repositories: " in capsys.readouterr().out
