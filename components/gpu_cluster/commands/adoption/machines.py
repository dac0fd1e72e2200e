"""Find the GPU machines of a cluster in an inventory of Ansible; pure functions.

Names of groups and variables are those of kubespray (docs/ansible/inventory.md, and `node_labels`,
`node_taints`, `nvidia_gpu_nodes`, `container_manager` of its roles), of DeepOps (config.example),
of k3s-ansible (inventory-sample.yml), and of inventories in public repositories.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from pydantic import TypeAdapter, ValidationError

from gpu_cluster.base.address import Address
from gpu_cluster.base.names import POOL_NAME_LIMIT
from gpu_cluster.commands.adoption.pools import is_declarable
from gpu_cluster.commands.ansible.inventory import (
    Inventory,
    Variables,
    number,
    text,
    texts,
    truth,
    unreadable,
)
from gpu_cluster.settings.hosts.runtime import Engine
from gpu_cluster.settings.hosts.user import User
from gpu_cluster.settings.nodes.devices import GPU_LIMIT
from gpu_cluster.settings.nodes.node_range import natural_order
from gpu_cluster.settings.nodes.taint import Taint
from gpu_rules.kube.names import LABEL_LIMIT, is_dns_subdomain
from gpu_rules.printable import printable

# Words in names of Ansible groups. The name of a group of nodes, such as `kube_node`, has words of
# one of the other sets, and may have the name of a Kubernetes product.
_PRODUCTS = frozenset({"kube", "k8s", "k3s", "rke2", "kubernetes"})
_NODES = frozenset({"node", "nodes", "worker", "workers", "agent", "agents"})
_CONTROL_PLANE = frozenset(
    {"control", "plane", "planes", "controlplane", "controlplanes", "controller", "controllers"}
    | {"master", "masters", "server", "servers"}
)
_CLUSTER = frozenset({"cluster"})
_GPU_WORDS = frozenset({"gpu", "gpus", "nvidia", "dgx", "hgx", "accelerated"})
_OTHERS = frozenset({"no", "non", "without", "cpu"})
# Names of GPU models, such as a100, h200, gb200, l40s, v100, t4 and rtx6000.
_MODEL = re.compile(r"(?:[abhv]|gb|gh)[1-9][0-9]{1,2}0?|l4|l40s?|t4|a[1-9]0|rtx[0-9]{4}|p100|p40")
_COUNTS = ("gpus_per_node", "gpu_count", "gpu_num", "num_gpus", "gpus", "nvidia_gpu_count", "ngpus")
_MODELS = ("gpu_type", "gpu_model", "gpu_product", "gpu")
_TRUTHS = ("gpu_enabled", "has_gpu", "gpu_passthrough")
_VENDOR = re.compile(r"^((nvidia|tesla|geforce)-)+")
_ADDRESS = ("ansible_host", "ansible_ssh_host")
_PORT = ("ansible_port", "ansible_ssh_port")
_USER = ("ansible_user", "ansible_ssh_user")
_KEY = ("ansible_ssh_private_key_file", "ansible_private_key_file")
_ENGINE = ("container_manager", "container_runtime", "container_engine")
_ENGINES = {"docker": Engine.DOCKER, "crio": Engine.CRI_O, "cri-o": Engine.CRI_O}
_PASSWORDS = ("ansible_password", "ansible_ssh_pass", "ansible_ssh_password")
_BECOME_PASSWORDS = ("ansible_become_password", "ansible_become_pass", "ansible_sudo_pass")
_ARGUMENTS = ("ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_args")
_JUMP = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_.-]+)@)?(?P<host>[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::(?P<port>\d{1,5}))?"
)
_IP = re.compile(r"[0-9.]+|(?=[^:]*:)[0-9a-fA-F:.]+")
_MOST = 32
"""Maximum number of labels and of taints that are read from one variable."""
_SHOWN = 80
"""Maximum number of characters of a foreign text that a note shows."""
_LOOPBACK = re.compile(r"127\.[0-9.]+|::1|localhost")


@dataclass(frozen=True, kw_only=True)
class Jump:
    """A jump host in the arguments of Ansible's SSH connections.

    Attributes:
        address: Name or address.
        user: User name; empty for the default.
    """

    address: str
    port: int = 22
    user: str = ""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine with GPUs, as an inventory describes it.

    Attributes:
        name: Name in the inventory.
        node: Name of its Kubernetes node.
        address: Address for SSH; empty if only Ansible can find it.
        port: Port for SSH; None if the inventory names none.
        user: User name for SSH; empty if the inventory names none.
        key_file: Path of the private key; empty if the inventory names none.
        gpus: Number of GPUs; None if the inventory does not say it.
        model: GPU model, such as `a100`; empty if the inventory does not say it.
        control_plane: True if the machine runs the control plane, too.
        labels: Labels of the node that a stack file may declare.
        taints: Taints of the node.
        engine: Container engine.
        jump: Jump host to connect through.
        notes: Facts about this machine that the user must know, one sentence each.
    """

    name: str
    node: str
    address: str = ""
    port: int | None = None
    user: str = ""
    key_file: str = ""
    gpus: int | None = None
    model: str = ""
    control_plane: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    engine: Engine = Engine.CONTAINERD
    jump: Jump | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Found:
    """GPU machines of a cluster, and other facts, as found in an inventory.

    Attributes:
        machines: The machines with GPUs, in the order of the inventory.
        others: Number of further Kubernetes nodes.
        reason: Why these machines count as machines with GPUs, as a clause.
        is_certain: False if no variable, group or name says which machines have GPUs.
        operator: True if the inventory deploys the GPU Operator.
        driver: Version of the driver that the inventory installs; empty if it names none.
        notes: Facts that the user must know, one sentence each.
    """

    machines: tuple[Machine, ...]
    others: int = 0
    reason: str = ""
    is_certain: bool = True
    operator: bool = False
    driver: str = ""
    notes: tuple[str, ...] = ()


