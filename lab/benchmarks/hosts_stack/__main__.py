"""The host part of the product alone, as a program of its own: inspect, prepare, runtime.

The same modules in the same order as the product's own program, without a cluster. The variable
GPU_CLUSTER_LOOK leaves the cluster alone.
"""

from __future__ import annotations

# ruff: noqa: E402
from components.inspection.processes import Extent, Processes

processes = Processes(*Extent.wanted().parts)

import os
from dataclasses import replace
from pathlib import Path

import pulumi
import pulumi_command

from components.calls import await_calls_in_turn
from components.desired.resolve import resolve
from components.hosts.command import HostsArgs
from components.hosts.container_runtime import ContainerRuntime
from components.hosts.copies import Copies
from components.hosts.keys import shortest
from components.hosts.preparation import HostPreparation
from components.inspection.look import inspect
from components.settings.loader import load

document = pulumi.Config("gpu-cluster").require_object("cluster")
cluster = load(document)
key = shortest(Path(os.environ["GPU_CLUSTER_SSH_PRIVATE_KEY_FILE"]).read_text())
drift = inspect(cluster, pulumi.get_stack(), key, {}, processes).drift
provider = pulumi_command.Provider("command")
secret = pulumi.Output.secret(key)
options = pulumi.ResourceOptions(providers=[provider])
copies = Copies("steps", cluster, secret, processes, drift.unreached)
resolved = resolve(cluster, pulumi.get_stack()).hosts
hosts = HostsArgs(hosts=resolved, private_key=secret, copies=copies)
prepared = HostPreparation("hosts", replace(hosts, drift=drift.prepare), options)
ContainerRuntime(
    "runtime",
    replace(hosts, drift=drift.runtime, after=prepared.commands),
    options,
)
await_calls_in_turn()
