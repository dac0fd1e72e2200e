"""What is out for repair must be something that the stack knows."""

from __future__ import annotations

from collections.abc import Iterator

from components.settings.nodes.node_range import expand
from components.settings.parts import Parts
from policies.faults import Fault, fault, show


def problems(parts: Parts) -> Iterator[Fault]:
    """Names that are neither a host's nor a node's.

    A pool by selector may have nodes of any name, and one in maintenance may be missing in the
    cluster, so with such a pool no name is wrong.
    """
    if not parts.complete or any(pool.selector is not None for pool in parts.pools.values()):
        return
    known = {name for pool in parts.pools.values() for name in pool.node_names}
    known |= {name for host in parts.hosts.values() for name in (host.name, host.node)}
    for i, pattern in enumerate(parts.maintenance):
        strange = [name for name in expand(pattern) if name not in known]
        if strange:
            more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
            yield fault(
                ("maintenance", i),
                f"{show(strange[0])}{more}",
                "names of hosts, or of nodes that a pool names",
                "correct the name, or take it out",
            )
