"""Configure CRI-O, K3s and RKE2, which are fake programs that use the real programs' files."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from gpu_cluster.settings.hosts.runtime import DefaultRuntime, Engine, RuntimeSettings
from tests.proofs.hosts import cri
from tests.proofs.hosts.crio import says
from tests.proofs.hosts.declared import runtime
from tests.proofs.hosts.engines import CRIO_DROPIN, install
from tests.proofs.hosts.machine import Running, differences


def of(engine: Engine, **settings: Any) -> str:
    return runtime(RuntimeSettings(engine=engine, **settings))


def crio_view(host: Running) -> dict[str, Any]:
    """Return the configuration that CRI-O reads from its files, without defaults."""
    view: dict[str, Any] = tomllib.loads(host.run("crio config").output)["crio"]
    return view


def test_cri_o_gets_a_drop_in_and_loses_it(crio: Running) -> None:
    before = crio.tree()
    wanted = of(Engine.CRI_O)
    first = crio.apply(wanted)
    assert (first.status, first.errors) == (0, "")
    said = (
        "CRI-O at /var/run/crio/crio.sock: CRI-O 1.34.0 "
        "has the runtimes crun nvidia, nvidia by default"
    )
    assert first.output.splitlines()[-3:] == ["+ crio restarted", said, "changed=3"]
    view = crio_view(crio)
    assert view["runtime"]["default_runtime"] == "nvidia"
    assert 'cgroup_manager = "systemd"' in crio.read(CRIO_DROPIN)
    assert view["runtime"]["runtimes"]["nvidia"] == {
        "runtime_path": "/usr/bin/nvidia-container-runtime",
        "runtime_type": "oci",
        "monitor_path": "/usr/libexec/crio/conmon",
    }
    assert view["runtime"]["runtimes"]["crun"]["runtime_path"] == "/usr/bin/crun"
    assert view["image"]["pause_image"] == "registry.example.org/pause:3.10"
    running = says(crio)
    assert (running["default_runtime"], running["cgroup_manager"]) == ("nvidia", "systemd")

    settled = crio.tree(times=True)
    assert crio.apply(wanted).output == "changed=0\n"
    assert differences(settled, crio.tree(times=True)) == {}
    assert crio.undo(wanted).status == 0
    assert differences(before, crio.tree()) == {}
    assert crio.run("systemctl is-active crio").output == "active\n"


@pytest.mark.full
def test_cri_o_by_runtime_class_with_cgroupfs(crio: Running) -> None:
    assert crio.apply(of(Engine.CRI_O)).status == 0
    other = of(Engine.CRI_O, default_runtime=DefaultRuntime.RUNC, systemd_cgroup=False)
    assert crio.apply(other).status == 0
    view = says(crio)
    assert view["default_runtime"] == "crun"
    assert (view["cgroup_manager"], view["conmon_cgroup"]) == ("cgroupfs", "pod")


@pytest.mark.full
def test_cri_o_that_does_not_start_gets_its_old_files_back(crio: Running) -> None:
    crio.run(f"sed -i 's|/etc/crio/refuse|{CRIO_DROPIN}|' /usr/local/bin/crio")
    before = crio.tree()
    failed = crio.apply(of(Engine.CRI_O))
    assert failed.status == 1
    assert 'so the old one was restored: level=fatal msg="CRI-O does not start' in failed.errors
    assert not crio.exists(CRIO_DROPIN)
    assert {
        path
        for path in differences(before, crio.tree())
        if not path.startswith(("var/lib/gpu-cluster", "etc/nvidia-container-runtime", "upper"))
    } == set()
    assert crio.run("systemctl is-active crio").output == "active\n"


@pytest.mark.full
def test_a_later_file_of_cri_o_is_refused(crio: Running) -> None:
    crio.write("/etc/crio/crio.conf.d/99-site.conf", '[crio.runtime]\ndefault_runtime = "crun"\n')
    before = crio.tree(times=True)
    refused = crio.apply(of(Engine.CRI_O))
    assert refused.status == 1
    assert "99-site.conf, which is read after ours" in refused.errors
    assert differences(before, crio.tree(times=True)) == {}


K3S_SOCKET = "/run/k3s/containerd/containerd.sock"
RANCHER = {
    Engine.K3S: ("k3s", "k3s-agent"),
    Engine.RKE2: ("rke2", "rke2-server"),
}


@pytest.mark.parametrize("engine", RANCHER)
def test_k3s_and_rke2_get_the_default_runtime_and_no_template(
    host: Running, engine: Engine
) -> None:
    name, unit = RANCHER[engine]
    generated = f"/var/lib/rancher/{name}/agent/etc/containerd/config.toml"
    install(host, name, "k3s", unit)
    host.run("systemctl disable --now containerd")
    before = files_of(host)
    wanted = of(engine)
    first = host.apply(wanted)
    assert (first.status, first.errors) == (0, "")
    said = f"CRI at {K3S_SOCKET}: the containerd of {unit} has the runtimes nvidia runc"
    assert first.output.splitlines()[-3:-1] == [f"+ {unit} restarted", said]
    assert host.read(f"/etc/rancher/{name}/config.yaml.d/99-nvidia.yaml").endswith(
        "default-runtime: nvidia\n"
    )
    section = tomllib.loads(host.read(generated))["plugins"]["io.containerd.grpc.v1.cri"]
    assert section["containerd"]["default_runtime_name"] == "nvidia"
    assert not host.exists(f"{generated}.tmpl")
    assert host.apply(wanted).output == "changed=0\n"
    assert host.apply(of(engine, default_runtime=DefaultRuntime.RUNC)).status == 0
    assert "default_runtime_name" not in host.read(generated)
    assert host.apply(wanted).status == 0
    assert host.undo(wanted).status == 0
    assert differences(before, files_of(host)) == {}
    assert "default_runtime_name" not in host.read(generated)


def files_of(host: Running) -> dict[str, str]:
    """Return the host's files, without the files that K3s itself writes."""
    return {
        path: text
        for path, text in host.tree().items()
        if not path.startswith(("var/lib/rancher", "upper"))
    }


