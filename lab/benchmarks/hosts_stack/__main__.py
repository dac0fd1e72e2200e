"""The host part of the product alone, as a program of its own: look, preparation, runtime.

The same modules in the same order as the product's own program, without a cluster.
"""

from __future__ import annotations

# ruff: noqa: E402  the look is started first: it works while the rest is imported
from components.inspection.look import Look

look = Look.start()

import asyncio
import os
from pathlib import Path

import pulumi

from components.settings.loader import load

document = pulumi.Config("gpu-cluster").require_object("cluster")
cluster = load(document)
key = Path(os.environ["GPU_CLUSTER_SSH_PRIVATE_KEY_FILE"]).read_text()
look.ask(
    {
        "hosts": {
            "hosts": [host.model_dump(mode="json") for host in cluster.hosts],
            "privateKey": key,
        }
    }
)

import pulumi_command

from components.hosts.command import HostsArgs
from components.hosts.container_runtime import ContainerRuntime
from components.hosts.preparation import HostPreparation
from components.inspection.look import Found

provider = pulumi_command.Provider("command")  # its plugin starts while the look ends


def build(found: Found) -> None:
    """Declares the hosts."""
    for warning in found.warnings:
        pulumi.log.warn(warning)
    if found.problems:
        raise pulumi.RunError("\n".join(found.problems))
    secret = pulumi.Output.secret(key)
    options = pulumi.ResourceOptions(providers=[provider])
    prepared = HostPreparation(
        "hosts", HostsArgs(cluster=cluster, private_key=secret, drift=found.prepare), options
    )
    ContainerRuntime(
        "runtime",
        HostsArgs(
            cluster=cluster,
            private_key=secret,
            drift=found.runtime,
            after=prepared.commands,
        ),
        options,
    )


seen: pulumi.Output[Found] = pulumi.Output.from_input(asyncio.to_thread(look.result, cluster))
seen.apply(build)
