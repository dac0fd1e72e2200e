"""Scan of host keys: a server on loopback, and the text of stack files with the keys."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from gpu_cluster.base.host_key import check_host_key
from gpu_cluster.commands import host_keys
from gpu_cluster.commands.adoption.stack_text import settings_of
from gpu_cluster.commands.host_keys import (
    chosen,
    code_of,
    line,
    scanned,
    with_host_keys,
)
from gpu_cluster.commands.stack import Stack
from gpu_cluster.loading.loader import load
from gpu_rules.faults import ConfigError, FaultError

HEAD = """\
config:
  gpu-cluster:cluster:
    version: v1
    kubernetes: {context: gpu-cluster-dev}
    platform: device-plugin
    pools:
      - {name: a100, nodes: ["gpu-[1-2]"], gpusPerNode: 8}
"""
KEYS = {
    name: check_host_key(
        asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
    )
    for name in ("gpu-1", "gpu-2")
}
STYLES = {
    "blocks": """\
    hosts:
      - name: gpu-1 # rack 3
        address: 127.0.0.1
        # a comment
        port: {port}
      - address: 127.0.0.2
        port: {port}
        name: "gpu-2"
""",
    "flow": """\
    hosts:
      - {{name: gpu-1, address: 127.0.0.1, port: {port}}} # rack 3
      - {{address: 127.0.0.2, port: {port}, name: gpu-2}}
