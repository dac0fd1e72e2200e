"""The running CRI-O answers after each change and for drift: the real daemon, and its fake alike.

The real daemon is built from its Go module. It starts no pod here, so that conmon and pinns, of
which it only checks that they exist, are scripts.
"""

from __future__ import annotations

import pytest

from gpu_cluster.settings.hosts.runtime import DefaultRuntime
from lab.real import build
from tests.proofs.hosts import software
from tests.proofs.hosts.crio import (
    DROPIN,
    DROPINS,
    VARIABLES,
    answers,
    restart,
    says,
    script,
    start_daemon,
)
from tests.proofs.hosts.machine import Running, differences

SCRIPT = script()
BY_CLASS = script(default_runtime=DefaultRuntime.RUNC)
NVIDIA = "/usr/bin/nvidia-container-runtime"
LATER = f"{DROPINS}/zz-site.conf"
OTHER = '[crio.runtime]\ndefault_runtime = "runc"\n'
OTHERWISE = 'crio, which runs with default_runtime = "runc"'
NEXT = 'crio, whose files have default_runtime = "runc" for its next start'


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.full), "fake"])
def host(request: pytest.FixtureRequest, cluster: str, namespaces: None) -> Running:
    """Return a host with the real CRI-O, or with the fake that answers in the same way."""
    program = None
    if request.param == "real":
        if problem := build.missing():
            pytest.skip(f"CRI-O's own daemon: {problem}")
        program = build.build_crio()
    return start_daemon(cluster, program)


def pid(host: Running) -> str:
    return host.read("/run/simulated-systemd/crio.pid")


def files(host: Running) -> dict[str, str]:
    """Return the host's files without those that CRI-O itself writes."""
    own = ("var/lib/crio", "var/lib/containers", "upper", "etc/cni", "opt/cni")
    return {path: text for path, text in host.tree().items() if not path.startswith(own)}


def test_the_running_daemon_is_configured_and_comes_back(host: Running) -> None:
    before, earlier = files(host), says(host)
    first = host.apply(SCRIPT)
    assert (first.status, first.errors) == (0, "")
    said = first.output.splitlines()[-2]
    assert said.startswith("CRI-O at /var/run/crio/crio.sock: CRI-O 1.3")
    assert said.endswith(" has the runtimes nvidia runc, nvidia by default")
    view = says(host)
    assert (view["default_runtime"], view["cgroup_manager"]) == ("nvidia", "cgroupfs")
    assert view["runtimes"]["nvidia"]["runtime_path"] == NVIDIA
    assert view["runtimes"]["nvidia"]["monitor_path"] == "/usr/libexec/crio/conmon"
    assert software.drift(host, "runtime") == ()
    process = pid(host)
    assert host.apply(SCRIPT).output == "changed=0\n"
    assert pid(host) == process
    assert host.undo(SCRIPT).status == 0
    assert differences(before, files(host)) == {}
    restart(host)
    assert says(host)["runtimes"].keys() == earlier["runtimes"].keys()


def test_a_change_of_comments_does_not_restart_the_daemon(host: Running) -> None:
    assert host.apply(SCRIPT).status == 0
    process = pid(host)
    host.write(DROPIN, f"# of the site\n{host.read(DROPIN)}")
    assert software.drift(host, "runtime") == (DROPIN,)
    done = host.apply(SCRIPT)
    assert (done.status, done.errors, pid(host)) == (0, "", process)


@pytest.mark.parametrize(
    "text",
    ["CRIO_RUNTIME_OPTIONS=--default-runtime=runc\n", "CONTAINER_DEFAULT_RUNTIME=runc\n"],
    ids=["flag", "variable"],
)
def test_a_unit_that_says_otherwise_is_drift_and_refused(host: Running, text: str) -> None:
    assert host.apply(SCRIPT).status == 0
    host.write(VARIABLES, text)
    restart(host)
    assert says(host)["default_runtime"] == "runc"
    assert software.drift(host, "runtime") == (OTHERWISE,)
    before = files(host)
    refused = host.apply(SCRIPT)
    assert refused.status == 1
    assert 'found default_runtime = "runc" by the unit crio' in refused.errors
    assert "remove the flag --default-runtime or the variable CONTAINER_DEFAULT" in refused.errors
    assert "nothing was changed on this host" in refused.errors
    assert differences(before, files(host)) == {}


def test_a_later_file_is_drift_before_and_after_a_restart_and_refused(host: Running) -> None:
    assert host.apply(SCRIPT).status == 0
    host.write(LATER, OTHER)
    assert software.drift(host, "runtime") == (NEXT,)
    restart(host)
    assert software.drift(host, "runtime") == (OTHERWISE, NEXT)
    refused = host.apply(SCRIPT)
    assert refused.status == 1
    assert f'found default_runtime = "runc" in {LATER}, which is read after ours' in refused.errors


