"""What a host needs to join the control plane: lent just before its Command, taken back after it.

A token and a certificate key are created on a control-plane host, and pass over SSH, on standard
input, to the memory of the host that joins. They are in no resource, so that neither the Pulumi
state nor a log ever has them.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import TypeVar

import pulumi

from gpu_cluster import hooks
from gpu_cluster.desired.host import DesiredHost, working
from gpu_cluster.desired.kubeadm_cluster import DesiredKubeadmCluster
from gpu_cluster.hosts.kubeadm.access import FIRST_LINE
from gpu_cluster.hosts.kubeadm.configuration import member_configuration
from gpu_cluster.hosts.kubeadm.scripts import lend_script
from gpu_cluster.ssh.answers import NOTHING, SHORT, Channel, Unreadable, exactly
from gpu_cluster.ssh.client import reached, run, shell
from gpu_cluster.ssh.login import LoginFailed

T = TypeVar("T")
LIMIT = 480
"""Seconds for kubeadm, kubectl and etcdctl on the lending host, whose own limits end before."""
SHORT_LIMIT = 30
"""Seconds for a script that reads or writes a file."""
STATE = "/var/lib/gpu-cluster/cluster"
"""Folder in which a host records its membership (`steps/library/member.sh`)."""
ASK = f"""state=${{GPU_CLUSTER_ROOT-}}{STATE}
node=${{GPU_CLUSTER_ROOT-}}/etc/kubernetes/kubelet.conf
if [ -f "$state/complete" ]; then echo member
elif [ -f "$state/begun" ] || [ ! -e "$node" ]; then echo none
else echo other; fi
"""
"""Script that prints `member`, `none`, or `other`: a node that this script did not join."""
RETURN = """rm -rf -- "${GPU_CLUSTER_ROOT-}/run/gpu-cluster-lent"
"""
TAKE = f"""{RETURN}umask 077 && mkdir "${{GPU_CLUSTER_ROOT-}}/run/gpu-cluster-lent" &&
    cat >"${{GPU_CLUSTER_ROOT-}}/run/gpu-cluster-lent/join.yaml" <<'=== end'
"""


@dataclass(frozen=True)
class Lent:
    """Token, hashes of the cluster's authority, and the certificate key."""

    token: str = field(repr=False)
    hashes: tuple[str, ...]
    key: str = field(repr=False)


_KEY = re.compile(r"[0-9a-f]{64}\n")


def _read_lent(text: str) -> Lent | None:
    """Return what the lending host printed; None if it printed nothing."""
    if not text:
        return None
    line, _, key = text.partition("\n")
    first = FIRST_LINE.fullmatch(line)
    if first is None or not _KEY.fullmatch(key):
        raise Unreadable("lent: found another text (not repeated here); wanted: a token and a key")
    return Lent(first[1], tuple(first[2].split()), key.rstrip())


LENT = Channel("lent", SHORT, _read_lent)
MEMBERSHIP = Channel(
    "membership", SHORT, exactly("membership", "member|none|other", "member, none or other")
)


class Lending:
    """Hooks of the Commands with which hosts join the control plane."""

    def __init__(
        self, name: str, cluster: DesiredKubeadmCluster, private_key: pulumi.Input[str]
    ) -> None:
        """Create the hooks for a cluster.

        Args:
            name: Prefix of the hooks' names.
            cluster: The cluster whose control plane hosts join.
            private_key: SSH private key.
        """
        self._name, self._key = name, private_key
        self._members = (cluster.first, *cluster.members)
        self._init = cluster.init
        self._lenders: dict[str, DesiredHost] = {}

    def around(self, host: DesiredHost) -> pulumi.ResourceHookBinding:
        """Return the hooks of the Command of a host that joins the control plane."""
        return hooks.around(
            f"{self._name}-lend-{host.name}",
            functools.partial(self._lend, host),
            functools.partial(self._take_back, host),
            functools.partial(self._take_back, host),
        )

    async def _lend(self, host: DesiredHost) -> None:
        # The host's own script refuses a host that is something else.
        if await self._ask(host, ASK, MEMBERSHIP) != "none":
            return
        lent = await self._lent(host)
        if lent is None:
            return
        version = host.sections.kubernetes_packages.version or ""
        document = member_configuration(
            version, self._init, host, lent.token, lent.hashes, lent.key
        )
        await self._ask(host, f"{TAKE}{document}=== end\n", NOTHING)

    async def _lent(self, host: DesiredHost) -> Lent | None:
        """Return what the first control-plane host that answers lends to a joining host.

        The result is None for the first host of a new cluster: all others answer that they are no
        members.

        Raises:
            RunError: No host lends anything, and perhaps one of them is a member.
        """
        failures = []
        nodes = [member.node for member in self._members]
        for member in working(self._members):
            try:
                if member == host or await self._ask(member, ASK, MEMBERSHIP) != "member":
                    continue
                script = lend_script(member, host.node, nodes)
                lent = await self._ask(member, script, LENT, LIMIT)
            except pulumi.RunError as error:
                failures.append(str(error))
                continue
            if lent is not None:
                self._lenders[host.name] = member
                return lent
        if host == self._members[0] and not failures:
            return None
        nothing = f"host {host.name}: found no control-plane host that lets it join"
        raise pulumi.RunError("\n".join([*failures, nothing]))

    async def _take_back(self, host: DesiredHost) -> None:
        """Delete token, certificates and configuration of a join, whether it failed or not."""
        lender = self._lenders.pop(host.name, None)
        if lender is None:
            return
        try:
            await self._ask(host, RETURN, NOTHING)
            await self._ask(lender, lend_script(lender, "", ()), LENT, LIMIT)
        except pulumi.RunError as error:
            pulumi.log.warn(
                f"{error}; what {host.name} joined with is not deleted: its token ends within "
                "15 minutes, and the Secret kubeadm-certs within 2 hours"
            )

    async def _ask(
        self, host: DesiredHost, script: str, channel: Channel[[], T], limit: int = SHORT_LIMIT
    ) -> T:
        """Run a script on a host and return its output.

        Raises:
            RunError: The login failed, the script failed, or its output can't be read.
        """
        key = str(await pulumi.Output.from_input(self._key).future())
        place = f"host {host.name}"
        try:
            async with reached(host, key) as connection:
                answer = await run(connection, shell(host, limit), script, channel, limit)
            if answer.status == 0:
                return answer.read()
        except LoginFailed as error:
            raise pulumi.RunError(str(error.failure.fault(place))) from None
        except Unreadable as error:
            text = f"{place}: {error}; nothing of it was used; cure: run `gpu-cluster up` again"
            raise pulumi.RunError(text) from None
        found = " / ".join(answer.errors) or f"status {answer.status}"
        raise pulumi.RunError(f"{place}: {found}")
