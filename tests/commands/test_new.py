"""The verb `new` writes a stack file that does not exist yet, and changes nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.commands import new
from gpu_cluster.commands.adoption.observed import ObservedCluster, ObservedNode
from gpu_cluster.commands.begun_file import begun_text
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_rules.faults import FaultError
from tests.fixtures.running_clusters import by_helm, by_manifest, cluster, machine

INVENTORY = "[kube_node]\ngpu-1 ansible_host=192.0.2.1 gpu_count=4\n"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtX5HS603r/SS0EU4o+/qXAKZ4JhJGAyRggJ9uh+wXo"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a folder with only an inventory as project and home."""
    monkeypatch.setattr("gpu_cluster.commands.stack.ROOT", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "hosts.ini").write_text(INVENTORY, encoding="utf-8")
    return tmp_path


def run(*given: str) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    names = (name[2:].replace("-", "_") for name in given[::2])
    values: Any = dict(zip(names, given[1::2], strict=True))
    new.run(new.Options(**values), answer)
    return answer


def test_an_inventory_is_written_and_a_second_run_changes_nothing(folder: Path) -> None:
    inventory = ("--stack", "lab", "--from-inventory", str(folder / "hosts.ini"))
    assert run(*inventory) == {"file": "Pulumi.lab.yaml", "gpus": 4, "hosts": 0}
    written = (folder / "Pulumi.lab.yaml").read_bytes()
    assert written.startswith(b"# yaml-language-server: $schema=docs/stack.schema.json\n")
    with pytest.raises(FaultError, match="a file that exists"):
        run(*inventory)
    assert (folder / "Pulumi.lab.yaml").read_bytes() == written


def test_a_file_that_init_began_is_replaced_until_somebody_edits_it(folder: Path) -> None:
    file = folder / "Pulumi.lab.yaml"
    words = ("--stack", "lab", "--nodes", "gpu-[1-2]", "--gpus", "2")
    file.write_text(begun_text("lab"))
    with pytest.raises(FaultError, match="--gpus"):
        run(*words[:-1], "99")
    assert file.read_text() == begun_text("lab")
    assert run(*words)["gpus"] == 4
    file.write_text(begun_text("lab").replace("gpusPerNode: 8", "gpusPerNode: 4"))
    with pytest.raises(FaultError, match="a file that exists"):
        run(*words)


def test_a_key_of_known_hosts_makes_a_host(folder: Path) -> None:
    (folder / ".ssh").mkdir()
    (folder / ".ssh" / "known_hosts").write_text(f"192.0.2.1 {KEY}\n")
    run("--stack", "lab", "--from-inventory", str(folder / "hosts.ini"))
    (host,) = load_stack_file(folder / "Pulumi.lab.yaml").hosts
    assert (host.name, host.host_key) == ("gpu-1", KEY)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("--stack", "../lab", "--nodes", "a"), "the name of a stack"),
        (("--stack", "", "--nodes", "a"), "the name of the new stack"),
        (("--stack", "lab"), "no source"),
        (("--stack", "lab", "--nodes", "gpu-[1"), "--nodes"),
        (("--stack", "lab", "--nodes", "a", "--gpus", "99"), "--gpus"),
        (("--stack", "lab", "--nodes", "a", "--platform", "x"), "--platform"),
        (("--stack", "lab", "--from-inventory", "missing.ini"), "no such file"),
        (("--stack", "lab", "--from-inventory", "~/hosts.ini", "--nodes", "z"), "no machine"),
    ],
)
def test_what_cannot_be_written_is_refused_and_nothing_is_written(
    given: tuple[str, ...], named: str, folder: Path
) -> None:
    with pytest.raises(FaultError) as caught:
        run(*given)
    assert named in str(caught.value)
    assert [*folder.glob("Pulumi*")] == []


def test_names_and_numbers_of_a_person_are_enough(folder: Path) -> None:
    answer = run("--stack", "lab", "--nodes", "gpu-[1-2], x", "--gpus", "2", "--context", "prod")
    assert answer["gpus"] == 6
    made = load_stack_file(folder / "Pulumi.lab.yaml")
    assert made.kubernetes.context == "prod"
    assert "Assumed" not in (folder / "Pulumi.lab.yaml").read_text()


def test_a_path_of_a_key_is_quoted_in_the_command_that_is_printed() -> None:
    draft = new.Draft(settings={}, key_files=("~/.ssh/a b; rm -rf x",))
    assert "< '~/.ssh/a b; rm -rf x'" in "\n".join(new.next_steps("lab", draft))


def test_the_next_commands_make_a_passphrase_that_a_second_run_keeps() -> None:
    passphrase, exported, *_ = new.next_steps("lab", new.Draft(settings={}))[1:]
    assert "test -e ~/.gpu-cluster-lab.passphrase || " in passphrase
    assert exported == "  export PULUMI_CONFIG_PASSPHRASE_FILE=~/.gpu-cluster-lab.passphrase"


