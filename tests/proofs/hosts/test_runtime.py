"""Phase `runtime` on a simulated host, checked against the configuration of the real containerd."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from gpu_cluster.settings.hosts.runtime import DefaultRuntime, RuntimeSettings
from tests.proofs.hosts.containerd import DROPIN, GLOB, ROOT
from tests.proofs.hosts.declared import runtime
from tests.proofs.hosts.machine import Running, differences

pytestmark = pytest.mark.slow

SCRIPT = runtime()
CRI = "io.containerd.grpc.v1.cri"


def merged(host: Running) -> dict[str, Any]:
    """Return containerd's merged configuration, as `containerd config dump` prints it."""
    return tomllib.loads(host.run("containerd config dump 2>/dev/null").output)


def cri(host: Running) -> dict[str, Any]:
    section: dict[str, Any] = merged(host)["plugins"][CRI]
    return section


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_second_run_changes_nothing_and_undo_restores_every_byte(
    host: Running, shell: str
) -> None:
    before = host.tree()
    view = merged(host)
    first = host.apply(SCRIPT, shell)
    assert (first.status, first.errors) == (0, "")
    said = (
        "CRI at /run/containerd/containerd.sock: containerd 1.6.20~ds1 has the runtimes nvidia runc"
    )
    assert first.output.splitlines()[-3:] == ["+ containerd restarted", said, "changed=4"]
    runtimes = cri(host)["containerd"]["runtimes"]
    assert runtimes["nvidia"]["runtime_type"] == "io.containerd.runc.v2"
    assert runtimes["nvidia"]["options"] == {
        "BinaryName": "/usr/bin/nvidia-container-runtime",
        "SystemdCgroup": True,
    }
    assert runtimes["runc"]["options"]["SystemdCgroup"] is True
    assert cri(host)["containerd"]["default_runtime_name"] == "nvidia"
    assert cri(host)["cni"] == view["plugins"][CRI]["cni"]
    assert host.run("systemctl is-active containerd").output == "active\n"
    assert "cri" in host.run("ctr plugins ls | grep ok").output

    pid = host.read("/run/simulated-systemd/containerd.pid")
    applied = host.tree(times=True)
    second = host.apply(SCRIPT, shell)
    assert (second.output, second.errors) == ("changed=0\n", "")
    assert differences(applied, host.tree(times=True)) == {}
    assert host.read("/run/simulated-systemd/containerd.pid") == pid

    assert host.undo(SCRIPT, shell).status == 0
    assert differences(before, host.tree()) == {}
    assert merged(host) == view
    assert host.run("systemctl is-active containerd").output == "active\n"
    assert host.undo(SCRIPT, shell).output == "changed=0\n"


EARLIER = {
    "comments and own settings": """
# the site's own
version = 2
oom_score = -999 # kept

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.example.org/pause:3.9"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      NoPivotRoot = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"
""",
    "single quotes": """version = 2
[plugins.'io.containerd.grpc.v1.cri']
sandbox_image = 'registry.example.org/pause:3.9'
""",
    "no newline at the end": "version = 2\n[debug]\n  level = 'debug'",
    "imports of others": 'imports = ["/etc/containerd/other/*.toml"]\nversion = 2\n',
    "imports over lines": (
        'version = 2\nimports = [\n  "/etc/containerd/other/*.toml",\n  "/etc/x[1]*.toml",\n]\n'
    ),
    "empty imports": "version = 2\nimports = []\n",
    "ours already imported": f'version = 2\nimports = ["{GLOB}"]\n',
    "stub without version": 'disabled_plugins = ["cri"]\n',
    "stub with another plugin": (
        "version = 2\n"
        'disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.restart"]\n'
    ),
    "unversioned, other tables": '[debug]\n  level = "debug"\n',
    "empty": "",
}


@pytest.mark.parametrize("name", EARLIER)
def test_earlier_settings_stay_and_come_back(host: Running, name: str) -> None:
    host.write(ROOT, EARLIER[name])
    host.write("/etc/containerd/other/10-site.toml", "version = 2\n[debug]\n  uid = 7\n")
    before, view = host.tree(), merged(host)
    applied = host.apply(SCRIPT)
    assert applied.errors == ""
    after = merged(host)
    assert CRI not in after["disabled_plugins"]
    assert "cri" not in after["disabled_plugins"]
    if "another" in name:
        assert after["disabled_plugins"] == ["io.containerd.internal.v1.restart"]
    for key in ("oom_score", "debug", "grpc", "root"):
        assert after[key] == view[key], key
    for key in ("sandbox_image", "registry", "cni") if CRI in view["plugins"] else ():
        assert after["plugins"][CRI][key] == view["plugins"][CRI][key], key
    if name.startswith("comments"):
        assert host.read(ROOT).startswith(f'imports = ["{GLOB}"]\n\n# the site\'s own\n')
        options = after["plugins"][CRI]["containerd"]["runtimes"]["runc"]["options"]
        assert (options["NoPivotRoot"], options["SystemdCgroup"]) == (True, True)
    if name.startswith("imports"):
        assert after["debug"]["uid"] == 7
    assert host.apply(SCRIPT).output == "changed=0\n"
    assert host.undo(SCRIPT).status == 0
    assert differences(before, host.tree()) == {}


