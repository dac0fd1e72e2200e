"""Summary line of `make test-ha`: what was done to three control planes of real components.

Kinds of the marker `ha`: `DONE` and `SAID`; `kill`: a kubeadm that was killed, which the next run
healed; `writes` and `pause`: confirmed writes of a client, and the longest time in seconds between
two of them, while control planes were killed or changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.proofs.count import Count, Results, has_passed, of_all

DONE = ("made", "upgraded", "renewed", "replaced", "restored", "resized")
"""Kinds of what was done to the control planes, in the words of the line."""
SAID = {
    "second": "second run 0 changes",
    "refused": "no upgrade with a member down",
    "address": "an address by kube-vip",
    "cut": "its holder cut off",
    "full": "a full disk",
    "destroyed": "hosts as before",
}
"""Words of the line by kind."""


def line(seen: Mapping[str, Results]) -> str:
    """Return the summary line without its first word; it has only what was done."""

    def passed(kind: str) -> bool:
        return kind in seen and all(map(has_passed, seen[kind].values()))

    done = [kind for kind in DONE if passed(kind)]
    words = f"{', '.join(done[:-1])} and {done[-1]}" if done[1:] else "".join(done)
    parts = [
        f"3 control planes {words or 'not made'}",
        *([f"{of_all(seen['kill'])} kills healed"] if "kill" in seen and passed("made") else []),
        *(text for kind, text in SAID.items() if passed(kind)),
    ]
    if passed("writes"):
        confirmed = sum(map(int, (name.partition(" ")[0] for name in seen["writes"])))
        longest = max(map(float, seen["pause"]))
        parts.append(f"0 of {confirmed} confirmed writes lost, longest pause {longest:.1f} s")
    return ", ".join(parts)


def counting() -> Count:
    """Return the plugin that counts what was done to three control planes."""
    return Count("ha", line)
