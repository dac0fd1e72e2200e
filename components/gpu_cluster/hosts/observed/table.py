"""Table of the hosts' facts for the terminal: one row per host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_cluster.desired.host import Target
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.observed import hardware

HEAD = (
    "host", "role", "system", "kernel", "headers", "GPUs", "driver", "modules", "secure boot",
    "runtime", "toolkit", "cgroup", "swap", "free", "packages", "reboot", "clock",
    "PCIe", "ECC", "RDMA", "IOMMU",
)  # fmt: skip

# Largest skew in seconds that counts as no skew, because a busy machine measures inexactly.
IN_STEP = 10.0


def cells(host: Target, facts: HostFacts) -> tuple[str, ...]:
    """Return a host's row."""
    engines = {"containerd": facts.containerd, "docker": facts.docker, "cri-o": facts.crio}
    switches = f" +{facts.nvswitches} NVSwitch" if facts.nvswitches else ""
    return (
        host.name,
        host.role.value,
        f"{facts.os} {facts.os_version} {facts.arch}",
        facts.kernel,
        _yes_or_no(facts.headers),
        f"{facts.nvidia_devices}{switches}",
        facts.driver or "none",
        ", ".join(facts.loaded) or "-",
        "unknown" if facts.secure_boot is None else _yes_or_no(facts.secure_boot, "on", "off"),
        ", ".join(f"{name} {version}" for name, version in engines.items() if version) or "none",
        facts.toolkit or "none",
        f"v{facts.cgroup}",
        _yes_or_no(bool(facts.swap), "on", "off"),
        f"{facts.disk_free_mib // 1024} GiB",
        "locked" if facts.package_lock else "idle",
        "; ".join(facts.reboot) or _yes_or_no(facts.reboot_required, "pending", "-"),
        "?" if facts.skew is None else _clock_text(facts.skew),
        *hardware.cells(facts),
    )


def _clock_text(skew: float) -> str:
    """Return the clock's skew as text.

    A skew of a few seconds can't be measured, because the probe's output takes time to arrive.
    """
    return "in step" if abs(skew) < IN_STEP else f"{skew:+.0f} s"


def _yes_or_no(truth: bool, yes: str = "yes", no: str = "no") -> str:
    return yes if truth else no


def table(
    hosts: Sequence[Target],
    facts: Mapping[str, HostFacts],
    origins: Mapping[str, Mapping[str, str]],
) -> str:
    """Return the table as text, followed by the settings that a pool or a host overrides.

    A column in which all hosts are equal is printed once, above the table, so that the table stays
    readable with many hosts. Hosts that report to be simulated are counted below the table. Hosts
    that could not be inspected are left out: another line has the reason.
    """
    inspected = [host for host in hosts if host.name in facts and not facts[host.name].error]
    rows = [cells(host, facts[host.name]) for host in inspected]
    if not rows:
        return ""
    alike = {
        column
        for column in range(1, len(HEAD))
        if len(rows) > 1 and len({row[column] for row in rows}) == 1
    }
    lines = []
    if alike:
        same = (f"{HEAD[column]} {rows[0][column]}" for column in sorted(alike))
        lines.append(f"all {len(rows)} hosts that answer: {'; '.join(same)}")
    columns = [column for column in range(len(HEAD)) if column not in alike]
    grid = [[HEAD[column] for column in columns], *([row[c] for c in columns] for row in rows)]
    widths = [max(len(line[n]) for line in grid) for n in range(len(columns))]
    if len(columns) > 1:
        lines += [
            "  ".join(f"{text:{w}}" for text, w in zip(line, widths, strict=True)).rstrip()
            for line in grid
        ]
    simulated = sum(facts[host.name].simulated for host in inspected)
    if simulated:
        are = "is" if simulated == 1 else "are"
        lines.append(f"{simulated} of these hosts {are} simulated")
    for host in inspected:
        lines += [
            f"{host.name}: {text} (of {origin})"
            for text, origin in origins.get(host.name, {}).items()
        ]
    return "\n".join(lines)
