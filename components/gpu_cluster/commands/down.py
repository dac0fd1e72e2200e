"""Run `gpu-cluster down`: destroy the stack, then stop the embedded cluster and its hosts."""

from __future__ import annotations

import time

from gpu_cluster.commands.contexts import require_embedded
from gpu_cluster.commands.destroy import destroy
from gpu_cluster.commands.lab import embedded_cluster
from gpu_cluster.commands.output import answering
from gpu_cluster.commands.stack import Stack
from gpu_rules.printable import counted


def main() -> None:
    """Destroy the stack, then stop the embedded cluster.

    A stack on a real cluster is refused. If resources of the stack are left, exit with 1 and keep
    the cluster and the hosts running.
    """
    started = time.monotonic()
    stack = Stack.current()
    require_embedded(stack)
    with answering("down") as json_output, stack.held("gpu-cluster down"):
        with stack.unsalted():
            json_output["removed"] = destroy(stack, json_output)
        if cluster := embedded_cluster(stack):
            cluster.stop()
        seconds = time.monotonic() - started
        print(f"down: {counted(json_output['removed'], 'resource')} removed, {seconds:.0f} s")
