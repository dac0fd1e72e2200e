"""Fixtures with a real sshd, processes of the plugins, and projects for the real engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from gpu_cluster_lab.simulator.hosts import namespaced, rootfs
from gpu_cluster_lab.simulator.hosts.model import cluster_dir
from tests.toolchain.plugins.rig import (
    LIMIT,
    PLUGINS,
    ROOT,
    Plugin,
    Project,
    RigHost,
    free_port,
    until,
)


def _public(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode().strip()


def _sshd(folder: Path) -> list[str]:
    """Return the command that starts sshd on this machine.

    If this machine has no sshd, the command starts the sshd in the root file system of simulated
    hosts, with the loader and libraries of that file system. The unprivileged user to which this
    sshd switches exists only in a separate mount namespace.
    """
    program = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
    if program is not None:
        return [program]
    name = f"sshd-{os.getpid()}"
    reason = namespaced.reason_against(name)
    shutil.rmtree(cluster_dir(name), ignore_errors=True)
    if reason is not None:
        pytest.skip(f"sshd is not installed, and there are no simulated hosts: {reason}")
    root = rootfs.debian_root(lambda _: None)
    users = folder / "passwd"
    users.write_text(Path("/etc/passwd").read_text() + "sshd:x:104:65534::/run/sshd:/bin/false\n")
    bound = 'mount --bind "$1" /etc/passwd && shift && exec "$@"'
    libraries = ":".join(map(str, (root / "usr/lib").glob("*-linux-gnu")))
    loader = next((root / "usr/lib").glob("*-linux-gnu/ld-linux-*.so.*"))
    program = [str(loader), "--library-path", libraries, str(root / "usr/sbin/sshd"), "-r"]
    return ["unshare", "-m", "sh", "-c", bound, "sh", str(users), *program]


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RigHost]:
    folder = tmp_path_factory.mktemp("sshd")
    sshd = _sshd(folder)
    if os.geteuid() == 0:
        # sshd needs the folder /run/sshd for its privilege separation.
        Path("/run/sshd").mkdir(exist_ok=True)
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    user_key = asyncssh.generate_private_key("ssh-ed25519")
    host_key.write_private_key(folder / "host_key")
    (folder / "host_key").chmod(0o600)
    (folder / "authorized_keys").write_bytes(user_key.export_public_key())
    port = free_port()
    (folder / "sshd_config").write_text(
        f"""ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
AcceptEnv GREETING PULUMI_COMMAND_STDOUT
Subsystem sftp internal-sftp
"""
    )
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*sshd, "-D", "-e", "-f", str(folder / "sshd_config")],
            stdin=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        until(lambda: b"listening" in (folder / "log").read_bytes(), "sshd listens")
        yield RigHost(port, _public(host_key), user_key.export_private_key().decode(), folder)
    finally:
        server.terminate()
        server.wait(LIMIT)


@pytest.fixture
def plugin() -> Iterator[Plugin]:
    """Yield a new process of the command plugin for each test."""
    started = Plugin()
    yield started
    started.close()


@pytest.fixture(scope="module")
def shared_plugin() -> Iterator[Plugin]:
    started = Plugin()
    yield started
    started.close()


def _engine() -> Path:
    program = shutil.which("pulumi")
    if program:
        return Path(program)
    sys.path.insert(0, str(ROOT))
    from gpu_cluster_lab.toolchain import ensure

    return Path(ensure("pulumi")["pulumi"].path)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "pulumi").symlink_to(_engine().resolve())
    for name in ("pulumi-language-python", "pulumi-resource-command"):
        (tools / name).symlink_to(PLUGINS / name)
    folder, state, temporary = (tmp_path / name for name in ("project", "state", "tmp"))
    for path in (folder, state, temporary):
        path.mkdir()
    (folder / "Pulumi.yaml").write_text(
        f"name: plugins\nruntime: {{name: python, options: {{virtualenv: {sys.prefix}}}}}\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "SSH_AUTH_SOCK"} | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PULUMI_HOME": str(tmp_path / "home"),
        "PULUMI_BACKEND_URL": f"file://{state}",
        "PULUMI_CONFIG_PASSPHRASE": "test",
        "PULUMI_SKIP_UPDATE_CHECK": "1",
        "TMPDIR": str(temporary),
    }
    subprocess.run(
        ["pulumi", "stack", "init", "dev", "--non-interactive"],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        timeout=LIMIT,
    )
    return Project(folder, environment)
