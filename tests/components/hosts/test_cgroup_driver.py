"""A kubelet from Kubernetes 1.34 on uses the cgroup driver that its engine tells over CRI."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from tests.proofs.world.hosts import shell

PARTS = (
    *("library/base", "library/json", "library/versions", "library/cri"),
    *("library/running", "library/kubelet", "library/runtime"),
)
RUNS, STOPPED = "77", ""
CONFIG = "var/lib/kubelet/config.yaml"
METHOD = "/runtime.v1.RuntimeService/RuntimeConfig"
TELLS = {"systemd": b"\x0a\x00", "cgroupfs": b"\x0a\x02\x08\x01"}
"""RuntimeConfigResponse of each driver (k8s.io/cri-api, runtime/v1/api.proto)."""


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Return a folder for a socket, whose path has at most 108 characters (unix(7))."""
    with tempfile.TemporaryDirectory(prefix="gpu-cluster-", dir="/tmp") as folder:
        yield Path(folder)


@contextlib.contextmanager
def engine(socket: Path, driver: str) -> Iterator[None]:
    """Answer RuntimeConfig on a socket. No driver: the method is unknown, as in containerd 1.7."""

    class Handler(grpc.GenericRpcHandler):
        def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
            if call.method != METHOD or not driver:
                return None
            return grpc.unary_unary_rpc_method_handler(lambda _, __: TELLS[driver])

    socket.parent.mkdir(parents=True)
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([Handler()])
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()


@pytest.mark.promise(
    "The cgroup driver of a kubelet from Kubernetes 1.34 on is what its engine tells over CRI."
)
@pytest.mark.parametrize(
    ("release", "pid", "tells", "file", "declared", "found"),
    [
        ("1.34.0", RUNS, "systemd", "", "true", ""),
        ("1.34.0", RUNS, "systemd", "cgroupDriver: cgroupfs\n", "true", ""),
        ("1.35.2", RUNS, "cgroupfs", "cgroupDriver: systemd\n", "false", ""),
        (
            "1.34.0",
            RUNS,
            "cgroupfs",
            "cgroupDriver: systemd\n",
            "true",
            "cgroup driver cgroupfs of",
        ),
        ("1.34.0", STOPPED, "cgroupfs", "", "true", ""),
        # Engines that don't know the method: the kubelet's own setting counts.
        ("1.34.0", RUNS, "", "", "true", "cgroupDriver cgroupfs in"),
        ("1.34.0", RUNS, "", "cgroupDriver: systemd\n", "true", ""),
        ("1.33.9", RUNS, "systemd", "", "true", "cgroupDriver cgroupfs in"),
        ("1.33.9", RUNS, "cgroupfs", "cgroupDriver: systemd\n", "true", ""),
    ],
)
def test_the_engine_tells_a_kubelet_its_cgroup_driver_from_a_release_on(
    short_path: Path, release: str, pid: str, tells: str, file: str, declared: str, found: str
) -> None:
    kubelet = short_path / "kubelet"
    kubelet.write_text(f"#!/bin/sh\necho Kubernetes v{release}\n")
    kubelet.chmod(0o755)
    (short_path / CONFIG).parent.mkdir(parents=True)
    (short_path / CONFIG).write_text(f"kind: KubeletConfiguration\n{file}")
    running = f': >"$scratch/words"\npid="{pid}" running_program={kubelet}'
    check = f"GC_SYSTEMD_CGROUP={declared}\nrequire_cgroup_driver\nrefuse_problems\n"
    with engine(short_path / "run/containerd/containerd.sock", tells):
        done = shell.run(short_path, PARTS, f"find_running() {{\n{running}\n}}\n{check}")
    assert (done.returncode == 1) is bool(found), done
    assert f"found {found}" in done.stderr if found else not done.stderr
