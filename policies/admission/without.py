"""The rules that have no twin, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policies.admission.twin import NoTwin

_ENFORCED = NoTwin(
    "The API server itself refuses it, in pods and in templates, before any policy is asked.",
    enforced=True,
)
_STACK = NoTwin(
    "It compares several objects; a policy sees the object alone that is created or changed."
)
_NODE = NoTwin(
    "A node joins before anybody can label and taint it: a refusal would keep it out of the "
    "cluster for good."
)
_VALUES = NoTwin(
    "It judges the values of a Helm release; the API server sees the objects made from them."
)
_COMMAND = NoTwin("It judges commands on hosts, of which the API server knows nothing.")

WITHOUT: Final[Mapping[str, NoTwin]] = {
    **dict.fromkeys(
        ("GPU001", "GPU002", "GPU003", "GPU008", "GPU009", "GPU010", "GPU011", "GPU027"), _ENFORCED
    ),
    "GPU014": NoTwin(
        "It finds names that resemble a known one, which takes a measure of likeness; CEL has none."
    ),
    **dict.fromkeys(("GPU029", "GPU040", "GPU041", "GPU047"), _STACK),
    **dict.fromkeys(("GPU030", "GPU031"), _NODE),
    **dict.fromkeys(("GPU038", "GPU052", "GPU053", "GPU054", "GPU055"), _VALUES),
    "GPU042": NoTwin("It reads a YAML file inside a ConfigMap; CEL reads no YAML."),
    **dict.fromkeys(("GPU056", "GPU057", "GPU058", "GPU059"), _COMMAND),
}
