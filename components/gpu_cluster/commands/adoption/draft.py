"""Draft a new stack file from an Ansible inventory or a running cluster; pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_cluster.commands.adoption.machines import Found, Machine
from gpu_cluster.commands.adoption.observed import ObservedCluster, ObservedNode
from gpu_cluster.commands.adoption.pools import gpu_pools, unique_names
from gpu_cluster.commands.adoption.propose import DEVICE_PLUGIN, GPU_OPERATOR, Proposal
from gpu_cluster.commands.adoption.stack_text import FROM_CLUSTER, commented_hosts, new_text
from gpu_cluster.loading.validate_adopted import passes_by_environment
from gpu_cluster.settings.adopted import AdoptedSettings
from gpu_cluster.settings.gpu_operator import Distribution
from gpu_cluster.settings.hosts.host import Role
from gpu_cluster.settings.hosts.runtime import Engine
from gpu_cluster.settings.nodes.node_range import ranges, written_out
from gpu_cluster.settings.nodes.pool import GPU_LABELS
from gpu_cluster.settings.nodes.taint import GPU_TAINT
from gpu_rules.faults import Location

Settings = dict[str, Any]
USUAL_GPUS = 8
"""Number of GPUs per node that is written if nothing says it: DGX and HGX machines have 8."""
UNKNOWN = "write-it-here"
"""Text of a value that is not known, in a host that is a comment."""


@dataclass(frozen=True, kw_only=True)
class HostKeys:
    """Public host keys, by address and port.

    Attributes:
        trusted: Keys that a person accepted before, from files `known_hosts`.
        scanned: Keys that machines presented, which nothing proves.
    """

    trusted: Mapping[tuple[str, int], str] = field(default_factory=dict)
    scanned: Mapping[tuple[str, int], str] = field(default_factory=dict)

    def of(self, address: str, port: int) -> str:
        """Return the public host key of a machine, or `UNKNOWN` if no key is known."""
        place = (address, port)
        return self.trusted.get(place) or self.scanned.get(place) or UNKNOWN


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options that a user chooses for the new stack.

    Attributes:
        context: Context of the kubeconfig; empty if it is not known yet.
        platform: Name of the platform; empty for the default.
        gpus: Number of GPUs per node if no other source has it; None if it is not known.
        nodes: Names and ranges of the nodes with GPUs; empty to find them.
    """

    context: str = ""
    platform: str = ""
    gpus: int | None = None
    nodes: tuple[str, ...] = ()


KEY_WORDS = (
    "hostKey is the line of /etc/ssh/ssh_host_ed25519_key.pub; left out, `gpu-cluster host-keys` "
    "writes it."
)
OPEN = (
    "Hosts of which something is not known yet. Complete them and remove the leading `# `; the "
    "stack then prepares them. " + KEY_WORDS
)
ADOPTED = (
    "The cluster's hosts stay as they are. If the stack shall prepare them, complete these lines "
    "and remove the leading `# `. " + KEY_WORDS
)


