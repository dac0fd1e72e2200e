"""A stack file that is drafted from an inventory or a cluster loads, and says what is not known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.commands.adoption.draft import (
    UNKNOWN,
    HostKeys,
    Wanted,
    from_cluster,
    from_inventory,
    from_named_nodes,
    with_gpus,
)
from gpu_cluster.commands.adoption.machines import places_of
from gpu_cluster.commands.adoption.observed import ObservedCluster
from gpu_cluster.commands.adoption.propose import propose
from tests.commands.adoption.drafts import (
    CASES,
    CLUSTERS,
    Case,
    every_key,
    found_in,
    loaded,
)
from tests.fixtures.documents import KEYS
from tests.fixtures.running_clusters import by_helm, cluster, machine

Json = dict[str, Any]


def comments_of(text: str) -> str:
    lines = [
        line.strip().lstrip("# ") for line in text.splitlines() if line.strip().startswith("#")
    ]
    return " ".join(lines)


def completed(text: str) -> str:
    """Return a stack file after a person completed its commented hosts."""
    if not (about := re.search(r"writes\s+(# )?it\.\n", text)):
        return text
    head, hosts = text[: about.end()], text[about.end() :]
    uncommented = re.sub(r"(?m)^    # ", "    ", hosts)
    return f"{head}{uncommented.replace(UNKNOWN, KEYS[1])}"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.promise(
    "`gpu-cluster new` writes a stack file that loads from an inventory of kubespray, DeepOps "
    "or k3s."
)
def test_an_inventory_becomes_a_stack_file_that_loads(case: Case, tmp_path: Path) -> None:
    found = found_in(case, tmp_path)
    text = from_inventory(found, Wanted(), "new", every_key(found)).text
    made = loaded(text, tmp_path)
    pools = {pool.name: (pool.node_names, pool.gpus_per_node) for pool in made.pools}
    assert pools == case.pools
    assert tuple((host.node, host.address, host.user) for host in made.hosts) == case.hosts
    assert (made.platform, made.pools[0].runtime.engine) == (case.platform, case.engine)
    for comment in (*case.comments, "write the context of your kubeconfig"):
        assert comment.lower() in comments_of(text).lower()
    assert "not-to-be-repeated" not in text


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_host_without_a_known_key_is_a_comment_that_a_person_completes(
    case: Case, tmp_path: Path
) -> None:
    found = found_in(case, tmp_path)
    text = from_inventory(found, Wanted(), "new", HostKeys()).text
    assert loaded(text, tmp_path).hosts == ()
    addressed = {each.node for each in found.machines if each.address}
    if len(addressed) == len(found.machines):
        made = loaded(completed(text), tmp_path)
        assert {host.node for host in made.hosts} == addressed


def test_a_jump_host_stands_in_each_host_behind_it(tmp_path: Path) -> None:
    for name, jump in (
        ("deepops with the operator", ("198.51.100.1", 22, "ubuntu")),
        ("a jump host", ("198.51.100.7", 2200, "root")),
        ("kubespray with a bastion", ("198.51.100.9", 22, "jump")),
    ):
        folder = tmp_path / name.replace(" ", "-")
        found = found_in(CASES[name], folder)
        made = loaded(from_inventory(found, Wanted(), "new", every_key(found)).text, folder)
        bastions = [host.bastion for host in made.hosts if host.bastion]
        assert len(bastions) == len(made.hosts)
        assert {(each.address, each.port, each.user) for each in bastions} == {jump}


def test_labels_and_taints_of_an_inventory_are_kept(tmp_path: Path) -> None:
    found = found_in(CASES["kubespray with a dedicated group"], tmp_path)
    (pool,) = loaded(from_inventory(found, Wanted(), "n", HostKeys()).text, tmp_path).pools
    assert pool.labels == {"nvidia.com/gpu": "true", "example.com/pool": "h100"}
    assert [*map(str, pool.taints)] == ["nvidia.com/gpu:NoSchedule", "team=ml:NoExecute"]


def test_a_machine_with_both_roles_is_a_gpu_control_plane(tmp_path: Path) -> None:
    found = found_in(CASES["kubespray with a bastion"], tmp_path)
    made = loaded(from_inventory(found, Wanted(), "n", every_key(found)).text, tmp_path)
    assert [host.role for host in made.hosts] == ["gpu-control-plane"]


def test_what_a_person_says_comes_before_what_is_assumed(tmp_path: Path) -> None:
    found = found_in(CASES["deepops"], tmp_path)
    wanted = Wanted(context="prod", platform="gpu-operator", gpus=4)
    text = from_inventory(found, wanted, "new", HostKeys()).text
    made = loaded(text, tmp_path)
    assert (made.kubernetes.context, made.platform) == ("prod", "gpu-operator")
    assert [pool.gpus_per_node for pool in made.pools] == [4]
    assert "Assumed" not in text
    assert "Not known" not in text


def test_a_scanned_key_is_marked_as_unproven(tmp_path: Path) -> None:
    found = found_in(CASES["deepops"], tmp_path)
    scanned = HostKeys(scanned=dict.fromkeys(places_of(found.machines), KEYS[0]))
    text = from_inventory(found, Wanted(), "new", scanned).text
    assert len(loaded(text, tmp_path).hosts) == 2
    assert comments_of(text).count("compare its fingerprint") == 2


def test_text_of_an_inventory_never_leaves_its_comment(tmp_path: Path) -> None:
    name = "x: {a: b}\n    platform: dra #\x1b[31m" + "y" * 900
    case = replace(
        CASES["deepops"],
        files={"i.yaml": f"kube_node:\n  hosts: {{gpu-1: {{nvidia_gpu_nodes: [{name!r}]}}}}\n"},
    )
    text = from_inventory(found_in(case, tmp_path), Wanted(), "new", HostKeys()).text
    assert loaded(text, tmp_path).platform == "device-plugin"
    assert all(line.isprintable() for line in text.splitlines())
    assert "characters more" in text


def test_nodes_that_a_person_names_are_a_stack(tmp_path: Path) -> None:
    text = from_named_nodes(Wanted(nodes=("gpu-[1-2]", "x")), "new").text
    (pool,) = loaded(text, tmp_path).pools
    assert (pool.node_names, pool.gpus_per_node) == (("gpu-1", "gpu-2", "x"), 8)
    assert "Assumed" in text


def addressed(observed: ObservedCluster) -> ObservedCluster:
    """Return a cluster whose nodes have different addresses."""
    nodes = [
        replace(node, address=f"192.0.2.{number}")
        for number, node in enumerate(observed.nodes, start=1)
    ]
    return replace(observed, nodes=tuple(nodes))


@pytest.mark.parametrize("observed", CLUSTERS.values(), ids=CLUSTERS)
@pytest.mark.promise("`gpu-cluster new` writes a stack file that loads from a running cluster.")
def test_a_cluster_becomes_a_stack_file_that_loads(
    observed: Callable[[], ObservedCluster], tmp_path: Path
) -> None:
    there = addressed(observed())
    proposal = propose(there, "prod")
    text = from_cluster(there, proposal, None, HostKeys()).text
    made = loaded(text, tmp_path)
    assert made.kubernetes.context == "prod"
    assert made.hosts == ()
    for note in proposal.notes:
        assert note in comments_of(text)
    for each in with_gpus(there):
        assert f"address: {each.address}" in text


def inventory_of(nodes: Sequence[str]) -> str:
    lines = [f"{name} ansible_host=192.0.2.{n} ansible_user=ops" for n, name in enumerate(nodes, 1)]
    return "[kube_node]\n" + "\n".join(lines) + "\n"


def test_a_cluster_with_its_inventory_has_counts_of_one_and_addresses_of_the_other(
    tmp_path: Path,
) -> None:
    there = addressed(by_helm())
    case = replace(
        CASES["deepops"], files={"i.ini": inventory_of([node.name for node in there.nodes])}
    )
    found = found_in(case, tmp_path)
    draft = from_cluster(there, propose(there, "prod"), found, every_key(found))
    made = loaded(draft.text, tmp_path)
    assert [(pool.name, pool.gpus) for pool in made.pools] == [("a100", 32)]
    assert {host.node for host in made.hosts} == {f"gpu-{n}" for n in range(1, 5)}
    assert {host.user for host in made.hosts} == {"ops"}
    assert draft.settings["runtime"]["devicesByEnvironment"] is True


def test_machines_of_an_inventory_are_matched_by_address_if_names_differ(tmp_path: Path) -> None:
    there = addressed(cluster(machine("ip-10-0-0-1")))
    case = replace(CASES["deepops"], files={"i.ini": "[agent]\n192.0.2.1\n192.0.2.99\n"})
    found = found_in(case, tmp_path)
    draft = from_cluster(there, propose(there, "prod"), found, every_key(found))
    (host,) = loaded(draft.text, tmp_path).hosts
    assert (host.node, host.address) == ("ip-10-0-0-1", "192.0.2.1")


WAYS: dict[str, tuple[str, str, str]] = {
    "two jump hosts": ("-J ops@jump1,ops@jump2", "", "more than one jump host"),
    "two as ProxyJump": ("-o ProxyJump=jump1,jump2", "", "more than one jump host"),
    "none": ("-o ProxyJump=none", "", ""),
    "no command": ("-o ProxyCommand=none", "", ""),
    "a file": ("-F ./ssh.cfg", "", r"reads \./ssh\.cfg"),
    "a file and a jump host": ("-F ./ssh.cfg -J ops@jump1", "jump1", ""),
    "a blank": ('-o "ProxyJump ops@jump1"', "jump1", ""),
    "blanks around": ('-o "ProxyJump = ops@jump1"', "jump1", ""),
    "in one word": ("-oProxyJump=ops@jump1", "jump1", ""),
    "-J in one word": ("-Jops@jump1", "jump1", ""),
    "a session of AWS": (
        "-o ProxyCommand=\"sh -c 'aws ssm start-session --target %h'\"",
        "",
        "by the command `sh -c 'aws ssm start-session --target %h'`",
    ),
    "cloudflared": (
        "-o ProxyCommand='cloudflared access ssh --hostname %h'",
        "",
        "by the command `cloudflared access",
    ),
    "an expression": ("-J {{bastion}}", "", "can't be read: declare it as bastion"),
    "line ends": ("-J 'a\nb: c'", "", "can't be read"),
}


@pytest.mark.promise(
    "Two jump hosts, or a ProxyCommand, of an inventory are named in a comment of the new file."
)
@pytest.mark.parametrize("name", WAYS)
def test_a_way_to_a_host_becomes_a_bastion_or_a_note(name: str, tmp_path: Path) -> None:
    arguments, jump, note = WAYS[name]
    inventory = {
        "all": {
            "children": {
                "kube_node": {"hosts": {"gpu-a100-1": {"ansible_host": "192.0.2.2"}}},
                "kube_control_plane": {"hosts": {"cp-1": {"ansible_host": "192.0.2.1"}}},
            },
            "vars": {"ansible_ssh_common_args": arguments},
        }
    }
    case = Case(files={"hosts.yml": yaml.safe_dump(inventory)}, pools={}, hosts=())
    found = found_in(case, tmp_path)
    text = from_inventory(found, Wanted(), "new", every_key(found)).text
    (host,) = loaded(text, tmp_path).hosts
    assert (host.bastion.address if host.bastion else "") == jump
    if note:
        assert re.search(note, comments_of(text)), text
    else:
        assert "jump" not in comments_of(text)
        assert "ProxyCommand" not in comments_of(text)
