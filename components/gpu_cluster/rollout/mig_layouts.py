"""Program that changes the MIG layouts of nodes, in waves if pods run on the nodes.

Nodes without pods are cordoned and changed in parallel; nodes with pods are drained in waves. Then
the program sets the node label that names the MIG layout, and waits for the GPU Operator's MIG
manager. MIG manager stops no workload, so it would fail on GPUs in use (mig-parted v0.15.0,
pkg/mig/reconfigure/reconfigure.go). Finally the node is validated and uncordoned. After a failure
the failed node stays cordoned and no other node is started. All progress is recorded on the nodes,
so the next run continues a run that was killed.
Input: `gpu_cluster.desired.rollout.MigLayoutsRequest`.
"""

from __future__ import annotations

import sys

from gpu_cluster.desired.rollout import MigLayoutsRequest
from gpu_cluster.kubernetes.api import APPLY, Client, ClusterError, Json, connect
from gpu_cluster.kubernetes.gather import CONCURRENCY
from gpu_cluster.kubernetes.resources import MIG_LABEL, MIG_STATE
from gpu_cluster.nodes import drain
from gpu_cluster.nodes.inspect import list_nodes, pool_members
from gpu_cluster.program import main
from gpu_cluster.rollout import mig_targets
from gpu_cluster.rollout.inspect import left_alone, views
from gpu_cluster.rollout.target import lost
from gpu_cluster.rollout.waves import in_waves, not_begun
from gpu_cluster.settings.nodes.node_range import natural_order
from gpu_cluster.validation.node_annotations import can_validate
from gpu_cluster.validation.validation import validate_nodes
from gpu_rules.faults import Fault
from gpu_rules.printable import printable


