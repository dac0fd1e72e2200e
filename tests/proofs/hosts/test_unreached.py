"""A host that gives no answer: the run that would change it changes no other host before it fails.

With the real engine, whose state tells what the silent host was last applied with.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.hosts import processes
from gpu_cluster_lab.simulator.hosts.model import hosts_dir
from lab.benchmarks.host_stack import HostStack
from tests.proofs.hosts.machine import differences, start

pytestmark = pytest.mark.full

PROGRAM = """\
import os
from pathlib import Path

import pulumi

from gpu_cluster.cluster import GpuClusterArgs, GpuHosts

key = Path(os.environ["GPU_CLUSTER_SSH_PRIVATE_KEY_FILE"]).read_text()
settings = pulumi.Config("gpu-cluster").require_object("cluster")
GpuHosts("site", GpuClusterArgs(settings=settings, private_key=key))
pulumi.export("done", True)
"""


def run(stack: HostStack) -> subprocess.CompletedProcess[str]:
    return stack.run("up", "--yes", "--skip-preview")


@pytest.mark.promise(
    "A host that gives no answer is a warning in a run that does not change it, and stops any "
    "other run before another host is changed."
)
def test_a_silent_host_stops_only_runs_that_change_it(
    cluster: str, namespaces: None, tmp_path: Path
) -> None:
    answering, silent = start(cluster, "gpu-1", "gpu-2", mode="namespaces")
    key, _ = simulated.client_key(cluster)
    stack = HostStack.make(tmp_path, "silent", [answering.declared, silent.declared], key)
    (stack.folder / "__main__.py").unlink()
    (stack.folder / "__main__.py").write_text(PROGRAM)
    first = run(stack)
    assert first.returncode == 0, first.stdout
    applied = stack.read()
    processes.end(hosts_dir(cluster) / "gpu-2")
    before = answering.tree(times=True)

    same = run(stack)
    assert same.returncode == 0, same.stdout
    assert "warning: host gpu-2: found no login as " in same.stdout
    assert "stage connection: Connection refused" in same.stdout

    stack.write({**applied, "system": {"sysctl": {"vm.max_map_count": "262144"}}})
    refused = run(stack)
    assert refused.returncode != 0, refused.stdout
    assert "a login that works, because this run changes it" in refused.stdout
    assert differences(before, answering.tree(times=True)) == {}

    only = [dict(each) for each in applied["hosts"]]
    only[0]["system"] = {"sysctl": {"vm.max_map_count": "262144"}}
    stack.write({**applied, "hosts": only})
    other = run(stack)
    assert other.returncode == 0, other.stdout
    assert "1 updated" in other.stdout
