"""Run `gpu-cluster start`: start the embedded cluster and its hosts, without the stack."""

from __future__ import annotations

import os

from gpu_cluster.commands.environment import variables
from gpu_cluster.commands.lab import embedded_cluster
from gpu_cluster.commands.output import answering
from gpu_cluster.commands.stack import Stack


def main() -> None:
    """Start the embedded cluster; do nothing for a stack that uses a real cluster."""
    stack = Stack.current()
    with answering("start"), stack.held("gpu-cluster start"):
        os.environ.update(variables(stack))
        if cluster := embedded_cluster(stack):
            cluster.start()
