"""The preflight as a table in the terminal: one row per host, all facts side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from components.desired.host import Target
from components.host_facts import HostFacts
from components.hosts.observed import hardware

HEAD = (
    "host", "role", "system", "kernel", "headers", "GPUs", "driver", "modules", "secure boot",
    "runtime", "toolkit", "cgroup", "swap", "free", "packages", "reboot", "clock",
    "PCIe", "ECC", "RDMA", "IOMMU",
)  # fmt: skip

#: Seconds by which clocks that are in step may seem to differ on a busy machine.
IN_STEP = 10.0


def cells(host: Target, facts: HostFacts) -> tuple[str, ...]:
    """One host's row; a host that did not answer has its error in place of facts."""
    if facts.error:
        return (host.name, host.role.value, facts.error, *[""] * (len(HEAD) - 3))
    engines = {"containerd": facts.containerd, "docker": facts.docker, "cri-o": facts.crio}
    switches = f" +{facts.nvswitches} NVSwitch" if facts.nvswitches else ""
    return (
        host.name,
        host.role.value,
        f"{facts.os} {facts.os_version} {facts.arch}",
        facts.kernel,
        _yes(facts.headers),
        f"{facts.nvidia_devices}{switches}",
        facts.driver or "none",
        ", ".join(facts.loaded) or "-",
        "unknown" if facts.secure_boot is None else _yes(facts.secure_boot, "on", "off"),
        ", ".join(f"{name} {version}" for name, version in engines.items() if version) or "none",
        facts.toolkit or "none",
        f"v{facts.cgroup}",
        _yes(bool(facts.swap), "on", "off"),
        f"{facts.disk_free_mib // 1024} GiB",
        "locked" if facts.package_lock else "idle",
        "; ".join(facts.reboot) or _yes(facts.reboot_required, "pending", "-"),
        "?" if facts.skew is None else _clock(facts.skew),
        *hardware.cells(facts),
    )


def _clock(skew: float) -> str:
    """Below a second or two nobody knows: the answer took as long."""
    return "in step" if abs(skew) < IN_STEP else f"{skew:+.0f} s"


def _yes(truth: bool, yes: str = "yes", no: str = "no") -> str:
    return yes if truth else no


def table(
    hosts: Sequence[Target],
    facts: Mapping[str, HostFacts],
    origins: Mapping[str, Mapping[str, str]],
) -> str:
    """The table as text; below it each value that a pool or a host overrides, and which of them.

    A column in which all hosts are alike is shown once, above the table, so that it stays readable
    with many hosts; ``(simulated)`` marks hosts that say so of themselves.
    """
    seen = [host for host in hosts if host.name in facts]
    rows = [cells(host, facts[host.name]) for host in seen]
    if not rows:
        return ""
    answered = [row for host, row in zip(seen, rows, strict=True) if not facts[host.name].error]
    alike = {
        column
        for column in range(1, len(HEAD))
        if len(answered) > 1 and len({row[column] for row in answered}) == 1
    }
    lines = []
    if alike:
        same = (f"{HEAD[column]} {answered[0][column]}" for column in sorted(alike))
        lines.append(f"all {len(answered)} hosts that answer: {'; '.join(same)}")
    shown = [column for column in range(len(HEAD)) if column not in alike]
    bad = any(facts[host.name].error for host in seen)
    if bad and 2 not in shown:
        shown = sorted([*shown, 2])  # where errors stand
    grid = [[HEAD[column] for column in shown], *([row[c] for c in shown] for row in rows)]
    widths = [max(len(line[n]) for line in grid) for n in range(len(shown))]
    if len(shown) > 1:
        lines += [
            "  ".join(f"{text:{w}}" for text, w in zip(line, widths, strict=True)).rstrip()
            for line in grid
        ]
    simulated = sum(facts[host.name].simulated for host in seen)
    if simulated:
        lines.append(f"{simulated} of these hosts are simulated")
    for host in seen:
        lines += [
            f"{host.name}: {text} (of {where})"
            for text, where in origins.get(host.name, {}).items()
        ]
    return "\n".join(lines)
