"""The files of the steps, copied to a host just before a command there that reads them.

A hook, not a resource: a script runs nothing that its declaration doesn't name by its sum, so what
lies on a host needs no record, and the state holds a host's declarations only. What was applied
stays there, so that a delete, before which no hook runs, needs no copy.

Each copy logs in anew, in the hook's event loop: a connection of the inspection belongs to another.
The same hook refuses the change of a host that the inspection did not reach, in previews too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import pulumi

from components.desired.host import DesiredHost
from components.hooks import before_changes
from components.hosts.script import Bundle
from components.ssh.upload import UploadLimits, upload
from policies.faults import Fault, FaultError

AT_ONCE = 64
"""Hosts that are copied to together."""


class Copies:
    """What hosts get in one run, each file once."""

    def __init__(
        self,
        name: str,
        private_key: pulumi.Input[str],
        unreached: Mapping[str, str] | None = None,
    ) -> None:
        """Registers the hook.

        Args:
            name: of the hook.
            private_key: an SSH private key, a secret.
            unreached: by host, why the inspection did not reach it.
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
        """The hook, for a resource whose commands read the files of these hosts.

        Args:
            resource: the resource's name.
            hosts: the hosts' names.
        """
        self._read_by[resource] = tuple(hosts)
        return self._binding

    def want(self, host: DesiredHost, bundles: Iterable[Bundle]) -> None:
        """Has a host get what a declaration of it names, with the rest that it gets."""
        self._hosts[host.name] = host
        wanted = self._wanted.setdefault(host.name, {})
        wanted.update({bundle.file: bundle.text for bundle in bundles})

    async def _before(self, args: pulumi.ResourceHookArgs) -> None:
        if faults := [
            self._refused(host) for host in self._read_by[args.name] if host in self._unreached
        ]:
            raise pulumi.RunError(str(FaultError(*faults)))
        if pulumi.runtime.is_dry_run():
            return
        # What is made anew was undone in between, and the files with it (`drop_steps`, base.sh).
        new = args.old_inputs is None
        await asyncio.gather(*(self._copy(name, new=new) for name in self._read_by[args.name]))

    def _refused(self, name: str) -> Fault:
        return Fault(
            f"host {name}",
            self._unreached[name],
            "a host that answers, as this run changes it",
            "bring it up or correct its address, or declare it in `maintenance`",
        )

    async def _copy(self, name: str, *, new: bool) -> None:
        # As it is now: the program may go on declaring while a copy is on its way.
        wanted = dict(self._wanted.get(name, {}))
        if wanted.keys() <= (self._sent_to_new if new else self._sent).get(name, set()):
            return
        key = str(await pulumi.Output.from_input(self._key).future())
        host = self._hosts[name]
        limits = UploadLimits(
            dials=host.ssh.dial_error_limit,
            dial=host.ssh.per_dial_timeout_seconds,
            copying=host.ssh.command_timeout_seconds,
        )
        fault = await upload(host, key, wanted, limits, self._gate)
        if fault is not None:
            raise pulumi.RunError(str(fault))
        self._sent[name] = set(wanted)
        if new:
            self._sent_to_new[name] = set(wanted)
