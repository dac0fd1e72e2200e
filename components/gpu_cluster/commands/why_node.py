"""Find why GPUs of a node are not usable: `gpu-cluster why NODE`."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.commands.output import Answer
from gpu_cluster.desired.resolve import Desired
from gpu_cluster.inspection.observed_cluster import observe_health
from gpu_cluster.kubernetes.api import Client
from gpu_cluster.nodes.causes.node import causes_of_node, taint_causes
from gpu_cluster.nodes.causes.read import lines_of_node
from gpu_cluster.nodes.gpu_holders import holders, named
from gpu_cluster.nodes.inspect import list_nodes, node_name
from gpu_cluster.ssh.key_files import key_of_file
from gpu_cluster.validation.health import NodeHealth
from gpu_rules.faults import Fault, FaultError
from gpu_rules.kube.taints import NodeTaint
from gpu_rules.printable import counted


async def explain_node(client: Client, name: str, desired: Desired, answer: Answer) -> None:
    """Read a node and what explains its GPUs, and fill the answer.

    Args:
        name: Name of the node.
        desired: Desired state of the stack.
        answer: The JSON document; gets `node`, `declared`, `usable`, `cause` and `findings`.

    Raises:
        FaultError: The cluster has no such node, or the node can't be read.
    """
    nodes = {node_name(node): node for node in await list_nodes(client)}
    if name not in nodes:
        raise FaultError(_absent(name, len(nodes)))
    pools = desired.validation.pools
    health = [each for each in await observe_health(client, pools) if each.node == name]
    is_lacking = any(each.usable < each.declared for each in health)
    found = [*causes_of_node(nodes[name]), *taint_causes(nodes[name], _taints(name, desired))]
    findings = [*_left_out(name, desired), *map(str, found)]
    if is_lacking:
        findings += await lines_of_node(client, name, sorted(desired.operands.spaces))
    resources = {resource for pool in pools for resource in pool.resources}
    if held := await holders(client, name, resources, desired.validation.namespace):
        findings.append(f"its GPUs are held by {named(held)}")
    answer |= {
        "node": name,
        "declared": sum(each.declared for each in health),
        "usable": sum(each.usable for each in health),
        "cause": _sentence(name, health, desired),
        "findings": [*findings, *(await _xids(name, desired) if is_lacking else ())],
    }


def _sentence(name: str, health: list[NodeHealth], desired: Desired) -> str:
    """Return how many of a node's GPUs are usable, and why the others are not."""
    if name in desired.layouts.maintenance:
        return "in maintenance by the stack file, so left alone"
    if not health:
        return "in no pool with GPUs of this stack"
    declared = sum(each.declared for each in health)
    usable = sum(each.usable for each in health)
    words = f"{usable} of {counted(declared, 'GPU')} usable"
    reasons = [f"{each.declared - each.usable} {each.why}" for each in health if each.why]
    return ", ".join([words, *reasons])


def _left_out(name: str, desired: Desired) -> Iterator[str]:
    for pool in desired.platform.site.pools:
        if devices := pool.unhealthy_devices.get(name):
            yield f"the stack file leaves out {counted(devices.count, 'GPU')} (unhealthyDevices)"


def _taints(name: str, desired: Desired) -> set[str]:
    """Return the taints that the stack file declares for a node, as text."""
    return {
        str(NodeTaint.of(taint))
        for pool in desired.scheduling.pools
        if pool.nodes is None or name in pool.nodes
        for taint in pool.of_node(name).taints
    }


async def _xids(name: str, desired: Desired) -> list[str]:
    """Return the last Xid errors of the node's host, if a file has a key that may read them."""
    hosts = {host.node: host for host in desired.hosts if not host.in_maintenance}
    key = key_of_file() if name in hosts else ""
    if not key:
        return []
    # Only an answer that logs in to a host imports the SSH library.
    from gpu_cluster.validation import xid

    return list((await xid.lines(hosts, key, [name])).values())


def _absent(name: str, count: int) -> Fault:
    return Fault(
        f"node {name}",
        f"no such node in the cluster ({counted(count, 'node')})",
        "the name of a node, or namespace/name of a pod",
        "see `kubectl get nodes`; for a pod write for example `gpu-cluster why default/train`",
    )
