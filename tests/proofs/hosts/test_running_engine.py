"""The running container engine is configured and checked, not other files or programs of the host.

The daemons are real: containerd 1.6.20 of Debian, and a newer version if this machine has one.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import tomllib
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
DEBIAN, NEWER = "1.6", "2.4"
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
    shared.run(f"rm -rf {UNIT} {KOPS} {WRAPPER} /etc/containerd/config.d /usr/local/bin/containerd")
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


IMPORTS = (
    "/etc/containerd/conf.d/*",
    "/etc/containerd/*.d/*.toml",
    "/etc/containerd/conf.d/[0-9]*.toml",
)
RELATIVE_GLOBS = ("conf.d/*.toml", "./conf.d/99-*")


@pytest.mark.parametrize(
    ("imported", "release"),
    [
        *((imported, DEBIAN) for imported in IMPORTS),
        *((imported, NEWER) for imported in RELATIVE_GLOBS),
    ],
)
def test_an_import_that_loads_the_drop_in_already_is_the_only_one(
    host: Running, imported: str, release: str
) -> None:
    if release == NEWER:
        with_program(host, release)
    text = f'version = 2\nimports = ["{imported}"]\n'
    host.write(ROOT, text)
    before = host.tree()
    first = host.apply(SCRIPT)
    assert (first.errors, first.status) == ("", 0)
    assert host.read(ROOT) == text
    assert host.apply(SCRIPT).output == "changed=0\n"
    assert software.drift(host, "runtime") == ()
    assert host.undo(SCRIPT).status == 0
    assert differences(before, host.tree()) == {}


@pytest.mark.parametrize("imported", RELATIVE_GLOBS)
def test_a_relative_glob_that_an_old_containerd_does_not_resolve_gets_another_import(
    host: Running, imported: str
) -> None:
    """Containerd 1.6.20 looks for it in its working directory (containerd/containerd#9745)."""
    host.write(ROOT, f'version = 2\nimports = ["{imported}"]\n')
    before = host.tree()
    first = host.apply(SCRIPT)
    assert (first.errors, first.status) == ("", 0)
    assert f'imports = ["{imported}", "/etc/containerd/conf.d/*.toml"]' in host.read(ROOT)
    assert host.apply(SCRIPT).output == "changed=0\n"
    assert software.drift(host, "runtime") == ()
    assert host.undo(SCRIPT).status == 0
    assert differences(before, host.tree()) == {}


SITE = "/etc/containerd/conf.d/zz-site.toml"
SECTION = {DEBIAN: CRI, NEWER: "plugins.'io.containerd.cri.v1.runtime'"}


@pytest.mark.parametrize("release", SECTION)
def test_a_later_file_with_another_default_runtime_is_named_with_its_key(
    host: Running, release: str
) -> None:
    if release == NEWER:
        with_program(host, release)
    version = 2 if release == DEBIAN else 3
    host.write(ROOT, f'version = {version}\nimports = ["/etc/containerd/conf.d/*.toml"]\n')
    host.write(
        SITE,
        f"version = {version}\n[{SECTION[release]}.containerd]\n  default_runtime_name = 'runc'\n",
    )
    before = host.tree()
    refused = host.apply(SCRIPT)
    after = host.tree()
    host.run(f"rm -rf {SITE}")
    assert refused.status == 1
    assert lines_before(rf"as {SITE} has it, which is read after", refused.errors) == 0
    if release == NEWER:
        assert 'default_runtime_name = "runc", as' in refused.errors
    assert differences(before, after) == {}


WITHOUT_RUNTIMES = f"""\
version = 2
imports = ["/etc/containerd/config.d/*.toml"]
[{CRI}]
  max_concurrent_downloads = 7
[{CRI}.containerd]
  discard_unpacked_layers = true
"""


@pytest.mark.logins("message", "settings that containerd ignores")
@pytest.mark.promise(
    "Settings that containerd 2.0 to 2.2 ignores in a file of version 2 without runtimes come into "
    "force by no run; the message has the command that keeps them out."
)
@pytest.mark.parametrize("release", ["2.0", "2.2"])
def test_settings_that_containerd_ignores_stay_out_by_the_command_of_the_message(
    host: Running, release: str
) -> None:
    """Source: containerd 2.2.9, plugins/cri/images/plugin.go (migrateConfig), and mergeConfig."""
    with_program(host, release)
    host.write(ROOT, WITHOUT_RUNTIMES)
    host.write("/etc/containerd/config.d/registries.toml", IMPORTED)
    assert host.run(f"chmod 600 {ROOT}; {STARTS}").status == 0
    # Only `migrate` of containerd 2.0 shows what the daemon takes from a file of version 2.
    earlier = images(host, "migrate")
    assert earlier["max_concurrent_downloads"] == 7
    assert earlier["discard_unpacked_layers"] is False
    before = host.tree()
    refused = host.apply(SCRIPT)
    assert refused.status == 1
    named = 'settings that the new drop-in would change: .*images".discard_unpacked_layers'
    assert lines_before(named, refused.errors) == 0
    assert differences(before, host.tree()) == {}

    followed = re.search(r"`(.* config migrate .*)`", refused.errors)
    assert followed is not None, refused.errors
    assert host.run(followed[1]).status == 0
    assert host.run(f"stat -c %a {ROOT}").output == "600\n"
    assert host.tree().keys() == before.keys()
    done = host.apply(SCRIPT)
    assert (done.errors, done.status) == ("", 0)
    assert "nvidia" in asked(host)["runtimes"]
    assert images(host, "dump") == earlier
    assert host.apply(SCRIPT).output == "changed=0\n"


def images(host: Running, verb: str) -> dict[str, Any]:
    """Return the section on images as containerd merges it from all files."""
    printed = host.run(f"/usr/local/bin/containerd --config {ROOT} config {verb}").output
    section: dict[str, Any] = tomllib.loads(printed)["plugins"]["io.containerd.cri.v1.images"]
    return section


def with_program(host: Running, release: str) -> None:
    """Make the unit start a newer containerd."""
    newer = toolchain.ensure(f"containerd-{release}")[f"containerd-{release}"]
    shutil.copyfile(newer.path, host.root / "usr/local/bin/containerd")
    host.run("chmod 755 /usr/local/bin/containerd")
    command = "ExecStart=/usr/local/bin/containerd"
    host.write(UNIT, f"[Service]\n{command}\n[Install]\nWantedBy=multi-user.target\n")
    assert host.run(STARTS).status == 0


def test_an_undo_after_a_refused_first_run_prints_no_error(host: Running) -> None:
    host.write(ROOT, f"version = 2\n[{CRI}\n")
    assert host.apply(SCRIPT).status == 1
    host.run("mkdir -p /var/lib/gpu-cluster/runtime")
    undone = host.undo(SCRIPT)
    assert (undone.errors, undone.status) == ("", 0)


WRAPPER = "/usr/local/bin/start-engine"


WRAPPERS = {
    "exec": f"exec /usr/bin/containerd --config {KOPS}",
    "child": f"/usr/bin/containerd --config {KOPS} &\ntrap 'kill $!; wait' TERM\nwait",
}


def wraps(host: Running, kind: str) -> None:
    """Make the unit start a script that starts containerd with a root file of its own."""
    host.write(WRAPPER, f"#!/bin/sh\n{WRAPPERS[kind]}\n")
    host.write(KOPS, "version = 2\n")
    host.run(f"chmod 755 {WRAPPER}")
    host.write(UNIT, f"[Service]\nExecStart={WRAPPER}\n[Install]\nWantedBy=multi-user.target\n")
    assert host.run(STARTS).status == 0


@pytest.mark.parametrize("kind", WRAPPERS)
def test_an_engine_that_a_script_starts_is_configured_in_its_own_file(
    host: Running, kind: str
) -> None:
    untouched = host.read(ROOT)
    wraps(host, kind)
    done = host.apply(SCRIPT)
    assert (done.errors, done.status) == ("", 0)
    assert host.read(ROOT) == untouched
    assert host.read(KOPS).startswith("imports = ")
    assert host.undo(SCRIPT).status == 0


@pytest.mark.logins("message", "containerd of a script")
def test_a_stopped_engine_that_a_script_starts_is_to_be_started_first(host: Running) -> None:
    wraps(host, "exec")
    host.run("systemctl stop containerd")
    before = host.tree()
    refused = host.apply(SCRIPT)
    assert refused.status == 1
    assert lines_before(f"does not run, and whose program {WRAPPER} starts", refused.errors) == 0
    assert "systemctl start containerd" in refused.errors
    assert differences(before, host.tree()) == {}
