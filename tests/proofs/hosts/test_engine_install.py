"""Install a container engine on hosts without one, with real apt, containerd and CRI."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.settings.hosts.runtime import RuntimeSettings
from gpu_cluster_lab.simulator.hosts import catalogue, rootfs
from gpu_cluster_lab.simulator.hosts.packages import Package
from tests.proofs.hosts import software
from tests.proofs.hosts.declared import runtime
from tests.proofs.hosts.machine import Running, differences

pytestmark = pytest.mark.full

CONFIG = "/etc/containerd/config.toml"
CRI = "io.containerd.grpc.v1.cri"
LEFT = ("upper/usr", "upper/opt", "opt")
"""Folders that dpkg leaves behind, and overlay whiteouts of packages that the fixture removed."""
DOCKERD = """#!/bin/sh
[ "$1" != --version ] || { echo "Docker version 28.5.1, build simulated"; exit 0; }
exec sleep infinity
"""
ADAPTER = """#!/usr/bin/perl
# Takes what cri-dockerd takes of what it is given, and listens where it is told.
use Socket;
pop if $ARGV[-1] =~ /^--pod-infra-container-image=./; # config/options.go
@ARGV == 2 && $ARGV[0] eq "--container-runtime-endpoint" && $ARGV[1] =~ m{^unix://(/.+)}
    or die "unknown flag: @ARGV";
unlink $1;
socket(LISTENER, PF_UNIX, SOCK_STREAM, 0) && bind(LISTENER, sockaddr_un($1)) or die;
listen(LISTENER, 1) or die;
sleep 1 while 1;
"""


@pytest.fixture
def bare(cluster: str, namespaces: None) -> Running:
    """Return a host from which the package manager has removed the container engine."""
    host = software.start(cluster, "debian")
    done = host.run(
        "systemctl stop containerd; dpkg -P containerd runc && rm -rf /var/lib/containerd"
    )
    assert done.status == 0, done
    return host


@pytest.fixture(params=["containerd", "containerd.io"])
def packaged(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Return the engine's section of a stack file, with Debian's or Docker's package repository."""
    root = rootfs.debian_root(lambda _: None)
    make = {"containerd": catalogue.containerd, "containerd.io": catalogue.containerd_io}
    with software.serving("debian", make[request.param](root)) as repository:
        yield {"packages": [request.param], "repository": repository}


def declared(install: dict[str, Any], **more: Any) -> str:
    """Return the script of phase `prepare` for a CPU host on which it installs a container engine.

    The engine is removed when the stack is destroyed.
    """
    sections = {"runtime": {"install": install, **more}, "packages": {"remove": True}}
    return software.script(sections, role="cpu-worker")


def served(host: Running) -> dict[str, Any]:
    """Return the configuration of the CRI plugin in the running containerd."""
    assert "io.containerd.grpc.v1" in host.run("ctr plugins ls | grep ' cri .* ok'").output
    merged = tomllib.loads(host.run("containerd config dump 2>/dev/null").output)
    table: dict[str, Any] = merged["plugins"][CRI]
    return table


def test_a_bare_host_gets_an_engine_with_cri_and_gives_it_back(
    bare: Running, packaged: dict[str, Any]
) -> None:
    before, packages = software.lasting(bare), software.installed(bare, "debian")
    script = declared(packaged)
    first = bare.apply(script)
    assert (first.status, first.errors) == (0, "")
    cri = served(bare)
    assert cri["containerd"]["runtimes"]["runc"]["options"]["SystemdCgroup"] is True
    # Kubernetes packages and network add-ons install CNI plugins in this folder (kubernetes-cni,
    # flannel).
    assert cri["cni"]["bin_dir"] == "/opt/cni/bin"
    assert software.held(bare, "debian") == set(packaged["packages"])
    pid = bare.read("/run/simulated-systemd/containerd.pid")
    assert bare.apply(script).output == "changed=0\n"
    assert bare.read("/run/simulated-systemd/containerd.pid") == pid
    assert software.drift(bare) == ()

    undone = bare.undo(script)
    assert (undone.status, undone.errors) == (0, "")
    assert software.installed(bare, "debian") == packages
    assert not bare.run("command -v containerd runc").output
    left = differences(before, software.lasting(bare))
    assert {path for path in left if not path.startswith(LEFT)} == set()


def test_sandboxes_are_of_the_declared_image(bare: Running, packaged: dict[str, Any]) -> None:
    default = declared(packaged)
    assert bare.apply(default).status == 0
    image = "registry.example.com/pause:3.10.1"
    script = declared({**packaged, "sandboxImage": image})
    assert "+ unit containerd restarted" in bare.apply(script).output.splitlines()
    assert served(bare)["sandbox_image"] == image
    # The NVIDIA runtime's drop-in copies this section, so it must contain the sandbox image.
    assert bare.apply(runtime(RuntimeSettings())).status == 0
    assert served(bare)["sandbox_image"] == image
    # containerd 1.6 only uses a changed sandbox image after the drop-in was written again.
    assert bare.apply(default).status == 0
    assert bare.apply(runtime(RuntimeSettings())).status == 0
    assert served(bare)["sandbox_image"] != image


def test_the_nvidia_runtime_comes_and_goes_on_top(bare: Running, packaged: dict[str, Any]) -> None:
    script, phase = declared(packaged), runtime(RuntimeSettings())
    assert bare.apply(script).status == 0
    view = served(bare)
    applied = bare.apply(phase)
    assert (applied.status, applied.errors) == (0, "")
    assert served(bare)["containerd"]["default_runtime_name"] == "nvidia"
    assert served(bare)["cni"] == view["cni"]
    for text in (script, phase):
        assert bare.apply(text).output == "changed=0\n"
    assert software.drift(bare) == ()
    assert bare.undo(phase).status == 0
    assert served(bare) == view
    assert software.drift(bare) == ()


def test_a_changed_declaration_restarts_the_engine_once(
    bare: Running, packaged: dict[str, Any]
) -> None:
    assert bare.apply(declared(packaged)).status == 0
    changed = bare.apply(declared(packaged, systemdCgroup=False))
    assert "+ unit containerd restarted" in changed.output.splitlines()
    runtimes = served(bare)["containerd"]["runtimes"]
    assert runtimes["runc"]["options"]["SystemdCgroup"] is False


def test_an_engine_that_was_there_stays_as_it_is(host: Running, packaged: dict[str, Any]) -> None:
    before, packages = software.lasting(host), software.installed(host, "debian")
    script = declared(packaged)
    done = host.apply(script)
    assert (done.status, software.installed(host, "debian")) == (0, packages)
    assert "! containerd was on this host before and stays as it is" in done.output
    assert host.undo(script).status == 0
    assert differences(before, software.lasting(host)) == {}

    host.write(CONFIG, 'disabled_plugins = ["cri"]\n')
    refused = host.apply(script)
    assert refused.status == 1
    assert "was on this host before, with CRI disabled; wanted CRI" in refused.errors


def archive(program: str) -> bytes:
    """Return a release archive of cri-dockerd with the given program in it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo("cri-dockerd/cri-dockerd")
        entry.size, entry.mode = len(program), 0o755
        tar.addfile(entry, io.BytesIO(program.encode()))
    return packed.getvalue()


@pytest.fixture
def docker(bare: Running, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Return a section that declares a fake Docker and a cri-dockerd archive on the host.

    The archive contains a fake cri-dockerd.
    """
    unit = "[Service]\nExecStart=/usr/bin/dockerd\n[Install]\nWantedBy=multi-user.target\n"
    files = {"/usr/bin/dockerd": DOCKERD, "/usr/lib/systemd/system/docker.service": unit}
    files["/usr/bin/docker"] = "#!/bin/sh\nexit 0\n"
    data = archive(ADAPTER)
    (bare.root / "root/cri-dockerd.tgz").write_bytes(data)
    with software.serving("debian", [Package("docker-ce", "28.5.1-1", files)]) as repository:
        yield {
            "packages": ["docker-ce"],
            "repository": repository,
            "criDockerd": {
                "locations": ["/root/cri-dockerd.tgz"],
                "sha256": hashlib.sha256(data).hexdigest(),
            },
        }


def test_docker_comes_with_its_adapter_and_goes(bare: Running, docker: dict[str, Any]) -> None:
    before, packages = software.lasting(bare), software.installed(bare, "debian")
    script = declared(docker, engine="docker")
    first = bare.apply(script)
    assert (first.status, first.errors) == (0, "")
    assert bare.run("test -S /run/cri-dockerd.sock").status == 0
    assert bare.apply(script).output == "changed=0\n"
    assert software.drift(bare) == ()
    bare.run("systemctl stop cri-docker")
    assert software.drift(bare) == ("cri-docker is not active",)

    undone = bare.undo(script)
    assert (undone.status, undone.errors) == (0, "")
    assert software.installed(bare, "debian") == packages
    left = differences(before, software.lasting(bare))
    assert {path for path in left if not path.startswith(LEFT)} == set()


def test_the_adapter_is_told_the_sandbox_s_image(bare: Running, docker: dict[str, Any]) -> None:
    docker["sandboxImage"] = "registry.example.com/pause:3.10.1"
    assert bare.apply(declared(docker, engine="docker")).status == 0
    unit = bare.read("/etc/systemd/system/cri-docker.service")
    assert f"--pod-infra-container-image={docker['sandboxImage']}" in unit
    words = bare.run("tr '\\0' ' ' </proc/$(cat /run/simulated-systemd/cri-docker.pid)/cmdline")
    assert f"--pod-infra-container-image={docker['sandboxImage']}" in words.output


def test_an_adapter_with_another_sum_is_not_run(bare: Running, docker: dict[str, Any]) -> None:
    docker["criDockerd"]["sha256"] = "0" * 64
    refused = bare.apply(declared(docker, engine="docker"))
    assert refused.status == 1
    assert f"wanted {'0' * 64}" in refused.errors
    assert not bare.exists("/usr/local/bin/cri-dockerd")


def test_a_newer_adapter_replaces_the_former_and_runs(
    bare: Running, docker: dict[str, Any]
) -> None:
    assert bare.apply(declared(docker, engine="docker")).status == 0
    data = archive(ADAPTER + "# newer\n")
    (bare.root / "root/cri-dockerd.tgz").write_bytes(data)
    newer = json.loads(json.dumps(docker))
    newer["criDockerd"]["sha256"] = hashlib.sha256(data).hexdigest()
    done = bare.apply(declared(newer, engine="docker"))
    assert (done.status, done.errors) == (0, "")
    assert "+ unit cri-docker restarted" in done.output.splitlines()
    assert bare.read("/usr/local/bin/cri-dockerd").endswith("# newer\n")
