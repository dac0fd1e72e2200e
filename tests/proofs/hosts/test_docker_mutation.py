"""Mutation tests: a check must fail if a shell function of the Docker step does nothing.

The function `smi_in_container` is not tested, because it needs an image and a GPU.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable

import pytest

from gpu_cluster.hosts.steps import every
from tests.proofs.hosts.declared import step
from tests.proofs.hosts.docker import (
    APART,
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
from tests.proofs.hosts.mutants import emptied_of

pytestmark = pytest.mark.full

UNIT_FILE = "/etc/systemd/system/docker.service"
WHOLE = script(
    docker={"registry_mirrors": ("https://mirror.example.org",), "members": ("alice",)},
)
MOVED = script(docker={"data_root": "/data/docker", "forward": "leave"})


def merges(host: Running, mutant: Callable[[str], str]) -> bool:
    """Check that Docker's settings are merged once, and that undo restores the earlier settings."""
    text, before, process = mutant(WHOLE), host.tree(), pid(host)
    if host.apply(text).status != 0:
        return False
    content, view, started = merged(host), says(host), pid(host)
    groups = host.run("id -nG alice").output.split()
    forward = host.run("iptables -S FORWARD").output
    again = host.apply(text).output.splitlines()[-1]
    # The changed storage driver takes effect with exactly one restart of Docker.
    once = started == pid(host) and started != process
    undone = host.undo(text)
    return (
        content["registry-mirrors"] == [*EARLIER["registry-mirrors"], "https://mirror.example.org"]
        and content["storage-driver"] == view["Driver"] == "overlay2"
        and content["log-opts"] == EARLIER["log-opts"]
        and view["DefaultRuntime"] == "nvidia"
        and {"kata", "nvidia"} <= view["Runtimes"].keys()
        and "docker" in groups
        and forward.startswith("-P FORWARD ACCEPT")
        and (again, once) == ("changed=0", True)
        and undone.status == 0
        and changed_by_undo(differences(before, host.tree())) == {}
        and "docker" not in host.run("id -nG alice").output.split()
        and host.run("iptables -S FORWARD").output.startswith("-P FORWARD DROP")
        and says(host)["DefaultRuntime"] == "runc"
    )


def moves(host: Running, mutant: Callable[[str], str]) -> bool:
    """Check that Docker's data moves to the declared data root, and back on undo."""
    text = mutant(MOVED)
    host.write("/var/lib/docker/precious", "layers\n")
    if host.apply(text).status != 0:
        return False
    root, old = says(host)["DockerRootDir"], host.exists("/var/lib/docker/precious")
    there = host.exists("/data/docker/precious")
    undone = host.undo(text).status
    return (
        (root, old, there, undone) == ("/data/docker", False, True, 0)
        and says(host)["DockerRootDir"] == "/var/lib/docker"
        and host.exists("/var/lib/docker/precious")
        and not host.exists("/data/docker")
    )


def refuses(host: Running, mutant: Callable[[str], str]) -> bool:
    """Check that the script reports all settings that are impossible, and then changes nothing."""
    host.run("mkdir -p /small /full; mount -t tmpfs -o size=64k small /small")
    host.write("/full/a", "")
    host.run("head -c 200000 /dev/urandom >/var/lib/docker/large")
    text = host.read(CONFIG)
    try:
        for settings, told in (
            ({"members": ("bob",)}, "no user bob"),
            ({"data_root": "/full"}, "files in /full"),
            ({"data_root": "/small/docker"}, "MiB free for /small/docker"),
        ):
            refused = host.apply(mutant(script(docker=settings)))
            if refused.status != 1 or told not in refused.errors or host.read(CONFIG) != text:
                return False
        return True
    finally:
        host.undo(WHOLE)
        host.run("umount /small; rm -rf /small /full /var/lib/docker/large")


def refuses_present(host: Running, mutant: Callable[[str], str]) -> bool:
    """Check that a daemon.json that the running Docker refuses is reported with Docker's reason."""
    host.write(CONFIG, '{"no-such-directive": true}')
    try:
        refused = host.apply(mutant(script(docker={"forward": "leave"})))
        return (
            refused.status == 1
            and "daemon.json that the running Docker" in refused.errors
            and "don't match any configuration option: no-such-directive" in refused.errors
        )
    finally:
        host.write(CONFIG, json.dumps(EARLIER))


