"""Simulated hardware of a stack, read from a file: nodes, their GPUs and faults, and SSH hosts.

The file `lab/hardware/<stack>.yaml` is separate from the stack file, as real machines exist
independently of a stack file: editing the stack file neither adds nor removes a machine.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, ValidationError

from gpu_cluster.base import yaml_file
from gpu_cluster.base.address import Address
from gpu_cluster.base.explain import explain_all
from gpu_cluster.base.model import Freeze, FrozenDict, Model
from gpu_cluster.base.names import DnsLabel, LabelKey, LabelValue, NodeName
from gpu_cluster.settings.hosts.host import Host
from gpu_cluster.settings.hosts.user import Port, User
from gpu_cluster.settings.nodes.devices import GPU_LIMIT
from gpu_cluster.settings.nodes.node_range import NodeNames, ranges, written_out
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster_lab.simulator import faults
from gpu_cluster_lab.simulator.hosts.model import DRIVER, HostSettings
from gpu_rules.faults import ConfigError, Fault, InputError, Location, fault, refuse, show

CONTROL_PLANE = "control-plane-1"
#: Number of simulated GPUs of a GPU host if no pool names its node, and so none says the number.
GPUS = 8
HEAD = """\
# The simulated hardware of stack {stack}: the machines that are there, whatever the stack declares.
# `gpu-cluster start --stack {stack}` applies it. docs/reference/commands.md says what can stand
# here.
"""
M = TypeVar("M", bound=Model)


def _validate_fault(word: str) -> str:
    try:
        faults.parse(word)
    except faults.SimulatorFaultError:
        raise refuse(
            show(word), f"one of {', '.join(faults.NAMES)}", "write it so, or leave it out"
        ) from None
    return word


class NodeHardware(Model):
    """Simulated nodes with the same hardware, as one entry of the hardware file."""

    names: NodeNames = Field(
        min_length=1,
        description="a list of node names or ranges, such as gpu-[1-4]",
        examples=["[gpu-1, gpu-2]"],
    )
    gpus: StrictInt = Field(
        default=0,
        ge=0,
        le=GPU_LIMIT,
        description=f"a whole number from 0 to {GPU_LIMIT}, the GPUs of one node",
        examples=[8],
    )
    driver: StrictBool = Field(
        default=True,
        description="true, or false where a node has no driver until a pod installs one",
    )
    control_plane: StrictBool = Field(default=False, description="true for a control-plane node")
    labels: Annotated[dict[LabelKey, LabelValue], Freeze] = Field(
        default=FrozenDict(), description="a mapping of label keys to values"
    )
    faults: tuple[Annotated[StrictStr, AfterValidator(_validate_fault)], ...] = Field(
        default=(), description="a list of faults", examples=["[unhealthy-gpus=2]"]
    )


class HostHardware(Model):
    """Simulated machine with an SSH server, and the cluster node that runs on it."""

    name: DnsLabel = Field(description="the host's name, such as gpu-1", examples=["gpu-1"])
    node: NodeName | None = Field(
        default=None,
        description="the name of the host's node; the host's own if left out",
        examples=["gpu-1"],
    )
    address: Address = Field(
        default="127.0.0.1", description="an address of this machine's loopback", examples=["::1"]
    )
    port: Port
    user: User = "root"
    system: Literal["debian", "docker", "rocky"] = Field(
        default="debian", description="debian, docker (Debian with Docker) or rocky"
    )
    gpus: StrictInt | None = Field(
        default=None,
        ge=0,
        le=GPU_LIMIT,
        description="how many GPUs the host shows; those of its node if left out",
        examples=[8],
    )
    driver: StrictStr | None = Field(
        default=DRIVER, description="the version of the loaded driver, or null for none"
    )

    @property
    def of_node(self) -> str:
        """Return the name of the cluster node that runs on this host."""
        return self.node or self.name


@dataclass(frozen=True)
class Machine:
    """Name, role and address of an SSH host that `gpu_cluster_lab.simulator.hosts` can simulate."""

    name: str
    role: str
    address: str
    port: int
    user: str


class Hardware(Model):
    """Complete simulated hardware of a stack: nodes and SSH hosts."""

    version: Literal["v1"] = Field(description="v1")
    nodes: tuple[NodeHardware, ...] = Field(min_length=1, description="a list of kinds of nodes")
    hosts: tuple[HostHardware, ...] = Field(default=(), description="a list of hosts")

    def gpus_of(self, host: HostHardware) -> int:
        """Return the number of GPUs that a host simulates."""
        if host.gpus is not None:
            return host.gpus
        of_kind = (kind.gpus for kind in self.nodes if host.of_node in written_out(kind.names))
        return next(of_kind, 0)

    def machines(self) -> tuple[Machine, ...]:
        """Return the SSH hosts of this hardware, as `simulator.hosts` starts them."""
        return tuple(
            Machine(
                host.name,
                "gpu-worker" if self.gpus_of(host) else "cpu-worker",
                host.address,
                host.port,
                host.user,
            )
            for host in self.hosts
        )

    def host_settings(self) -> HostSettings:
        """Return which GPUs, driver and operating system each SSH host simulates."""
        return HostSettings(
            gpus={host.name: self.gpus_of(host) for host in self.hosts},
            driver={host.name: host.driver for host in self.hosts},
            system={host.name: host.system for host in self.hosts},
        )


def load_hardware(path: Path) -> Hardware:
    """Read and validate a hardware file.

    Raises:
        ConfigError: The file is invalid; the error has all faults with their line numbers.
    """
    try:
        document = yaml_file.read(path)
    except InputError as error:
        problem = fault((), error.found, "a hardware file", error.cure)
        lines: dict[Location, int] = {(): error.line} if error.line else {}
        raise ConfigError([problem], path.name).located(path.name, lines) from None
    problems: list[Fault] = []
    hardware = None
    if isinstance(document.value, Mapping):
        try:
            hardware = Hardware.model_validate(document.value, by_alias=True, by_name=False)
        except ValidationError as error:
            problems += explain_all(Hardware, error.errors(include_url=False))
        problems += _check_entries(document.value)
    else:
        wanted = "a mapping with version, nodes and hosts"
        problems.append(fault((), show(document.value), wanted, "see lab/hardware/dev.yaml"))
    if hardware is None or problems:
        raise ConfigError(problems, path.name).located(path.name, document.lines)
    return hardware


def _check_entries(document: Mapping[str, Any]) -> Iterator[Fault]:
    """Check rules between several entries of the hardware file.

    Entries that are invalid by themselves are skipped.
    """
    first_places: dict[tuple[str, object], Location] = {}

    def once(kind: str, value: object, at: Location) -> Iterator[Fault]:
        if first_places.setdefault((kind, value), at) != at:
            text = f"{kind} {value}, which another entry has, too"
            yield fault(at, text, f"each {kind} once", "correct or remove one of them")

    nodes: set[str] = set()
    for at, kind in _valid_entries(NodeHardware, document, "nodes"):
        for name in written_out(kind.names):
            nodes.add(name)
            yield from once("node", name, (*at, "names"))
    for at, host in _valid_entries(HostHardware, document, "hosts"):
        yield from once("host", host.name, (*at, "name"))
        yield from once("node of a host", host.of_node, (*at, "node"))
        yield from once("port", f"{host.port} of {host.address}", (*at, "port"))
        if host.of_node not in nodes:
            cure = "add the node to `nodes`, or correct `node`"
            yield fault((*at, "node"), show(host.of_node), "a node of this file", cure)
        if not _is_loopback(host.address):
            # Only loopback may reach a simulated host, because anybody can compute its private host
            # key from its name.
            wanted = "an address of 127.0.0.0/8, or ::1"
            yield fault((*at, "address"), show(host.address), wanted, "write 127.0.0.1")


def _valid_entries(
    model: type[M], document: Mapping[str, Any], key: str
) -> Iterator[tuple[Location, M]]:
    listed = document.get(key)
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        try:
            yield (key, index), model.model_validate(item, by_alias=True, by_name=False)
        except ValidationError:
            continue  # The faults of this entry were already reported.


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def write_hardware(path: Path, stack: str, hardware: Hardware) -> None:
    """Write a hardware file atomically."""
    document = hardware.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(HEAD.format(stack=stack) + yaml.safe_dump(document, sort_keys=False))
    draft.replace(path)


def hardware_of(
    pools: Sequence[Pool], hosts: Sequence[Host], *, with_hosts: bool = True
) -> Hardware:
    """Return hardware on which every node and host that a stack declares exists.

    Args:
        pools: The declared pools.
        hosts: The declared hosts.
        with_hosts: False to leave out the SSH hosts; their nodes are kept.
    """
    kinds: dict[str, NodeHardware] = {}
    by_node = {host.node: host for host in hosts}
    for pool in pools:
        for name in pool_nodes(pool):
            kinds[name] = NodeHardware(
                names=(name,),
                gpus=pool.on_the_bus(name),
                driver=not pool.driver.managed_by_daemonset,
                control_plane=name in by_node and by_node[name].role.is_control_plane,
                labels=dict(pool.selector or {}),
            )
    for host in hosts:
        if host.node not in kinds:
            control_plane = host.role.is_control_plane
            kinds[host.node] = NodeHardware(names=(host.node,), control_plane=control_plane)
    if not any(kind.control_plane for kind in kinds.values()):
        kinds[CONTROL_PLANE] = NodeHardware(names=(CONTROL_PLANE,), control_plane=True)
    machines = [_host_hardware(host, kinds[host.node]) for host in hosts if with_hosts]
    return Hardware(version="v1", nodes=tuple(_join_nodes(kinds)), hosts=tuple(machines))


def absent(hardware: Hardware, pools: Iterable[Pool], hosts: Iterable[Host]) -> tuple[str, ...]:
    """Return the names of declared nodes and hosts that the hardware doesn't contain."""
    simulated = {name for kind in hardware.nodes for name in written_out(kind.names)}
    simulated |= {host.name for host in hardware.hosts}
    declared = [name for pool in pools if pool.nodes is not None for name in pool.node_names]
    declared += [host.name for host in hosts]
    return tuple(name for name in dict.fromkeys(declared) if name not in simulated)


def pool_nodes(pool: Pool) -> tuple[str, ...]:
    """Return the names of a pool's nodes.

    A pool with a label selector declares no names; its nodes are named `<pool>-<i>`, from 1.
    """
    if pool.nodes is not None:
        return pool.node_names
    return tuple(f"{pool.name}-{index}" for index in range(1, pool.size + 1))


def _host_hardware(host: Host, kind: NodeHardware) -> HostHardware:
    host_gpus = (kind.gpus or GPUS) if host.role.has_gpus else 0
    return HostHardware(
        name=host.name,
        node=None if host.node == host.name else host.node,
        address=host.address,
        port=host.port,
        user=host.user,
        gpus=None if host_gpus == kind.gpus else host_gpus,
    )


def _join_nodes(kinds: Mapping[str, NodeHardware]) -> Iterator[NodeHardware]:
    """Merge adjacent nodes that differ only in their names into one entry each."""

    def alike(item: tuple[str, NodeHardware]) -> NodeHardware:
        return item[1].model_copy(update={"names": ()})

    for kind, group in itertools.groupby(kinds.items(), alike):
        names = tuple(ranges([name for name, _ in group]))
        yield kind.model_copy(update={"names": names})
