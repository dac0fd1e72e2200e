"""Before a driver change, processes that use a GPU are reported by owner, and none is ended.

Source of the situations: NVIDIA/gpu-operator issues 2570 and 2509 (a pod without a request and an
exporter's DaemonSet keep the module loaded; "driver is in use" names nobody). The processes and
their open devices are real; the cgroups of pods and units are bind mounts, because neither kubelet
nor systemd runs here.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_lab.simulator.hosts import catalogue
from gpu_cluster_lab.simulator.hosts.packages import served
from tests.proofs.hosts import software
from tests.proofs.hosts.machine import Running

pytestmark = pytest.mark.slow

OLD, NEW = "580.65.06", "595.91.07"
UID = "0f2d1c3b-1111-4222-8333-444455556666"
POD = f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-ab.scope"


def hold(host: Running, name: str, group: str = "") -> None:
    """Start a process that keeps a GPU device open, in the cgroup of a pod, unit or session."""
    host.write(f"/root/{name}.cgroup", f"{group}\n")
    mount = f"; mount --bind /root/{name}.cgroup /proc/$!/cgroup" if group else ""
    started = host.run(
        f"cp /bin/sleep /usr/local/bin/{name}; "
        f"{name} 600 </dev/nvidiactl >/dev/null 2>&1 & echo $! >/root/{name}.pid{mount}"
    )
    assert started.status == 0, started


def release(host: Running, name: str) -> None:
    host.run(f"umount /proc/$(cat /root/{name}.pid)/cgroup; kill $(cat /root/{name}.pid)")


def declared(tools: dict[str, Any], url: str, version: str) -> str:
    digest = hashlib.sha256(catalogue.driver_runfile(version)).hexdigest()
    runfile = {"locations": [f"{url}/{version}.run"], "sha256": digest}
    driver = {"source": "runfile", "version": version, "runfile": runfile}
    return software.script({"packages": {"repository": tools}, "driver": driver})


@pytest.mark.promise(
    "Before a driver changes, each pod, unit and process that has a GPU open is named; what the "
    "change does not stop is never ended."
)
def test_each_holder_of_a_gpu_is_named_and_nothing_is_stopped(
    cluster: str, namespaces: None, tmp_path: Path
) -> None:
    host = software.start(cluster, "debian")
    for version in (OLD, NEW):
        (tmp_path / f"{version}.run").write_bytes(catalogue.driver_runfile(version))
    packages = [*catalogue.build_tools(), *catalogue.headers_apt()]
    with software.serving("debian", packages) as tools, served(tmp_path) as url:
        assert host.apply(declared(tools, url, OLD)).status == 0
        host.run(f"touch /dev/nvidiactl; mkdir -p /var/log/pods/monitoring_exporter-x2_{UID}")
        hold(host, "dcgm-exporter", POD)
        hold(host, "jupyter", "0::/system.slice/jupyter.service")
        hold(host, "train", "0::/user.slice/user-1000.slice/session-3.scope")
        # This unit isn't reported, because the driver change itself stops and starts it.
        hold(host, "nv-hostengine", "0::/system.slice/nvidia-dcgm.service")
        refused = host.apply(declared(tools, url, NEW))
        assert refused.status == 1
        assert "pod monitoring/exporter-x2 (process" in refused.errors
        assert "unit jupyter (process" in refused.errors
        assert "(train)" in refused.errors
        assert "nv-hostengine" not in refused.errors
        assert f"while driver {OLD} is replaced" in refused.errors
        assert OLD in host.read("/proc/driver/nvidia/version")
        assert host.run("systemctl is-active nvidia-persistenced").output == "active\n"
        for name in ("dcgm-exporter", "jupyter", "train", "nv-hostengine"):
            assert host.run(f"kill -0 $(cat /root/{name}.pid)").status == 0
            release(host, name)
        done = host.apply(declared(tools, url, NEW))
        assert (done.status, done.errors) == (0, "")
        assert NEW in host.read("/proc/driver/nvidia/version")