def comes_back(host: Running, mutant: Callable[[str], str]) -> bool:
    """Check that old files and data are restored if Docker doesn't start with the new files."""
    host.write("/var/lib/docker/precious", "layers\n")
    refuse_data_root(host)
    text = host.read(CONFIG)
    try:
        failed = host.apply(mutant(MOVED))
        return (
            failed.status == 1
            and "so the old one was restored" in failed.errors
            and host.read(CONFIG) == text
            and host.exists("/var/lib/docker/precious")
            and not host.exists("/data/docker")
            and host.run("systemctl is-active docker").output == "active\n"
        )
    finally:
        host.run("mv /usr/local/sbin/dockerd-real /usr/local/sbin/dockerd-apart")


def judges(host: Running, mutant: Callable[[str], str]) -> bool:
    """Check that the script fails if Docker starts but doesn't use the written daemon.json."""
    host.write("/etc/docker/other.json", "{}")
    hidden = f"mount --bind /etc/docker/other.json {CONFIG} && exec /usr/sbin/dockerd"
    host.write("/usr/local/sbin/dockerd-apart", APART.replace("exec /usr/sbin/dockerd", hidden))
    try:
        failed = host.apply(mutant(script(docker={"forward": "leave"})))
        return failed.status == 1 and "docker info shows" in failed.errors
    finally:
        host.write("/usr/local/sbin/dockerd-apart", APART)


def keeps_flags(host: Running, mutant: Callable[[str], str]) -> bool:
    """Check that settings in the unit's flags aren't repeated in daemon.json.

    Other flags for the same settings must be refused.
    """
    ours = "--add-runtime nvidia=/usr/bin/nvidia-container-runtime --default-runtime nvidia"
    wanted = mutant(script(docker={"forward": "leave"}))
    try:
        host.write(UNIT_FILE, UNIT.replace("dockerd-apart ", f"dockerd-apart {ours} "))
        # Docker doesn't start with runtimes in both the flags and the file.
        host.write(CONFIG, json.dumps({k: v for k, v in EARLIER.items() if k != "runtimes"}))
        host.run("systemctl restart docker")
        kept = host.apply(wanted)
        host.undo(wanted)
        other = UNIT.replace("dockerd-apart ", "dockerd-apart --add-runtime kata=/usr/bin/kata ")
        host.write(UNIT_FILE, other)
        host.write(CONFIG, "{}")
        host.run("systemctl restart docker")
        refused = host.apply(wanted)
        return kept.status == 0 and "found the flag --add-runtime=kata" in refused.errors
    finally:
        host.write(UNIT_FILE, UNIT)


CHECKS: dict[str, Callable[[Running, Callable[[str], str]], bool]] = {
    **dict.fromkeys(
        (
            *("make_wanted", "docker_says", "after_start", "forward_policy", "forward_back"),
            *("leave_group", "engine_off", "original", "normal", "merge_json", "needed_action"),
            *("changed_keys", "value_of", "data_root_now", "choose_storage"),
            *("existing_part", "find_engine", "choose_written"),
        ),
        merges,
    ),
    **dict.fromkeys(("read_flags", "has_word", "by_unit"), keeps_flags),
    **dict.fromkeys(("before_files", "move_data", "settled", "remove_data", "engine_view"), moves),
    **dict.fromkeys(("require_engine", "check_wanted", "check_place", "same_device"), refuses),
    **dict.fromkeys(("check_present", "reloaded_since", "refused_since"), refuses_present),
    "files_back": comes_back,
    "judge_applied": judges,
    "judge_once": judges,
}


def clean(host: Running) -> None:
    """Restore the host's Docker files after a mutated script has run."""
    host.undo(WHOLE)
    host.write(CONFIG, json.dumps(EARLIER))
    host.run(
        "systemctl stop docker; rm -rf /var/lib/gpu-cluster /data/* /var/lib/docker/*"
        " /etc/systemd/system/docker.service.d; gpasswd -d alice docker;"
        "iptables -P FORWARD DROP; systemctl --no-reload enable docker; systemctl start docker"
    )


@pytest.mark.parametrize(
    "check", [merges, moves, refuses, refuses_present, comes_back, judges, keeps_flags]
)
def test_an_emptied_function_of_docker_is_seen(
    docker: Running, check: Callable[[Running, Callable[[str], str]], bool]
) -> None:
    assert check(docker, lambda text: text)
    for name, held in CHECKS.items():
        if held is check:
            clean(docker)
            with contextlib.suppress(KeyError, ValueError, OSError):
                assert not check(docker, functools.partial(emptied_of, name)), name


def test_every_function_of_docker_has_a_check() -> None:
    functions = {
        name
        for file in every()["docker"].files
        for name in re.findall(r"^(\w+)\(\) \{", step(file).text, re.M)
    }
    # The inspection, not the script, calls these functions; test_docker.py checks them.
    probed = {"found_member", "found_forward", "found_info"}
    assert functions - {"smi_in_container"} - probed == CHECKS.keys()
