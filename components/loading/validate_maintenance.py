"""Check that hosts and nodes in maintenance are known to the stack."""

from __future__ import annotations

from collections.abc import Iterator

from components.settings.nodes.node_range import expand
from components.settings.valid_sections import ValidSections
from policies.faults import Fault, fault, show
from policies.printable import shortened


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for names that belong neither to a host nor to a node.

    A pool that selects its nodes by label may have nodes of any name, and a node in maintenance may
    be missing in the cluster. With such a pool every name is accepted.
    """
    if not sections.complete or any(pool.selector is not None for pool in sections.pools.values()):
        return
    known = {name for pool in sections.pools.values() for name in pool.node_names}
    known |= {name for host in sections.hosts.values() for name in (host.name, host.node)}
    for i, pattern in enumerate(sections.maintenance):
        strange = [name for name in expand(pattern) if name not in known]
        if strange:
            yield fault(
                ("maintenance", i),
                shortened([show(name) for name in strange], 1),
                "names of hosts, or of nodes that a pool names",
                "correct the name, or take it out",
            )