BY_ENVIRONMENT = "The plugin that runs passes GPUs to containers by NVIDIA_VISIBLE_DEVICES."


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Content of a stack file that is not written to disk yet.

    Attributes:
        settings: Content of `gpu-cluster:cluster`, with camelCase keys.
        comments: Comments above values, by the location of the value.
        hosts: Hosts that are written as comments because their settings are incomplete, each with
            the reasons.
        key_files: Private keys that the inventory names.
        origin: Sentence that names the source of the settings.
        about_hosts: Sentences that explain why hosts are written as comments.
    """

    settings: Settings
    comments: Mapping[Location, tuple[str, ...]] = field(default_factory=dict)
    hosts: tuple[tuple[Settings, tuple[str, ...]], ...] = ()
    key_files: tuple[str, ...] = ()
    origin: str = "Written from your answers."
    about_hosts: str = OPEN

    @property
    def text(self) -> str:
        """Return the text of the stack file."""
        text = new_text(self.settings, self.origin, self.comments)
        has_hosts = "hosts" in self.settings
        return text + commented_hosts(self.hosts, self.about_hosts, has_hosts=has_hosts)


def from_inventory(inventory: Found, wishes: Wanted, stack: str, keys: HostKeys) -> Draft:
    """Return a stack file for the machines that an inventory describes.

    Args:
        inventory: The machines.
        wishes: Options that the user chooses.
        keys: Host keys that are known.
    """
    comments: dict[Location, tuple[str, ...]] = {("pools",): _about_pools(inventory)}
    if not wishes.context:
        comments["kubernetes", "context"] = _no_context()
    platform = wishes.platform or (GPU_OPERATOR if inventory.operator else DEVICE_PLUGIN)
    if not wishes.platform and not inventory.operator:
        comments["platform",] = (
            "No platform was found. If the cluster already runs GPU software, read the cluster, "
            "too: "
            f"gpu-cluster new --stack {stack} --from-cluster context --from-inventory file",
        )
    pools = _draft_pools(inventory.machines, wishes.gpus)
    for index, (_, assumed) in enumerate(pools):
        if assumed:
            comments["pools", index, "gpusPerNode"] = (
                "Assumed: the number of GPUs of these nodes is not known. `nvidia-smi -L` lists "
                "them.",
            )
    settings = {
        "version": "v1",
        "kubernetes": {"context": wishes.context or stack},
        "platform": platform,
        "driver": {"source": "preinstalled"},
        **_engine_sections(inventory.machines, operator=platform == GPU_OPERATOR),
        "pools": [pool for pool, _ in pools],
    }
    if inventory.driver:
        comments["driver", "source"] = (
            f"The hosts keep their driver. The inventory installs version {inventory.driver}.",
        )
    origin = "Written from an inventory of Ansible."
    draft = Draft(settings=settings, comments=comments, origin=origin)
    return with_hosts(draft, inventory.machines, keys)


def from_named_nodes(
    wishes: Wanted, stack: str, machines: Sequence[Machine] = (), keys: HostKeys = HostKeys()
) -> Draft:
    """Return a stack file for nodes whose names the user gives.

    Args:
        wishes: Options that the user chooses.
        machines: Machines of these nodes, from the running cluster. Empty: no cluster was read.
        keys: Host keys that are known.
    """
    pool = {
        "name": "gpu",
        "nodes": [*wishes.nodes],
        "gpusPerNode": USUAL_GPUS if wishes.gpus is None else wishes.gpus,
    }
    comments: dict[Location, tuple[str, ...]] = {}
    if not wishes.context:
        comments["kubernetes", "context"] = _no_context()
    if wishes.gpus is None:
        comments["pools", 0, "gpusPerNode"] = (
            "Assumed: the number of GPUs of these nodes is not known. `nvidia-smi -L` lists them.",
        )
    settings = {
        "version": "v1",
        "kubernetes": {"context": wishes.context or stack},
        "platform": wishes.platform or "device-plugin",
        "pools": [pool],
    }
    hosts = tuple((host, ()) for host in _draft_hosts(machines, keys))
    return Draft(settings=settings, comments=comments, hosts=hosts)


def from_cluster(
    observed: ObservedCluster, proposal: Proposal, inventory: Found | None, keys: HostKeys
) -> Draft:
    """Return a stack file that takes over a running cluster.

    Args:
        proposal: Settings that keep the cluster as it is.
        inventory: Machines that become hosts of the stack; None without an inventory.
        keys: Host keys that are known.
    """
    notes: dict[Location, tuple[str, ...]] = {("pools",): proposal.notes}
    draft = Draft(settings=dict(proposal.settings), comments=notes, origin=FROM_CLUSTER)
    if inventory is None:
        hosts = tuple((host, ()) for host in _draft_hosts(with_gpus(observed), keys))
        return replace(draft, hosts=hosts, about_hosts=ADOPTED)
    draft = replace(draft, origin="Written from the running cluster and an inventory.")
    nodes = [node for pool in gpu_pools(observed.nodes) for node in pool.nodes]
    return _with_devices(with_hosts(draft, _match_nodes(inventory.machines, nodes), keys))


def _with_devices(draft: Draft) -> Draft:
    """Return a draft whose hosts pass GPUs to containers in the way of the adopted plugin."""
    settings = draft.settings
    if "hosts" not in settings or "adopted" not in settings:
        return draft
    if not passes_by_environment(AdoptedSettings.model_validate(settings["adopted"])):
        return draft
    runtime = {**settings.get("runtime", {}), "devicesByEnvironment": True}
    place = ("runtime", "devicesByEnvironment")
    return replace(
        draft,
        settings={**settings, "runtime": runtime},
        comments={**draft.comments, place: (BY_ENVIRONMENT,)},
    )


def with_gpus(observed: ObservedCluster) -> list[Machine]:
    """Return the machines of a cluster's nodes with GPUs, if the nodes report addresses."""
    nodes = [node for pool in gpu_pools(observed.nodes) for node in pool.nodes]
    return of_nodes(nodes, {node.name for node in nodes})


