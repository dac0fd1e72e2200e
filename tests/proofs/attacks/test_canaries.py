"""Attack: secrets in the state, logs, processes, temporary files and output of a whole stack.

A stack with every kind of secret is deployed and destroyed with the real Pulumi and a real `sshd`,
while the test searches for the secrets. On the way commands are refused, time out and are killed.
The test runs with two secrets providers: a passphrase, and a key in a HashiCorp Vault.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.machine.folders import make_private
from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.control_plane import ControlPlane
from gpu_cluster_lab.simulator.hosts import catalogue, namespaced, processes
from gpu_cluster_lab.simulator.hosts.model import hosts_dir
from tests.fixtures.programs import run_program
from tests.guard import own_name
from tests.proofs.attacks.canaries import Canaries, Watch, in_files, key_parts
from tests.proofs.attacks.vault import vault
from tests.proofs.e2e.project import LIMIT, Project, figures, started
from tests.proofs.hosts import software

PROVIDERS = ("passphrase", "hashivault")
HOSTS = ("gpu-1", "gpu-2")
KUBEADM = "run/simulated-kubeadm"
# Names of files that are meant to contain a secret.
OWN = ("id_ed25519", "kubeconfig", "kubeconfig.yaml", "passphrase")


def test_the_watch_sees_a_secret_in_each_place(tmp_path: Path) -> None:
    """The search finds secrets that exist.

    If this test failed, the other tests would prove nothing by finding no secrets.
    """
    secret = secrets.token_hex(12)
    canaries = Canaries({"token": (secret.encode(),)})
    folder = tmp_path / "scratch"
    make_private(folder)
    with Watch(canaries, (folder,)) as watch:
        command = ["sh", "-c", "echo $1 >$2; sleep 1; rm $2", "sh", secret, str(folder / "left")]
        subprocess.run(command, env={**os.environ, "TOKEN": secret}, check=True, timeout=30)
    # The scan may miss `rm`, because this process runs only briefly.
    assert watch.hits - {"token: environment of rm, TOKEN"} == {
        "token: arguments of sh",
        "token: environment of sh, TOKEN",
        "token: environment of sleep, TOKEN",
        "token: file left",
    }
    for number in range(3):
        encoded = base64.b64encode(b"x" * number + secret.encode() + b"yz")
        (tmp_path / f"encoded-{number}").write_bytes(b'{"data":"' + encoded + b'"}')
    (tmp_path / "hexadecimal").write_text(secret.encode().hex())
    count, hits = in_files(canaries, [tmp_path], [tmp_path / "encoded-0"])
    assert (count, len(hits)) == (3, 3)


@dataclass
class Guarded:
    """Project that is searched for secrets while its commands run; keeps the commands' output."""

    project: Project
    canaries: Canaries
    provider: str
    printed: list[str] = field(default_factory=list)

    def command(self, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
        done = self.project.command(name, **environment)
        self.printed.append(done.stdout)
        return done

    def pulumi(self, *arguments: str, text: str = "", fails: bool = False) -> str:
        """Run `pulumi` directly and return its output; `text` is sent to its standard input."""
        done = run_program(
            ["pulumi", *arguments, "--non-interactive", "--color", "never"],
            cwd=self.project.root,
            env=self.project.shell_environment(),
            input=text,
            stderr=subprocess.STDOUT,
            timeout=LIMIT,
        )
        assert (done.returncode != 0) == fails, done.stdout
        self.printed.append(done.stdout)
        return done.stdout

    def root(self, host: str) -> Path:
        return self.project.host_root(host)


def declared(project: Project, repository: dict[str, Any], registry: str) -> dict[str, Any]:
    """Return a configuration that needs every secret: joining hosts, a registry, vGPU licenses."""
    return project.declared() | {
        "platform": "gpu-operator",
        "driver": {
            "source": "operator",
            "version": "580.95.05",
            "imageRepository": f"{registry}/guests",
            "image": "vgpu-guest-driver",
        },
        "gpuOperator": {
            "toolkit": True,
            "vgpu": {"hostDriver": "19.2", "licenseSecret": "licensing-config"},
        },
        "registry": {"pullSecret": "registry"},
        "kubernetesPackages": {
            "version": "1.34.4",
            "repository": repository,
            "join": {
                "endpoint": "192.0.2.1:6443",
                "caCertHashes": [f"sha256:{'0' * 64}"],
                "timeoutSeconds": 10,
            },
        },
        "ssh": {"dialErrorLimit": 1, "perDialTimeoutSeconds": 3},
    }


def given(project: Project) -> dict[str, str]:
    """Return the stack's secrets, each with a random part that occurs nowhere else."""
    key, _ = simulated.client_key(project.stack)
    login = base64.b64encode(f"user:{secrets.token_hex(16)}".encode()).decode()
    return {
        "sshPrivateKey": key.read_text(),
        "kubeadmToken": f"{secrets.token_hex(3)}.{secrets.token_hex(8)}",
        "registryCredentials": json.dumps({"auths": {"registry.example.org": {"auth": login}}}),
        "licenseToken": secrets.token_hex(20),
    }


def looked_for(stack: str, texts: dict[str, str], provider: str) -> Canaries:
    login = json.loads(texts["registryCredentials"])["auths"]["registry.example.org"]["auth"]
    cluster = yaml.safe_load(ControlPlane(stack).kubeconfig.read_text())
    user = base64.b64decode(cluster["users"][0]["user"]["client-key-data"]).decode()
    return Canaries(
        {
            "SSH key": key_parts(texts["sshPrivateKey"]),
            "join token": (texts["kubeadmToken"].encode(), texts["kubeadmToken"][7:].encode()),
            "registry": (login.encode(), base64.b64decode(login)[5:]),
            "licence": (texts["licenseToken"].encode(),),
            "cluster's client key": key_parts(user),
            "secrets provider": (provider.encode(),),
        }
    )


@contextmanager
def provider_of(kind: str, project: Project) -> Iterator[tuple[str, str]]:
    """Set up the secrets provider; yield its URL and the secret that unlocks it."""
    if kind == "passphrase":
        phrase = project.state.with_name("passphrase")
        phrase.touch(mode=0o600)
        phrase.write_text(secrets.token_hex(24))
        project.environment["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(phrase)
        yield "passphrase", phrase.read_text()
        return
    token = secrets.token_hex(24)
    with vault({"deploy": {token}}) as address:
        project.environment |= {"VAULT_SERVER_URL": address, "VAULT_SERVER_TOKEN": token}
        yield "hashivault://deploy", token


@pytest.fixture(params=PROVIDERS)
def guarded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Guarded]:
    """Yield a stack with its secrets set, before the first deployment."""
    project = Project.make(tmp_path, own_name("canaries"))
    if reason := namespaced.reason_against(project.stack):
        pytest.skip(f"hosts in namespaces: {reason}")
    packages = software.serving("debian", catalogue.kubernetes("1.34.4"))
    with (
        provider_of(request.param, project) as (address, opens),
        packages as repository,
        socket.create_server(("127.0.0.1", 0)) as registry,
    ):
        at = "{}:{}".format(*registry.getsockname())
        project.write(declared(project, repository, at))
        with started(project):
            texts = given(project)
            made = Guarded(project, looked_for(project.stack, texts, opens), request.param)
            made.pulumi("stack", "init", project.stack, "--secrets-provider", address)
            for name, text in texts.items():
                made.pulumi("config", "set", "--secret", f"gpu-cluster:{name}", text=text)
            yield made


@contextmanager
def stopped(stack: str, host: str) -> Iterator[None]:
    """Stop all processes of a host with SIGSTOP, so that the host no longer responds."""
    pids = processes.find(hosts_dir(stack) / host)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def refused_and_timed_out(guarded: Guarded) -> None:
    """Run `up` while kubeadm rejects or hangs on the token, then while a host doesn't respond."""
    for host, how in zip(HOSTS, ("refuse", "hang"), strict=True):
        folder = guarded.root(host) / KUBEADM
        folder.mkdir()
        (folder / how).touch()
    failed = guarded.command("up", VERBOSE="1")
    assert failed.returncode == 1
    assert "couldn't validate the identity" in failed.stdout, failed.stdout
    assert "kubeadm join failed" in failed.stdout
    for host, how in zip(HOSTS, ("refuse", "hang"), strict=True):
        (guarded.root(host) / KUBEADM / how).unlink()
    # Run `pulumi` directly here, because `gpu-cluster up` would restart the stopped host.
    with stopped(guarded.project.stack, "gpu-2"):
        silent = guarded.pulumi("up", "--yes", "--skip-preview", fails=True)
    assert "host gpu-2: found no login as" in silent, silent


def lived(guarded: Guarded) -> None:
    """Preview, deploy and show the stack, with refusals, timeouts and a kill on the way.

    Refusals and timeouts run with one secrets provider only, because the provider only matters
    where state is written.
    """
    if guarded.provider == "passphrase":
        preview = guarded.command("preview", JSON="1")
        assert preview.returncode == 0, preview.stdout
        refused_and_timed_out(guarded)
    # Kill `up` while the bootstrap token is being sent to the host.
    killed = guarded.project.kill_during("up", "gpu-cluster-host-preparation-gpu-2 creating")
    guarded.printed.append(killed)
    done = guarded.command("up", VERBOSE="1")
    assert done.returncode == 0, done.stdout
    assert figures(done.stdout.strip().splitlines()[-1])[:2] == (32, 32), done.stdout
    assert figures(guarded.command("up").stdout.strip().splitlines()[-1]) == (32, 32, 0)
    for command in (("preview", "--diff"), ("stack",), ("stack", "export"), ("config",)):
        guarded.pulumi(*command)


def places(project: Project) -> tuple[list[Path], list[Path]]:
    """Return the folders to search, and the paths in them that may contain a secret.

    etcd stores Secrets, and the fake kubeadm stores its arguments.
    """
    plane = ControlPlane(project.stack)
    own = [plane.cluster / "pki", plane.cluster / "etcd", plane.directory / "ssh"]
    own += [path for path in plane.directory.rglob("*") if path.name in OWN]
    own += [project.root / "venv"]
    own += [project.host_root(host) / KUBEADM for host in HOSTS]
    hosts = [project.host_root(host) / name for host in HOSTS
             for name in ("etc", "home", "opt", "root", "run", "tmp", "var")]  # fmt: skip
    home = toolchain.cache_dir() / "pulumi"
    scratch = toolchain.cache_dir() / "tmp" / project.stack
    return [project.root, project.state, plane.directory, home, scratch, *hosts], own


@pytest.mark.full
def test_no_secret_of_a_stack_is_anywhere_but_where_it_belongs(
    guarded: Guarded, record_property: Any
) -> None:
    project = guarded.project
    folders = (toolchain.cache_dir() / "tmp" / project.stack, Path("/tmp"), Path("/dev/shm"))
    began = time.monotonic()
    with Watch(guarded.canaries, folders) as watch:
        lived(guarded)
        count, hits = in_files(guarded.canaries, *places(project))
        down = guarded.command("down", VERBOSE="1")
        assert down.returncode == 0, down.stdout
    left, kept = in_files(guarded.canaries, [project.root, project.state], [project.root / "venv"])
    said = "\n".join(guarded.printed).encode()
    hits |= watch.hits | kept | {f"{name}: output" for name in guarded.canaries.found(said)}
    # Pulumi passes its environment, which contains the Vault token, to all programs that it starts.
    hits = {hit for hit in hits if not hit.endswith(", VAULT_SERVER_TOKEN")}
    # TLS reads a client key from a file only: it exists while a program logs in to the API server.
    hits = {hit for hit in hits if not hit.startswith("cluster's client key: private file tmp")}
    record_property("canaries", len(hits))
    record_property("searches", 1)
    assert hits == set()
    assert watch.seen["process"] > 100
    assert watch.seen["file"] > 0
    assert count > 1000
    assert left > 100
    assert len(said) > 10_000
    print(f"{watch.seen}, {count} files, {len(said)} bytes, {time.monotonic() - began:.0f} s")
