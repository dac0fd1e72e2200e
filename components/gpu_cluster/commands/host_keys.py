"""Run `gpu-cluster host-keys`: scan host keys once, show them, and write the confirmed ones.

The stack file declares new hosts without `hostKey`. The first run reads the key that each of these
hosts presents, and prints its fingerprint with a code for the whole list. Somebody compares the
fingerprints with those that the hosts' consoles show. The second run, with this code, scans again
and writes the keys only if they are the same. Nobody logs in.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic_core import PydanticCustomError

from gpu_cluster.base.stack_option import stack_option
from gpu_cluster.base.yaml_file import node_of
from gpu_cluster.change.names import short
from gpu_cluster.commands.adoption.stack_text import settings_of
from gpu_cluster.commands.output import answering
from gpu_cluster.commands.stack import Stack
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.loading.loader import load
from gpu_cluster.loading.stack_file import KEY
from gpu_cluster.settings.hosts.host import Host
from gpu_cluster.settings.nodes.node_range import natural_order, written_out
from gpu_cluster.ssh.host_keys import fingerprint_of, presented
from gpu_cluster.ssh.login import PUBLIC_KEY, LoginFailed
from gpu_rules.faults import ConfigError, Fault, FaultError, InputError
from gpu_rules.printable import counted, printable

DIGITS = 16
"""Number of hexadecimal digits of the code that confirms a list of keys."""
NOT_SCANNED = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
"""Key in place of a missing one, so that the rest of the stack file can be checked."""


@dataclass(frozen=True)
class Scanned:
    """Result of the scan of one host.

    Attributes:
        key: Its public key, as a stack file declares it. Empty: the host was not scanned.
        shown: Type and fingerprint of the key.
        why: Why the host was not scanned. Empty: it was scanned.
    """

    host: Host
    key: str = ""
    shown: str = ""
    why: str = ""


def chosen(settings: Mapping[str, Any], names: frozenset[str]) -> tuple[tuple[Host, ...], int]:
    """Return the hosts whose keys are scanned, and the time limit of one login in seconds.

    The hosts are those without a host key, and the named ones.

    Args:
        settings: Content of `gpu-cluster:cluster`.
        names: Names of hosts whose keys are scanned though the stack file declares keys.

    Raises:
        ConfigError: The settings have other faults than missing host keys.
        FaultError: The stack file declares no hosts, or no host of this name.
    """
    filled: dict[str, Any] = copy.deepcopy(dict(settings))
    hosts = filled.get("hosts")
    items = [item for item in hosts if isinstance(item, dict)] if isinstance(hosts, list) else []
    new = {item.get("name") for item in items if "hostKey" not in item}
    for item in items:
        item.setdefault("hostKey", NOT_SCANNED)
    cluster = load(filled)
    host_names = {host.name for host in cluster.hosts}
    if strange := sorted(names - host_names, key=natural_order):
        strange_text = f"no host {', '.join(map(short, strange))}"
        raise FaultError(
            Fault("HOSTS", strange_text, "names of hosts in the stack file", "correct the names")
        )
    if not cluster.hosts:
        raise FaultError(
            Fault(
                "hosts",
                "no hosts in the stack file (a host in a comment doesn't count)",
                "hosts, whose keys this command reads",
                "declare the hosts, without hostKey; a stack without hosts needs no keys",
            )
        )
    hosts_to_scan = tuple(host for host in cluster.hosts if host.name in new | names)
    return hosts_to_scan, cluster.ssh.per_dial_timeout_seconds


async def scan(host: Host, seconds: float) -> Scanned:
    """Scan the host key of one host, without a login.

    Args:
        seconds: Time limit of one try.
    """
    if host.bastion is not None:
        reason = f"behind a bastion; read {PUBLIC_KEY} on the host, and declare it as hostKey"
        return Scanned(host, why=reason)
    try:
        key = await presented((host.address, host.port), seconds)
    except LoginFailed as error:
        return Scanned(host, why=f"{error.failure.at_stage}; {error.failure.cure}")
    return Scanned(host, key=key, shown=fingerprint_of(key))


async def scanned(hosts: tuple[Host, ...], seconds: float) -> list[Scanned]:
    """Scan hosts in parallel; return the results in the order of the stack file.

    Args:
        seconds: Time limit of one try.
    """
    return list(await gather(lambda host: scan(host, seconds), hosts))


def code_of(scanned_hosts: list[Scanned]) -> str:
    """Return the code that confirms exactly these keys of these hosts at these addresses."""
    lines = sorted(
        f"{scanned.host.name} {scanned.host.address} {scanned.key}"
        for scanned in scanned_hosts
        if scanned.key
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:DIGITS]


def with_host_keys(text: str, keys: Mapping[str, str]) -> str:
    """Return a stack file's text with the keys of hosts; everything else stays as it is.

    Args:
        text: The stack file.
        keys: Public keys by the name of the host.

    Raises:
        FaultError: The text can't be changed without changing something else.
    """
    places = sorted(set(_places(text, keys)), reverse=True)
    changed = text
    for start, end, new in places:
        changed = f"{changed[:start]}{new}{changed[end:]}"
    expected: dict[str, Any] = copy.deepcopy(dict(settings_of(text)))
    for host in expected.get("hosts", []):
        if host["name"] in keys:
            host["hostKey"] = keys[host["name"]]
    if settings_of(changed) != expected:
        fault_text = "hosts in a form to which no key can be added"
        wanted_text = "one mapping per host"
        raise FaultError(Fault("hosts", fault_text, wanted_text, "add the printed keys by hand"))
    return changed


def _places(text: str, keys: Mapping[str, str]) -> list[tuple[int, int, str]]:
    """Return the parts of a stack file's text to replace: start, end, and the new text."""
    node: yaml.Node | None = node_of(text)
    for name in ("config", KEY, "hosts"):
        node = _value(node, name)
    insertions = []
    for item in node.value if isinstance(node, yaml.SequenceNode) else ():
        name_node, key_node = _value(item, "name"), _value(item, "hostKey")
        if not isinstance(name_node, yaml.ScalarNode) or name_node.value not in keys:
            continue
        key = keys[name_node.value]
        if key_node is not None:
            insertions.append((key_node.start_mark.index, key_node.end_mark.index, key))
        elif item.flow_style:
            end = name_node.end_mark.index
            insertions.append((end, end, f", hostKey: {key}"))
        else:
            end, column = (
                text.find("\n", name_node.end_mark.index),
                item.value[0][0].start_mark.column,
            )
            end = len(text) if end < 0 else end
            insertions.append((end, end, f"\n{' ' * column}hostKey: {key}"))
    return insertions