def test_the_next_commands_are_those_of_the_docs() -> None:
    alone = "\n".join(new.next_steps("lab", new.Draft(settings={})))
    assert "sshPrivateKey" not in alone
    assert "host-keys" not in alone
    host = {"name": "gpu-1", "address": "192.0.2.11"}
    both = "\n".join(new.next_steps("lab", new.Draft(settings={}, hosts=((host, ()),))))
    assert both.index("gpu-cluster host-keys --stack lab") < both.index("sshPrivateKey")
    assert "< ~/.ssh/gpu-cluster # not without hosts" in both
    declared = "\n".join(new.next_steps("lab", new.Draft(settings={"hosts": [host]})))
    assert "host-keys" not in declared
    assert declared.splitlines()[-2].endswith("< ~/.ssh/gpu-cluster")


@pytest.mark.promise(
    "`gpu-cluster new` writes a stack file from a running cluster without GPU software, if you "
    "name the nodes that have GPUs."
)
def test_a_cluster_without_gpu_software_and_the_names_of_its_nodes_are_enough(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("gpu-1", "gpu-2", "cpu-1")
    nodes = tuple(ObservedNode(name=name, address=f"192.0.2.{n}") for n, name in enumerate(names))

    async def observed(context: str) -> ObservedCluster:
        return ObservedCluster(version="v1.35.0", nodes=nodes)

    monkeypatch.setattr(new, "observed_of", observed)
    words = ("--stack", "lab", "--from-cluster", "prod")
    with pytest.raises(FaultError, match=r"--nodes gpu-\[1-4\] --gpus 8"):
        run(*words)
    with pytest.raises(FaultError, match="no node gpu-3"):
        run(*words, "--nodes", "gpu-[1-3]")
    answer = run(*words, "--nodes", "gpu-[1-2]", "--gpus", "4")
    assert answer["gpus"] == 8
    made = load_stack_file(folder / "Pulumi.lab.yaml")
    assert made.kubernetes.context == "prod"
    text = (folder / "Pulumi.lab.yaml").read_text()
    assert "192.0.2.1\n" in text
    assert "192.0.2.2" not in text


def answers(monkeypatch: pytest.MonkeyPatch, *given: str) -> list[str]:
    """Fake a user's answers at a terminal; return the list of the questions."""
    asked: list[str] = []
    rest = iter(given)

    def answer(question: str) -> str:
        asked.append(question)
        return next(rest)

    monkeypatch.setattr(new, "asks", lambda: True)
    monkeypatch.setattr("builtins.input", answer)
    return asked


def test_a_person_at_a_terminal_is_asked_for_what_no_option_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answers(monkeypatch, "", "~/hosts.ini", "prod", "n")
    assert run("--stack", "lab")["gpus"] == 4
    assert [question.partition(" (")[0] for question in asked] == [
        "context of a running cluster",
        "file of an Ansible inventory",
        "context of the kubeconfig",
        "take 1 unknown host keys from the network?",
    ]
    assert load_stack_file(folder / "Pulumi.lab.yaml").kubernetes.context == "prod"


def test_a_person_who_has_neither_cluster_nor_inventory_names_nodes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, "", "", "gpu-[1-2]", "")
    assert run("--stack", "lab")["gpus"] == 16


def running(monkeypatch: pytest.MonkeyPatch, observed: ObservedCluster) -> None:
    """Replace the inspection of a running cluster with this observed state."""

    async def observed_of(context: str) -> ObservedCluster:
        return observed

    monkeypatch.setattr(new, "observed_of", observed_of)


def test_a_running_cluster_is_written_with_its_release_and_pools(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(monkeypatch, by_helm())
    assert run("--stack", "lab", "--from-cluster", "prod")["gpus"] == 32
    made = load_stack_file(folder / "Pulumi.lab.yaml")
    assert (made.kubernetes.context, made.platform) == ("prod", "device-plugin")
    assert made.adopted is not None


def test_a_cluster_that_shows_no_gpus_leaves_them_to_the_inventory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(monkeypatch, cluster(machine("gpu-1", 0)))
    with pytest.raises(FaultError, match="no machine with GPUs"):
        run("--stack", "lab", "--from-cluster", "prod")
    inventory = ("--from-inventory", "~/hosts.ini")
    assert run("--stack", "lab", "--from-cluster", "prod", *inventory)["gpus"] == 4
    assert load_stack_file(folder / "Pulumi.lab.yaml").kubernetes.context == "prod"


def test_software_that_another_program_delivers_is_refused_with_the_way(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked = {"argocd.argoproj.io/tracking-id": "gpu:apps/DaemonSet:kube-system/x"}
    running(monkeypatch, by_manifest(annotations=tracked))
    with pytest.raises(FaultError, match="argocd app delete gpu"):
        run("--stack", "lab", "--from-cluster", "prod")
    assert [*folder.glob("Pulumi*")] == []