def of_nodes(nodes: Iterable[ObservedNode], names: Collection[str]) -> list[Machine]:
    """Return the machines of the named nodes, if the nodes report addresses."""
    return [
        Machine(
            name=node.name, node=node.name, address=node.address, control_plane=node.control_plane
        )
        for node in nodes
        if node.name in names and node.address
    ]


def _match_nodes(machines: Iterable[Machine], nodes: Sequence[ObservedNode]) -> list[Machine]:
    """Return the machines that are nodes, by name or address, with the node's name and role."""
    names = {node.name: node for node in nodes}
    addresses = {node.address: node for node in nodes if node.address}
    pairs = (
        (
            machine,
            names.get(machine.node)
            or addresses.get(machine.address)
            or addresses.get(machine.name),
        )
        for machine in machines
    )
    return [
        replace(machine, node=node.name, control_plane=node.control_plane)
        for machine, node in pairs
        if node is not None
    ]


def with_hosts(draft: Draft, machines: Sequence[Machine], keys: HostKeys) -> Draft:
    """Return a draft with hosts; a host with incomplete settings is written as a comment."""
    pools = draft.settings.get("pools", [])
    members = {name for pool in pools for name in written_out(tuple(pool.get("nodes") or ()))}
    known_hosts: list[Settings] = []
    open_: list[tuple[Settings, tuple[str, ...]]] = []
    comments = dict(draft.comments)
    used_names: set[str | tuple[str, int]] = set()
    for machine, host in zip(machines, _draft_hosts(machines, keys), strict=True):
        place = (machine.address, machine.port or 22)
        reasons: list[str] = []
        if machine.node not in members:
            reasons.append("its node is in no pool by name")
        host_names_and_address: set[str | tuple[str, int]] = {machine.node}
        host_names_and_address |= {place} if machine.address else set()
        if used_names & host_names_and_address:
            reasons.append("another host has the same node, or the same address and port")
        used_names |= host_names_and_address
        if reasons or not _is_complete(host):
            open_.append((host, tuple(map(_as_sentence, (*machine.notes, *reasons)))))
            continue
        if notes := [*machine.notes, *_unproven_keys(machine, keys)]:
            comments["hosts", len(known_hosts)] = tuple(map(_as_sentence, notes))
        known_hosts.append(host)
    settings = {**draft.settings, **({"hosts": known_hosts} if known_hosts else {})}
    if machines and not any(machine.user for machine in machines):
        comments["hosts",] = (
            "Nothing names a user, so the login is as root. Another: user: name, in ssh or a host.",
        )
    return replace(
        draft,
        settings=settings,
        comments={at: lines for at, lines in comments.items() if at[0] in settings},
        hosts=tuple(open_),
        key_files=tuple(
            dict.fromkeys(
                machine_with_key.key_file
                for machine_with_key in machines
                if machine_with_key.key_file
            )
        ),
    )


def _unproven_keys(machine: Machine, keys: HostKeys) -> Iterator[str]:
    places = {(machine.address, machine.port or 22)}
    places |= {(machine.jump.address, machine.jump.port)} if machine.jump else set()
    if places & keys.scanned.keys():
        yield (
            "a host key was taken from the network: compare its fingerprint with that of "
            "`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the machine's console"
        )


