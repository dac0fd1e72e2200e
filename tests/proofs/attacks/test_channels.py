"""Each kind of host output is read by a parser (a channel), and the fuzzer tests every channel."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

import gpu_cluster
from gpu_cluster.ssh.answers import CHANNELS, Channel, Unreadable, exactly, last_lines
from tests.proofs.attacks.targets import HOSTS, TARGETS

ROOT = Path(__file__).parents[3]
READER = "components/gpu_cluster/ssh/client.py"
"""The only module that may open connections to hosts and read from them."""
CONNECTION = {
    name
    for name in dir(asyncssh.SSHClientConnection)
    if not name.startswith("_") and callable(getattr(asyncssh.SSHClientConnection, name))
}
ENDS = {"abort", "close", "wait_closed", "disconnect"}
"""Methods of an SSH connection that return no data of the host."""
TRIES = {"start_sftp_client", "open_connection", "forward_remote_port"}
"""Methods that test whether a key has too many rights; the text of the response isn't used."""
HARMLESS = {
    *("Error", "PermissionDenied", "HostKeyNotVerifiable", "KeyImportError", "ChannelOpenError"),
    *("ChannelListenError", "SSHKey", "SSHClientConnection", "import_private_key"),
    *("generate_private_key", "read_private_key", "import_public_key"),
    *("SSHClientConnectionOptions", "read_known_hosts", "match_known_hosts"),
    *("OPEN_CONNECT_FAILED", "ConnectionLost"),
}
"""Names in asyncssh that open no connection."""
SCAN = ("components/gpu_cluster/ssh/host_keys.py", "get_server_host_key")
"""The module that scans host keys, and the function by which it does.

The function ends the connection after the key exchange, before a login. `check_host_key` then
accepts only keys of known types and sizes.
"""
# Modules that read the output of programs without a channel, and the programs whose output they
# read.
OUTPUTS = {
    "components/gpu_cluster/hosts/command.py": "a host's, by a channel",
    "components/gpu_cluster/ssh/client.py": "a host's, by a channel",
    "components/gpu_cluster/hosts/kubeadm/component.py": "of our program: the context was written",
    "components/gpu_cluster/hosts/reboot/component.py": "of a program of ours",
    "components/gpu_cluster/rollout/component.py": "of a program of ours",
    "components/gpu_cluster/validation/component.py": "of a program of ours",
    "components/gpu_cluster/program.py": "its own",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for folder in ("components", "policies"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def calls(tree: ast.Module) -> Iterator[ast.Attribute]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func


@pytest.mark.promise(
    "Everything that a host prints and the program reads goes through a channel with a bound and a "
    "strict form, and the fuzzer attacks each channel."
)
def test_the_fuzzer_knows_each_channel() -> None:
    for module in pkgutil.walk_packages(gpu_cluster.__path__, "gpu_cluster."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    assert set(CHANNELS) == set(HOSTS)
    assert {f"host-{name}" for name in CHANNELS} < set(TARGETS)
    for name in CHANNELS:
        assert (ROOT / f"tests/proofs/attacks/corpus/host-{name}.json").exists()


def test_one_module_alone_reads_from_a_connection_to_a_host() -> None:
    for path, tree in modules():
        if path == READER:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "asyncssh":
                allowed = node.attr in HARMLESS or (path, node.attr) == SCAN
                assert allowed, f"{path}: asyncssh.{node.attr}"
            if isinstance(node, ast.ImportFrom):
                assert node.module != "asyncssh", path
        if "asyncssh" not in ast.unparse(tree):
            continue
        for call in calls(tree):
            if call.attr in CONNECTION and ast.unparse(call.value) in {
                "connection",
                "self.connection",
            }:
                ending = ENDS | (
                    TRIES if path == "components/gpu_cluster/commands/probe_key.py" else set()
                )
                assert call.attr in ending, f"{path}: {ast.unparse(call)}"


def test_output_of_commands_is_read_where_it_is_known_whose_it_is() -> None:
    readers = {
        path
        for path, tree in modules()
        if path.startswith("components/") and "/commands/" not in path
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr")
        if ast.unparse(node) not in ("sys.stderr", "asyncio.subprocess.PIPE")
    }
    assert readers == set(OUTPUTS)
    source = (ROOT / "components/gpu_cluster/hosts/kubeadm/component.py").read_text()
    assert source.count(".stdout") == 1
    assert "access[first.name].stdout" not in source


def test_an_answer_beyond_its_bound_and_another_form_are_refused() -> None:
    made = Channel("of-this-test", 10, exactly("it", "[a-z]+", "letters"))
    try:
        assert made.read("abc\n") == made.read("abc") == "abc"
        for text in ("a" * 11, "ABC", "abc\n\n", "", "\n"):
            with pytest.raises(Unreadable):
                made.read(text)
        with pytest.raises(ValueError, match="there are two"):
            Channel("of-this-test", 10, str)
    finally:
        del CHANNELS["of-this-test"]


def test_of_errors_the_last_lines_are_kept_fit_to_be_shown() -> None:
    assert last_lines("\n" + "x\n" * 20 + "\x1b[2J\n\n") == ["x"] * 7 + ["\\x1b[2J"]
    assert last_lines("") == []
