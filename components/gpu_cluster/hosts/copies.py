"""Copies of the steps' script files on hosts, uploaded just before a command reads them.

The upload is a hook, not a resource. A script only runs files that its declaration names by
SHA-256, so the uploaded files need no record, and the state holds only the declarations. Applied
files stay on the host, so that a delete needs no upload (no hook runs before a delete).
Each upload opens a new SSH connection in the hook's event loop: a connection of the inspection
belongs to another event loop. The same hook rejects changes of a host that the inspection could not
reach, in previews too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import pulumi

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hooks import before_changes
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.script import Bundle
from gpu_cluster.ssh.upload import UploadLimits, upload
from gpu_rules.faults import Fault, FaultError

AT_ONCE = 64
"""Maximum number of hosts that receive files in parallel."""


def unreached_fault(name: str, facts: HostFacts) -> Fault:
    """Return the fault of a host that a run would change and that the inspection did not reach."""
    wanted = "a login that works, because this run changes it"
    cure = f"{facts.cure or 'bring it up'}; or declare it in `maintenance`"
    return Fault(f"host {name}", facts.error, wanted, cure)


class Copies:
    """The script files that hosts get in one run; each file is uploaded once per host."""

    def __init__(
        self,
        name: str,
        private_key: pulumi.Input[str],
        unreached: Mapping[str, HostFacts] | None = None,
    ) -> None:
        """Register the Pulumi hook that uploads the files.

        Args:
            name: Name of the hook.
            unreached: Facts of the hosts that the inspection could not reach, by host name.
        """
        self._key = private_key
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._unreached = unreached or {}
        self._hosts: dict[str, DesiredHost] = {}
        self._wanted: dict[str, dict[str, str]] = {}
        self._sent: dict[str, set[str]] = {}
        self._sent_to_new: dict[str, set[str]] = {}
        self._read_by: dict[str, tuple[str, ...]] = {}
        self._binding = before_changes(name, self._before)

    def before(self, resource: str, hosts: Iterable[str]) -> pulumi.ResourceHookBinding:
        """Return the upload hook of a resource whose commands read script files on the given hosts.

        Args:
            resource: Name of the resource.
            hosts: Names of the hosts.
        """
        self._read_by[resource] = tuple(hosts)
        return self._binding

    def want(self, host: DesiredHost, bundles: Iterable[Bundle]) -> None:
        """Add the script files that a declaration names to the files to upload to a host."""
        self._hosts[host.name] = host
        host_files = self._wanted.setdefault(host.name, {})
        host_files.update({bundle.file: bundle.text for bundle in bundles})

    async def _before(self, args: pulumi.ResourceHookArgs) -> None:
        if faults := [
            unreached_fault(host, self._unreached[host])
            for host in self._read_by[args.name]
            if host in self._unreached
        ]:
            raise pulumi.RunError(str(FaultError(*faults)))
        if pulumi.runtime.is_dry_run():
            return
        # On replacement the delete step has already removed the uploaded files (`drop_steps` in
        # base.sh).
        new = args.old_inputs is None
        await asyncio.gather(*(self._copy(name, new=new) for name in self._read_by[args.name]))

    async def _copy(self, name: str, *, new: bool) -> None:
        # Copy the set of files: the program may register more files while this upload runs.
        host_files = dict(self._wanted.get(name, {}))
        if host_files.keys() <= (self._sent_to_new if new else self._sent).get(name, set()):
            return
        key = str(await pulumi.Output.from_input(self._key).future())
        host = self._hosts[name]
        limits = UploadLimits(
            dials=host.ssh.dial_error_limit,
            copying=host.ssh.command_timeout_seconds,
        )
        fault = await upload(host, key, host_files, limits, self._gate)
        if fault is not None:
            raise pulumi.RunError(str(fault))
        self._sent[name] = set(host_files)
        if new:
            self._sent_to_new[name] = set(host_files)
