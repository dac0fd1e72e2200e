"""Configure each supported containerd version with each kind of existing configuration file.

The daemons and nvidia-ctk are real. Each case compares the merged configuration that containerd
prints with the configuration that the running daemon returns over its CRI socket.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpu_cluster_lab import toolchain
from tests.proofs.hosts import cri
from tests.proofs.hosts.declared import runtime
from tests.proofs.hosts.machine import Running, differences, start, temporary_cluster

pytestmark = pytest.mark.full

SCRIPT = runtime()
ROOT = "/etc/containerd/config.toml"
DROPIN = "/etc/containerd/conf.d/99-nvidia.toml"
GLOB = "/etc/containerd/conf.d/*.toml"
SOCKET = "run/containerd/containerd.sock"
DEBIAN = "1.6"
"""The containerd version that Debian packages and the hosts' root has; the others are built."""
VERSIONS = (DEBIAN, "1.7", "2.0", "2.2", "2.3", "2.4")
READS = {"1.6": 2, "1.7": 2, "2.0": 3, "2.2": 3, "2.3": 4, "2.4": 4}
"""Newest configuration version that each containerd reads (docs/config of each release)."""

V2 = f"""\
# a site's own file, of version 2
version = 2
oom_score = -999
imports = ["{GLOB}"]

[grpc]
  max_recv_message_size = 33554432

[debug]
  level = "info"

[plugins."io.containerd.grpc.v1.cri"]
  max_concurrent_downloads = 7
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    discard_unpacked_layers = true
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        NoPivotRoot = true
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.kata]
      runtime_type = "io.containerd.kata.v2"
      privileged_without_host_devices = true
"""
MIRRORS = """\
version = 2
[plugins."io.containerd.grpc.v1.cri".registry.mirrors."docker.io"]
  endpoint = ["https://mirror.example.org", "https://registry-1.docker.io"]
[plugins."io.containerd.grpc.v1.cri".registry.configs."mirror.example.org".auth]
  username = "reader"
  password = "it's $(secret)"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.gvisor]
  runtime_type = "io.containerd.runsc.v1"
"""
V3 = """\
version = 3
root = "/var/lib/containerd"

[plugins.'io.containerd.cri.v1.images']
  snapshotter = "native"
  max_concurrent_downloads = 7
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = "/etc/containerd/certs.d"

[plugins.'io.containerd.cri.v1.runtime']
  max_container_log_line_size = 4096
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/opt/cni/bin"]
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kata]
    runtime_type = "io.containerd.kata.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kata.options]
      ConfigPath = "/etc/kata/configuration.toml"
"""
V4 = """\
version = 4

[plugins.'io.containerd.server.v1.grpc']
  max_recv_message_size = 33554432

[plugins.'io.containerd.cri.v1.images']
  max_concurrent_downloads = 7

[plugins.'io.containerd.cri.v1.runtime']
  max_container_log_line_size = 4096
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kata]
    runtime_type = "io.containerd.kata.v2"
"""
STUB = """\
#   Licensed under the Apache License, Version 2.0 (the "License");

disabled_plugins = ["cri"]

#root = "/var/lib/containerd"
#[grpc]
#  address = "/run/containerd/containerd.sock"
"""
SITE = """\
version = 2
[debug]
  address = "/run/containerd/debug.sock"
"""
"""Drop-in that the site already has and that the root file of version 2 imports."""

ROOTS = {
    "none": None,
    "default": None,
    "version 2": V2,
    "version 2 with mirrors": MIRRORS,
    "version 3": V3,
    "version 4": V4,
    "packaged stub": STUB,
}
NEEDS = {"version 3": 3, "version 4": 4}
"""Configuration version of those root files that not every containerd version can read."""
OURS = re.compile(
    r".*/containerd/(default_runtime_name|runtimes/(nvidia/.*|runc/options/SystemdCgroup))"
    r"|imports|version|disabled_plugins|plugins/io.containerd.(grpc.v1.cri|cri.v1.runtime)/enable_cdi"
)
"""Settings that this project changes on purpose; all other settings must keep their values."""
CASES = [
    pytest.param(
        version,
        name,
        id=f"{version}-{name.replace(' ', '-')}",
        marks=pytest.mark.versions("containerd", version),
    )
    for version in VERSIONS
    for name in ROOTS
]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Running]]:
    """Return a function that returns a running host with a given containerd version.

    Only one host runs at a time; all cases of a version share it.
    """
    running: dict[str, Running] = {}
    with temporary_cluster() as cluster:

        def host_of(version: str) -> Running:
            if version not in running:
                running.clear()
                host = start(cluster, "gpu-1", mode="namespaces")[0]
                install(host, version)
                running[version] = host
            return running[version]

        yield host_of


