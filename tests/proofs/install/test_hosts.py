"""A site's host: its key is taken, its backups come back, and previews get a key of their own."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpu_cluster_lab.simulator import hosts as simulated_hosts
from gpu_cluster_lab.simulator.ports import free_ports
from tests.proofs.docs.pages import ROOT, blocks
from tests.proofs.install.site import PATH, Site, last, tools_path

pytestmark = pytest.mark.full

STACK = """\
config:
  pulumi:disable-default-providers: [kubernetes]
  gpu-cluster:cluster:
    version: v1
    kubernetes: {{context: gpu-cluster-hosted}}
    platform: device-plugin
    stateCopies: 2
    pools:
      - {{name: a100, nodes: [gpu-1], gpusPerNode: 8}}
    hosts:
      - {{name: gpu-1, address: 127.0.0.1, port: {port}}}
"""
"""A stack with a host, without its key."""
OF_STACK = ("--stack", "hosted")
ADDRESS = "192.0.2.11"
"""The address of the host in the pages."""
SSH_CONFIG = """\
Host {address}
    HostName 127.0.0.1
    Port {port}
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
    IdentitiesOnly yes
"""
PAGE = ROOT / "docs" / "how-to" / "recover.md"
ADVICE = re.compile(
    r"^on each host, as root, with (?P<script>.+) as standard input:\n"
    r"  (?P<install>.+)\n"
    r"and one line in the authorized_keys of (?P<user>.+):\n"
    r"  (?P<line>.+)$",
    re.M,
)
"""What the verb `probe-key` says to do."""


@dataclass(frozen=True)
class Hosted:
    """A stack with a host.

    Attributes:
        site: The site.
        root: The host's file system.
        login: The private key that logs in as root.
        folder: A folder with the program `ssh`, which reaches the host by the address of the pages
            and logs in with the key that `KEY` names.
    """

    site: Site
    root: Path
    login: Path
    folder: Path

    def files(self) -> dict[str, bytes]:
        """Return the contents of the host's files in /etc, by path."""
        files = (path for path in (self.root / "etc").rglob("*") if not path.is_symlink())
        return {str(path): path.read_bytes() for path in files if path.is_file()}

    def shell(self, line: str, given: str = "", key: str = "") -> str:
        """Run a shell line; return standard output.

        Args:
            key: The private key of `ssh`; empty: that of root.
        """
        more = {"PATH": f"{self.folder}:{PATH}", "KEY": str(key or self.login)}
        done = self.site.shell_out(["sh", "-c", line], given, more)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout

    def root_shell(self, line: str, given: str = "") -> None:
        """Run a shell line on the host as root."""
        self.shell(f"ssh root@{ADDRESS} {shlex.quote(line)}", given)


