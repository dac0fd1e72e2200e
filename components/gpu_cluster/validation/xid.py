"""XID lines of hosts: errors of a GPU that NVIDIA's driver writes to the kernel log.

The lines are read over SSH from declared hosts, a few lines per host, while a validation waits and
when it fails. A kernel log that can't be read does not fail the validation.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpu_cluster.desired.host import Target
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.ssh.answers import SHORT, Channel, Unreadable
from gpu_cluster.ssh.client import printed
from gpu_cluster.ssh.login import LoginFailed
from gpu_rules.printable import printable

# Format of an XID line: "NVRM: Xid (PCI:0000:3b:00): 79, …" (NVIDIA, "XID Errors";
# open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/os.c).
MARK = "NVRM: Xid"
LINES = 3
SCRIPT = f"dmesg 2>/dev/null | grep -a '{MARK}' | tail -n {LINES}\n"
SHOWN = 160
"""Maximum number of characters that are kept of an XID line."""
LIMIT = 10.0
"""Maximum number of seconds to read the log of one host."""


def _parse_xid_lines(text: str) -> list[str]:
    """Parse output of `SCRIPT`: return the XID lines, made safe to display.

    Raises:
        Unreadable: The output contains other lines, or too many.
    """
    log_lines = text.splitlines()
    if len(log_lines) > LINES or not all(MARK in line for line in log_lines):
        raise Unreadable(f"xid: found other lines; wanted: at most {LINES} with {MARK!r}")
    return [printable(line.strip(), SHOWN) for line in log_lines]


XID = Channel("xid", LINES * SHORT, _parse_xid_lines)


async def lines(hosts: Mapping[str, Target], key: str, nodes: list[str]) -> dict[str, str]:
    """Return the XID lines of the nodes' hosts, by node; nodes without a line are left out.

    Args:
        hosts: SSH targets by node name.
        key: SSH private key of the hosts. Empty: no host is read.
        nodes: Names of the nodes.
    """
    readable = [name for name in nodes if name in hosts] if key else []
    texts = await gather(lambda name: _of_host(hosts[name], key), readable)
    return {name: text for name, text in zip(readable, texts, strict=True) if text}


async def _of_host(host: Target, key: str) -> str:
    try:
        xid_lines = await printed(host, key, SCRIPT, LIMIT, XID)
    except (LoginFailed, Unreadable) as error:
        reason = printable(str(error), SHOWN)
        return f"host {host.name}: its kernel's log can't be read: {reason}"
    return f"host {host.name}: {' / '.join(xid_lines)}" if xid_lines else ""