@pytest.mark.full
def test_a_template_that_hides_the_runtimes_is_refused(host: Running) -> None:
    install(host, "k3s", "k3s", "k3s")
    template = "/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.tmpl"
    host.write(template, "version = 3\n")
    before = host.tree(times=True)
    refused = host.apply(of(Engine.K3S))
    assert refused.status == 1
    assert f"found {template}, which hides the runtimes" in refused.errors
    changed = differences(before, host.tree(times=True))
    # K3s keeps changing its own database, so the database isn't compared.
    assert [path for path in changed if "/k3s/agent/containerd/" not in path] == []
    host.write(template, '{{ template "base" . }}\n')
    assert host.apply(of(Engine.K3S)).status == 0


@pytest.mark.full
def test_k3s_that_does_not_start_gets_its_old_file_back(host: Running) -> None:
    install(host, "k3s", "k3s", "k3s")
    host.write("/etc/rancher/k3s/refuse", "")
    failed = host.apply(of(Engine.K3S))
    assert failed.status == 1
    assert "so the old one was restored: " in failed.errors
    assert not host.exists("/etc/rancher/k3s/config.yaml.d/99-nvidia.yaml")
    assert host.run("systemctl is-active k3s").output == "active\n"


@pytest.mark.full
def test_a_toolkit_that_came_later_makes_k3s_restart(host: Running) -> None:
    host.run("mv /usr/bin/nvidia-container-runtime /usr/bin/hidden")
    install(host, "k3s", "k3s", "k3s")
    host.run("mv /usr/bin/hidden /usr/bin/nvidia-container-runtime")
    by_class = of(Engine.K3S, default_runtime=DefaultRuntime.RUNC)
    done = host.apply(by_class)
    toolkit = "+ /etc/nvidia-container-runtime/config.toml"
    said = f"CRI at {K3S_SOCKET}: the containerd of k3s has the runtimes nvidia runc"
    assert done.output.splitlines() == [toolkit, "+ k3s restarted", said, "changed=2"]
    assert host.apply(by_class).output == "changed=0\n"


DATA = {
    "a flag": ("server --data-dir /data/k3s", {}),
    "a flag with a value behind": ("server -d /data/k3s --config=/etc/k3s.yaml", {}),
    "a variable": ("server", {"/etc/default/k3s": "K3S_DATA_DIR=/data/k3s\n"}),
    "the file": ("server", {"/etc/rancher/k3s/config.yaml": "data-dir: /data/k3s\n"}),
}


@pytest.mark.slow
@pytest.mark.promise(
    "K3s and RKE2 are judged by what their own containerd answers, wherever their data lie."
)
@pytest.mark.parametrize("name", DATA)
def test_k3s_with_another_data_folder_is_judged_by_its_containerd(host: Running, name: str) -> None:
    """K3s reads its data folder and configuration file from flags and variables.

    Sources: docs.k3s.io, "k3s server" (--data-dir, --config, K3S_DATA_DIR), "Configuration".
    """
    words, files = DATA[name]
    for path, text in files.items():
        host.write(path, text)
    install(host, "k3s", "k3s", "k3s", words)
    host.run("systemctl disable --now containerd")
    done = host.apply(of(Engine.K3S))
    assert (done.errors, done.status) == ("", 0)
    assert "default_runtime_name" in host.read("/data/k3s/agent/etc/containerd/config.toml")
    answer = cri.runtime_config(host.root / K3S_SOCKET[1:])["containerd"]
    assert answer["defaultRuntimeName"] == "nvidia"
    drop_in = "/etc/k3s.yaml.d" if "/etc/k3s.yaml" in words else "/etc/rancher/k3s/config.yaml.d"
    assert host.exists(f"{drop_in}/99-nvidia.yaml")
    assert host.apply(of(Engine.K3S)).output == "changed=0\n"
    assert host.undo(of(Engine.K3S)).status == 0
    assert not host.exists(f"{drop_in}/99-nvidia.yaml")


@pytest.mark.full
def test_k3s_with_an_engine_of_its_host_is_named(host: Running) -> None:
    install(host, "k3s", "k3s", "k3s", "agent --container-runtime-endpoint /run/x.sock")
    refused = host.apply(of(Engine.K3S))
    assert "found k3s with the container engine at /run/x.sock" in refused.errors
    assert "nothing was changed on this host" in refused.errors
