"""This project's host preparation as a separate Pulumi program: inspect, prepare, runtime.

The program calls the same modules as this project's main program, in the same order, but has no
cluster. The variable GPU_CLUSTER_INSPECTION restricts the inspection to hosts.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pulumi
import pulumi_command

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.hosts.command import HostsArgs
from gpu_cluster.hosts.component import ContainerRuntime, HostPreparation
from gpu_cluster.hosts.copies import Copies
from gpu_cluster.inspection.gate import show_hosts, tell
from gpu_cluster.inspection.observe import inspect
from gpu_cluster.loading.loader import load
from gpu_cluster.ssh.keys import shortest
from gpu_cluster.workarounds import await_calls_in_turn

document = pulumi.Config("gpu-cluster").require_object("cluster")
cluster = load(document)
key = shortest(Path(os.environ["GPU_CLUSTER_SSH_PRIVATE_KEY_FILE"]).read_text())
desired = resolve(cluster, pulumi.get_stack())
inspection, change = inspect("hosts", desired, key)
show_hosts(desired.hosts, inspection, {})
tell(change, desired.stack, "")
hosts_differ = inspection.difference.hosts
provider = pulumi_command.Provider("command")
secret = pulumi.Output.secret(key)
options = pulumi.ResourceOptions(providers=[provider])
copies = Copies("steps", secret, hosts_differ.unreached)
hosts = HostsArgs(hosts=desired.hosts, private_key=secret, copies=copies)
prepared = HostPreparation("hosts", replace(hosts, findings=hosts_differ.prepare), options)
ContainerRuntime(
    "runtime",
    replace(hosts, findings=hosts_differ.runtime, after=prepared.commands),
    options,
)
await_calls_in_turn()
