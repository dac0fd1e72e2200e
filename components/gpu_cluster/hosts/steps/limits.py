"""Step that sets limits of logins, and the memory locking limit of the container engine."""

from __future__ import annotations

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts.step import UNITS, Given, Step, text_of
from gpu_cluster.settings.hosts.system import LimitItem


def _limits_inputs(host: DesiredHost) -> Given | None:
    """Return the lines for the host's file in limits.d; root needs lines besides those for `*`."""
    limits = host.sections.system.limits
    if not limits:
        return None
    lines = [
        f"{who} {kind} {item} {'unlimited' if value < 0 else value}"
        for item, value in limits.items()
        for who in ("*", "root")
        for kind in ("soft", "hard")
    ]
    settings = {"GC_LIMITS_TEXT": text_of(*lines)}
    memlock = limits.get(LimitItem.MEMLOCK)
    if memlock is not None:
        locked = "infinity" if memlock < 0 else f"{memlock}K"
        settings |= {
            "GC_LIMITS_UNITS": " ".join(UNITS[host.sections.runtime.engine]),
            "GC_LIMITS_UNIT_TEXT": text_of("[Service]", f"LimitMEMLOCK={locked}"),
        }
    return Given(settings=settings)


STEP = Step(
    does="sets limits of logins and of locked memory",
    given=_limits_inputs,
    after="sysctl",
    writes=("/etc/security/limits.d/99-gpu-cluster.conf",),
)