def _draft_hosts(machines: Sequence[Machine], keys: HostKeys) -> list[Settings]:
    names = host_names([machine.node for machine in machines])
    return [_draft_host(machine, name, keys) for machine, name in zip(machines, names, strict=True)]


def _draft_host(machine: Machine, name: str, keys: HostKeys) -> Settings:
    host: Settings = {"name": name}
    if machine.node != name:
        host["node"] = machine.node
    if machine.control_plane:
        host["role"] = Role.GPU_CONTROL_PLANE.value
    host["address"] = machine.address or UNKNOWN
    if machine.port not in (None, 22):
        host["port"] = machine.port
    if machine.user not in ("", "root"):
        host["user"] = machine.user
    if jump := machine.jump:
        host["bastion"] = {
            "address": jump.address,
            **({"port": jump.port} if jump.port != 22 else {}),
            **({"user": jump.user} if jump.user not in ("", "root") else {}),
            "hostKey": keys.of(jump.address, jump.port),
        }
    host["hostKey"] = keys.of(machine.address, machine.port or 22)
    return host


def _is_complete(host: Settings) -> bool:
    values = (host["address"], host["hostKey"], host.get("bastion", {}).get("hostKey"))
    return UNKNOWN not in values


def host_names(nodes: Sequence[str]) -> list[str]:
    """Return a host name for each node: the part before the first dot if it is unique."""
    short = [node.partition(".")[0] for node in nodes]
    whole = [node.replace(".", "-")[-63:].strip("-") for node in nodes]
    return [
        first if short.count(first) == 1 and not first.isdecimal() else full_name
        for first, full_name in zip(short, whole, strict=True)
    ]


def _draft_pools(machines: Sequence[Machine], gpus: int | None) -> list[tuple[Settings, bool]]:
    """Return pools of equal machines, each with True if the pool's number of GPUs is assumed."""
    groups: dict[tuple[Any, ...], list[Machine]] = {}
    for machine in machines:
        count = machine.gpus if machine.gpus is not None else gpus
        key = (machine.model, count, frozenset(map(str, machine.taints)))
        groups.setdefault(key, []).append(machine)
    names = unique_names([model or "gpu" for model, _, _ in groups])
    return [
        (_draft_pool(name, count, members), count is None)
        for name, ((_, count, _), members) in zip(names, groups.items(), strict=True)
    ]


def _draft_pool(name: str, gpus: int | None, members: Sequence[Machine]) -> Settings:
    pool: Settings = {
        "name": name,
        "nodes": [*ranges({member.node for member in members})],
        "gpusPerNode": USUAL_GPUS if gpus is None else gpus,
    }
    first, *other_members = members
    labels = {
        key: value
        for key, value in first.labels.items()
        if all(machine.labels.get(key) == value for machine in other_members)
    }
    if labels:
        pool["labels"] = {**GPU_LABELS, **labels}
    if first.taints:
        ours = () if any(taint.key == GPU_TAINT.key for taint in first.taints) else (GPU_TAINT,)
        pool["taints"] = [str(taint) for taint in (*ours, *first.taints)]
    return pool


def _engine_sections(machines: Iterable[Machine], *, operator: bool) -> Settings:
    engines = {machine.engine for machine in machines}
    if len(engines) != 1 or engines == {Engine.CONTAINERD}:
        return {}
    engine = engines.pop()
    sections: Settings = {"runtime": {"engine": engine.value}}
    if operator and engine.value in {distribution.value for distribution in Distribution}:
        sections["gpuOperator"] = {"distribution": engine.value}
    return sections


def _about_pools(inventory: Found) -> tuple[str, ...]:
    lines = [f"Nodes with GPUs: {inventory.reason}."]
    if inventory.others:
        machines = (
            "1 other machine of the inventory is"
            if inventory.others == 1
            else (f"{inventory.others} other machines of the inventory are")
        )
        lines.append(f"{machines} not declared.")
    return (*lines, *map(_as_sentence, inventory.notes))


def _no_context() -> tuple[str, ...]:
    return ("Not known: write the context of your kubeconfig (`kubectl config get-contexts`).",)


def _as_sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."