def find(inventory: Inventory, chosen: Collection[str] = ()) -> Found:
    """Return the machines of an inventory that have GPUs.

    Args:
        chosen: Names of the machines with GPUs, if the user names them; empty to find them.
    """
    nodes = _node_names(inventory)
    names, reason = (
        ([name for name in inventory.hosts if name in chosen], "they were named")
        if chosen
        else _names_with_gpus(inventory, nodes)
    )
    bastion = _bastion_of_group(inventory)
    machines = tuple(_read_machine(inventory, name, bastion) for name in names)
    variables = [inventory.variables(name) for name in names]
    return Found(
        machines=machines,
        others=len(set(nodes or inventory.hosts) - set(names)),
        reason=reason,
        is_certain=reason != _ALL_OF_THEM,
        operator=any(
            truth(host_variables, "deepops_gpu_operator_enabled") for host_variables in variables
        ),
        driver=_common_value(
            text(host_variables, ["nvidia_driver_version"]) for host_variables in variables
        ),
        notes=tuple(_inventory_notes(inventory, variables)),
    )


def places_of(machines: Iterable[Machine]) -> list[tuple[str, int]]:
    """Return the addresses and ports of machines and of their jump hosts, each once."""
    places: dict[tuple[str, int], None] = {}
    for machine in machines:
        if machine.address:
            places[machine.address, machine.port or 22] = None
        if machine.jump:
            places[machine.jump.address, machine.jump.port] = None
    return [*places]


_ALL_OF_THEM = "no variable, group or name shows which nodes have GPUs, so all of them are listed"


def _node_names(inventory: Inventory) -> list[str]:
    """Return the names of the cluster's nodes; empty if the inventory has no Kubernetes group."""
    node_names: dict[str, None] = {}
    for kind in (_NODES, _CONTROL_PLANE, _CLUSTER):
        for group in inventory.groups:
            if _is_group_of(group, kind):
                node_names |= dict.fromkeys(inventory.members(group))
    return [name for name in inventory.hosts if name in node_names]


def _names_with_gpus(inventory: Inventory, nodes: Collection[str]) -> tuple[list[str], str]:
    """Return the names of the machines with GPUs, and a clause that explains the choice."""
    ways = (
        (_declared_gpu_nodes(inventory), "the variable nvidia_gpu_nodes names them"),
        (_hosts_of_gpu_groups(inventory), "they are in a group with such a name"),
        (_hosts_with_gpu_variables(inventory), "a variable of the host shows it"),
    )
    for gpu_hosts, reason in ways:
        inside = [name for name in inventory.hosts if name in gpu_hosts and name in nodes]
        # GPU machines that are in no Kubernetes group count if no GPU machine is in such a group.
        if names := inside or [name for name in inventory.hosts if name in gpu_hosts]:
            return names, reason
    candidates = [name for name in inventory.hosts if name in nodes] or [*inventory.hosts]
    if by_name := [name for name in candidates if _says_gpu(_name_words(name, letters=True))]:
        return by_name, "their names show it"
    workers = [
        name
        for name in candidates
        if not nodes or any(_is_group_of(group, _NODES) for group in inventory.groups_of(name))
    ]
    return workers, _ALL_OF_THEM


