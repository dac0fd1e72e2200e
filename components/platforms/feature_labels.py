"""Feature labels of nodes (`feature.node.kubernetes.io/…`) that a stack file declares."""

from __future__ import annotations

from collections.abc import Iterator

from components.base.names import NFD_PREFIX
from components.settings.nodes.scheduling import SchedulingSettings
from components.settings.valid_sections import ValidSections
from policies.faults import Fault, Location, fault


def written_twice(sections: ValidSections, cure: str) -> Iterator[Fault]:
    """Yield faults for declared labels that Node Feature Discovery would overwrite.

    Args:
        sections: Sections of the stack file.
        cure: How to turn Node Feature Discovery off.
    """
    places: list[Location] = [
        ("pools", i, "labels", key) for i, pool in sections.pools.items() for key in pool.labels
    ]
    scheduling = sections.sections.get("scheduling")
    if isinstance(scheduling, SchedulingSettings):
        nodes = scheduling.nodes.items()
        places += [("scheduling", "nodes", name, key) for name, one in nodes for key in one.labels]
    for place in places:
        if str(place[-1]).startswith(NFD_PREFIX):
            found = f"the label {place[-1]}, which Node Feature Discovery writes, too"
            yield fault(place, found, "one of them", f"remove it, or {cure}")
