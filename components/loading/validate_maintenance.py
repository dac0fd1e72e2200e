"""What is out for repair must be something that the stack knows."""

from __future__ import annotations

from collections.abc import Iterator

from components.settings.nodes.node_range import expand
from components.settings.valid_sections import ValidSections
from policies.faults import Fault, fault, show


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Names that are neither a host's nor a node's.

    A pool by selector may have nodes of any name, and one in maintenance may be missing in the
    cluster, so with such a pool no name is wrong.
    """
    if not sections.complete or any(pool.selector is not None for pool in sections.pools.values()):
        return
    known = {name for pool in sections.pools.values() for name in pool.node_names}
    known |= {name for host in sections.hosts.values() for name in (host.name, host.node)}
    for i, pattern in enumerate(sections.maintenance):
        strange = [name for name in expand(pattern) if name not in known]
        if strange:
            more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
            yield fault(
                ("maintenance", i),
                f"{show(strange[0])}{more}",
                "names of hosts, or of nodes that a pool names",
                "correct the name, or take it out",
            )