def _declared_gpu_nodes(inventory: Inventory) -> set[str]:
    values = (inventory.variables(name).get("nvidia_gpu_nodes") for name in inventory.hosts)
    # The hosts of a group share one value object, so compute its words only once.
    distinct = {id(value): value for value in values}
    return {name for value in distinct.values() for name in texts(value)}


def _hosts_of_gpu_groups(inventory: Inventory) -> set[str]:
    hosts: set[str] = set()
    for group in inventory.groups:
        words = _name_words(group)
        if _says_gpu(words) or (_gpu_model(words) and not words & _OTHERS):
            hosts.update(inventory.members(group))
    return hosts


def _hosts_with_gpu_variables(inventory: Inventory) -> set[str]:
    return {name for name in inventory.hosts if _describes_gpus(inventory.variables(name))}


def _describes_gpus(variables: Variables) -> bool:
    count = _gpu_count(variables)
    labels = _read_labels(variables.get("node_labels"))
    return bool(
        count
        or any(truth(variables, name) for name in _TRUTHS)
        or _model_of(variables)
        or any(
            value.lower() not in ("false", "no", "0")
            for key, value in labels.items()
            if _says_gpu(_name_words(key))
        )
        or any(
            _says_gpu(_name_words(taint.key))
            for taint in _read_taints(variables.get("node_taints"))
        )
    )


def _is_group_of(group: str, kind: frozenset[str]) -> bool:
    """Return True if each word of a group's name means a kind of machine: `kube-node` for nodes."""
    words = _name_words(group)
    other_words = words - _PRODUCTS
    if kind is _CLUSTER:
        return other_words <= kind and bool(words & (_PRODUCTS | kind))
    # The name of a control-plane group may also contain a word for nodes, as in `master_nodes`.
    return bool(other_words & kind) and other_words <= kind | (
        _NODES if kind is _CONTROL_PLANE else frozenset()
    )


def _name_words(name: str, *, letters: bool = False) -> set[str]:
    """Return the words of a name; with `letters`, also without final digits (`gpu01`: gpu)."""
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    return words | {word.rstrip("0123456789") for word in words} if letters else words


def _says_gpu(words: Collection[str]) -> bool:
    distinct = set(words)
    return bool(distinct & _GPU_WORDS) and not distinct & _OTHERS


def _gpu_model(words: Iterable[str]) -> str:
    return next((word for word in sorted(words) if _MODEL.fullmatch(word)), "")


def _model_of(variables: Variables) -> str:
    """Return the GPU model in a host's variables, as a pool name such as `rtx-5090`."""
    written = re.sub(r"[^a-z0-9]+", "-", (text(variables, _MODELS) or "").lower()).strip("-")
    model = _VENDOR.sub("", written)[:POOL_NAME_LIMIT].strip("-")
    return model if re.search("[a-z]", model) and re.search("[0-9]", model) else ""


def _gpu_count(variables: Variables) -> int | None:
    for name in _COUNTS:
        value = variables.get(name)
        if isinstance(value, list | tuple) and 0 < len(value) <= GPU_LIMIT:
            return len(value)
    count = number(variables, _COUNTS)
    return count if count is not None and 0 < count <= GPU_LIMIT else None


def _read_machine(inventory: Inventory, name: str, bastion: Jump | None) -> Machine:
    variables = inventory.variables(name)
    groups = inventory.groups_of(name)
    address, why_not = _ssh_address(name, variables)
    way = _read_way(variables)
    words = set().union(*map(_name_words, (name, *groups)))
    dgx = {"dgx", "hgx"} & (words | _name_words(name, letters=True))
    notes = [
        *why_not,
        *_node_notes(name),
        *_login_notes(variables),
        *([way.note] if way and way.note else []),
    ]
    return Machine(
        name=name,
        node=node_name(name),
        address=address,
        port=_ssh_port(variables),
        user=_ssh_user(variables),
        key_file=text(variables, _KEY) or "",
        gpus=_gpu_count(variables) or (8 if dgx else None),
        model=_model_of(variables) or _gpu_model(words),
        control_plane=any(_is_group_of(group, _CONTROL_PLANE) for group in groups),
        labels={
            key: value
            for key, value in sorted(_read_labels(variables.get("node_labels")).items())
            if is_declarable(key, value)
        },
        taints=_read_taints(variables.get("node_taints")),
        engine=_container_engine(variables, groups),
        jump=way.jump if way else (None if "bastion" in groups else bastion),
        notes=tuple(notes),
    )


