"""Faults during a real run of Pulumi: each is reported, bounded in time, and repaired by `up`.

After a fault, the second `up` must bring the host to the state of a host without faults, the third
`up` must change nothing, and `destroy` must leave no file. `conftest.py` prints a table of these
faults at the end of the run. Connections pass through a relay that tests can cut.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncssh
import pytest

from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.hosts import catalogue, processes
from gpu_cluster_lab.simulator.hosts.model import hosts_dir
from gpu_cluster_lab.simulator.hosts.packages import served
from lab.benchmarks.host_stack import HostStack
from lab.benchmarks.relay import Relay
from tests.proofs.hosts import software
from tests.proofs.hosts.locks import HOLD_THE_PACKAGE_LOCK
from tests.proofs.hosts.machine import (
    Declared,
    Running,
    differences,
    free_port,
    start,
    temporary_cluster,
)
from tests.proofs.hosts.waiting import LIMIT, wait

pytestmark = pytest.mark.full

STEPS = {"preparation": "update-initramfs", "runtime": "systemctl"}
"""For each phase, a command that the script runs about halfway."""
HOLD = """#!/bin/sh
# Waits in the middle of a script, for a test. The inspection only asks systemctl about units.
case $* in is-* | show*) ;; *) : >/run/held; while [ -e /run/hold ]; do sleep 0.05; done ;; esac
PATH=/usr/sbin:/usr/bin:/sbin:/bin exec ${0##*/} "$@"
"""


@dataclasses.dataclass
class Site:
    """Host behind a relay, and a stack that declares this host."""

    host: Running
    relay: Relay
    stack: HostStack

    def up(self) -> str:
        """Run `up`, check that it succeeds, and return its output."""
        done = self.stack.run("up", "--yes", "--skip-preview", limit=LIMIT)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def refused(self) -> str:
        """Run `up`, check that it fails, and return its output."""
        done = self.stack.run("up", "--yes", "--skip-preview", limit=LIMIT)
        assert done.returncode != 0, done.stdout
        return done.stdout

    @contextlib.contextmanager
    def held(self, step: str) -> Iterator[None]:
        """Pause a phase halfway while the context lasts: one of its commands waits."""
        path = f"/usr/local/bin/{STEPS[step]}"
        self.host.write(path, HOLD)
        self.host.write("/run/hold", "")
        self.host.run(f"chmod 755 {path}")
        try:
            yield
        finally:
            self.release()
            self.host.run(f"rm -f {path}")

    def release(self) -> None:
        for name in ("hold", "held"):
            (self.host.root / "run" / name).unlink(missing_ok=True)

    def interrupted(self, step: str, interrupt: Callable[[], None]) -> str:
        """Interrupt `up` halfway through a phase, check that it fails, and return its output."""
        with self.held(step):
            run = subprocess.Popen(
                self.stack.command("up", "--yes", "--skip-preview"),
                cwd=self.stack.folder,
                env=self.stack.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            try:
                wait(lambda: self.host.exists("/run/held") or run.poll() is not None)
                interrupt()
                output, _ = run.communicate(timeout=LIMIT)
            finally:
                run.kill()
                run.wait()
        assert run.returncode != 0, output
        return output

    def power_cycle(self) -> None:
        """Simulate a power failure: kill all processes of the host, then boot it."""
        processes.end(hosts_dir(self.host.cluster) / self.host.declared.name)
        self.boot()

    def boot(self) -> None:
        _, public = simulated.client_key(self.host.cluster)
        settings = simulated.HostSettings(mode="namespaces")
        simulated.up(self.host.cluster, [self.host.declared], public, settings)

    def state(self) -> dict[str, str]:
        """Return type, mode and content hash of each persistent path on the host."""
        result = {}
        for path, text in self.host.tree().items():
            if path.startswith("upper/usr/local"):
                continue  # The tests install commands of their own in this folder.
            words = text.split(" ")
            result[path] = f"{words[:2]} {words[-1] if len(words[-1]) == 64 else ''}"
        return result


@contextlib.contextmanager
def new_site(cluster: str, folder: Path) -> Iterator[Site]:
    (host,) = start(cluster, "gpu-1", mode="namespaces")
    path, _ = simulated.client_key(cluster)
    port = free_port()
    with Relay({port: host.declared.port}) as relay:
        through = Declared("gpu-1", port)
        yield Site(host, relay, HostStack.make(folder, "faults", [through], path))


@pytest.fixture
def site(cluster: str, namespaces: None, tmp_path: Path) -> Iterator[Site]:
    with new_site(cluster, tmp_path) as site:
        yield site


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the final state of a host whose `up` ran without a fault."""
    with (
        temporary_cluster() as cluster,
        new_site(cluster, tmp_path_factory.mktemp("undisturbed")) as site,
    ):
        site.up()
        return site.state()


def cut(site: Site, step: str) -> str:
    return site.interrupted(step, site.relay.cut)


def rebooted(site: Site, step: str) -> str:
    return site.interrupted(step, site.power_cycle)


def killed(site: Site, step: str) -> str:
    return site.interrupted(step, lambda: kill(site))


def kill(site: Site) -> None:
    # pkill only finds processes of this host, because the host has its own PID namespace.
    done = site.host.run("pkill -9 -f -- '-s -- apply'")
    assert done.status == 0


def hanging(site: Site, step: str) -> str:
    """Run `up` with a script that exceeds its time limit and is terminated; return the output."""
    document = site.stack.read()
    site.stack.write({**document, "ssh": {"commandTimeoutSeconds": 10}})
    output = site.interrupted(step, lambda: None)
    site.stack.write(document)
    return output


def locked(site: Site) -> str:
    """Run `up` while another process holds the package manager's lock for 30 s.

    `up` must wait and succeed.
    """
    waits = 'sleep 1 until -e "/run/gpu-cluster-prepare"; sleep 30'
    site.host.write("/root/hold.pl", HOLD_THE_PACKAGE_LOCK.replace("sleep 300", waits))
    site.host.run(
        "setsid perl /root/hold.pl </dev/null >/dev/null 2>&1 & until [ -e /run/held ]; do :; done"
    )
    warned = site.up()
    site.host.run("rm /root/hold.pl")
    return warned


def full(site: Site, folder: str) -> str:
    """Run `up` while the script writes to a file system that is full."""
    site.host.run(
        f"mkdir -p {folder}; mount -t tmpfs -o size=4k full {folder}; "
        f"head -c 4096 /dev/zero >{folder}/fill"
    )
    output = site.refused()
    site.host.run(f"umount {folder}; rmdir {folder} 2>/dev/null")
    return output


def wrong_host_key(site: Site) -> str:
    document = site.stack.read()
    (host,) = document["hosts"]
    key = simulated.host_public_key("another")
    site.stack.write({**document, "hosts": [{**host, "hostKey": key}]})
    output = site.refused()
    assert not site.host.exists("/var/lib/gpu-cluster")
    site.stack.write(document)
    return output


def key_refused(site: Site) -> str:
    stranger = site.stack.folder / "stranger"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(stranger)
    environment = site.stack.environment
    site.stack.environment = {**environment, "GPU_CLUSTER_SSH_PRIVATE_KEY_FILE": str(stranger)}
    output = site.refused()
    assert not site.host.exists("/var/lib/gpu-cluster")
    site.stack.environment = environment
    return output


def probe_hanging(site: Site) -> str:
    """Check that a host whose inspection hangs is reported, left alone and later repaired."""
    site.up()
    site.host.write("/usr/local/bin/df", "#!/bin/sh\nwhile [ -e /run/hold ]; do sleep 0.05; done\n")
    site.host.run("chmod 755 /usr/local/bin/df")
    site.host.write("/run/hold", "")
    (site.host.root / "etc/sysctl.d/zz-gpu-cluster.conf").unlink()
    output = site.up()
    assert re.search(r"\d unchanged", output)
    assert not site.host.exists("/etc/sysctl.d/zz-gpu-cluster.conf")
    site.release()
    site.host.run("rm /usr/local/bin/df")
    return output


def host_down(site: Site) -> str:
    processes.end(hosts_dir(site.host.cluster) / site.host.declared.name)
    document = site.stack.read()
    site.stack.write({**document, "ssh": {"dialErrorLimit": 1}})
    output = site.refused()
    site.stack.write(document)
    site.boot()
    return output


Fault = Callable[[Site], str]
FAULTS: dict[str, tuple[Fault, str]] = {
    **{
        f"{what} in the middle of the {step}": (
            lambda site, fault=fault, step=step: fault(site, step),
            said,
        )
        for what, fault, said in (
            ("connection cut", cut, "connection lost"),
            ("host rebooted", rebooted, "connection lost"),
            ("script killed", killed, "signal KILL|exit status 137"),
            ("script that never ends", hanging, "exit status 1(24|43)|signal"),
        )
        for step in STEPS
    },
    "package manager locked for 30 s": (locked, "lock-frontend held"),
    "disk full where files go": (lambda site: full(site, "/etc/sysctl.d"), "can't write"),
    "disk full where backups go": (
        lambda site: full(site, "/var/lib/gpu-cluster"),
        "can't|MiB free",
    ),
    "wrong host key": (wrong_host_key, "shows another key than the declared one"),
    "key refused": (key_refused, "rejected the user or the key"),
    "probe hanging": (probe_hanging, "no end within 10 s"),
    "host down": (host_down, r"Connection (lost|refused)"),
}


Sections = dict[str, object]


def unreachable(sections: Sections) -> Sections:
    """Return sections of a stack file whose repository URL refuses connections."""
    apt = {**sections["packages"]["repository"]["apt"]}  # type: ignore[index]
    apt["url"] = f"http://127.0.0.1:{free_port()}"
    packages = {"build": True, "repository": {"apt": apt}}
    return {**sections, "packages": packages}


def wrong_checksum(sections: Sections) -> Sections:
    """Return sections of a stack file with a wrong checksum of the driver installer."""
    driver = {**sections["driver"]}  # type: ignore[dict-item]
    runfile = {**driver["runfile"], "sha256": "0" * 64}  # type: ignore[dict-item]
    return {**sections, "driver": {**driver, "runfile": runfile}}


SOFTWARE: dict[str, tuple[Callable[[Sections], Sections], str]] = {
    "repository unreachable": (unreachable, "repository .* is refused"),
    "wrong checksum": (wrong_checksum, "sha256"),
}


@pytest.mark.host_fault
@pytest.mark.parametrize("name", SOFTWARE)
def test_a_fault_of_software_is_told_and_healed_by_up_again(
    name: str,
    cluster: str,
    namespaces: None,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("host_fault", name)
    broken, said = SOFTWARE[name]
    host = software.start(cluster, "debian")
    before = software.lasting(host)
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    installer = catalogue.driver_runfile("595.91.07")
    (mirror / "driver.run").write_bytes(installer)
    key, _ = simulated.client_key(cluster)
    stack = HostStack.make(tmp_path / "stack", "faults", [host.declared], key)
    with (
        software.serving("debian", [*catalogue.build_tools(), *catalogue.headers_apt()]) as tools,
        served(mirror) as url,
    ):
        sections: Sections = {
            "packages": {"build": True, "remove": True, "repository": tools},
            "driver": {
                "source": "runfile",
                "version": "595.91.07",
                "runfile": {
                    "locations": [f"{url}/driver.run"],
                    "sha256": hashlib.sha256(installer).hexdigest(),
                },
            },
        }
        document = stack.read()
        stack.write({**document, **broken(sections)})
        refused = stack.run("up", "--yes", "--skip-preview", limit=LIMIT)
        assert refused.returncode != 0, refused.stdout
        match = re.search(said, refused.stdout)
        record_property("host_fault_said", match[0] if match else "nothing of it")
        assert match, refused.stdout
        stack.write({**document, **sections})
        stack.timed("up", "--yes", "--skip-preview")
        assert "595.91.07" in host.read("/proc/driver/nvidia/version")
        stack.timed("up", "--yes", "--skip-preview", "--expect-no-changes")
        stack.timed("destroy", "--yes", "--skip-preview")
    # In an overlay, a folder of the lower layer stays listed after a file in it was created and
    # deleted.
    left = {
        path: seen
        for path, seen in differences(before, software.lasting(host)).items()
        if not (host.root / path.removeprefix("upper/")).is_dir()
    }
    record_property("files_left", len(left))
    assert left == {}


@pytest.mark.host_fault
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_and_healed_by_up_again(
    name: str,
    site: Site,
    undisturbed: dict[str, str],
    record_property: Callable[[str, object], None],
) -> None:
    fault, said = FAULTS[name]
    before = site.state()
    record_property("host_fault", name)
    output = fault(site)
    match = re.search(said, output)
    record_property("host_fault_said", match[0] if match else "nothing of it")
    assert match, output
    assert "gpu-1" in output

    site.up()
    assert differences(undisturbed, site.state()) == {}
    third = site.up()
    assert not re.search(r"\d+ (created|updated|replaced|deleted)", third), third

    done = site.stack.run("destroy", "--yes", "--skip-preview", limit=LIMIT)
    assert done.returncode == 0, done.stdout
    left = differences(before, site.state())
    record_property("files_left", len(left))
    assert left == {}