@pytest.fixture(scope="module")
def hosted(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """Yield a stack whose host's key was taken with the verb `host-keys`."""
    (port,) = free_ports(1)
    file = site.folder / "Pulumi.hosted.yaml"
    unknown = STACK.format(port=port)
    # The simulator takes only a file whose hosts have keys.
    key = simulated_hosts.host_public_key("gpu-1")
    file.write_text(unknown.replace(f"port: {port}", f"port: {port}, hostKey: {key}"))
    cache = Path(site.environment["GPU_CLUSTER_CACHE"])
    try:
        site.succeeds("start", *OF_STACK)
        file.write_text(unknown)
        scanned = site.succeeds("host-keys", *OF_STACK)
        code = re.search(r"--confirm ([0-9a-f]+)", scanned)
        assert code is not None, scanned
        site.answers("host-keys", *OF_STACK, "--confirm", code[1])
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GPU_CLUSTER_CACHE", str(cache))
            root = simulated_hosts.root_of("hosted", "gpu-1")
        assert root is not None
        folder = tmp_path_factory.mktemp("ssh")
        (folder / "config").write_text(SSH_CONFIG.format(address=ADDRESS, port=port))
        login = cache / "embedded" / "hosted" / "id_ed25519"
        program = folder / "ssh"
        program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {folder}/config -i "$KEY" "$@"\n')
        program.chmod(0o755)
        yield Hosted(site, root, login, folder)
    finally:
        done = site.run("gpu-cluster", "down", *OF_STACK)
        file.unlink(missing_ok=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.promise("The files that a host keeps for its undo are saved, and brought back.")
def test_the_backups_of_a_host_come_back_by_the_commands_of_the_page(hosted: Hosted) -> None:
    save, bring_back = re.findall(r"`(ssh [^`]+)`", PAGE.read_text())
    site, before = hosted.site, hosted.files()
    assert last(site.succeeds("up", *OF_STACK)).startswith("up: 8 of 8 GPUs simulated, ")
    assert hosted.files() != before
    hosted.shell(save)
    shutil.rmtree(hosted.root / "var" / "lib" / "gpu-cluster")
    hosted.shell(bring_back)
    (site.folder / "gpu-1.backups.tar.gz").unlink()
    assert ", 0 resources changed" in last(site.succeeds("up", *OF_STACK))
    site.answers("destroy", *OF_STACK)
    assert hosted.files() == before


@pytest.mark.promise(
    "Who does on hosts what `probe-key` says has a key of previews that runs the probe and nothing "
    "else."
)
def test_a_key_of_previews_works_when_its_advice_was_followed(hosted: Hosted) -> None:
    site = hosted.site
    said = site.run("gpu-cluster", "probe-key", *OF_STACK)
    assert (said.returncode, last(said.stdout)[:20]) == (1, "probe-key: 0 of 1 ho"), said.stdout
    advice = ADVICE.search(said.stdout)
    key = re.search(r"^private key: (.+) \(the secret PROBE_KEY", said.stdout, re.M)
    assert advice is not None, said.stdout
    assert key is not None, said.stdout
    hosted.root_shell(advice["install"], Path(advice["script"]).read_text())
    keys = f"~{advice['user']}/.ssh"
    hosted.root_shell(
        f"mkdir -p -m 700 {keys} && cat >> {keys}/authorized_keys", f"{advice['line']}\n"
    )
    ready = last(site.succeeds("probe-key", *OF_STACK))
    assert ready == "probe-key: 1 of 1 hosts run the probe and nothing else"
    assert site.answers("probe-key", *OF_STACK)["problems"] == {"gpu-1": ""}
    shown = hosted.shell(f"ssh {advice['user']}@{ADDRESS} touch /owned", key=key[1])
    assert "end=ok" in shown
    assert not (hosted.root / "owned").exists()


def test_a_preview_has_a_copy_of_the_state_and_its_secrets(hosted: Hosted, tmp_path: Path) -> None:
    hosted.site.succeeds("up", *OF_STACK)
    copied = {
        "PREVIEW_BACKEND_URL": f"file://{tmp_path}/previews",
        "PREVIEW_PASSPHRASE": "of previews",
    }
    (tmp_path / "previews").mkdir()
    hosted.site.succeeds("preview-state", *OF_STACK, **copied)
    hosted.site.succeeds("preview-secrets", *OF_STACK)


def test_a_host_is_forgotten_and_the_declared_number_of_copies_stays(hosted: Hosted) -> None:
    for words in (("up",), ("forget", "gpu-1"), ("up",), ("destroy",)):
        assert hosted.site.answers(*words, *OF_STACK)["succeeded"]
    cache = Path(hosted.site.environment["GPU_CLUSTER_CACHE"])
    copies = cache / "embedded" / "state" / ".pulumi" / "copies" / "gpu-cluster" / "hosted"
    assert len(list(copies.iterdir())) == 2


@pytest.mark.promise(
    "A stack whose passphrase is lost begins again, and its destroy restores the host's files."
)
def test_a_stack_without_its_passphrase_begins_again_by_the_commands_of_the_page(
    hosted: Hosted,
) -> None:
    (block,) = (block for block in blocks(PAGE) if "stack rm" in block.text)
    site, before = hosted.site, hosted.files()
    home = Path(site.environment["HOME"])
    (home / ".ssh").mkdir(mode=0o700)
    file = site.folder / "Pulumi.hosted.yaml"
    kept, passphrase = file.read_text(), Path(site.environment["GPU_CLUSTER_CACHE"], "passphrase")
    site.succeeds("up", *OF_STACK)
    text = passphrase.read_text()
    passphrase.write_text("lost\n")
    try:
        assert site.run("gpu-cluster", "preview", *OF_STACK).returncode != 0
        shutil.copy(hosted.login, home / ".ssh" / "gpu-cluster")
        lines = block.text.replace("lab", "hosted")
        site.shell(f"PATH={tools_path()}; . venv/bin/activate\n{lines}")
        own = {"PULUMI_CONFIG_PASSPHRASE_FILE": str(home / ".gpu-cluster-hosted.passphrase")}
        assert ", 0 resources changed" in last(site.succeeds("up", *OF_STACK, **own))
        site.succeeds("destroy", *OF_STACK, **own)
        assert hosted.files() == before
        site.succeeds("down", *OF_STACK, **own)
    finally:
        passphrase.write_text(text)
        file.write_text(kept)
