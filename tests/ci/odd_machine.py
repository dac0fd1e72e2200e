"""Run a command on a machine whose surroundings are odd: `python -m tests.ci.odd_machine COMMAND…`.

Tests must set all that they read. So their results are the same with another kernel command line,
other addresses, interfaces, mounts, ports and resolvers, another host name, locale and time zone.
The surroundings exist in namespaces of this process only, and end with it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

HOST_NAME = "Odd-Host-0.svc.example.test"
INSIDE = "--inside"

FILES: Mapping[str, str] = MappingProxyType(
    {
        "/proc/cmdline": (
            "BOOT_IMAGE=/vmlinuz-9.9 ip=203.0.113.5::203.0.113.1:255.255.255.0:odd:eth7:off "
            "nameserver=2001:db8::35 systemd.hostname=Odd-Host-0 user=alice nomodeset selinux=1\n"
        ),
        "/proc/meminfo": "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\nHugePages_Total: 7\n",
        "/proc/modules": "nvidia 9 0 - Live 0x0\nnouveau 9 0 - Live 0x0\noverlay 9 0 - Live 0x0\n",
        "/proc/swaps": "Filename Type Size Used Priority\n/odd/swap file 1024 0 -2\n",
        "/proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\ndevices\t9\t9\t1\n",
        "/etc/hostname": f"{HOST_NAME}\n",
        "/etc/hosts": f"127.0.0.1 localhost\n203.0.113.77 {HOST_NAME} gpu-1 lab registry.k8s.io\n",
        "/etc/resolv.conf": "nameserver 203.0.113.53\nsearch svc.example.test\noptions ndots:5\n",
        "/etc/os-release": 'ID=odd\nVERSION_ID="99"\nPRETTY_NAME="Odd 99"\n',
        "/etc/machine-id": f"{'0' * 31}9\n",
    }
)
"""Texts of files that are mounted over those of the machine; files that it lacks are left out."""

ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        "TZ": "Asia/Kathmandu",
        "LANG": "tr_TR.UTF-8",
        "LC_ALL": "tr_TR.UTF-8",
        "LANGUAGE": "tr",
        "COLUMNS": "41",
        "LINES": "7",
        "HOSTNAME": HOST_NAME,
        "EDITOR": "false",
        "PAGER": "false",
        "KUBECONFIG": "/nonexistent/kubeconfig",
        "KUBERNETES_SERVICE_HOST": "203.0.113.10",
        "HTTPS_PROXY": "http://203.0.113.80:3128",
        "https_proxy": "http://203.0.113.80:3128",
        "PULUMI_STACK": "odd",
        "NVIDIA_VISIBLE_DEVICES": "all",
    }
)

PORTS = (2379, 2380, 6443, 8001, 8080, 8443, 9100, 9400, 10250, 10257, 10259, 26300)
"""Ports that another program has taken."""

INTERFACES = (
    ("link", "add", "eth7", "type", "veth", "peer", "name", "eth8"),
    ("link", "add", "docker0", "type", "bridge"),
    ("link", "add", "cni0", "type", "bridge"),
    ("link", "set", "lo", "up"),
    ("addr", "add", "203.0.113.77/24", "dev", "lo"),
    ("addr", "add", "2001:db8::77/64", "dev", "lo"),
    ("addr", "add", "203.0.113.5/24", "dev", "eth7"),
    ("addr", "add", "172.17.0.1/16", "dev", "docker0"),
    ("addr", "add", "10.244.0.1/24", "dev", "cni0"),
    *(("link", "set", name, "up") for name in ("eth7", "eth8", "docker0", "cni0")),
)


def _mount(mounts: contextlib.ExitStack, target: str | Path, *arguments: str | Path) -> None:
    subprocess.run(["mount", *map(str, arguments), str(target)], check=True)
    mounts.callback(subprocess.run, ["umount", str(target)], check=True)


def _replace_files(mounts: contextlib.ExitStack, folder: Path) -> None:
    for number, (path, text) in enumerate(FILES.items()):
        if Path(path).exists():
            file = folder / str(number)
            file.write_text(text)
            _mount(mounts, path, "--bind", file)


def _add_mounts(mounts: contextlib.ExitStack, folder: Path) -> None:
    odd = folder / "a mount of gpu-cluster"
    odd.mkdir()
    _mount(mounts, odd, "-t", "tmpfs", "-o", "ro", "overlay")
    if Path("/sys/fs/cgroup").is_dir():
        _mount(mounts, "/sys/fs/cgroup", "-t", "tmpfs", "-o", "ro", "cgroup2")


def find_ip() -> str | None:
    """Return the program that adds interfaces, also if ``PATH`` lacks its folder."""
    return shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin:/bin")


def _add_interfaces() -> None:
    if (program := find_ip()) is None:
        raise FileNotFoundError("an odd machine needs `ip` of iproute2")
    for arguments in INTERFACES:
        # A kernel may lack a kind of interface; the other interfaces are odd enough.
        subprocess.run([program, *arguments], check=False, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def _taken_ports() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for port in PORTS:
            stack.enter_context(socket.create_server(("127.0.0.1", port)))
        yield


def _run_inside(command: list[str]) -> int:
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as mounts:
        folder = Path(name)
        _replace_files(mounts, folder)
        _add_mounts(mounts, folder)
        _add_interfaces()
        socket.sethostname(HOST_NAME)
        os.umask(0o077)
        with _taken_ports():
            done = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, check=False)
    return done.returncode


def outside_command(command: list[str]) -> list[str]:
    """Return the command that runs a command on the odd machine."""
    namespaces = ["unshare", "--mount", "--net", "--uts", "--ipc", "--propagation", "private"]
    return [*namespaces, sys.executable, "-m", "tests.ci.odd_machine", INSIDE, *command]


if __name__ == "__main__":
    if sys.argv[1] == INSIDE:
        sys.exit(_run_inside(sys.argv[2:]))
    sys.exit(subprocess.run(outside_command(sys.argv[1:]), check=False).returncode)
