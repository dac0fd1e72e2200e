"""Run `gpu-cluster new`: write a new stack file from a cluster, an inventory or answers.

A running cluster is read as `gpu-cluster adopt` reads it. A cluster and an inventory of Ansible
together say most: the cluster has the GPUs, labels and software, the inventory has the addresses
and users of hosts. What neither says is a comment in the file. No existing file is changed.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpu_cluster.base.nearness import nearest
from gpu_cluster.commands.adoption.draft import (
    Draft,
    HostKeys,
    Wanted,
    from_cluster,
    from_inventory,
    from_named_nodes,
    of_nodes,
    with_gpus,
)
from gpu_cluster.commands.adoption.machines import Found, Machine, find, places_of
from gpu_cluster.commands.adoption.observed import ObservedCluster
from gpu_cluster.commands.adoption.propose import propose
from gpu_cluster.commands.adoption.read import read_cluster
from gpu_cluster.commands.ansible.read import read
from gpu_cluster.commands.begun_file import has_edited_file
from gpu_cluster.commands.contexts import asks
from gpu_cluster.commands.output import Answer, answering
from gpu_cluster.commands.project import NAME
from gpu_cluster.commands.stack import Stack
from gpu_cluster.kubernetes.api import connect
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.nodes.node_range import expand
from gpu_cluster.settings.platform import NAMES
from gpu_cluster.ssh.host_keys import fingerprint_of, known, scanned
from gpu_cluster.ssh.keys import PRIVATE_KEY
from gpu_rules.faults import Fault, FaultError, show
from gpu_rules.printable import counted, printable, shortened

NAMED = 5
"""Maximum number of nodes that a fault names."""
_KNOWN_HOSTS = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")


@dataclass(kw_only=True)
class Options:
    """The user's options of the new stack; answers at a terminal complete them.

    Attributes:
        stack: Name of the new stack.
        from_cluster: Context of a running cluster.
        from_inventory: File of an inventory of Ansible.
        context: Context of the kubeconfig, if no cluster is read.
        nodes: Names and ranges of nodes with GPUs.
        gpus: Number of GPUs of each node, if nothing else shows it.
        scan: Whether to take host keys from the network; None: ask at a terminal.
    """

    stack: str
    from_cluster: str = ""
    from_inventory: str = ""
    context: str = ""
    platform: str = ""
    nodes: str = ""
    gpus: str = ""
    scan: bool | None = None


def answered(options: Options) -> None:
    """Ask for the sources of the new stack file if no option names any."""
    if options.from_cluster or options.from_inventory or options.nodes or not asks():
        return
    options.from_cluster = input("context of a running cluster (empty: none): ").strip()
    options.from_inventory = input("file of an Ansible inventory (empty: none): ").strip()
    if not options.from_cluster and not options.from_inventory:
        options.nodes = input("nodes with GPUs, such as gpu-[1-4]: ").strip()


def wanted_of(options: Options) -> Wanted:
    """Return the settings of the new stack that the options contain.

    Raises:
        FaultError: An option has an invalid value.
    """
    if options.platform and options.platform not in NAMES:
        raise _bad_option(
            "--platform",
            options.platform,
            f"one of {', '.join(NAMES)}",
            nearest(options.platform, NAMES),
        )
    if options.gpus and not re.fullmatch(r"[0-9]|1[0-6]", options.gpus):
        raise _bad_option("--gpus", options.gpus, "a whole number from 0 to 16", "8")
    nodes = tuple(re.findall(r"(?:\[[^\]]*\]|[^,\s])+", options.nodes))
    for pattern in nodes:
        try:
            expand(pattern)
        except ValueError:
            raise _bad_option(
                "--nodes", pattern, "names and ranges of nodes, such as gpu-[1-4]", "'gpu-[1-4]'"
            ) from None
    return Wanted(
        context=options.context,
        platform=options.platform,
        gpus=int(options.gpus) if options.gpus else None,
        nodes=nodes,
    )


def _bad_option(option: str, found: str, wanted: str, example: str) -> FaultError:
    cure = f"write {option} {example}, for example"
    return FaultError(Fault(option, show(found), wanted, cure))


def new_stack(name: str) -> Stack:
    """Return a stack without a file, or with an unedited file of `gpu-cluster init`.

    Raises:
        FaultError: The name is not valid for a stack, or the stack already has a file.
    """
    if not name:
        raise _bad_option("--stack", name, "the name of the new stack", "prod")
    if NAME.fullmatch(name) is None:
        raise _bad_option(
            "--stack", name, "the name of a stack: letters, digits, '-', '_' and '.'", "prod"
        )
    stack = Stack(name)
    if has_edited_file(stack):
        raise FaultError(
            Fault(
                stack.file.name,
                "a file that exists",
                "a new stack, since no file is overwritten",
                f"choose another name, or use `gpu-cluster adopt --stack {name}`",
            )
        )
    return stack


async def observed_of(context: str) -> ObservedCluster:
    """Read a running cluster.

    Raises:
        ClusterError: The cluster can't be read.
    """
    async with connect(context) as client:
        return await read_cluster(client)


def keys_of(machines: Sequence[Machine], options: Options) -> HostKeys:
    """Return host keys from `known_hosts` files, and scanned keys if the user wants a scan."""
    places = places_of(machines)
    trusted = known((Path(file).expanduser() for file in _KNOWN_HOSTS), places)
    # A machine behind a jump host can't be reached without a login to the jump host.
    behind = {(machine.address, machine.port or 22) for machine in machines if machine.jump}
    missing = [place for place in places if place not in trusted and place not in behind]
    if missing and options.scan is None and asks():
        question = f"take {len(missing)} unknown host keys from the network? (y/N): "
        options.scan = input(question).strip().lower() in ("y", "yes")
    if not options.scan or not missing:
        return HostKeys(trusted=trusted)
    scanned_keys = asyncio.run(scanned(missing))
    for (address, port), key in scanned_keys.items():
        print(printable(f"scanned: {address} port {port}: {fingerprint_of(key)}"))
    return HostKeys(trusted=trusted, scanned=scanned_keys)


def draft_of(options: Options, wishes: Wanted) -> Draft:
    """Return a stack file made from the cluster, the inventory or the answers.

    Raises:
        FaultError: A source can't be read, or nothing in it has GPUs.
    """
    chosen = tuple(name for pattern in wishes.nodes for name in expand(pattern))
    from_file = _read_inventory(options.from_inventory, chosen) if options.from_inventory else None
    if options.from_cluster:
        return _of_cluster(options, wishes, from_file)
    if from_file is not None:
        return from_inventory(
            from_file, wishes, options.stack, keys_of(from_file.machines, options)
        )
    if wishes.nodes:
        return from_named_nodes(wishes, options.stack)
    raise FaultError(
        Fault(
            "gpu-cluster new",
            "no source",
            "a cluster, an inventory, or names of nodes",
            "add --from-cluster CONTEXT, --from-inventory FILE, or --nodes gpu-[1-4]",
        )
    )


def _of_cluster(options: Options, wishes: Wanted, from_file: Found | None) -> Draft:
    observed = asyncio.run(observed_of(options.from_cluster))
    proposal = propose(observed, options.from_cluster)
    if proposal.refused:
        raise FaultError(*proposal.refused)
    if "pools" not in proposal.settings:
        # The nodes advertise no GPUs yet, so the inventory or the user names those with GPUs.
        wishes = replace(wishes, context=options.from_cluster)
        if from_file is not None:
            return from_inventory(
                from_file, wishes, options.stack, keys_of(from_file.machines, options)
            )
        if not wishes.nodes:
            raise FaultError(_no_gpus(f"the cluster of context {options.from_cluster}"))
        machines = of_nodes(observed.nodes, chosen_nodes(observed, wishes))
        return from_named_nodes(wishes, options.stack, machines, keys_of(machines, options))
    machines_with_gpus = with_gpus(observed) if from_file is None else from_file.machines
    return from_cluster(observed, proposal, from_file, keys_of(machines_with_gpus, options))


def chosen_nodes(observed: ObservedCluster, wishes: Wanted) -> frozenset[str]:
    """Return the names of the nodes that the user names.

    Raises:
        FaultError: The cluster has no such node.
    """
    existing = {node.name for node in observed.nodes}
    names = frozenset(name for pattern in wishes.nodes for name in expand(pattern))
    if strange := sorted(names - existing):
        found = f"no node {shortened(strange, NAMED)}"
        raise FaultError(
            Fault("--nodes", found, f"nodes of context {wishes.context}", "correct the names")
        )
    return names


def _read_inventory(name: str, chosen: Sequence[str]) -> Found:
    file = Path(name).expanduser()
    inventory_machines = find(read(file), chosen)
    if not inventory_machines.machines:
        raise FaultError(_no_gpus(file.name))
    return inventory_machines


def _no_gpus(place: str) -> Fault:
    return Fault(
        place,
        "no machine with GPUs",
        "a resource, a group, a variable or names that show which machines have GPUs",
        "name the nodes that have GPUs: --nodes gpu-[1-4] --gpus 8",
    )


def write(stack: Stack, text: str) -> Cluster:
    """Write the file of a new stack and return its settings; it is written only if it loads.

    Raises:
        ConfigError: The text has faults; nothing was written.
        FileExistsError: Somebody else wrote the file meanwhile; it was not changed.
    """
    with tempfile.TemporaryDirectory(prefix="new-") as folder:
        trial = Path(folder) / stack.file.name
        trial.write_text(text, encoding="utf-8")
        cluster = load_stack_file(trial)
    if not has_edited_file(stack):
        stack.file.unlink(missing_ok=True)
    with stack.file.open("x", encoding="utf-8") as opened:
        opened.write(text)
    return cluster


def run(options: Options, json_output: Answer) -> None:
    """Write the stack file, and print what the user has to do next.

    Args:
        json_output: The JSON document of the command; gets ``file``, ``gpus`` and ``hosts``.

    Raises:
        FaultError: An option or a source has a fault; nothing was written.
    """
    stack = new_stack(options.stack)
    answered(options)
    wishes = wanted_of(options)
    if not options.from_cluster and not wishes.context and asks():
        wishes = replace(
            wishes, context=input("context of the kubeconfig (empty: later): ").strip()
        )
    draft = draft_of(options, wishes)
    cluster = write(stack, draft.text)
    gpus = sum(pool.gpus for pool in cluster.pools)
    json_output |= {"file": stack.file.name, "gpus": gpus, "hosts": len(cluster.hosts)}
    open_ = f", {len(draft.hosts)} more as comments" if draft.hosts else ""
    print(
        f"new: {stack.file.name}: {counted(gpus, 'GPU')} in pools, "
        f"{counted(len(cluster.hosts), 'host')}{open_}"
    )
    for line in next_steps(options.stack, draft):
        print(printable(line))


def next_steps(stack: str, draft: Draft) -> list[str]:
    """Return lines that tell the user what to do next."""
    key = draft.key_files[0] if draft.key_files else PRIVATE_KEY
    quoted = key if re.fullmatch(r"[A-Za-z0-9_./~-]+", key) else shlex.quote(key)
    passphrase = f"~/.gpu-cluster-{stack}.passphrase"
    hosts, secrets = [], []
    if draft.hosts:
        hosts = [
            "  # if the stack shall prepare its hosts: complete them, leave hostKey out, then",
            f"  gpu-cluster host-keys --stack {stack}",
        ]
    if draft.hosts or draft.key_files or "hosts" in draft.settings:
        about = "" if "hosts" in draft.settings else " # not without hosts"
        secrets = [f"  pulumi config set --secret gpu-cluster:sshPrivateKey < {quoted}{about}"]
    return [
        f"next: read Pulumi.{stack}.yaml and its comments, then",
        *hosts,
        f"  test -e {passphrase} || (umask 077; head -c 32 /dev/urandom | base64 > {passphrase})",
        f"  export PULUMI_CONFIG_PASSPHRASE_FILE={passphrase}",
        f'  eval "$(gpu-cluster env --stack {stack})" && pulumi stack init {stack}',
        *secrets,
        f"  gpu-cluster preview --stack {stack}",
    ]


def main(
    *,
    from_cluster: str = "",
    from_inventory: str = "",
    context: str = "",
    platform: str = "",
    nodes: str = "",
    gpus: str = "",
    scan: bool = False,
) -> None:
    """Write the file of a new stack; exit with 1 if that fails.

    Args:
        from_cluster: Context of a running cluster.
        from_inventory: File of an inventory of Ansible.
        context: Context of the kubeconfig, if no cluster is read.
        platform: Name of the platform, if no cluster is read.
        nodes: Names and ranges of nodes with GPUs; empty to find them.
        gpus: Number of GPUs of each node, if nothing else shows it.
        scan: Whether to take host keys from the network.
    """
    options = Options(
        stack=os.environ.get("STACK", ""),
        from_cluster=from_cluster,
        from_inventory=from_inventory,
        context=context,
        platform=platform,
        nodes=nodes,
        gpus=gpus,
        scan=scan or None,
    )
    with answering("new") as json_output:
        try:
            run(options, json_output)
        except (FaultError, FileExistsError) as error:
            sys.exit(f"new: nothing was written.\n{error}")
