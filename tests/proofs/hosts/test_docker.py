"""Configure Docker as the container engine, checked against the real daemon's `docker info`.

Each Docker daemon runs in its own network namespace, so that its bridge and iptables rules don't
affect the test machine. `iptables` on the simulated host uses the same namespace.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_cluster.settings.hosts.runtime import DefaultRuntime
from tests.proofs.hosts.docker import (
    CONFIG,
    EARLIER,
    UNIT,
    changed_by_undo,
    merged,
    pid,
    refuse_data_root,
    says,
    script,
)
from tests.proofs.hosts.machine import Running, differences

pytestmark = pytest.mark.full


def test_daemon_json_is_merged_and_comes_back(docker: Running) -> None:
    before, process = docker.tree(), pid(docker)
    assert docker.run("iptables -S FORWARD").output.startswith("-P FORWARD DROP")
    wanted = script(
        cdi=True,
        docker={
            "registry_mirrors": ("https://mirror.example.org", "https://earlier.example.org"),
            "storage_driver": "leave",
            "members": ("alice",),
        },
    )
    first = docker.apply(wanted)
    assert (first.status, first.errors) == (0, "")
    assert "+ docker reloaded" in first.output.splitlines()
    assert pid(docker) == process, "a reload is enough, so the daemon was not restarted"
    content = merged(docker)
    assert content["runtimes"] == EARLIER["runtimes"] | {
        "nvidia": {"args": [], "path": "/usr/bin/nvidia-container-runtime"}
    }
    assert content["default-runtime"] == "nvidia"
    assert content["registry-mirrors"] == [
        "https://earlier.example.org",
        "https://mirror.example.org",
    ]
    for key in (
        "log-opts",
        "features",
        "exec-opts",
        "max-concurrent-downloads",
        "dns",
        "max-concurrent-uploads",
    ):
        assert content[key] == EARLIER[key], key
    view = says(docker)
    assert view["DefaultRuntime"] == "nvidia"
    assert {"kata", "nvidia", "runc"} <= view["Runtimes"].keys()
    assert "https://mirror.example.org/" in view["RegistryConfig"]["Mirrors"]
    assert "docker" in docker.run("id -nG alice").output.split()
    assert docker.run("iptables -S FORWARD").output.startswith("-P FORWARD ACCEPT")

    settled = docker.tree(times=True)
    second = docker.apply(wanted)
    assert (second.output.splitlines()[-1], second.errors) == ("changed=0", "")
    assert differences(settled, docker.tree(times=True)) == {}

    assert docker.undo(wanted).status == 0
    assert changed_by_undo(differences(before, docker.tree())) == {}
    assert docker.run("iptables -S FORWARD").output.startswith("-P FORWARD DROP")
    assert says(docker)["DefaultRuntime"] == "runc"


@pytest.mark.parametrize("place", ["/data/docker", "/data"])
def test_data_move_and_move_back(docker: Running, place: str) -> None:
    docker.write("/var/lib/docker/precious", "layers\n")
    wanted = script(docker={"data_root": place, "forward": "leave"})
    done = docker.apply(wanted)
    assert (done.status, done.errors) == (0, "")
    assert says(docker)["DockerRootDir"] == place
    assert says(docker)["Driver"] == "overlay2"
    assert docker.read(f"{place}/precious") == "layers\n"
    assert not docker.exists("/var/lib/docker/precious")
    assert docker.apply(wanted).output.splitlines()[-1] == "changed=0"
    assert docker.undo(wanted).status == 0
    assert says(docker)["DockerRootDir"] == "/var/lib/docker"
    assert docker.read("/var/lib/docker/precious") == "layers\n"
    assert docker.run("ls -A /data").output == ""
    assert json.loads(docker.read(CONFIG)) == EARLIER


def test_a_daemon_that_refuses_gets_file_and_data_back(docker: Running) -> None:
    docker.write("/var/lib/docker/precious", "layers\n")
    refuse_data_root(docker)
    text = docker.read(CONFIG)
    failed = docker.apply(script(docker={"data_root": "/data/docker", "forward": "leave"}))
    assert failed.status == 1
    assert "so the old one was restored" in failed.errors
    assert docker.read(CONFIG) == text
    assert docker.read("/var/lib/docker/precious") == "layers\n"
    assert not docker.exists("/data/docker")
    assert docker.run("systemctl is-active docker").output == "active\n"


def flagged(host: Running, flags: str, **settings: Any) -> None:
    """Start Docker with flags in its systemd unit and with settings in daemon.json."""
    host.write(CONFIG, json.dumps(settings))
    unit = UNIT.replace("dockerd-apart ", f"dockerd-apart {flags} ")
    host.write("/etc/systemd/system/docker.service", unit)
    done = host.run("systemctl daemon-reload; systemctl restart docker")
    assert done.status == 0, done


@pytest.mark.promise(
    "What a flag of Docker's unit says is not repeated in daemon.json, with which Docker would not "
    "start; a flag that says something else than declared is named before anything changes."
)
def test_flags_of_the_unit_are_kept(docker: Running) -> None:
    """Docker flags in a systemd unit are kept and not repeated in daemon.json.

    The units of docker-machine and kubespray, and Docker's older guides, set these flags. Sources:
    moby/moby issue 43493 (--graph), minikube pull request 16235 (storage-driver), kubespray
    roles/container-engine/docker/templates/docker-options.conf.j2.
    """
    flagged(
        docker,
        "-s vfs --data-root=/data/docker --exec-opt native.cgroupdriver=cgroupfs"
        " --registry-mirror=https://mirror.example.org --add-runtime"
        " nvidia=/usr/bin/nvidia-container-runtime --default-runtime nvidia",
    )
    process, before = pid(docker), docker.read(CONFIG)
    wanted = script(docker={"registry_mirrors": ("https://mirror.example.org",)})
    done = docker.apply(wanted)
    assert (done.status, done.errors) == (0, "")
    assert "Docker's storage driver stays vfs: a flag in the unit docker says so" in done.output
    assert json.loads(docker.read(CONFIG)) == {}
    view = says(docker)
    assert (view["DockerRootDir"], view["Driver"]) == ("/data/docker", "vfs")
    assert view["DefaultRuntime"] == "nvidia"
    assert pid(docker) == process
    assert docker.apply(wanted).output.splitlines()[-1] == "changed=0"
    assert docker.undo(wanted).status == 0
    assert docker.read(CONFIG) == before


FLAGS: dict[str, tuple[dict[str, Any], str]] = {
    "--data-root=/var/lib/docker": ({"docker": {"data_root": "/data/docker"}}, "--data-root="),
    "--registry-mirror https://other.example.org": (
        {"docker": {"registry_mirrors": ("https://mirror.example.org",)}},
        "runtime.docker.registryMirrors: https://mirror.example.org",
    ),
}


@pytest.mark.parametrize("flags", FLAGS)
def test_a_flag_that_says_otherwise_is_named_before_a_change(docker: Running, flags: str) -> None:
    settings, told = FLAGS[flags]
    flagged(docker, flags)
    process, text = pid(docker), docker.read(CONFIG)
    refused = docker.apply(script(**settings))
    assert refused.status == 1
    assert f"found the flag {flags.split(maxsplit=1)[0].partition('=')[0]}=" in refused.errors
    assert told in refused.errors
    assert "nothing was changed on this host" in refused.errors
    assert (pid(docker), docker.read(CONFIG)) == (process, text)


def test_the_file_that_the_unit_names_is_merged(docker: Running) -> None:
    other = "/etc/docker/site.json"
    docker.write(other, '{"max-concurrent-downloads": 9}')
    flagged(docker, f"--config-file {other}")
    wanted = script(docker={"forward": "leave"})
    done = docker.apply(wanted)
    assert (done.status, done.errors) == (0, "")
    assert "nvidia" in docker.read(other)
    assert docker.read(CONFIG) == "{}"
    assert says(docker)["DefaultRuntime"] == "nvidia"
    assert docker.undo(wanted).status == 0
    assert docker.read(other) == '{"max-concurrent-downloads": 9}'


@pytest.mark.refusal(by="real part")
def test_a_storage_driver_that_the_disk_can_not_carry_is_told(docker: Running) -> None:
    docker.run("systemctl stop docker; umount /var/lib/docker; systemctl start docker")
    assert says(docker)["Driver"] == "vfs"
    done = docker.apply(script(docker={"forward": "leave"}))
    assert (done.status, done.errors) == (0, "")
    assert "overlay2 does not work on overlayfs (/var/lib/docker)" in done.output
    assert "storage-driver" not in merged(docker)
    assert says(docker)["Driver"] == "vfs"


def test_a_setting_that_is_no_longer_declared_goes(docker: Running) -> None:
    docker.apply(script(docker={"registry_mirrors": ("https://mirror.example.org",)}))
    assert docker.exists("/etc/systemd/system/docker.service.d/gpu-cluster-forward.conf")
    done = docker.apply(script(default_runtime=DefaultRuntime.RUNC, docker={"forward": "leave"}))
    assert (done.status, done.errors) == (0, "")
    content = merged(docker)
    assert content["registry-mirrors"] == EARLIER["registry-mirrors"]
    assert "default-runtime" not in content
    assert not docker.exists("/etc/systemd/system/docker.service.d/gpu-cluster-forward.conf")
    assert docker.run("iptables -S FORWARD").output.startswith("-P FORWARD DROP")
    assert says(docker)["DefaultRuntime"] == "runc"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "files in the new place": ({"data_root": "/etc/ssh"}, "files in /etc/ssh"),
    "a disk that can't carry the data": (
        {"data_root": "/srv/docker"},
        "found overlayfs below /srv/docker",
    ),
    "no such user": ({"members": ("bob",)}, "no user bob"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_docker_cannot_do_is_refused_and_nothing_is_touched(
    docker: Running, name: str
) -> None:
    settings, told = REFUSED[name]
    before = docker.tree(times=True)
    refused = docker.apply(script(docker=settings))
    assert refused.status == 1
    assert told in refused.errors
    assert "nothing was changed on this host" in refused.errors
    assert {
        path
        for path in differences(before, docker.tree(times=True))
        if not path.startswith("var/lib/gpu-cluster")
    } == set()
    assert docker.run("systemctl is-active docker").output == "active\n"
