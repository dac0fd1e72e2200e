"""Simulated host without namespaces: an AsyncSSH server with a scratch folder as its root.

It is used without root rights, and on systems other than Linux. Commands run as this machine's user
with `GPU_CLUSTER_ROOT=<scratch folder>` and the fakes first on PATH. Commands must change only
files below that folder, as the scripts in `components/gpu_cluster/hosts/steps` do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import asyncssh

from gpu_cluster_lab.simulator.hosts import processes
from gpu_cluster_lab.simulator.hosts.model import HostError, Spec

FIXTURES = Path(__file__).with_name("fixtures_plain")
NEEDED = ("awk", "cmp", "flock", "sha256sum", "timeout")
SOFTWARE = (
    *("containerd", "crio", "cri-dockerd", "docker", "dockerd", "kubeadm", "kubectl", "kubelet"),
    *("mokutil", "nvidia-container-runtime", "nvidia-ctk", "nvidia-smi", "nvidia-uninstall"),
    "runc",
)
"""Programs of this machine that are hidden from the simulated host.

They must not count as installed on the host.
"""


def start(folder: Path, spec: Spec) -> None:
    """Create the scratch root if it is missing, and start the host's SSH server."""
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        raise HostError(
            f"host {spec.name}: found no {', '.join(missing)} on PATH; wanted awk, GNU "
            "coreutils, diffutils and util-linux for the scripts of simulated hosts; install them"
        )
    _make_root(folder / "root", spec)
    _link_programs(folder / "programs")
    source = Path(__file__).resolve().parents[3]
    inherited = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    processes.spawn(
        [sys.executable, "-m", "gpu_cluster_lab.simulator.hosts.plain", str(folder)],
        folder,
        {"PYTHONPATH": os.pathsep.join([*inherited, str(source)])},
    )


def _link_programs(folder: Path) -> None:
    """Fill a folder with links to this machine's programs, except the programs in `SOFTWARE`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for directory in os.get_exec_path():
        for program in Path(directory).glob("*"):
            link = folder / program.name
            if program.name not in SOFTWARE and not link.is_symlink():
                link.symlink_to(program.absolute())


def root(folder: Path) -> Path | None:
    """Return the host's scratch root, or None if the host doesn't run."""
    return folder / "root" if processes.find(folder) else None


def _make_root(root: Path, spec: Spec) -> None:
    """Create the host's scratch root with the files that scripts read on a Debian host."""
    texts = {
        "etc/os-release": 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian 12 (simulated)"\n',
        "etc/fstab": (Path(spec.layer) / "etc/fstab").read_text(),
        "etc/containerd/config.toml": "version = 2\n",
        "lib/systemd/system/containerd.service": "[Service]\nExecStart=containerd\n[Install]\n",
        "proc/swaps": "Filename Type Size Used Priority\n/swap.img file 2097148 0 -2\n",
        "proc/filesystems": "nodev\toverlay\n",
        "proc/sys/kernel/random/boot_id": "00000000-0000-4000-8000-000000000000\n",
        "run/gpu-cluster-simulated": "simulated host: a scratch folder and fakes\n",
        "swap.img": "simulated swap file\n",
        "run/simulated-systemd/containerd.pid": "recorded\n",
        "run/simulated-kernel/sysctl/net.ipv4.ip_forward": "0\n",
    }
    for number in range(spec.gpus):
        device = f"sys/bus/pci/devices/0000:{number + 16:02x}:00.0"
        texts[f"{device}/vendor"] = "0x10de\n"
        texts[f"{device}/class"] = "0x030200\n"
    if spec.driver:
        texts["proc/driver/nvidia/version"] = (
            f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {spec.driver}  (simulated)\n"
        )
    if root.is_dir():
        return
    draft = root.with_name("root.new")
    shutil.rmtree(draft, ignore_errors=True)
    for path, text in texts.items():
        (draft / path).parent.mkdir(parents=True, exist_ok=True)
        (draft / path).write_text(text)
    for folder in ("sys/module", "var/lib", "run", "tmp"):
        (draft / folder).mkdir(parents=True, exist_ok=True)
    wants = draft / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / "containerd.service").symlink_to("/lib/systemd/system/containerd.service")
    draft.rename(root)


class _Server(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:
        return True


async def _copy_bytes(source: Any, target: Any) -> None:
    """Copy bytes until the source ends or the target is closed."""
    with contextlib.suppress(ConnectionError, asyncssh.Error):
        while chunk := await source.read(65536):
            target.write(chunk)
            await target.drain()
        if isinstance(target, asyncio.StreamWriter):
            target.close()


async def _serve(folder: Path) -> None:
    spec = Spec.load(folder)
    if spec is None:
        raise SystemExit(f"{folder}/spec.json: missing or not readable")
    scratch = folder / "root"
    environment = {
        "GPU_CLUSTER_ROOT": str(scratch),
        "HOME": str(scratch / "tmp"),
        "PATH": os.pathsep.join(
            [
                str(FIXTURES),
                f"{spec.layer}/usr/sbin",
                f"{spec.layer}/usr/bin",
                str(Path(sys.executable).parent),
                str(folder / "programs"),
            ]
        ),
    }

    async def handle(process: asyncssh.SSHServerProcess[bytes]) -> None:
        child = await asyncio.create_subprocess_exec(
            "sh",
            "-c",
            process.command or "sh",
            cwd=scratch,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        feeding = asyncio.create_task(_copy_bytes(process.stdin, child.stdin))
        try:
            await asyncio.gather(
                _copy_bytes(child.stdout, process.stdout), _copy_bytes(child.stderr, process.stderr)
            )
            status = await child.wait()
        finally:
            feeding.cancel()
        process.exit(status if status >= 0 else 128 - status)

    server = await asyncssh.create_server(
        _Server,
        spec.address,
        spec.port,
        server_host_keys=[str(folder / "ssh" / "host_key")],
        authorized_client_keys=str(folder / "ssh" / "authorized_keys"),
        process_factory=handle,
        sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=os.fsencode(scratch)),
        allow_scp=True,
        encoding=None,
    )
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
