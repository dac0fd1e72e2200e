"""The running container engine is configured and checked, not other files or programs of the host.

The daemons are real: containerd 1.6.20 of Debian, and a newer version if this machine has one.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from gpu_cluster.hosts.observed.inspect import observe_hosts
from gpu_cluster.settings.hosts.runtime import DefaultRuntime, RuntimeSettings
from gpu_cluster_lab import toolchain
from tests.proofs.hosts import cri, software
from tests.proofs.hosts.declared import runtime
from tests.proofs.hosts.machine import Running, differences, start, temporary_cluster
from tests.proofs.logins.lines import lines_before

pytestmark = pytest.mark.slow

SCRIPT = runtime()
BY_CLASS = runtime(RuntimeSettings(default_runtime=DefaultRuntime.RUNC))
ROOT = "/etc/containerd/config.toml"
KOPS = "/etc/containerd/config-kops.toml"
UNIT = "/etc/systemd/system/containerd.service"
CRI = 'plugins."io.containerd.grpc.v1.cri"'
NEWER = "2.4"
STARTS = "systemctl daemon-reload; systemctl restart containerd"


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    """Yield one host for all tests; each test restores what it changes."""
    with temporary_cluster() as cluster:
        yield start(cluster, "gpu-1", mode="namespaces")[0]


@pytest.fixture
def host(shared: Running) -> Iterator[Running]:
    """Yield the host with Debian's own files and a running containerd."""
    root = shared.read(ROOT)
    yield shared
    shared.undo(SCRIPT)
    shared.run(f"rm -rf {UNIT} {KOPS} /etc/containerd/config.d /usr/local/bin/containerd")
    shared.write(ROOT, root)
    assert shared.run(STARTS).status == 0


def runs(host: Running, flags: str) -> None:
    """Make the systemd unit start Debian's containerd with these flags."""
    command = f"ExecStart=/usr/bin/containerd {flags}"
    host.write(UNIT, f"[Service]\n{command}\n[Install]\nWantedBy=multi-user.target\n")
    assert host.run(STARTS).status == 0


def asked(host: Running) -> dict[str, Any]:
    """Return the section on containers that the running containerd reports over CRI."""
    answer: dict[str, Any] = cri.runtime_config(host.root / "run/containerd/containerd.sock")
    return dict(answer["containerd"])


@pytest.mark.promise(
    "The containerd that the unit runs is configured in the file that the unit names, whatever "
    "other containerd or file the host has."
)
def test_the_units_program_and_file_are_configured(host: Running) -> None:
    """The program and the file in containerd's systemd unit are configured.

    kops' unit has the flag `-c` with a file of its own; another, newer containerd may be first on
    PATH. Sources: kubernetes/kops nodeup/pkg/model/containerd.go;
    NVIDIA/nvidia-container-toolkit#982.
    """
    host.write(KOPS, f"version = 2\n[{CRI}]\n  max_concurrent_downloads = 7\n")
    newer = toolchain.ensure(f"containerd-{NEWER}")[f"containerd-{NEWER}"]
    shutil.copyfile(newer.path, host.root / "usr/local/bin/containerd")
    host.run("chmod 755 /usr/local/bin/containerd")
    runs(host, f"-c {KOPS}")
    before, untouched = host.tree(), host.read(ROOT)
    first = host.apply(SCRIPT)
    assert (first.errors, first.status) == ("", 0)
    assert asked(host)["defaultRuntimeName"] == "nvidia"
    assert asked(host)["runtimes"]["nvidia"]["options"]["SystemdCgroup"] is True
    said = "CRI at /run/containerd/containerd.sock: containerd 1.6.20"
    assert first.output.splitlines()[-2].startswith(said)
    assert host.read(ROOT) == untouched
    assert host.read(KOPS).startswith("imports = ")
    assert software.drift(host, "runtime") == ()
    assert host.apply(SCRIPT).output == "changed=0\n"
    assert host.undo(SCRIPT).status == 0
    assert differences(before, host.tree()) == {}
    assert "nvidia" not in asked(host)["runtimes"]


def test_an_inspection_names_the_default_runtime_of_the_running_containerd(host: Running) -> None:
    host.write("/usr/local/bin/nvidia-container-runtime", "#!/bin/sh\n")
    host.run("chmod 755 /usr/local/bin/nvidia-container-runtime")
    seen = []
    for change in (host.apply, host.undo):
        assert change(SCRIPT).status == 0
        facts = asyncio.run(observe_hosts([host.declared], host.key, 60))["gpu-1"]
        assert facts.error == ""
        seen.append(facts.default_runtime)
    host.run("rm /usr/local/bin/nvidia-container-runtime")
    assert seen == ["nvidia", "runc"]


def test_a_unit_that_names_another_file_gets_that_one_configured(host: Running) -> None:
    before = host.read(ROOT)
    assert host.apply(SCRIPT).status == 0
    host.write(KOPS, "version = 2\n")
    runs(host, f"--config={KOPS}")
    assert software.drift(host, "runtime") == ("containerd",)
    moved = host.apply(SCRIPT)
    assert (moved.errors, moved.status) == ("", 0)
    assert host.read(ROOT) == before
    assert "nvidia" in asked(host)["runtimes"]
    assert software.drift(host, "runtime") == ()


@pytest.mark.logins("message", "containerd without CRI")
@pytest.mark.promise(
    "The NVIDIA runtime counts as configured only if the running engine says so over its socket."
)
def test_a_daemon_whose_cri_does_not_load_is_no_success(host: Running) -> None:
    """The script fails if containerd runs but its CRI plugin doesn't load.

    The cause here is a default runtime that the configuration doesn't define.
    """
    text = f'version = 2\n[{CRI}.containerd]\n  default_runtime_name = "kata"\n'
    host.write(ROOT, text)
    host.run("systemctl restart containerd")
    failed = host.apply(BY_CLASS)
    assert failed.status == 1
    assert lines_before("no CRI answers at /run/containerd/containerd.sock", failed.errors) <= 3
    assert 'default_runtime_name = "kata"' in failed.errors
    assert host.read(ROOT) == text


IMPORTED = f'version = 2\n[{CRI}.registry]\n  config_path = "/etc/containerd/certs.d"\n'
RELATIVE = "version = 2\nimports = ['config.d/registries.toml']\n"


def test_a_change_of_what_the_drop_in_repeats_is_drift_and_comes_in(host: Running) -> None:
    host.write(ROOT, RELATIVE)
    host.write("/etc/containerd/config.d/registries.toml", IMPORTED)
    assert host.apply(SCRIPT).status == 0
    host.write("/etc/containerd/config.d/registries.toml", IMPORTED.replace("certs", "mirrors"))
    assert [line.partition(",")[0] for line in software.drift(host, "runtime")] == [
        "/etc/containerd/config.d/registries.toml"
    ]
    assert host.apply(SCRIPT).status == 0
    registry = cri.runtime_config(host.root / "run/containerd/containerd.sock")["registry"]
    assert registry["configPath"] == "/etc/containerd/mirrors.d"
    assert software.drift(host, "runtime") == ()