""",
    "a list of flow": "    hosts: [{{name: gpu-1, address: 127.0.0.1, port: {port}}}, "
    "{{address: 127.0.0.2, port: {port}, name: gpu-2}}]\n",
    "no end of line": """\
    hosts:
      - {{name: gpu-1, address: 127.0.0.1, port: {port}}}
      - address: 127.0.0.2
        port: {port}
        name: gpu-2""",
}


def text_of(style: str, port: int = 22) -> str:
    return HEAD + STYLES[style].format(port=port)


def test_a_stack_without_hosts_has_no_keys_to_scan() -> None:
    with pytest.raises(FaultError, match=r"found no hosts in the stack file \(a host in a comment"):
        chosen(settings_of(HEAD), frozenset())


def test_a_missing_key_names_the_command_that_scans_and_writes_it() -> None:
    with pytest.raises(ConfigError, match="cure: run `gpu-cluster host-keys`"):
        load(settings_of(text_of("flow")))


@pytest.mark.parametrize("style", STYLES)
def test_keys_are_added_and_nothing_else_changes(style: str) -> None:
    text = text_of(style)
    made = with_host_keys(text, KEYS)
    hosts = settings_of(made)["hosts"]
    assert {host["name"]: host.pop("hostKey") for host in hosts} == KEYS
    assert hosts == settings_of(text)["hosts"]
    assert made.count("#") == text.count("#")
    newer = dict(zip(KEYS, reversed(KEYS.values()), strict=True))
    assert with_host_keys(with_host_keys(made, newer), KEYS) == made


def test_a_file_that_names_a_host_by_a_merge_is_not_changed() -> None:
    text = HEAD + "    hosts: [{<<: {name: gpu-1}, address: 192.0.2.1}]\n"
    with pytest.raises(FaultError, match="add the printed keys by hand"):
        with_host_keys(text, {"gpu-1": KEYS["gpu-1"]})


def test_hosts_without_a_key_are_scanned_and_named_ones_again() -> None:
    text = with_host_keys(text_of("flow"), {"gpu-1": KEYS["gpu-1"]})
    assert [host.name for host in chosen(settings_of(text), frozenset())[0]] == ["gpu-2"]
    both, _ = chosen(settings_of(text), frozenset({"gpu-1"}))
    assert [host.name for host in both] == ["gpu-1", "gpu-2"]
    with pytest.raises(FaultError, match="no host gpu-9"):
        chosen(settings_of(text), frozenset({"gpu-9"}))
    with pytest.raises(ConfigError, match="platform"):
        chosen({**settings_of(text), "platform": "none-such"}, frozenset())


def run(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **more: str
) -> tuple[Any, str]:
    """Run `gpu-cluster host-keys` on a stack file; return the exit code and the output."""
    monkeypatch.setattr(Stack, "file", path)
    monkeypatch.delenv("JSON", raising=False)
    code: Any = 0
    try:
        host_keys.main(**more)
    except SystemExit as ended:
        code = ended.code
    return code, capsys.readouterr().out


@pytest.mark.promise(
    "`gpu-cluster host-keys` writes a host's key only after somebody confirmed exactly this key."
)
def test_a_key_is_written_only_with_the_code_of_exactly_this_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    path = tmp_path / "Pulumi.dev.yaml"

    def served(key: asyncssh.SSHKey, **more: str) -> tuple[Any, str]:
        """Run `gpu-cluster host-keys` while an SSH server with this host key replaces all hosts."""

        async def scan_of(hosts: tuple[Any, ...], seconds: float) -> list[host_keys.Scanned]:
            async with asyncssh.listen("127.0.0.1", 0, server_host_keys=[key]) as server:
                port = server.get_port()
                here = {"address": "127.0.0.1", "port": port}
                there = tuple(host.model_copy(update=here) for host in hosts)
                return await scanned(there, seconds)

        monkeypatch.setattr(host_keys, "scanned", scan_of)
        return run(path, monkeypatch, capsys, **more)

    path.write_text(text_of("blocks"))
    code, shown = served(first)
    assert code == 0
    assert shown.count(first.get_fingerprint()) == 2
    confirm = shown.rsplit("--confirm ", 1)[1].strip()
    assert path.read_text() == text_of("blocks")

    code, _ = served(second, confirm=confirm)
    assert "changed since" in str(code)
    assert path.read_text() == text_of("blocks")

    code, shown = served(first, confirm=confirm)
    assert code == 0
    assert "2 keys written" in shown
    keys = {host["hostKey"] for host in settings_of(path.read_text())["hosts"]}
    assert keys == {check_host_key(first.export_public_key().decode().strip())}

    code, shown = served(second, hosts="gpu-[1-1]")
    assert "gpu-cluster host-keys --hosts 'gpu-[1-1]' --confirm " in shown
    assert f"{second.get_fingerprint()}, declared is ssh-ed25519 {first.get_fingerprint()}" in shown


@pytest.mark.parametrize(
    ("stack", "hosts", "options"),
    [
        ("dev", "", ""),
        ("lab", "", " --stack lab"),
        ("lab", "gpu-1 gpu-2", " --stack lab --hosts 'gpu-1 gpu-2'"),
    ],
)
def test_the_command_that_confirms_repeats_the_options_of_the_scan(
    stack: str, hosts: str, options: str
) -> None:
    assert (
        host_keys.confirmation(stack, hosts, "0a") == f"gpu-cluster host-keys{options} --confirm 0a"
    )


@pytest.mark.parametrize(("ssh", "seconds"), [({}, 15), ({"perDialTimeoutSeconds": 40}, 40)])
def test_a_scan_takes_at_most_the_time_of_a_login(
    ssh: dict[str, int], seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []

    async def presented(place: tuple[str, int], limit: float) -> str:
        limits.append(limit)
        return KEYS["gpu-1"]

    monkeypatch.setattr(host_keys, "presented", presented)
    settings = {**settings_of(text_of("flow", 1)), "ssh": ssh}
    asyncio.run(scanned(*chosen(settings, frozenset())))
    assert limits
    assert {*limits} == {seconds}


def test_a_host_that_does_not_answer_and_one_behind_a_bastion_say_why() -> None:
    bastion = {"address": "192.0.2.9", "hostKey": KEYS["gpu-1"]}
    settings = {
        **settings_of(text_of("flow", 1)),
        "hosts": [
            {"name": "gpu-1", "address": "127.0.0.1", "port": 1},
            {"name": "gpu-2", "address": "192.0.2.2", "bastion": bastion},
        ],
    }
    found = asyncio.run(scanned(chosen(settings, frozenset())[0], 5))
    assert [each.key for each in found] == ["", ""]
    first, second = map(line, found)
    assert first.startswith(
        "gpu-1 (127.0.0.1:1): not scanned: stage connection: Connection refused; start the host or "
    )
    assert "behind a bastion" in second
    assert code_of(found) == code_of([])