def node_name(name: str) -> str:
    """Return a machine's name as a valid Kubernetes node name: lower case, no underscores."""
    lower = name.lower().removesuffix(".")
    if is_dns_subdomain(lower):
        return lower
    dashed = (re.sub(r"[^a-z0-9-]+", "-", label).strip("-") for label in lower.split("."))
    valid_name = ".".join(label[:LABEL_LIMIT].strip("-") for label in dashed if label)
    return valid_name if is_dns_subdomain(valid_name) else "node"


def _node_notes(name: str) -> Iterator[str]:
    if _IP.fullmatch(name):
        yield (
            f"{name} is an address, and nodes have names: write the node's name, as "
            "`kubectl get nodes -o wide` shows it beside this address"
        )
    elif node_name(name) != name:
        yield f"the inventory names it {name}, which a node of Kubernetes can't be named"


def _ssh_address(name: str, variables: Variables) -> tuple[str, tuple[str, ...]]:
    """Return the address for SSH and no reasons, or an empty address and the reason."""
    if text(variables, ["ansible_connection"]) == "local":
        return "", ("Ansible runs on this host itself (ansible_connection=local)",)
    if hidden := unreadable(variables, _ADDRESS):
        return "", (f"its {hidden} is an expression or encrypted: only Ansible can read it",)
    address = text(variables, _ADDRESS) or name
    # A loopback address with a forwarded port, as Vagrant uses, is another machine's address.
    if _LOOPBACK.fullmatch(address) and _ssh_port(variables) in (None, 22):
        return "", (f"its address is {address}, which is this machine",)
    if not _is_valid(_ADDRESSES, address):
        return "", ("its ansible_host is no address",)
    return address, ()


_ADDRESSES: TypeAdapter[str] = TypeAdapter(Address)
_USERS: TypeAdapter[str] = TypeAdapter(User)


def _is_valid(kind: TypeAdapter[str], value: object) -> bool:
    try:
        kind.validate_python(value)
    except ValidationError:
        return False
    return True


def _ssh_port(variables: Variables) -> int | None:
    port = number(variables, _PORT)
    return port if port is not None and 1 <= port <= 65535 else None


def _ssh_user(variables: Variables) -> str:
    user = text(variables, _USER) or ""
    return user if _is_valid(_USERS, user) else ""


def _login_notes(variables: Variables) -> Iterator[str]:
    if any(name in variables for name in _PASSWORDS):
        yield "Ansible logs in with a password; this program needs a key (`ssh-copy-id`)"
    if any(name in variables for name in _BECOME_PASSWORDS):
        yield "sudo requires a password; this program needs sudo without a password"


def _read_labels(value: object) -> dict[str, str]:
    """Return node labels that an inventory writes as a mapping, as `key=value`, or as a list."""
    if isinstance(value, dict):
        return {
            str(key): str(item).lower() if isinstance(item, bool) else str(item)
            for key, item in islice(value.items(), _MOST)
            if isinstance(item, str | int)
        }
    pairs = (item.partition("=") for item in texts(value)[:_MOST])
    return {key.strip(): label.strip() for key, equals, label in pairs if equals}


def _read_taints(value: object) -> tuple[Taint, ...]:
    """Return node taints that an inventory writes as texts or mappings; skip invalid taints."""
    items = value if isinstance(value, list | tuple) else texts(value)
    taints: dict[tuple[str, str], Taint] = {}
    for item in items[:_MOST]:
        try:
            taint = Taint.model_validate(item)
        except ValidationError:
            continue
        taints[taint.key, taint.effect] = taint
    return tuple(taints.values())


def _container_engine(variables: Variables, groups: Iterable[str]) -> Engine:
    names = set[str]().union(*map(_name_words, groups))
    for engine in (Engine.K3S, Engine.RKE2):
        if engine in names or f"{engine}_version" in variables:
            return engine
    written = text(variables, _ENGINE) or ""
    return _ENGINES.get(written.lower(), Engine.CONTAINERD)


def _bastion_of_group(inventory: Inventory) -> Jump | None:
    """Return the host of kubespray's group `bastion`, through which kubespray reaches all nodes."""
    hosts = inventory.members("bastion") if "bastion" in inventory.groups else ()
    if not hosts:
        return None
    variables = inventory.variables(hosts[0])
    address, _ = _ssh_address(hosts[0], variables)
    user = _ssh_user(variables)
    return Jump(address=address, port=_ssh_port(variables) or 22, user=user) if address else None


