"""A declared firewall is done only if firewalld or ufw manages the host's rules."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpu_cluster.hosts.script import FOLDER
from tests.proofs.world.hosts import shell

DROPS = """\
table inet filter {
\tchain input {
\t\ttype filter hook input priority filter; policy drop;
\t\tct state established accept
\t\ttcp dport 22 accept
\t}
}
"""
REJECTS = """\
table ip filter {
\tchain INPUT {
\t\ttype filter hook input priority filter; policy accept;
\t\tct state related,established counter packets 9 bytes 540 accept
\t\tcounter packets 3 bytes 180 reject with icmp type host-prohibited
\t}
\tchain FORWARD {
\t\ttype filter hook forward priority filter; policy drop;
\t}
}
"""
OPEN = """\
table ip filter {
\tchain INPUT {
\t\ttype filter hook input priority filter; policy accept;
\t\tip saddr 203.0.113.9 drop
\t\tcounter packets 9 bytes 540 jump KUBE-FIREWALL
\t}
\tchain KUBE-FIREWALL {
\t\tip saddr != 127.0.0.0/8 ip daddr 127.0.0.0/8 counter packets 0 bytes 0 drop
\t}
\tchain FORWARD {
\t\ttype filter hook forward priority filter; policy drop;
\t}
}
"""
"""Rule sets in the format of `nft list ruleset` (nft(8))."""


def problems(root: Path, programs: dict[str, str], tables: str = "") -> str:
    """Return what the check of the step finds on a host with these programs."""
    folder = root / "usr/sbin"
    folder.mkdir(parents=True)
    for name, body in programs.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    if tables:
        (root / "proc/net").mkdir(parents=True)
        (root / "proc/net/ip_tables_names").write_text(tables)
    parts = ("library/base", "library/effects", "library/expectations", "firewall")
    text = "".join((FOLDER / f"{part}.sh").read_text() for part in parts)
    settings = "GC_PHASE=prepare\nGC_FIREWALL=rules\nGC_PORTS=10250/tcp\n"
    done = subprocess.run(
        ["sh", "-s"],
        input=f"{settings}{text}check_firewall\nprintf '%s' \"$problems\"\n",
        env={"GPU_CLUSTER_ROOT": str(root), "PATH": f"{folder}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.strip()


def printing(text: str) -> str:
    return f"cat <<'E'\n{text}E"


RUNS = "[ $1 != --state ] || echo running"
CASES = {
    "policy drop": ({"nft": printing(DROPS)}, "", "chain input of nftables (table inet filter)"),
    "a last reject": ({"nft": printing(REJECTS)}, "", "chain INPUT of nftables (table ip filter)"),
    "iptables": (
        {"iptables": printing("-P INPUT ACCEPT\n-A INPUT -j REJECT\n")},
        "filter\n",
        "chain INPUT of iptables",
    ),
    "nothing is closed": ({"nft": printing(OPEN)}, "", ""),
    "no table of iptables": ({"iptables": printing("-P INPUT DROP\n")}, "", ""),
    "firewalld": ({"nft": printing(DROPS), "firewall-cmd": RUNS}, "", ""),
    "ufw": ({"nft": printing(DROPS), "ufw": "echo Status: active"}, "", ""),
    "no program": ({}, "", ""),
}


@pytest.mark.promise(
    "`system.firewall` is refused if rules of neither firewalld nor ufw close the host's ports."
)
@pytest.mark.parametrize("name", CASES)
def test_a_firewall_that_nobody_manages_is_named(name: str, tmp_path: Path) -> None:
    programs, tables, named = CASES[name]
    text = problems(tmp_path, programs, tables)
    assert named in text
    assert bool(text) == bool(named)
    if named:
        assert "10250/tcp" in text
        assert "declare system.firewall: leave" in text


@pytest.mark.parametrize(("tool", "program"), [("firewalld", "firewall-cmd"), ("ufw", "ufw")])
def test_ports_of_a_firewall_that_is_gone_are_named(
    tmp_path: Path, tool: str, program: str
) -> None:
    lines = (
        f'echo "{tool} 10250/tcp" >"$state/ports"\nhave() {{ false; }}\n'
        'undo_firewall\ncat "$state/ports"\n'
    )
    done = shell.run(tmp_path, ("library/base", "firewall"), lines)
    assert (done.returncode, done.stderr) == (0, "")
    left = f"! {program} is gone, so 10250/tcp stays open in the files that {tool} left\n"
    assert done.stdout == left