def _value(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if key.value == name), None)


def line(scanned_host: Scanned) -> str:
    """Return a line with a host and its key's fingerprint, or why it was not scanned."""
    host = scanned_host.host
    place = f"{short(host.name)} ({printable(host.address)}:{host.port})"
    if not scanned_host.key:
        return f"{place}: not scanned: {printable(scanned_host.why)}"
    if host.host_key == NOT_SCANNED:
        return f"{place}: {scanned_host.shown}"
    if host.host_key == scanned_host.key:
        return f"{place}: {scanned_host.shown}, as declared"
    return f"{place}: {scanned_host.shown}, declared is {fingerprint_of(host.host_key)}"


def confirmation(stack: str, hosts: str, code: str) -> str:
    """Return the command that confirms the keys of a scan.

    Args:
        hosts: Names of the hosts in the scan; empty if the user named none.
        code: Code that confirms these keys.
    """
    again = f" --hosts {shlex.quote(hosts)}" if hosts else ""
    return f"gpu-cluster host-keys{stack_option(stack)}{again} --confirm {code}"


def main(*, hosts: str = "", confirm: str = "") -> None:
    """Show the keys of new hosts, and write them if the code is theirs; else exit with 1.

    Args:
        hosts: Names and ranges of hosts to scan again, separated by blanks.
        confirm: Code of the scan that somebody compared.
    """
    stack = Stack.named()
    with answering("host-keys") as json_output:
        try:
            text = stack.file.read_text(encoding="utf-8")
            names = frozenset(written_out(tuple(hosts.split())))
            scanned_hosts = asyncio.run(scanned(*chosen(settings_of(text), names)))
            if not scanned_hosts:
                print("host-keys: each host has its key; --hosts gpu-[1-2] scans these again")
                return
            print("\n".join(map(line, scanned_hosts)))
            keys = {
                scanned_host.host.name: scanned_host.key
                for scanned_host in scanned_hosts
                if scanned_host.key
            }
            code = code_of(scanned_hosts)
            json_output |= {"keys": keys, "code": code, "written": bool(keys) and confirm == code}
            if json_output["written"]:
                stack.file.write_text(with_host_keys(text, keys), encoding="utf-8")
                print(f"host-keys: {counted(len(keys), 'key')} written to {stack.file.name}")
            elif keys:
                print(
                    f"compare each with `ssh-keygen -lf {PUBLIC_KEY}` on the host's console, then: "
                    f"{confirmation(stack.name, hosts, code)}"
                )
        except (ConfigError, FaultError, InputError, PydanticCustomError) as error:
            sys.exit(f"host-keys: {error}")
        if confirm and confirm != code:
            sys.exit(
                "host-keys: --confirm is not the code of these keys: it was mistyped, or a key "
                "has changed since; compare"
            )
        if len(keys) != len(scanned_hosts):
            sys.exit(1)