def test_a_host_without_a_configuration_gets_one_and_loses_it(host: Running) -> None:
    host.run("rm -r /etc/containerd; systemctl restart containerd")
    before = host.tree()
    assert host.apply(SCRIPT).status == 0
    assert host.read(ROOT) == f'version = 2\nimports = ["{GLOB}"]\n'
    assert host.undo(SCRIPT).status == 0
    assert differences(before, host.tree()) == {}
    assert host.run("systemctl is-active containerd").status == 0


def test_later_edits_of_the_root_file_reach_the_drop_in(host: Running) -> None:
    host.apply(SCRIPT)
    host.write(ROOT, host.read(ROOT).replace("/usr/lib/cni", "/opt/cni/bin"))
    assert host.apply(SCRIPT).output.splitlines()[0] == f"+ {DROPIN}"
    assert cri(host)["cni"]["bin_dir"] == "/opt/cni/bin"


def test_a_drop_in_that_nothing_imports_does_not_come_alive(host: Running) -> None:
    host.write("/etc/containerd/conf.d/10-old.toml", "version = 2\noom_score = -999\n")
    before = host.tree()
    assert host.apply(SCRIPT).status == 0
    assert f'imports = ["{DROPIN}"]' in host.read(ROOT)
    assert merged(host)["oom_score"] == 0
    assert "nvidia" in cri(host)["containerd"]["runtimes"]
    assert host.apply(SCRIPT).output == "changed=0\n"
    assert host.undo(SCRIPT).status == 0
    assert differences(before, host.tree()) == {}


def test_changed_settings_replace_the_former_ones(host: Running) -> None:
    script = runtime(
        RuntimeSettings(default_runtime=DefaultRuntime.RUNC, cdi=True, systemd_cgroup=False)
    )
    applied = host.apply(script)
    assert applied.status == 0
    # containerd 1.6 doesn't know the setting `enable_cdi`.
    assert "enable_cdi" not in host.read(DROPIN)
    assert cri(host)["containerd"]["default_runtime_name"] == "runc"
    assert cri(host)["containerd"]["runtimes"]["nvidia"]["options"]["SystemdCgroup"] is False
    assert host.apply(script).changed == 0
    assert host.apply(SCRIPT).changed == 2
    assert cri(host)["containerd"]["default_runtime_name"] == "nvidia"


