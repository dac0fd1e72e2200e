"""Changes the MIG layouts of nodes, in waves where pods are on them.

A node without pods is cordoned and changed beside others like it; one with pods is drained in its
turn. Then its label names the layout, and MIG manager is waited for: it stops no workload, so GPUs
in use would make it fail (mig-parted v0.15.0, pkg/mig/reconfigure/reconfigure.go). The node is
validated and given back. A failure leaves its node cordoned and begins no other one. What is done
is on the nodes, so a run that was killed is continued by the next.

Input: `components.desired.rollout.MigLayoutsRequest`.
"""

from __future__ import annotations

import sys

from components.desired.rollout import MigLayoutsRequest
from components.kubernetes.api import APPLY, Client, ClusterError, Json, connect
from components.kubernetes.gather import CONCURRENCY
from components.kubernetes.resources import MIG_LABEL, MIG_STATE
from components.nodes import drain
from components.nodes.inspect import pool_members
from components.program import main
from components.rollout import mig_targets
from components.rollout.inspect import left_alone, views
from components.rollout.target import lost
from components.rollout.waves import in_waves, not_begun
from components.validation.node_annotations import can_validate
from components.validation.validation import validate_nodes
from policies.faults import Fault
from policies.printable import printable


class MigLayoutsRun:
    """One run."""

    def __init__(
        self, client: Client, request: MigLayoutsRequest, targets: dict[str, mig_targets.MigTarget]
    ) -> None:
        self.client = client
        self.request = request
        self.targets = targets
        self.limit: float = request.layouts.timeout_seconds
        self.changed: list[str] = []
        self.busy: list[str] = []
        """Nodes on which pods came between the first look and the cordon."""

    def tell(self, name: str, what: str) -> None:
        """A line of progress."""
        print(f"layouts: {name} {what}", file=sys.stderr, flush=True)

    async def node(self, name: str) -> Json:
        """The Node.

        Raises:
            ClusterError: it is gone.
        """
        found: Json = await self.client.request("GET", f"nodes/{name}")
        return found

    async def cordon(self, name: str) -> None:
        """Cordons a node that is nobody else's at the moment.

        Raises:
            ClusterError: it is somebody else's.
        """
        node = await self.node(name)
        if why := left_alone(node):
            cure = "run `up` again when the work on it is done"
            raise ClusterError(
                Fault(f"node {name}", printable(why), "a node that nobody else works on", cure)
            )
        await drain.cordon(self.client, node, mig_targets.MARK)
        self.tell(name, "cordoned")

    async def at_once(self, name: str) -> None:
        """All of a node without pods; one that got some since comes in the waves."""
        await self.cordon(name)
        pods = await self.client.list("pods", fieldSelector=f"spec.nodeName={name}")
        if drain.to_evict(pods):
            await drain.uncordon(self.client, await self.node(name))
            self.busy.append(name)
        else:
            await self.finish(name)

    async def in_turn(self, name: str) -> None:
        """All of a node with pods."""
        await self.cordon(name)
        bounds = self.request.rollout
        await drain.drain_or_uncordon(
            self.client, name, bounds.drain_timeout_seconds, bounds.consent
        )
        self.tell(name, "drained")
        await self.finish(name)

    async def finish(self, name: str) -> None:
        """Changes an empty node's layout, validates the node and gives it back."""
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
        """Lets MIG manager apply a layout, a second time where it fails.

        It mounts the layouts, so for a minute it may know the former ones only; and after a failure
        it acts no more until its label changes. A new pod of it reads both anew.

        Raises:
            ClusterError: it failed twice, or said nothing in time.
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
        if (found := await self.outcome(name)) != mig_targets.SUCCESS:
            raise self.fault(name, f"{MIG_STATE}: {found or 'not set'}", f"layout {layout} applied")

    def fault(self, name: str, found: str, wanted: str) -> ClusterError:
        """What MIG manager did not do."""
        space = self.request.layouts.namespace
        cure = (
            f"look at the log of MIG manager's pod there (namespace {space}): a GPU in use, or a "
            "profile that it doesn't have; the node stays cordoned, and `up` goes on with it"
        )
        return ClusterError(Fault(f"node {name}", printable(found), wanted, cure))

    async def settled(self, name: str) -> Json:
        """The node, once MIG manager has ended what it is at.

        Raises:
            ClusterError: it is still at it after the limit.
        """
        node: Json = {}

        async def step() -> bool:
            nonlocal node
            node = await self.node(name)
            return mig_targets.state(node) not in mig_targets.PENDING

        if not await drain.until(step, self.limit):
            found = f"{MIG_STATE}: {mig_targets.state(node)} for {self.limit:.0f} s"
            raise self.fault(name, found, "success or failed")
        return node

    async def outcome(self, name: str) -> str:
        """What MIG manager reports in the end; empty, or what it is at, where it takes too long."""
        said = ""

        async def step() -> bool:
            nonlocal said
            said = mig_targets.state(await self.node(name))
            return said in (mig_targets.SUCCESS, mig_targets.FAILED)

        await drain.until(step, self.limit)
        return said

    async def forget(self, name: str) -> None:
        """Removes the state of the former layout, so that the next one's is known by its being."""
        body = {"metadata": {"labels": {MIG_STATE: None}}}
        await self.client.request("PATCH", f"nodes/{name}", body=body, content_type=drain.MERGE)

    async def label(self, name: str, layout: str | None) -> None:
        """Holds the node's label, and what it says, under our field manager, or gives it up.

        By force: the operator sets the first one (gpu-operator v26.7.0,
        controllers/nodelabeling_controller.go), and leaves another one alone.
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
        """Lets a new pod of MIG manager act: the one that failed waits for another label."""
        await self.forget(name)
        layouts = self.request.layouts
        url = f"namespaces/{layouts.namespace}/pods"
        query = {"fieldSelector": f"spec.nodeName={name}", "labelSelector": layouts.selector}
        for pod in await self.client.list(url, **query):
            await self.client.request("DELETE", f"{url}/{pod['metadata']['name']}")

    async def validate(self, name: str) -> None:
        """Runs a kernel on each GPU, where what validation pods need is in the cluster."""
        nodes = await self.client.list("nodes")
        for pool in self.request.pools:
            if name not in {node["metadata"]["name"] for node in pool_members(nodes, pool)}:
                continue
            if await can_validate(self.client, pool):
                await validate_nodes(self.client, pool, {name})
                self.tell(name, "validated")
            else:
                self.tell(name, "is validated later: what its pod needs comes later")


async def apply(request: MigLayoutsRequest) -> Json:
    """Brings each node to its layout; gives back which were changed, and which left alone, and why.

    Raises:
        ClusterError: what stopped it, and which nodes were not begun.
    """
    rollout = request.rollout
    async with connect(rollout.context) as client:
        nodes = await client.list("nodes")
        differing = mig_targets.differences(nodes, request.layouts)
        seen = await views(client, list(differing), rollout.consent) if differing else {}
        left = {name: view.left for name, view in seen.items() if view.left}
        # What an earlier run began comes first.
        names = sorted(seen.keys() - left.keys(), key=lambda name: (not seen[name].begun, name))
        if faults := [fault for name in names for fault in lost(name, seen[name])]:
            raise ClusterError(*faults)
        targets = mig_targets.targets(nodes, request.layouts)
        run = MigLayoutsRun(client, request, {name: targets[name] for name in names})
        idle = [name for name in names if not seen[name].evicts]
        rest = [name for name in names if seen[name].evicts]
        try:
            await in_waves([], idle, CONCURRENCY, run.at_once, str)
        except ClusterError as error:
            raise ClusterError(*error.faults, *not_begun([*run.busy, *rest])) from error
        await in_waves([], [*run.busy, *rest], rollout.max_unavailable, run.in_turn, str)
    return {"changed": run.changed, "left": left}


if __name__ == "__main__":
    main(MigLayoutsRequest, {"apply": apply})
