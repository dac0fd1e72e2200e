"""Full runs of `up` that drain, reboot and uncordon hosts and change a container engine.

A reboot is simulated: the host's namespaces end and start again with a new boot id. Kwok simulates
the nodes.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.hosts.model import hosts_dir
from lab.benchmarks.host_stack import HostStack
from tests.guard import own_name
from tests.proofs.e2e.project import Project, started
from tests.proofs.hosts.docker import EARLIER, changed_by_undo, merged, says
from tests.proofs.hosts.machine import Declared, Running, differences

pytestmark = pytest.mark.full

Json = dict[str, Any]
CORDONED = "unschedulable"
DROPIN = "/etc/containerd/conf.d/99-nvidia.toml"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Deploy a project with four nodes, of which two are hosts that `up` may reboot."""
    made = Project.make(tmp_path_factory.mktemp("reboot"), own_name("reboot"))
    limits = {"reboot": {"when": "required", "timeoutSeconds": 60}}
    made.edit(lambda cluster: cluster.update(limits, rollout={"drainTimeoutSeconds": 60}))
    with started(made):
        yield made


@pytest.fixture(scope="module")
def hosts(project: Project) -> dict[str, Running]:
    key, _ = simulated.client_key(project.stack)
    return {
        host["name"]: Running(project.stack, Declared(host["name"], host["port"]), key.read_text())
        for host in project.read()["hosts"]
    }


def boot_id(host: Running) -> str:
    return host.read("/proc/sys/kernel/random/boot_id").strip()


class Boot:
    """Delays the next boot of a host until the test has read the state of the host's node."""

    def __init__(self, project: Project, name: str) -> None:
        self._project = project
        self._name = name
        self._power = hosts_dir(project.stack) / name / "power"
        self._ended = threading.Event()
        self.cordoned: list[bool] = []
        """For each delayed boot, whether the node was cordoned while its host was down."""

    def _look(self) -> None:
        while not (self._power / "off").exists():
            if self._ended.wait(0.05):
                return
        node = self._project.request("GET", f"nodes/{self._name}")
        self.cordoned.append(bool(node["spec"].get(CORDONED)))
        (self._power / "hold").unlink()

    @contextmanager
    def held(self) -> Iterator[None]:
        (self._power / "hold").touch()
        thread = threading.Thread(target=self._look)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            (self._power / "hold").unlink(missing_ok=True)