REFUSED = {
    "a drop-in that hides ours": (
        f'version = 2\nimports = ["{GLOB}"]\n',
        f'version = 2\n[plugins."{CRI}"]\n  sandbox_image = "registry.example.org/pause:3.9"\n',
        "give the file a name that sorts before 99-nvidia.toml",
    ),
    "broken": ("version = = 2\n", None, "that containerd 1.6.20~ds1 can't read"),
    "version 1 with plugins": (
        '[plugins.cri]\n  sandbox_image = "x"\n', None, "without a version, so version 1"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_do_harm_is_refused_and_nothing_is_touched(host: Running, name: str) -> None:
    root, dropin, text = REFUSED[name]
    host.write(ROOT, root)
    if dropin is not None:
        host.write("/etc/containerd/conf.d/99-site.toml", dropin)
    before = host.tree(times=True)
    refused = host.apply(SCRIPT)
    assert refused.status == 1
    assert text in refused.errors
    assert "nothing was changed on this host" in refused.errors
    assert differences(before, host.tree(times=True)) == {}
    assert host.run("systemctl is-active containerd").status == 0


CTR = """#!/bin/sh
case " $* " in
    *' pull '*) echo "$*" >/run/pulled ;;
    *' run '*) echo 'GPU 0: simulated' ;;
    *) exec /usr/bin/ctr-real "$@" ;;
esac
"""


@pytest.mark.parametrize("mirrors", ["/etc/containerd/certs.d", ""])
def test_the_checks_image_comes_by_the_mirrors_of_cri(host: Running, mirrors: str) -> None:
    section = f'[plugins."{CRI}".registry]\n  config_path = "{mirrors}"\n'
    host.write(ROOT, f"version = 2\n{section}")
    host.run("mv /usr/bin/ctr /usr/bin/ctr-real")
    host.write("/usr/bin/ctr", CTR)
    host.run("chmod 755 /usr/bin/ctr; systemctl restart containerd")
    image = "registry.example.com/cuda:1"
    done = host.apply(runtime(RuntimeSettings(check_image=image)))
    assert (done.status, done.errors) == (0, "")
    by = f"--hosts-dir {mirrors} " if mirrors else ""
    at = "--address /run/containerd/containerd.sock "
    assert host.read("/run/pulled") == f"{at}-n gpu-cluster images pull {by}{image}\n"


def test_a_missing_toolkit_is_reported_before_a_change(host: Running) -> None:
    host.run("rm /usr/bin/nvidia-ctk /usr/bin/nvidia-container-runtime")
    refused = host.apply(SCRIPT)
    assert refused.status == 1
    assert "found no nvidia-ctk on PATH" in refused.errors
    assert "found no nvidia-container-runtime on PATH" in refused.errors
    assert not host.exists("/var/lib/gpu-cluster/runtime")


def test_a_daemon_that_does_not_start_gets_its_old_files_back(host: Running) -> None:
    host.write(
        "/usr/local/bin/guarded",
        f"#!/bin/sh\n[ ! -e {DROPIN} ] || exit 1\nexec /usr/bin/containerd\n",
    )
    host.write(
        "/etc/systemd/system/containerd.service",
        "[Service]\nExecStart=/usr/local/bin/guarded\n[Install]\n",
    )
    host.run("chmod 755 /usr/local/bin/guarded; systemctl restart containerd")
    root, before = host.read(ROOT), merged(host)
    failed = host.apply(SCRIPT)
    assert failed.status == 1
    assert "so the old one was restored" in failed.errors
    assert host.read(ROOT) == root
    assert not host.exists(DROPIN)
    assert merged(host) == before
    assert host.run("systemctl is-active containerd").status == 0
    host.write("/usr/local/bin/guarded", "#!/bin/sh\nexec /usr/bin/containerd\n")
    assert host.apply(SCRIPT).status == 0


def test_service_state_comes_back(host: Running) -> None:
    host.run("systemctl disable --now containerd")
    before = host.tree()
    applied = host.apply(SCRIPT)
    assert "+ containerd enabled" in applied.output
    assert host.run("systemctl is-active containerd").status == 0
    assert host.undo(SCRIPT).status == 0
    assert host.run("systemctl is-active containerd").output == "inactive\n"
    assert host.run("systemctl is-enabled containerd").output == "disabled\n"
    assert differences(before, host.tree()) == {}


def test_secrets_of_the_configuration_are_not_shown_and_stay_roots(host: Running) -> None:
    canary = "canary-registry-password"
    host.write(ROOT, f'version = 2\nimports = ["{GLOB}"]\n')
    host.write(
        "/etc/containerd/conf.d/10-site.toml",
        f'version = 2\n[plugins."{CRI}".registry.configs."r.example.org".auth]\n'
        f'  password = "{canary}"\n',
    )
    done = host.apply(SCRIPT)
    assert (done.status, done.errors) == (0, "")
    assert canary not in done.output
    # In containerd 1.x, one drop-in must contain the whole section.
    assert canary in host.read(DROPIN)
    assert (host.root / DROPIN[1:]).stat().st_mode & 0o777 == 0o600


TOOLKIT = "/etc/nvidia-container-runtime/config.toml"
KEYS = (
    "accept-nvidia-visible-devices-as-volume-mounts",
    "accept-nvidia-visible-devices-envvar-when-unprivileged",
)
# Configuration file of the NVIDIA Container Toolkit: as nvidia-ctk 1.20.0 writes it, with defaults
# as comments, and with edits that are common on hosts.
TOOLKITS = {
    "as installed": """#accept-nvidia-visible-devices-as-volume-mounts = false
#accept-nvidia-visible-devices-envvar-when-unprivileged = true
disable-require = false
supported-driver-capabilities = "compat32,compute,display,graphics,ngx,utility,video"

[nvidia-container-cli]
environment = []
load-kmods = true

[nvidia-container-runtime]
mode = "auto"
""",
    "opened by its site": """# ours
"accept-nvidia-visible-devices-envvar-when-unprivileged" = true # wanted
#accept-nvidia-visible-devices-envvar-when-unprivileged = true
[nvidia-container-runtime]
mode = "auto"
""",
    "empty": "",
}


@pytest.mark.parametrize(
    ("name", "by_environment"),
    [
        ("as installed", False),
        *(
            pytest.param(name, by_environment, marks=pytest.mark.full)
            for name in [*TOOLKITS, "missing"]
            for by_environment in (False, True)
            if (name, by_environment) != ("as installed", False)
        ),
    ],
)
def test_only_declared_hosts_answer_the_environment_of_unprivileged_containers(
    host: Running, name: str, by_environment: bool
) -> None:
    """Unprivileged containers get GPUs by environment variable only if the host declares this.

    Source: NVIDIA Container Toolkit 1.20.0, internal/config/image/cuda_image.go, VisibleDevices.
    """
    if name in TOOLKITS:
        host.write(TOOLKIT, TOOLKITS[name])
    before = host.tree()
    script = runtime(RuntimeSettings(devices_by_environment=by_environment))
    assert host.apply(script).errors == ""
    text = host.read(TOOLKIT)
    settings = tomllib.loads(text)
    assert [settings[key] for key in KEYS] == [True, by_environment]
    assert all(text.count(key) == 1 for key in KEYS)
    earlier = tomllib.loads(TOOLKITS.get(name, ""))
    assert {key: settings[key] for key in earlier if key not in KEYS} == {
        key: earlier[key] for key in earlier if key not in KEYS
    }
    assert host.apply(script).output == "changed=0\n"
    assert host.undo(script).status == 0
    assert differences(before, host.tree()) == {}