def test_a_later_file_that_says_the_same_is_taken(host: Running) -> None:
    assert host.apply(SCRIPT).status == 0
    host.write(LATER, '[crio.runtime]\ndefault_runtime = "nvidia"\ncgroup_manager = "cgroupfs"\n')
    assert software.drift(host, "runtime") == ()
    assert host.apply(SCRIPT).output == "changed=0\n"


def test_a_table_that_replaces_the_runtime_is_refused(host: Running) -> None:
    host.write(LATER, '[crio.runtime.runtimes.nvidia]\nmonitor_path = "/usr/libexec/crio/conmon"\n')
    refused = host.apply(SCRIPT)
    assert refused.status == 1
    assert f'found runtimes.nvidia.runtime_path = "" in {LATER}' in refused.errors


def test_a_daemon_with_older_files_is_drift_and_restarted(host: Running) -> None:
    assert host.apply(SCRIPT).status == 0
    host.write(LATER, OTHER)
    restart(host)
    host.run(f"rm {LATER}")
    assert software.drift(host, "runtime") == (OTHERWISE,)
    done = host.apply(SCRIPT)
    assert (done.status, done.errors) == (0, "")
    assert "+ crio restarted" in done.output.splitlines()
    assert says(host)["default_runtime"] == "nvidia"
    assert software.drift(host, "runtime") == ()


def test_a_runtime_that_the_daemon_ignores_is_drift(host: Running) -> None:
    """CRI-O starts without a runtime whose program is missing, if it is not the default."""
    assert host.apply(BY_CLASS).status == 0
    assert software.drift(host, "runtime") == ()
    host.run(f"mv {NVIDIA} {NVIDIA}.away")
    restart(host)
    assert "nvidia" not in says(host)["runtimes"]
    assert "crio, which runs with runtimes.nvidia.runtime_path = nothing" in software.drift(
        host, "runtime"
    )


def test_a_daemon_that_ends_after_its_start_gets_its_old_files_back(host: Running) -> None:
    """Only a unit of the type `notify` shows such a daemon to systemd.

    The guard has the daemon's name, because the process of the fake, a Perl program, has not.
    """
    host.run("mkdir -p /usr/local/lib/guarded && mv /usr/local/bin/crio /usr/local/lib/guarded")
    host.write(
        "/usr/local/bin/crio",
        f"#!/bin/sh\n[ $# -gt 0 ] || [ ! -e {DROPIN} ] || {{ sleep 1; exit 1; }}\n"
        'exec /usr/local/lib/guarded/crio "$@"\n',
    )
    host.run("chmod 755 /usr/local/bin/crio")
    restart(host)
    failed = host.apply(SCRIPT)
    assert failed.status == 1
    assert (
        "crio did not start with the new configuration, so the old one was restored"
        in failed.errors
    )
    assert "no CRI-O answers at /var/run/crio/crio.sock: " in failed.errors
    assert "check journalctl -u crio" in failed.errors
    assert not host.exists(DROPIN)
    answers(host)
    assert says(host)["default_runtime"] == "runc"


def test_a_daemon_that_does_not_answer_is_drift(host: Running) -> None:
    assert host.apply(SCRIPT).status == 0
    host.run("systemctl stop crio")
    assert software.drift(host, "runtime") == (
        "crio is not active",
        "crio, which does not answer at /var/run/crio/crio.sock",
    )


def test_the_folder_and_the_socket_of_the_unit_are_used(host: Running) -> None:
    folder, path = "/etc/crio/site.d", "/run/crio/site.sock"
    host.run(f"mkdir {folder} && mv {DROPINS}/10-crio.conf {folder}")
    host.write(VARIABLES, f'CRIO_CONFIG_OPTIONS="-d {folder} --listen={path}"\n')
    restart(host, path)
    done = host.apply(SCRIPT)
    assert (done.status, done.errors) == (0, "")
    assert f"CRI-O at {path}: " in done.output
    assert host.exists(f"{folder}/99-nvidia.toml")
    assert not host.exists(DROPIN)
    assert says(host, path)["default_runtime"] == "nvidia"
    assert software.drift(host, "runtime") == ()
    assert host.undo(SCRIPT).status == 0
    assert not host.exists(f"{folder}/99-nvidia.toml")


def test_an_inspection_names_the_default_runtime_of_cri_o(host: Running) -> None:
    host.run("systemctl disable --now containerd; rm -f /run/containerd/containerd.sock")
    assert host.apply(SCRIPT).status == 0
    assert software.facts(host).default_runtime == "nvidia"