def workload(project: Project, node: str) -> str:
    """Create a Deployment with one pod on a node, wait for the pod, and return the pod's name."""
    labels = {"app": "moved"}
    namespace = {"metadata": {"name": "moved"}}
    project.request("POST", "namespaces", body=namespace)
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "containers": [{"name": "c", "image": "sample"}],
        },
    }
    body: Json = {
        "metadata": {"name": "moved"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    project.request("POST", "namespaces/moved/deployments", base="/apis/apps", body=body)
    return running(project)


def running(project: Project, limit: float = 60) -> str:
    """Return the name of the Deployment's running pod; fail after `limit` seconds."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        for pod in project.request("GET", "namespaces/moved/pods")["items"]:
            if pod["status"]["phase"] == "Running" and not pod["metadata"].get("deletionTimestamp"):
                return str(pod["metadata"]["name"])
        time.sleep(0.1)
    raise AssertionError(f"no running pod after {limit} s")


def up(project: Project) -> tuple[str, tuple[int, int, int]]:
    """Run `up`; return its output and the three numbers in its last line."""
    done = project.command("up")
    assert done.returncode == 0, done.stdout
    match = re.search(r"up: (\d+) of (\d+) GPUs simulated, (\d+) resources changed", done.stdout)
    assert match, done.stdout
    validated, declared, changed = map(int, match.groups())
    return done.stdout, (validated, declared, changed)


def test_up_drains_reboots_and_gives_back_the_host_that_needs_it(
    project: Project, hosts: dict[str, Running]
) -> None:
    hosts["gpu-1"].run("modprobe nouveau")
    pod = workload(project, "gpu-1")
    before = {name: boot_id(host) for name, host in hosts.items()}
    boot = Boot(project, "gpu-1")
    with boot.held():
        _, figures = up(project)
    assert figures[:2] == (32, 32)
    assert boot_id(hosts["gpu-1"]) != before["gpu-1"]
    assert boot_id(hosts["gpu-2"]) == before["gpu-2"]
    assert boot.cordoned == [True], "while it was down"
    assert running(project) != pod, "evicted, and made again after the boot"
    for name in hosts:
        node = project.request("GET", f"nodes/{name}")
        assert CORDONED not in node["spec"]
    assert not hosts["gpu-1"].exists("/sys/module/nouveau")
    assert hosts["gpu-1"].exists(DROPIN)

    settled = {name: boot_id(host) for name, host in hosts.items()}
    assert up(project)[1] == (32, 32, 0)
    assert {name: boot_id(host) for name, host in hosts.items()} == settled


def test_a_reboot_that_became_due_shows_in_the_preview_and_up_does_it(
    project: Project, hosts: dict[str, Running]
) -> None:
    up(project)
    before = {name: boot_id(host) for name, host in hosts.items()}
    hosts["gpu-2"].run("modprobe nouveau")
    hosts["gpu-2"].write("/run/gpu-cluster/reboot-required", "nouveau is loaded\n")
    preview = project.pulumi("preview", "--diff")
    assert preview.returncode == 0, preview.stdout
    assert "due: host gpu-2: reboot: nouveau is loaded" in preview.stdout
    assert {name: boot_id(host) for name, host in hosts.items()} == before
    _, figures = up(project)
    assert figures[:2] == (32, 32)
    assert boot_id(hosts["gpu-2"]) != before["gpu-2"]
    assert boot_id(hosts["gpu-1"]) == before["gpu-1"]
    assert CORDONED not in project.request("GET", "nodes/gpu-2")["spec"]
    assert up(project)[1] == (32, 32, 0)


def test_destroy_after_reboots_leaves_nothing_on_the_hosts(
    project: Project, hosts: dict[str, Running]
) -> None:
    done = project.command("destroy")
    assert done.returncode == 0, done.stdout
    for host in hosts.values():
        assert not host.exists("/var/lib/gpu-cluster")
        assert not host.exists(DROPIN)
        assert not host.exists("/etc/modprobe.d/gpu-cluster-blacklist.conf")


def test_up_changes_the_container_engine_and_changes_it_back(
    docker: Running, tmp_path: Path
) -> None:
    before = docker.tree()
    key, _ = simulated.client_key(docker.cluster)
    stack = HostStack.make(tmp_path / "stack", "engine", [docker.declared], key)
    plain = stack.read()
    engines: dict[str, Json] = {
        "containerd": {"engine": "containerd"},
        "docker": {
            "engine": "docker",
            "systemdCgroup": False,
            "docker": {"storageDriver": "leave", "members": ["alice"]},
        },
    }

    def containerd_has_nvidia() -> bool:
        return "containerd.runtimes.nvidia]" in docker.run("containerd config dump").output

    for engine in ("containerd", "docker", "containerd"):
        stack.write({**plain, "runtime": engines[engine]})
        if stack.checkpoint().count("hosts-gpu-1"):
            preview = stack.run("preview", "--diff")
            assert "replace" in preview.stdout
        stack.timed("up", "--yes", "--skip-preview")
        assert docker.exists(DROPIN) is containerd_has_nvidia() is (engine == "containerd")
        assert ("nvidia" in merged(docker)["runtimes"]) is (engine == "docker")
        assert says(docker)["DefaultRuntime"] == ("nvidia" if engine == "docker" else "runc")
        assert ("docker" in docker.run("id -nG alice").output.split()) is (engine == "docker")
        assert merged(docker)["log-opts"] == EARLIER["log-opts"]
        stack.timed("up", "--yes", "--skip-preview", "--expect-no-changes")
    stack.timed("destroy", "--yes", "--skip-preview")
    assert changed_by_undo(differences(before, docker.tree())) == {}


DOCKERS = """\
#!/bin/sh
case "$*" in
    --version) echo "containerd containerd.io 1.6.21 3dce8eb055cbb6872793272b4f20ed16117344f8" ;;
    *) exec /usr/libexec/containerd-of-debian "$@" ;;
esac
"""


@pytest.mark.promise("containerd of Docker's packages needs no `runtime.install`.")
def test_a_host_with_dockers_containerd_goes_up_without_an_installation(
    host: Running, tmp_path: Path
) -> None:
    """Docker's package prints its own name in place of the Go module.

    Text: ssst0n3/docker_archive, docker/v24.0.5/README.md.
    """
    host.run("mv /usr/bin/containerd /usr/libexec/containerd-of-debian")
    host.write("/usr/bin/containerd", DOCKERS)
    host.run("chmod 755 /usr/bin/containerd; systemctl restart containerd")
    key, _ = simulated.client_key(host.cluster)
    stack = HostStack.make(tmp_path / "stack", "dockers", [host.declared], key)
    stack.timed("up", "--yes", "--skip-preview")
    assert host.exists(DROPIN)
    stack.timed("up", "--yes", "--skip-preview", "--expect-no-changes")
    stack.timed("destroy", "--yes", "--skip-preview")
    assert not host.exists(DROPIN)