@dataclass(frozen=True)
class _Way:
    """Connection settings that a host's SSH arguments contain.

    Attributes:
        jump: Jump host to connect through. None: directly, or in a way that a stack file has not.
        note: What the user must know about a way that a stack file has not.
    """

    jump: Jump | None = None
    note: str = ""


def _read_way(variables: Variables) -> _Way | None:
    """Return the connection settings in a host's SSH arguments; None if there are none."""
    for name in _ARGUMENTS:
        value = variables.get(name)
        if isinstance(value, str) and len(value) < 4096 and (way := _parse_way(value)):
            return way
    return None


def _split_command(line: str) -> list[str]:
    """Return the words of a shell's command line; empty if a quotation mark is missing."""
    try:
        return shlex.split(line)
    except ValueError:
        return []


def _parse_way(arguments: str) -> _Way | None:
    """Return the way to a host in arguments of ssh(1); an option's value may be its next word."""
    words = iter(_split_command(arguments))
    file: _Way | None = None
    for word in words:
        letter = word[:2]
        if letter not in ("-J", "-o", "-F"):
            continue
        value = word[2:] or next(words, "")
        if letter == "-J":
            return _way_by_jump(value)
        if letter == "-F":
            note = f"Ansible's SSH reads {printable(value, _SHOWN)}, which this program does not"
            file = _Way(note=f"{note}: if a ProxyJump stands there, declare it as bastion")
            continue
        # ssh_config(5): keyword and value are separated by blanks or by one `=`.
        keyword, _, value = re.sub(r"\s*[=\s]\s*", "=", value.strip(), count=1).partition("=")
        if keyword.lower() == "proxyjump":
            return _way_by_jump(value.strip("'\""))
        if keyword.lower() == "proxycommand":
            return _way_by_command(value)
    return file


def _way_by_jump(written: str) -> _Way:
    """Return the way of a ProxyJump: jump hosts, separated by commas."""
    if written.lower() == "none":
        return _Way()
    shown = printable(written, _SHOWN)
    if "," in written:
        note = f"Ansible reaches it through more than one jump host ({shown})"
        return _Way(note=f"{note}; a host has one bastion: declare one that reaches it")
    if jump := _parse_jump(written):
        return _Way(jump)
    return _Way(note=f"its jump host {shown} can't be read: declare it as bastion")


def _way_by_command(command: str) -> _Way:
    """Return the way of a ProxyCommand, which a stack file has only for `ssh -W`."""
    if command.lower() == "none":
        return _Way()
    if jump := _from_command(command):
        return _Way(jump)
    note = f"Ansible reaches it by the command `{printable(command, _SHOWN)}`"
    return _Way(note=f"{note}, which this program does not run: declare a bastion")


def _from_command(command: str) -> Jump | None:
    """Return the jump host in a ProxyCommand such as `ssh -W %h:%p … user@host`."""
    words = _split_command(command)
    if not words or words[0].rpartition("/")[2] != "ssh":
        return None
    port, user, host = 22, "", ""
    remaining = iter(words[1:])
    for word in remaining:
        if word == "-p":
            port = int(port_text) if (port_text := next(remaining, "")).isdecimal() else 22
        elif word == "-l":
            user = next(remaining, "")
        elif word in ("-W", "-o", "-i", "-F", "-E", "-c", "-m"):
            next(remaining, "")
        elif not word.startswith("-") and not host:
            host = word
    jump = _parse_jump(host)
    return Jump(address=jump.address, port=port, user=jump.user or user) if jump else None


def _parse_jump(written: str) -> Jump | None:
    match = _JUMP.fullmatch(written)
    if match is None:
        return None
    address, user = match["host"].strip("[]"), match["user"] or ""
    port = int(match["port"] or 22)
    if not _is_valid(_ADDRESSES, address) or not 1 <= port <= 65535:
        return None
    return Jump(address=address, port=port, user=user if _is_valid(_USERS, user) else "")


def _common_value(values: Iterable[str | None]) -> str:
    distinct = {value for value in values if value}
    return distinct.pop() if len(distinct) == 1 else ""


def _inventory_notes(inventory: Inventory, variables: Iterable[Variables]) -> Iterator[str]:
    absent = {
        name
        for host_variables in variables
        for name in texts(host_variables.get("nvidia_gpu_nodes"))
        if name not in inventory.hosts
    }
    if absent:
        names = ", ".join(sorted(absent, key=natural_order))
        yield f"nvidia_gpu_nodes names {names}, which are not in the inventory"