def install(host: Running, version: str) -> None:
    """Replace containerd on the host by the given version."""
    if version == DEBIAN:
        return
    host.run("systemctl stop containerd; rm -rf /usr/bin/containerd /var/lib/containerd")
    tool = toolchain.ensure(f"containerd-{version}")[f"containerd-{version}"]
    shutil.copyfile(tool.path, host.root / "usr/bin/containerd")
    done = host.run("chmod 755 /usr/bin/containerd; containerd --version")
    assert f" v{tool.version} " in done.output, done


def merged(host: Running) -> dict[str, Any]:
    """Return containerd's merged configuration on the host, as values by the setting's path."""
    text = host.read(ROOT) if host.exists(ROOT) else ""
    old = "v2.0." in host.run("containerd --version").output and "\nversion = 2\n" in f"\n{text}"
    # In containerd 2.0, `config dump` omits a configuration file in the format of version 2.
    verb = "migrate" if old else "dump"
    done = host.run(
        f"containerd --config {ROOT} config {verb} 2>/dev/null || containerd config default"
    )
    view = flat(tomllib.loads(done.output))
    # Sort the imports, because containerd 1.7 prints them in no fixed order.
    return view | {"imports": sorted(view.get("imports", []))}


def flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a nested table: map each setting's path, joined by slashes, to its value."""
    flattened: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flattened |= flat(value, f"{prefix}{key}/")
        else:
            flattened[prefix + key] = value
    return flattened


def start_with(host: Running, version: str, name: str) -> bool:
    """Install the configuration file `name`, restart containerd, and return True if it starts."""
    host.run("rm -rf /etc/containerd; mkdir -p /etc/containerd/conf.d")
    if name == "default":
        host.write(ROOT, host.run("containerd config default").output)
    elif (text := ROOTS[name]) is not None:
        host.write(ROOT, text)
    if name == "version 2":
        host.write("/etc/containerd/conf.d/10-site.toml", SITE)
    return host.run("systemctl enable containerd; systemctl restart containerd").status == 0


@pytest.mark.containerd_case
@pytest.mark.parametrize(("version", "name"), CASES)
def test_nvidia_comes_in_and_nothing_else_changes(
    hosts: Callable[[str], Running], version: str, name: str
) -> None:
    host = hosts(version)
    starts = start_with(host, version, name)
    before, view = host.tree(), merged(host)
    applied = host.apply(SCRIPT)
    if NEEDS.get(name, 2) > READS[version]:
        # containerd doesn't start with a configuration file in a newer format; containerd 1.6
        # ignores the settings in it. So the script must refuse.
        assert applied.status == 1
        assert f"found {ROOT} of version {NEEDS[name]}" in applied.errors
        assert "nothing was changed on this host" in applied.errors
        assert differences(before, host.tree()) == {}
        return
    assert starts
    assert (applied.status, applied.errors) == (0, "")

    after = merged(host)
    section = "grpc.v1.cri" if version.startswith("1.") else "cri.v1.runtime"
    runtimes = f"plugins/io.containerd.{section}/containerd/runtimes/"
    assert after[f"{runtimes}nvidia/runtime_type"] == "io.containerd.runc.v2"
    assert after[f"{runtimes}nvidia/options/BinaryName"] == "/usr/bin/nvidia-container-runtime"
    assert after[f"{runtimes}nvidia/options/SystemdCgroup"] is True
    assert after[f"{runtimes}runc/options/SystemdCgroup"] is True
    # A missing option is no loss if its value was empty before, because containerd treats both
    # alike.
    lost = {
        key: (value, after.get(key, "gone"))
        for key, value in view.items()
        if not OURS.fullmatch(key) and after.get(key, type(value)()) != value
    }
    assert lost == {}

    running = cri.runtime_config(host.root / SOCKET)["containerd"]
    assert running["defaultRuntimeName"] == "nvidia"
    assert {"runc", "nvidia"} <= running["runtimes"].keys()
    assert {"kata", "gvisor"} & view_runtimes(view) <= running["runtimes"].keys()

    settled = host.tree(times=True)
    pid = host.read("/run/simulated-systemd/containerd.pid")
    second = host.apply(SCRIPT)
    assert (second.output, second.errors) == ("changed=0\n", "")
    assert differences(settled, host.tree(times=True)) == {}
    assert host.read("/run/simulated-systemd/containerd.pid") == pid

    assert host.undo(SCRIPT).status == 0
    assert differences(before, host.tree()) == {}
    assert merged(host) == view
    assert host.run("systemctl is-active containerd").output == "active\n"


def view_runtimes(view: dict[str, Any]) -> set[str]:
    """Return the names of the container runtimes in a merged containerd configuration."""
    matches = (re.search(r"/containerd/runtimes/([^/]+)/", key) for key in view)
    return {match[1] for match in matches if match}
