"""Run the controller that simulates the GPU components of an embedded cluster.

`gpu_cluster_lab.simulator.embedded` starts and stops this process.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from gpu_cluster_lab.simulator import api
from gpu_cluster_lab.simulator.control_plane import ControlPlane
from gpu_cluster_lab.simulator.controller import kubelet
from gpu_cluster_lab.simulator.controller.device_plugin import DevicePlugins
from gpu_cluster_lab.simulator.controller.discovery import Discovery
from gpu_cluster_lab.simulator.controller.features import Features
from gpu_cluster_lab.simulator.controller.follow import follow
from gpu_cluster_lab.simulator.controller.hami_scheduler import HamiScheduler
from gpu_cluster_lab.simulator.controller.mig_manager import MigManagers
from gpu_cluster_lab.simulator.controller.operator import Operator
from gpu_cluster_lab.simulator.controller.platforms import Platforms
from gpu_cluster_lab.simulator.controller.preparation import Preparation

#: Seconds between two checks that the cluster's folder still exists.
LOOK = 2.0


async def run(plane: ControlPlane) -> None:
    """Run the controller until SIGTERM, SIGINT, or until the cluster's folder is deleted."""
    from gpu_cluster_lab.simulator import hosts

    def root(host: str) -> Path | None:
        return hosts.root_of(plane.name, host)

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    async def abandoned() -> None:
        while plane.cluster.exists():
            await asyncio.sleep(LOOK)

    async with api.connect(plane.access()) as client:
        plugins = DevicePlugins(client, Preparation(root), plane.logs)
        controllers = (
            plugins, Operator(client), MigManagers(client), Platforms(client), Features(client),
            Discovery(client), HamiScheduler(client, plane.access()),
        )  # fmt: skip

        def changed(node: api.Json) -> None:
            for controller in controllers:
                controller.node_changed(node)

        def gone(node: api.Json) -> None:
            for controller in controllers:
                controller.node_gone(node)

        def listed() -> None:
            for controller in controllers:
                controller.nodes_listed()

        async def tell() -> None:
            for controller in controllers:
                await controller.sources.complete.wait()
            plane.controller_ready.write_text(str(os.getpid()))
            await stop.wait()

        tasks = [
            asyncio.create_task(kubelet.serve_logs(plane.access(), plane.logs, plane.log_port)),
            asyncio.create_task(follow(client, "/api/v1/nodes", changed, gone, listed)),
            *(asyncio.create_task(controller.run()) for controller in controllers),
            asyncio.create_task(tell()),
            asyncio.create_task(stop.wait()),
            asyncio.create_task(abandoned()),
        ]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in done:
            task.result()


def main() -> int:
    """Parse the command line and run the controller."""
    parser = argparse.ArgumentParser(
        prog="python -m gpu_cluster_lab.simulator.controller", description=__doc__
    )
    parser.add_argument("--name", required=True, help="the embedded cluster's name")
    name = parser.parse_args().name
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(run(ControlPlane(name)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