class MigLayoutsRun:
    """One execution of the MIG layout rollout: the state shared by its steps."""

    def __init__(
        self, client: Client, request: MigLayoutsRequest, targets: dict[str, mig_targets.MigTarget]
    ) -> None:
        """Create the execution for the given target MIG layouts, by node name."""
        self.client = client
        self.request = request
        self.targets = targets
        self.limit: float = request.layouts.timeout_seconds
        self.changed: list[str] = []
        self.busy: list[str] = []
        """Nodes that got pods between the inspection and the cordon."""

    def tell(self, name: str, message: str) -> None:
        """Print a line of progress on standard error."""
        print(f"layouts: {name} {message}", file=sys.stderr, flush=True)

    async def node(self, name: str) -> Json:
        """Return the Node object.

        Raises:
            ClusterError: The node no longer exists.
        """
        node_object: Json = await self.client.request("GET", f"nodes/{name}")
        return node_object

    async def cordon(self, name: str) -> None:
        """Cordon a node, unless an administrator or another program is working on the node.

        Raises:
            ClusterError: Somebody else is working on the node.
        """
        node = await self.node(name)
        if reason := left_alone(node):
            cure = "run `up` again when the work on it is done"
            raise ClusterError(
                Fault(f"node {name}", printable(reason), "a node that no other run changes", cure)
            )
        await drain.cordon(self.client, node, mig_targets.MARK)
        self.tell(name, "cordoned")

    async def at_once(self, name: str) -> None:
        """Change the MIG layout of a node without pods; postpone the node if it has pods by now."""
        await self.cordon(name)
        pods = await self.client.list("pods", fieldSelector=f"spec.nodeName={name}")
        if drain.to_evict(pods):
            await drain.uncordon(self.client, await self.node(name))
            self.busy.append(name)
        else:
            await self.finish(name)

    async def in_turn(self, name: str) -> None:
        """Cordon and drain a node with pods, change its MIG layout, and uncordon the node."""
        await self.cordon(name)
        bounds = self.request.rollout
        await drain.drain_or_uncordon(
            self.client, name, bounds.drain_timeout_seconds, bounds.consent
        )
        self.tell(name, "drained")
        await self.finish(name)

    async def finish(self, name: str) -> None:
        """Change the MIG layout of a node without pods, validate the node and uncordon it."""
        target = self.targets[name]
        await self.divide(name, target.layout)
        self.tell(name, f"has layout {target.layout}")
        if not target.declared:
            await self.label(name, None)
        await self.validate(name)
        await drain.uncordon(self.client, await self.node(name))
        self.changed.append(name)
        self.tell(name, f"done, {len(self.changed)} of {len(self.targets)}")

    async def divide(self, name: str, layout: str) -> None:
        """Let MIG manager apply a layout, and retry once if it fails.

        MIG manager mounts the list of layouts, so for up to a minute it may know only the previous
        list. After a failure it does nothing until its label changes. A new MIG manager pod reads
        both the list and the label again.

        Raises:
            ClusterError: MIG manager failed twice, or reported no result in time.
        """
        node = await self.settled(name)
        if mig_targets.layout(node) == layout and mig_targets.state(node) == mig_targets.SUCCESS:
            return
        if mig_targets.layout(node) != layout:
            await self.forget(name)
            await self.label(name, layout)
        elif mig_targets.state(node) == mig_targets.FAILED:
            await self.restart(name)
        if await self.outcome(name) == mig_targets.FAILED:
            self.tell(name, "MIG manager failed, tried again")
            await self.restart(name)
        if (last_state := await self.outcome(name)) != mig_targets.SUCCESS:
            raise self.fault(
                name, f"{MIG_STATE}: {last_state or 'not set'}", f"layout {layout} applied"
            )

    def fault(self, name: str, found: str, wanted: str) -> ClusterError:
        """Return the error to raise for a MIG layout that MIG manager did not apply."""
        space = self.request.layouts.namespace
        cure = (
            f"check the log of MIG manager's pod there (namespace {space}): a GPU in use, or a "
            "profile that it doesn't have; the node stays cordoned, and `up` continues with it"
        )
        return ClusterError(Fault(f"node {name}", printable(found), wanted, cure))

    async def settled(self, name: str) -> Json:
        """Return the node once MIG manager has finished its current change.

        Raises:
            ClusterError: MIG manager is still working after the time limit.
        """
        node: Json = {}

        async def step() -> bool:
            nonlocal node
            node = await self.node(name)
            return mig_targets.state(node) not in mig_targets.PENDING

        if not await drain.until(step, self.limit):
            unsettled = f"{MIG_STATE}: {mig_targets.state(node)} for {self.limit:.0f} s"
            raise self.fault(name, unsettled, "success or failed")
        return node

    async def outcome(self, name: str) -> str:
        """Wait for MIG manager's final state (a node label), and return that state.

        After the time limit the result is the state at that time, which may be empty.
        """
        label = ""

        async def step() -> bool:
            nonlocal label
            label = mig_targets.state(await self.node(name))
            return label in (mig_targets.SUCCESS, mig_targets.FAILED)

        await drain.until(step, self.limit)
        return label

    async def forget(self, name: str) -> None:
        """Remove the state label of the previous layout change, so that a new state is noticed."""
        body = {"metadata": {"labels": {MIG_STATE: None}}}
        await self.client.request("PATCH", f"nodes/{name}", body=body, content_type=drain.MERGE)

    async def label(self, name: str, layout: str | None) -> None:
        """Set the node's layout label and annotation; remove both if no layout is given.

        The label is applied under this program's field manager, with force, because the GPU
        Operator sets its first value (gpu-operator v26.7.0,
        controllers/nodelabeling_controller.go); the operator then leaves other values alone.
        """
        node = await self.node(name)
        labels: Json = {}
        if layout:
            labels = {"labels": {MIG_LABEL: layout}, "annotations": {mig_targets.APPLIED: layout}}
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": node["metadata"]["uid"], **labels},
        }
        params = {"fieldManager": self.request.layouts.manager, "force": "true"}
        await self.client.request(
            "PATCH", f"nodes/{name}", body=body, content_type=APPLY, params=params
        )

    async def restart(self, name: str) -> None:
        """Delete MIG manager's pod on a node, so that a new pod tries the layout again.

        The pod that failed would only act on another label value.
        """
        await self.forget(name)
        layouts = self.request.layouts
        url = f"namespaces/{layouts.namespace}/pods"
        query = {"fieldSelector": f"spec.nodeName={name}", "labelSelector": layouts.selector}
        for pod in await self.client.list(url, **query):
            await self.client.request("DELETE", f"{url}/{pod['metadata']['name']}")

    async def validate(self, name: str) -> None:
        """Run a CUDA kernel on each GPU, if the cluster has what validation pods need."""
        nodes = await list_nodes(self.client)
        for pool in self.request.pools:
            if name not in {node["metadata"]["name"] for node in pool_members(nodes, pool)}:
                continue
            if await can_validate(self.client, pool):
                await validate_nodes(self.client, pool, {name})
                self.tell(name, "validated")
            else:
                self.tell(name, "is validated later: objects that its pod needs are created later")


async def apply(request: MigLayoutsRequest) -> Json:
    """Apply its MIG layout to each node; return the changed nodes, and skipped nodes with reasons.

    Raises:
        ClusterError: A node failed; the error also names the nodes that were not started.
    """
    rollout = request.rollout
    async with connect(rollout.context) as client:
        nodes = await list_nodes(client)
        differing = mig_targets.differences(nodes, request.layouts)
        node_views = await views(client, list(differing), rollout.consent) if differing else {}
        left_alone = {name: view.left for name, view in node_views.items() if view.left}
        # Nodes whose MIG layout an interrupted run started to change come first.
        names = sorted(
            node_views.keys() - left_alone.keys(),
            key=lambda name: (not node_views[name].begun, natural_order(name)),
        )
        if faults := [fault for name in names for fault in lost(name, node_views[name])]:
            raise ClusterError(*faults)
        targets = mig_targets.targets(nodes, request.layouts)
        run = MigLayoutsRun(client, request, {name: targets[name] for name in names})
        idle = [name for name in names if not node_views[name].evicts]
        with_pods = [name for name in names if node_views[name].evicts]
        try:
            await in_waves([], idle, CONCURRENCY, run.at_once, str)
        except ClusterError as error:
            raise ClusterError(*error.faults, *not_begun([*run.busy, *with_pods])) from error
        await in_waves([], [*run.busy, *with_pods], rollout.max_unavailable, run.in_turn, str)
    return {"changed": run.changed, "left": left_alone}


if __name__ == "__main__":
    main(MigLayoutsRequest, {"apply": apply})
