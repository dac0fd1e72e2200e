"""Pulumi program with the commands of the host preparation, all empty: the engine's own cost."""

from __future__ import annotations

import pulumi
import pulumi_command as command

for host in pulumi.Config("gpu-cluster").require_object("cluster")["hosts"]:
    before: pulumi.Resource | None = None
    for phase in ("hosts", "runtime"):
        before = command.local.Command(
            f"{phase}-{host['name']}",
            create=":",
            update=":",
            delete=":",
            logging=command.local.Logging.NONE,
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions(depends_on=before),
        )
