"""After a kill during a package transaction, a second `up` or an undo repairs the host.

The maintainer script of one package pauses halfway. At that moment the test kills the host script,
the package manager and its child processes.
"""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.hosts.packages import Package
from lab.benchmarks.host_stack import HostStack
from tests.proofs.hosts import software
from tests.proofs.hosts.machine import Result, Running, differences, start
from tests.proofs.hosts.waiting import LIMIT, wait

pytestmark = pytest.mark.full

SLOW = """: >/run/held
while [ -e /run/hold ]; do sleep 0.05; done
: >/var/lib/slow-is-set-up"""
PACKAGES = (
    Package("base-of-slow", "1.0-1", {"/usr/bin/base-of-slow": "#!/bin/sh\n"}),
    Package(
        "slow", "1.0-1", {"/usr/bin/slow": "#!/bin/sh\n"}, depends=("base-of-slow",), installed=SLOW
    ),
    Package("after-slow", "1.0-1", {"/usr/bin/after-slow": "#!/bin/sh\n"}, depends=("slow",)),
)
NAMES = {package.name for package in PACKAGES}
MANAGERS = "apt-get|dnf|dpkg|rpm"
KILL = f"pkill -9 -f -- '-s -- appl[y]'; pkill -9 '{MANAGERS}'; pkill -9 -f 'slo[w]|rpm-tm[p]'"
"""Command that kills all programs of the transaction inside the host's own PID namespace.

The brackets keep the patterns from matching the shell that runs this command.
"""


@pytest.fixture(params=["debian", "rocky"])
def system(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sections(system: str) -> Iterator[dict[str, Any]]:
    with software.serving(system, PACKAGES) as repository:
        yield {
            "packages": {"install": ["after-slow"], "remove": True, "repository": repository},
        }


def killed(host: Running) -> None:
    """Wait until a package's maintainer script runs, then kill all processes on the host."""
    wait(lambda: host.exists("/run/held"))
    host.run(KILL)
    wait(lambda: host.run(f"pgrep '{MANAGERS}'").status == 1)
    host.run("rm -f /run/hold /run/held")


def complete(host: Running, system: str) -> bool:
    """Check that all packages are installed completely and that the records are consistent."""
    audit = {"debian": "dpkg --audit; ls /var/lib/dpkg/updates", "rocky": "rpm -Va 2>/dev/null"}
    installed = software.installed(host, system).keys()
    names = "|".join(sorted(NAMES))
    told = host.run(audit[system]).output
    return (
        installed >= NAMES
        and host.exists("/var/lib/slow-is-set-up")
        and not re.search(names, told)
        and (system == "rocky" or told == "")
    )


@pytest.mark.host_fault
def test_a_kill_inside_a_transaction_is_healed_by_up_again(
    cluster: str,
    namespaces: None,
    system: str,
    sections: dict[str, Any],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("host_fault", f"killed inside a package transaction, {system}")
    (host,) = start(cluster, "gpu-1", mode="namespaces", system=system)
    before, packages = software.lasting(host), software.installed(host, system)
    key, _ = simulated.client_key(cluster)
    stack = HostStack.make(tmp_path / "stack", "faults", [host.declared], key)
    stack.write({**stack.read(), **sections})
    host.write("/run/hold", "")
    run = subprocess.Popen(
        stack.command("up", "--yes", "--skip-preview"),
        cwd=stack.folder,
        env=stack.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait(lambda: host.exists("/run/held") or run.poll() is not None)
        assert run.poll() is None, run.communicate()[0]
        killed(host)
        output, _ = run.communicate(timeout=LIMIT)
    finally:
        run.kill()
        run.wait()
    assert run.returncode != 0, output
    match = re.search("signal KILL|exit status 137", output)
    record_property("host_fault_said", match[0] if match else "nothing of it")
    assert match, output
    assert not complete(host, system)

    stack.timed("up", "--yes", "--skip-preview")
    assert complete(host, system)
    stack.timed("up", "--yes", "--skip-preview", "--expect-no-changes")
    host.run("rm /var/lib/slow-is-set-up")
    stack.timed("destroy", "--yes", "--skip-preview")
    assert software.installed(host, system) == packages
    left = changed_files(before, host)
    record_property("files_left", len(left))
    assert left == {}


def changed_files(before: dict[str, str], host: Running) -> dict[str, tuple[str, str]]:
    """Return the changed files, without folders and without rpm's temporary scripts."""
    return {
        path: seen
        for path, seen in differences(before, software.lasting(host)).items()
        if not (host.root / path.removeprefix("upper/")).is_dir()
        and not path.startswith("var/tmp/rpm-tmp.")
    }


def test_what_a_killed_installation_brought_goes_at_undo(
    cluster: str, namespaces: None, system: str, sections: dict[str, Any]
) -> None:
    host = software.start(cluster, system)
    before, packages = software.lasting(host), software.installed(host, system)
    script = software.script(sections)
    host.write("/run/hold", "")
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(host.apply(script)))
    thread.start()
    killed(host)
    thread.join()
    assert "changed=" not in results[0].output
    undone = host.undo(script)
    assert (undone.status, undone.errors) == (0, "")
    host.run("rm -f /var/lib/slow-is-set-up")
    assert software.installed(host, system) == packages
    assert changed_files(before, host) == {}
