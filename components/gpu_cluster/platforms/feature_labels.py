"""Feature labels of nodes (`feature.node.kubernetes.io/…`) that a stack file declares."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.base.names import NFD_PREFIX
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault, fault


def written_twice(sections: ValidSections, cure: str) -> Iterator[Fault]:
    """Yield faults for declared labels that Node Feature Discovery would overwrite.

    Args:
        sections: Sections of the stack file.
        cure: How to turn Node Feature Discovery off.
    """
    for labels in sections.labels():
        for key in labels.own:
            if key.startswith(NFD_PREFIX):
                found = f"the label {key}, which Node Feature Discovery writes as well"
                yield fault(
                    (*labels.location, key),
                    found,
                    "only one source of this label",
                    f"remove the label here, or {cure}",
                )
