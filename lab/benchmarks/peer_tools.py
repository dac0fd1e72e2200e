"""Tools that B1 and B2 compare with this project: OpenSSH, Ansible with mitogen, and pyinfra.

Each tool runs as its users run it, and brings the hosts to the same end state.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.hosts.phases import prepare_script, runtime_script
from gpu_cluster.loading.loader import load
from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator.hosts.locks import locked
from lab.benchmarks.fleet import Fleet
from lab.benchmarks.host_stack import declared
from lab.benchmarks.measure import BenchmarkError, Sample, processor_time
from lab.benchmarks.measure import timed as _timed

HERE = Path(__file__).parent / "peers"
REQUIREMENTS = Path(__file__).parent / "requirements.lock"
INSTALL_LIMIT = 900.0
"""Timeout in seconds for installing the tools."""
SSH = (
    "-F",
    "none",
    "-o",
    "BatchMode=yes",
    "-o",
    "StrictHostKeyChecking=yes",
    "-o",
    "LogLevel=ERROR",
)


def environment() -> Path:
    """Return the `bin` folder of a cached virtual environment with Ansible and pyinfra."""
    key = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    folder = toolchain.cache_dir() / "peers" / key
    with locked(folder.with_name("lock"), limit=INSTALL_LIMIT):
        if not (folder / "complete").exists():
            print(f"installing the peers of {REQUIREMENTS.name} (once)", flush=True)
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--require-hashes", "-r"]
            subprocess.run([*pip, str(REQUIREMENTS)], check=True, timeout=INSTALL_LIMIT)
            (folder / "complete").touch()
    return folder / "bin"


@dataclass(frozen=True)
class Peers:
    """Compared tools, for one fleet of hosts.

    Attributes:
        fleet: Hosts on which the tools run.
        folder: Folder for the inventories that the tools need.
        wanted: Folder with the files that the tools copy to the hosts.
        programs: `bin` folder in which the tools are installed.
    """

    fleet: Fleet
    folder: Path
    wanted: Path
    programs: Path

    @property
    def known_hosts(self) -> Path:
        """Write an SSH known_hosts file with the hosts' keys, and return its path."""
        path = self.folder / "known_hosts"
        lines = [f"[{h.address}]:{h.port} {h.host_key}\n" for h in self.fleet.seen]
        path.write_text("".join(lines))
        return path

    def openssh(self, script: str, command: str) -> Sample:
        """Run `script` on all hosts in parallel by OpenSSH, with one connection per host.

        This is the minimum time for any tool. ssh reads the script from a file instead of a pipe: a
        pipe holds only 64 KiB, so writing to one host would block until that host has logged in.
        """
        text = self.folder / "script.sh"
        text.write_text(script)
        base = [
            "ssh",
            *SSH,
            "-i",
            str(self.fleet.key),
            "-o",
            f"UserKnownHostsFile={self.known_hosts}",
        ]
        before, started = processor_time(), time.monotonic()
        running = []
        for host in self.fleet.seen:
            with text.open("rb") as standard_input:
                child = subprocess.Popen(
                    [*base, "-p", str(host.port), f"{host.user}@{host.address}", command],
                    stdin=standard_input,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
            running.append(child)
        for child in running:
            output, errors = child.communicate()
            if child.returncode:
                raise BenchmarkError(f"ssh: {(output + errors).decode(errors='replace')[-2000:]}")
        return Sample(time.monotonic() - started, processor_time() - before)

    def mitogen(self) -> Sample:
        """Run the Ansible playbook with the strategy plugin of mitogen, and one fork per host."""
        (plugins,) = self.programs.parent.glob("lib/python*/site-packages/ansible_mitogen")
        config = self.folder / "ansible.cfg"
        lines = [
            "[defaults]",
            f"forks = {len(self.fleet.seen)}",
            "strategy = mitogen_linear",
            f"strategy_plugins = {plugins}/plugins/strategy",
            "gathering = explicit",
            "timeout = 120",
            "interpreter_python = /usr/bin/python3",
            f"local_tmp = {self.folder}/ansible",
            "deprecation_warnings = False",
            "[ssh_connection]",
            "pipelining = True",
            f"ssh_args = -F none -o UserKnownHostsFile={self.known_hosts} "
            "-o ControlMaster=auto -o ControlPersist=60s",
        ]
        config.write_text("\n".join(lines) + "\n")
        inventory = self.folder / "inventory"
        inventory.write_text(
            "".join(
                f"{h.name} ansible_host={h.address} ansible_port={h.port} ansible_user={h.user} "
                f"ansible_ssh_private_key_file={self.fleet.key}\n"
                for h in self.fleet.seen
            )
        )
        playbook = [str(HERE / "playbook.yml"), "-e", f"wanted={self.wanted}"]
        variables = {"ANSIBLE_CONFIG": str(config), "ANSIBLE_HOME": str(self.folder / "home")}
        return self._run(["ansible-playbook", "-i", str(inventory), *playbook], variables)

    def pyinfra(self) -> Sample:
        """Run the pyinfra deploy `peers/deploy.py` on all hosts in parallel."""
        inventory = self.folder / "pyinfra_inventory.py"
        hosts = [
            (
                h.name,
                {
                    "ssh_hostname": h.address,
                    "ssh_port": h.port,
                    "ssh_user": h.user,
                    "ssh_key": str(self.fleet.key),
                    "ssh_known_hosts_file": str(self.known_hosts),
                    "ssh_strict_host_key_checking": "yes",
                    "ssh_allow_agent": False,
                    "ssh_look_for_keys": False,
                    "wanted": str(self.wanted) + "/",
                },
            )
            for h in self.fleet.seen
        ]
        inventory.write_text(f"hosts = {hosts!r}\n")
        parallel = ["--parallel", str(len(hosts))]
        return self._run(["pyinfra", "-y", *parallel, str(inventory), str(HERE / "deploy.py")], {})

    def _run(self, command: Sequence[str], variables: dict[str, str]) -> Sample:
        path = f"{self.programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        home = {"HOME": str(self.folder), "PATH": path, "LC_ALL": "C.UTF-8", **variables}
        return _timed([str(self.programs / command[0]), *command[1:]], self.folder, home)[0]


def both(fleet: Fleet) -> str:
    """Return one shell script that runs this project's phases `prepare` and `runtime` on a host."""
    host = resolve(load(declared(fleet.seen)), "bench").hosts[0]
    parts = [prepare_script(host, inline=True), runtime_script(host, inline=True)]
    ends = [f"GPU_CLUSTER_PART_{number}" for number in range(len(parts))]
    return "set -e\n" + "".join(
        f"sh -s -- apply <<'{end}'\n{part}{end}\n" for end, part in zip(ends, parts, strict=True)
    )


def folder() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder with a short path.

    OpenSSH puts its control sockets there, and their paths may have at most 107 characters.
    """
    return tempfile.TemporaryDirectory(prefix="gpu-bench-")
