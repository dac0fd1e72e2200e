"""Parts of the simulator that need no cluster: faults, drop-ins, labels and logs."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_cluster_lab.simulator import faults, logs, marks, nodes
from gpu_cluster_lab.simulator.controller.preparation import names_nvidia_runtime

words = st.sampled_from(
    [
        faults.DRIVER_MISSING,
        faults.RUNTIME_NOT_CONFIGURED,
        faults.VALIDATION_FAILS,
        faults.VALIDATION_SILENT,
        "unhealthy-gpus=2",
        "kernel-fails=3",
        "slow=2",
    ]
)


@given(st.lists(words, unique=True))
def test_each_fault_is_read_and_no_other(given_words: list[str]) -> None:
    result = faults.parse(" , ".join(given_words))
    assert result.driver_missing == (faults.DRIVER_MISSING in given_words)
    assert result.runtime_not_configured == (faults.RUNTIME_NOT_CONFIGURED in given_words)
    assert result.validation_fails == (faults.VALIDATION_FAILS in given_words)
    assert result.validation_silent == (faults.VALIDATION_SILENT in given_words)
    assert result.kernel_fails == (3 if "kernel-fails=3" in given_words else -1)
    assert result.slow == (2 if "slow=2" in given_words else 0)
    assert result.unhealthy == (2 if "unhealthy-gpus=2" in given_words else 0)


@given(st.text(max_size=30))
def test_no_text_is_taken_for_health_by_mistake(text: str) -> None:
    try:
        result = faults.parse(text)
    except faults.SimulatorFaultError:
        return
    assert result != faults.Faults() or not text.replace(",", "").strip()


@pytest.mark.parametrize(
    "text",
    ["unhealthy-gpus", "unhealthy-gpus=0", "unhealthy-gpus=-1", "slow=0", "kernel-fails=a", "x"],
)
def test_a_fault_without_sense_is_refused(text: str) -> None:
    with pytest.raises(faults.SimulatorFaultError, match="wanted"):
        faults.parse(text)


@pytest.mark.parametrize("plugin", ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"])
def test_a_drop_in_counts_when_it_names_the_nvidia_runtime(plugin: str) -> None:
    table = f'[plugins."{plugin}".containerd.runtimes.'
    assert names_nvidia_runtime(table + "nvidia]\n")
    assert not names_nvidia_runtime(table + "runc]\n")
    assert not names_nvidia_runtime(f'[plugins."{plugin}".containerd]\n')


@given(st.text(max_size=60))
def test_a_broken_drop_in_never_counts_and_never_fails(text: str) -> None:
    assert not names_nvidia_runtime(text)


def test_only_the_simulators_own_labels_are_taken_back() -> None:
    spec = nodes.NodeSpec("n", gpus=8, labels={"pool": "a", "zone": "1"})
    result = copy.deepcopy(nodes.manifest(spec))
    result["metadata"]["labels"]["someone/elses"] = "label"
    assert nodes.difference(nodes.manifest(spec), result) is None
    wanted = nodes.manifest(nodes.NodeSpec("n", gpus=4, labels={"pool": "b"}))
    patch = nodes.difference(wanted, result)
    assert patch is not None
    assert patch["metadata"]["labels"] == {"pool": "b", "zone": None}
    assert patch["metadata"]["annotations"][marks.GPUS] == "4"


def test_every_simulated_log_begins_with_its_mark_and_only_one_passes(tmp_path: Path) -> None:
    for kind, lines in logs.RUNS.items():
        assert ("Test PASSED" in lines) == (kind == logs.PASSED)
        assert marks.SIMULATED not in lines
        logs.write(tmp_path, "team", kind, "a", lines)
        assert logs.read(tmp_path, "team", kind, "a").splitlines() == [marks.SIMULATED, *lines]


@pytest.mark.parametrize("name", ["..", ".", "a/../../b", "/etc", ".hidden"])
def test_no_name_leads_out_of_the_folder_of_logs(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "logs"
    logs.write(folder, name, name, name, ("a",))
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    assert logs.read(folder, name, name, name) == f"{marks.SIMULATED}\na\n"
