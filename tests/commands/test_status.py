"""Output and exit code of the verb status, which come from the change document."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.change.document import Document, Outcome, Problem
from gpu_cluster.commands import stack as stacks
from gpu_cluster.commands import status
from gpu_cluster.inspection.extent import EXTENT
from gpu_cluster.ssh.key_files import KEY_FILE, PROBE_KEY_FILE
from gpu_cluster.validation import xid
from tests.components.change.world import World, base, desired_of
from tests.fixtures.kubeconfigs import kubeconfig


def document(world: World, declared: dict[str, Any] | None = None, *missing: str) -> Document:
    change = world.change(declared or base())
    found = Document(stack="dev", outcome=Outcome.UNCHANGED, clusters=(change,))
    return status.judged(found, list(missing))


def with_drift() -> World:
    world = World.of(base())
    world.nodes["gpu-3"]["spec"]["taints"] = []
    return world


def test_a_stack_that_was_applied_and_validated_has_nothing_to_do() -> None:
    found = document(World.of(base()))
    # Warnings about the end of support depend on today's date, so they are left out.
    told = [line for line in status.lines(found) if not line.startswith("warning: ")]
    well = "32 of 32 GPUs usable"
    assert told == [well, f"status: stack dev: {well}, nothing to do"]
    assert status.exit_code(found) == 0


@pytest.mark.promise("`gpu-cluster status` fails if somebody else changed a host or a node.")
def test_drift_is_named_and_ends_with_2() -> None:
    found = document(with_drift())
    text = [*status.lines(found)]
    assert text[1].startswith("drift: node gpu-3: taint")
    assert text[-1].startswith("status: stack dev: 32 of 32 GPUs usable, 1 drift")
    assert status.exit_code(found) == 2


@pytest.mark.promise("`gpu-cluster status` succeeds on what you edited and no run has applied yet.")
def test_an_edit_of_ones_own_is_no_drift() -> None:
    declared = base()
    declared["pools"][0]["taints"] = ["example.com/own=x:NoSchedule"]
    found = document(World.of(base()), declared)
    assert any(line.startswith("change: ") for line in status.lines(found))
    assert status.exit_code(found) == 0


@pytest.mark.promise(
    "`gpu-cluster status` ends with 3 if GPUs are lost, and begins and ends with where they are."
)
def test_lost_gpus_are_told_first_and_last_beside_drift_and_another_version() -> None:
    world = with_drift()
    sick, gone = world.nodes["gpu-1"], world.nodes["gpu-3"]
    sick["status"]["allocatable"]["nvidia.com/gpu"] = "7"
    gone["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    gone["status"]["capacity"]["nvidia.com/gpu"] = "0"
    for each in world.nodes.values():
        each["status"]["nodeInfo"]["kernelVersion"] = "6.8.0-99-generic"
    found = document(world)
    text = [*status.lines(found)]
    sentence = "23 of 32 GPUs usable; gpu-1: 1 unhealthy or withdrawn; gpu-3: 8 not advertised"
    assert text[0] == sentence
    assert text[-1].startswith(f"status: stack dev: {sentence}, 9 lost since the last run, 1 drift")
    assert any("validated with another kernel" in line for line in text)
    assert any(
        line.startswith("due: node gpu-1: ") and "7 of 8 GPUs allocatable" in line for line in text
    )
    assert status.exit_code(found) == 3
    assert status.exit_code(document(world, None, "host gpu-1: no answer")) == 1


def test_gpus_that_no_run_has_validated_are_due_and_not_lost() -> None:
    world = World.of(base())
    world.nodes["gpu-2"]["metadata"]["annotations"].clear()
    world.nodes["gpu-2"]["status"]["allocatable"] = {}
    found = document(world)
    assert next(status.lines(found)) == "24 of 32 GPUs usable; gpu-2: 8 unhealthy or withdrawn"
    assert found.clusters[0].lost == 0
    assert status.exit_code(found) == 0


def test_an_edit_or_maintenance_loses_no_gpu() -> None:
    for name, declared in {
        "fewer": {**base(), "pools": [{**base()["pools"][0], "gpusPerNode": 4}]},
        "maintenance": {**base(), "maintenance": ["gpu-2"]},
        "taken out": {
            **base(),
            "pools": [{**base()["pools"][0], "unhealthyDevices": {"gpu-2": {"missing": 1}}}],
        },
    }.items():
        world = World.of(base())
        if name != "fewer":
            world.nodes["gpu-2"]["status"]["allocatable"]["nvidia.com/gpu"] = "7"
            world.nodes["gpu-2"]["status"]["capacity"]["nvidia.com/gpu"] = "7"
        assert world.change(declared).lost == 0, name


def test_a_node_that_is_not_ready_has_lost_its_gpus() -> None:
    world = World.of(base())
    world.nodes["gpu-2"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    found = document(world)
    assert next(status.lines(found)) == (
        "24 of 32 GPUs usable; gpu-2: 8 on a node that is not ready"
    )
    assert status.exit_code(found) == 3


def test_a_missing_validation_is_due() -> None:
    world = World.of(base())
    world.nodes["gpu-2"]["metadata"]["annotations"].clear()
    found = document(world)
    assert any(line.startswith("due: node gpu-2") for line in status.lines(found))


@pytest.mark.promise("`gpu-cluster status` fails on a fault, and if a part could not be inspected.")
def test_a_fault_or_a_part_without_inspection_ends_with_1_also_beside_drift() -> None:
    lacking = document(with_drift(), None, "host gpu-1: no answer\x1b[2J")
    assert (lacking.outcome, status.exit_code(lacking)) == (Outcome.FAILED, 1)
    text = "\n".join(status.lines(lacking))
    assert "fault: not inspected: host gpu-1: no answer\\x1b[2J" in text
    assert "incomplete, 1 drift" in text
    (cluster,) = document(with_drift()).clusters
    faulty = cluster.model_copy(update={"faults": (Problem(text="host gpu-1: found a\nb"),)})
    found = status.judged(Document(stack="dev", outcome=Outcome.FAILED, clusters=(faulty,)))
    assert (status.exit_code(found), found.cause) == (1, "host gpu-1: found a")
    assert "1 fault, 1 drift" in [*status.lines(found)][-1]


def test_pods_that_hold_gpus_which_no_run_validated_are_told() -> None:
    (cluster,) = document(World.of(base())).clusters
    text = "node gpu-1: found 2 GPUs held by team-a/train"
    warned = cluster.model_copy(update={"warnings": (Problem(text=text, mandatory=False),)})
    found = status.judged(Document(stack="dev", outcome=Outcome.UNCHANGED, clusters=(warned,)))
    assert f"warning: {text}" in status.lines(found)
    assert status.exit_code(found) == 0


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a stack file whose kubeconfig context names an API server with a closed port."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    (tmp_path / "kubeconfig").write_text(kubeconfig(f"http://127.0.0.1:{port}", context="here"))
    declared = {**base(), "kubernetes": {"context": "here"}}
    file = tmp_path / "Pulumi.here.yaml"
    file.write_text(yaml.safe_dump({"config": {"gpu-cluster:cluster": declared}}))
    monkeypatch.setattr(stacks, "ROOT", tmp_path)
    for name in (KEY_FILE, PROBE_KEY_FILE, "GITHUB_ACTIONS", "GITLAB_CI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "STACK": "here", "JSON": "1", "NO_PROXY": "127.0.0.1",
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return file


def run(capsys: pytest.CaptureFixture[str]) -> tuple[int, Document]:
    with pytest.raises(SystemExit) as ended:
        status.main()
    assert isinstance(ended.value.code, int)
    text = capsys.readouterr().out
    assert json.loads(text)["command"] == "status"
    return ended.value.code, Document.read(text)


@pytest.mark.usefixtures("closed")
def test_hosts_without_a_key_and_a_cluster_that_is_gone_are_no_clean_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found = run(capsys)
    assert code == 1
    assert found.cause.startswith("context here: found no response")
    (keyless,) = (why for why in found.clusters[0].uninspected if "decrypt" in why)
    assert keyless.startswith("2 hosts: ")
    assert "gpu-cluster probe-key" in keyless
    monkeypatch.setenv(EXTENT, "cluster")
    code, found = run(capsys)
    assert (code, found.outcome) == (1, Outcome.FAILED)
    assert found.cause.startswith("context here: found no response")
    monkeypatch.setenv(EXTENT, "off")
    code, found = run(capsys)
    assert (code, found.cause) == (0, "")
    (cluster,) = found.clusters
    assert any("GPU_CLUSTER_INSPECTION=off" in why for why in cluster.uninspected)


@pytest.mark.promise(
    "`gpu-cluster status` without the hosts' key inspects the cluster, says so, and is no fault."
)
def test_hosts_whose_key_only_the_engine_can_decrypt_are_a_note() -> None:
    world = World.of(base())
    notes = status.keyless(desired_of(base()).hosts, None)
    found = status.judged(status.with_uninspected(document(world), notes))
    assert (status.exit_code(found), found.cause) == (0, "")
    text = [*status.lines(found)]
    assert not any(line.startswith("fault: ") for line in text)
    (note,) = (line for line in text if line.startswith("not inspected: "))
    assert KEY_FILE in note
    assert text[-1].endswith("not all inspected, nothing to do")


@pytest.mark.parametrize(("number", "text"), [(1, "1 change"), (2, "2 changes")])
def test_the_last_line_counts_in_singular_and_plural(number: int, text: str) -> None:
    declared = base()
    for each in range(number):
        taints = declared["pools"][0].setdefault("taints", [])
        taints.append(f"example.com/own{each}=x:NoSchedule")
    cluster = document(World.of(base()), declared).clusters[0]
    assert len(cluster.changes) >= number
    cut = cluster.model_copy(update={"changes": cluster.changes[:number]})
    found = Document(stack="dev", outcome=Outcome.CHANGED, clusters=(cut,))
    assert f", {text}" in status.last_line(found)
    assert f", {text}s" not in status.last_line(found)


@pytest.mark.promise(
    "`gpu-cluster status` shows the last Xid errors of a host whose GPUs pods can't use."
)
def test_the_last_xids_of_a_host_with_lost_gpus_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    async def lines(hosts: object, key: str, nodes: list[str]) -> dict[str, str]:
        asked.append(nodes)
        return {"gpu-1": "host gpu-1: NVRM: Xid (PCI:0000:3b:00): 79"}

    monkeypatch.setattr(xid, "lines", lines)
    world = World.of(base())
    world.nodes["gpu-1"]["status"]["allocatable"]["nvidia.com/gpu"] = "7"
    (cluster,) = document(world).clusters
    hosts = desired_of(base()).hosts
    noted = status.with_xids(cluster, hosts, "a key")
    found = Document(stack="dev", outcome=Outcome.CHANGED, clusters=(noted,))
    assert "host gpu-1: NVRM: Xid (PCI:0000:3b:00): 79" in list(status.lines(found))
    assert asked == [["gpu-1"]]
    # The key of previews runs only the probe, and healthy nodes need no log.
    assert status.with_xids(cluster, hosts, "") == cluster
    healthy = document(World.of(base())).clusters[0]
    assert status.with_xids(healthy, hosts, "a key") == healthy
    assert len(asked) == 1


def test_a_faulty_stack_file_is_named_with_its_line(
    closed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closed.write_text(closed.read_text().replace("gpusPerNode: 8", "gpusPerNode: eight"))
    code, found = run(capsys)
    assert code == 1
    (fault,) = found.faults
    assert fault.file == "Pulumi.here.yaml"
    assert fault.line is not None
    assert "eight" in found.cause


def test_a_context_that_no_kubeconfig_has_is_a_fault(
    closed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closed.write_text(closed.read_text().replace("context: here", "context: elsewhere"))
    code, found = run(capsys)
    assert code == 1
    assert "elsewhere" in found.cause


@pytest.mark.promise(
    "`gpu-cluster status` names the cause why pods can't use GPUs; a DaemonSet of the platform "
    "that wants no pod is a fault."
)
def test_the_cause_of_gpus_that_pods_cannot_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    unwanted = ["DaemonSet gpus/nvdp wants no pod on the node (0 in all)"]

    async def unwanted_daemons(*_: object) -> list[str]:
        return unwanted

    async def lines_of_wanted(*_: object) -> list[str]:
        return ["pod gpus/nvdp-1: its image can't be pulled"]

    class Connection:
        async def __aenter__(self) -> None: ...

        async def __aexit__(self, *_: object) -> None: ...

    monkeypatch.setattr("gpu_cluster.kubernetes.api.connect", lambda _: Connection())
    monkeypatch.setattr("gpu_cluster.nodes.causes.read.unwanted_daemons", unwanted_daemons)
    monkeypatch.setattr("gpu_cluster.nodes.causes.read.lines_of_wanted", lines_of_wanted)
    monkeypatch.delenv(EXTENT, raising=False)
    world = World.of(base())
    world.nodes["gpu-1"]["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    (cluster,) = document(world).clusters
    found = status.with_causes(cluster, "c", ["gpus"])
    assert [fault.text for fault in found.faults] == [f"node gpu-1: {unwanted[0]}"]
    failed = Document(stack="dev", outcome=Outcome.FAILED, clusters=(found,))
    judged = status.judged(failed)
    assert status.exit_code(judged) == status.FAULT
    unwanted.clear()
    found = status.with_causes(cluster, "c", ["gpus"])
    assert "node gpu-1: pod gpus/nvdp-1: its image can't be pulled" in found.notes
    assert found.faults == cluster.faults
    healthy = document(World.of(base())).clusters[0]
    assert status.with_causes(healthy, "c", ["gpus"]) == healthy
