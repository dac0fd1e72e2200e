"""The Pulumi state stores a host's declaration as text that a diff can show."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_lab.simulator import hosts as simulated
from lab.benchmarks.host_stack import ROOT, HostStack
from tests.proofs.hosts.declared import step
from tests.proofs.hosts.machine import STEPS, Running, differences, start

pytestmark = pytest.mark.full

HOST_LIMIT = 10_000
"""Bytes of the Pulumi state for each host.

A host has two resources. Both store the declaration and the encrypted connection as input and as
output.
"""


Stack = tuple[HostStack, list[Running]]


def brought_up(cluster: str, folder: Path, *names: str, user: str = "root") -> Stack:
    """Start hosts; return the hosts, and a stack of them with step files that tests can edit."""
    hosts = start(cluster, *names, mode="namespaces", user=user)
    path, _ = simulated.client_key(cluster)
    made = HostStack.make(folder, "state", [host.declared for host in hosts], path)
    copy = made.folder / "components"
    copy.unlink()
    shutil.copytree(ROOT / "components", copy)
    made.environment["PYTHONPATH"] = f"{made.folder}/components:{ROOT}"
    return made, hosts


@pytest.fixture
def stack(cluster: str, namespaces: None, tmp_path: Path) -> Stack:
    """Return a stack with two hosts."""
    return brought_up(cluster, tmp_path, "gpu-1", "gpu-2")


def up(stack: HostStack) -> str:
    done = stack.run("up", "--yes", "--skip-preview")
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def resources(stack: HostStack, kind: str) -> list[dict[str, Any]]:
    """Return the resources of one type from the Pulumi state."""
    exported = json.loads(stack.run("stack", "export").stdout)
    every = exported["deployment"]["resources"]
    return [resource for resource in every if resource["type"] == f"command:remote:{kind}"]


def test_the_state_holds_each_hosts_declaration_only(stack: Stack) -> None:
    made, hosts = stack
    before = [host.tree() for host in hosts]
    up(made)
    state = json.loads(made.checkpoint())["checkpoint"]["latest"]["resources"]
    declared = [resource for resource in state if resource["type"].startswith("command:remote:")]
    assert len(declared) == 2 * len(hosts)
    size = len(json.dumps(declared, separators=(",", ":"))) / len(hosts)
    print(f"{size:.0f} bytes a host")
    assert size <= HOST_LIMIT
    # Pulumi writes the state file without spaces too, so the measured size is comparable.
    assert ": " not in made.checkpoint()[:1000]
    assert not any("stackTrace" in resource for resource in declared)
    again = made.run("up", "--yes", "--skip-preview", "--expect-no-changes")
    assert again.returncode == 0, again.stdout[-3000:]
    down = made.run("destroy", "--yes", "--skip-preview")
    assert down.returncode == 0, down.stdout[-3000:]
    assert not any(host.exists(str(STEPS.parent)) for host in hosts)
    assert [differences(a, host.tree()) for a, host in zip(before, hosts, strict=True)] == [{}, {}]


def test_a_changed_step_is_one_line_of_a_hosts_declaration(stack: Stack) -> None:
    made, hosts = stack
    up(made)
    before = {
        resource["urn"]: resource["inputs"]["stdin"] for resource in resources(made, "Command")
    }
    swap = made.folder / "components/gpu_cluster/hosts/steps/swap.sh"
    swap.write_text(swap.read_text() + "# changed\n")
    preview = made.run("preview", "--diff").stdout
    lines = [line.strip() for line in preview.splitlines() if "swap-" in line]
    assert [line[0] for line in lines] == ["-", "+"] * len(hosts), preview
    up(made)
    after = {
        resource["urn"]: resource["inputs"]["stdin"] for resource in resources(made, "Command")
    }
    changed = {urn.split("::")[-1] for urn in before if before[urn] != after[urn]}
    assert changed == {"hosts-gpu-1", "hosts-gpu-2"}


@pytest.mark.parametrize(("extent", "first", "second"), [("hosts", 4, 1), ("off", 3, 0)])
def test_a_host_is_logged_in_to_once_for_each_thing_that_is_done_there(
    stack: Stack, extent: str, first: int, second: int
) -> None:
    """Each host gets one login for the inspection, one for uploads, and one for each Command."""
    made, hosts = stack
    made.environment["GPU_CLUSTER_INSPECTION"] = extent
    up(made)
    assert [host.log_ins for host in hosts] == [first] * len(hosts)
    again = made.run("up", "--yes", "--skip-preview", "--expect-no-changes")
    assert again.returncode == 0, again.stdout[-3000:]
    assert [host.log_ins for host in hosts] == [first + second] * len(hosts)


def test_a_host_that_was_set_up_anew_gets_the_steps_again(stack: Stack) -> None:
    made, (host, other) = stack
    up(made)
    copied = (other.root / STEPS).stat().st_mtime_ns
    assert made.run("up", "--yes", "--skip-preview", "--expect-no-changes").returncode == 0
    host.run("rm -rf /var/lib/gpu-cluster")
    up(made)
    assert (host.root / STEPS / step("swap").file).is_file()
    assert (other.root / STEPS).stat().st_mtime_ns == copied
    assert made.run("up", "--yes", "--skip-preview", "--expect-no-changes").returncode == 0


def test_steps_that_a_host_lost_or_that_were_changed_there_are_copied_anew(stack: Stack) -> None:
    made, (host, other) = stack
    up(made)
    swap = f"/{STEPS}/{step('swap').file}"
    host.run(f"rm {swap}")
    other.run(f"echo 'touch /run/owned' >>{swap}")
    assert "2 updated" in up(made)
    assert host.exists(swap)
    other.run(f"for file in /{STEPS}/*; do echo 'touch /run/owned' >>$file; done")
    refused = made.run("destroy", "--yes", "--skip-preview")
    assert refused.returncode != 0
    assert "found other steps; cure: run `pulumi up` again" in refused.stdout
    host.run(f"rm /{STEPS.parent}/prepare/steps")
    up(made)
    again = made.run("up", "--yes", "--skip-preview", "--expect-no-changes")
    assert again.returncode == 0, again.stdout[-3000:]
    down = made.run("destroy", "--yes", "--skip-preview")
    assert down.returncode == 0, down.stdout[-3000:]
    assert not any(one.exists("/run/owned") for one in (host, other))


def test_who_logs_in_as_another_user_is_root_for_the_copy(
    cluster: str, namespaces: None, tmp_path: Path
) -> None:
    made, (host,) = brought_up(cluster, tmp_path, "gpu-1", user="ubuntu")
    before = host.tree()
    up(made)
    folder = (host.root / STEPS).stat()
    assert (folder.st_uid, folder.st_mode & 0o777) == (0, 0o700)
    down = made.run("destroy", "--yes", "--skip-preview")
    assert down.returncode == 0, down.stdout[-3000:]
    assert differences(before, host.tree()) == {}
