"""Step files are uploaded once, belong to root, and run only if a script declares them."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_cluster.hosts import script, steps
from gpu_cluster.hosts.observed.probe import probe
from gpu_cluster.hosts.script import FOLDER
from gpu_cluster.settings.hosts.runtime import Engine, RuntimeSettings
from gpu_cluster.settings.hosts.system import LimitItem, SystemSettings
from gpu_cluster.ssh import upload
from tests.fixtures.programs import run_program
from tests.proofs.hosts.declared import prepare, runtime, step
from tests.proofs.hosts.machine import STEPS, Running, differences

pytestmark = pytest.mark.slow

IOMMU = """\
# The IOMMU passes through.

apply_iommu() {
    step_file /etc/modprobe.d/iommu.conf "$GC_IOMMU
"
    expect iommu "$GC_IOMMU"
}

# --- found later: the probe has this part too ---

found_iommu() {
    grep -qx -e "$1" "$root/etc/modprobe.d/iommu.conf"
}
"""

IOMMU_MODULE = """\
from gpu_cluster.hosts.step import Given, Step


def _given(host):
    settings = {"GC_IOMMU": "options iommu pt"}
    return Given(settings=settings) if host.sections.system.swap_off else None


STEP = Step(given=_given, after="sysctl")
"""


def test_what_a_declaration_does_not_name_does_not_run(plain_host: Running) -> None:
    plain_host.copy_steps(prepare())
    file = plain_host.root / STEPS / step("swap").file
    file.write_bytes(file.read_bytes() + b"touch $root/run/owned\n")
    command = "timeout -k 10 60 sh -s -- apply"
    done = subprocess_of(plain_host, command)
    assert done.returncode == 1
    assert f"{step('swap').file}: FAILED" in done.stderr
    assert "found other steps; cure: run `pulumi up` again" in done.stderr
    assert not plain_host.exists("/run/owned")
    assert not plain_host.exists("/var/lib/gpu-cluster/prepare")
    file.unlink()
    plain_host.copy_steps(prepare())
    assert subprocess_of(plain_host, command).returncode == 0


def subprocess_of(
    host: Running, command: str, script: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script below the host's scratch root, without first uploading its step files."""
    return run_program(
        ["sh", "-c", command],
        cwd=host.root,
        env={"GPU_CLUSTER_ROOT": str(host.root), "PATH": plain_path(host)},
        input=script or prepare(),
        timeout=60,
    )


def plain_path(host: Running) -> str:
    return host.run('printf %s "$PATH"').output


def test_a_host_without_the_files_says_what_to_do(plain_host: Running) -> None:
    done = subprocess_of(plain_host, "sh -s -- apply")
    assert done.returncode != 0
    assert "cure: run `pulumi up`" in done.stderr


def test_root_keeps_what_the_undo_needs_to_the_last_phases_end(plain_host: Running) -> None:
    before = plain_host.tree()
    earlier = prepare()
    assert plain_host.apply(earlier).status == 0
    kept = plain_host.root / STEPS
    assert kept.stat().st_mode & 0o077 == 0
    digest = hashlib.sha256((script.FOLDER / "swap.sh").read_bytes()).hexdigest()
    assert (kept / f"swap-{digest}.sh").is_file()
    done = subprocess_of(plain_host, "sh -s -- undo")
    assert done.returncode == 0, done.stderr
    assert differences(before, plain_host.tree()) == {}


def test_what_the_state_held_before_a_rollout_can_be_undone_after_it(plain_host: Running) -> None:
    before = plain_host.tree()
    later = prepare(system=SystemSettings(swap_off=False))
    assert plain_host.apply(prepare()).status == 0
    # This run belongs to a rollout that then fails on another host.
    assert plain_host.apply(later).status == 0
    files = {bundle.file: bundle.text for bundle in later.bundles}
    # The next Command uploads its step files, but the undo must still find the step files of the
    # first run.
    plain_host.run("sh -s", upload.taking(files))
    done = subprocess_of(plain_host, "sh -s -- undo")
    assert done.returncode == 0, done.stderr
    assert differences(before, plain_host.tree()) == {}


def test_a_host_that_is_refused_at_first_keeps_nothing_of_it(plain_host: Running) -> None:
    refused = prepare(systems="plan9")
    done = plain_host.run("sh -s -- apply", refused)
    assert (done.status, "nothing was changed on this host" in done.errors) == (1, True)
    assert not plain_host.exists(f"/{STEPS.parent}")


def test_files_that_another_run_removes_meanwhile_stop_a_run_before_a_change(
    plain_host: Running,
) -> None:
    """A run makes no change if another run deletes its step files before it gets the lock."""
    before = plain_host.tree()
    waiting = f'flock() {{ rm -r "$kept/steps"; command flock "$@"; }}\n{prepare()}'
    plain_host.copy_steps(prepare())
    done = subprocess_of(plain_host, "sh -s -- apply", waiting)
    assert (done.returncode, "run `pulumi up` again" in done.stderr) == (1, True), done
    assert differences(before, plain_host.tree()) == {}


def test_a_rollout_that_is_refused_can_try_again_with_what_it_copied(plain_host: Running) -> None:
    refused = prepare(systems="plan9")
    assert plain_host.apply(refused).status == 1
    done = subprocess_of(plain_host, "GC_ROLLOUT=1 sh -s -- apply", refused)
    assert "found operating system" in done.stderr


def test_a_lost_list_of_steps_is_drift_of_its_phase(plain_host: Running) -> None:
    for declared in (prepare(), prepare(inline=True)):
        assert plain_host.apply(declared).status == 0
        assert "drift=" not in plain_host.run("sh -s", probe()).output
        (plain_host.root / STEPS.parent / "prepare" / "steps").unlink()
        found = plain_host.run("sh -s", probe()).output
        assert "drift=prepare the list of its steps\n" in found


@pytest.fixture
def with_iommu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add a user-defined step `iommu` that consists of a shell script and a Python module."""
    folder = tmp_path / "steps"
    subprocess.run(["cp", "-r", str(script.FOLDER), str(folder)], check=True)
    (folder / "iommu.sh").write_text(IOMMU)
    (folder / "iommu.py").write_text(IOMMU_MODULE)
    monkeypatch.setattr(script, "FOLDER", folder)
    monkeypatch.setattr("gpu_cluster.hosts.observed.probe.FOLDER", folder)
    monkeypatch.setattr(steps, "__path__", [*steps.__path__, str(folder)])
    steps.every.cache_clear()
    yield
    steps.every.cache_clear()
    del sys.modules["gpu_cluster.hosts.steps.iommu"]


@pytest.mark.usefixtures("with_iommu")
def test_a_step_costs_a_script_and_a_module(plain_host: Running) -> None:
    before = plain_host.tree()
    assert plain_host.apply(prepare()).status == 0
    assert plain_host.read("/etc/modprobe.d/iommu.conf") == "options iommu pt\n"
    assert plain_host.apply(prepare()).output == "changed=0\n"
    assert plain_host.apply(prepare(system=SystemSettings(swap_off=False))).status == 0
    assert not plain_host.exists("/etc/modprobe.d/iommu.conf")
    assert plain_host.undo(prepare()).status == 0
    assert differences(before, plain_host.tree()) == {}


def test_an_engine_never_gets_another_cgroup_driver_than_its_kubelet(plain_host: Running) -> None:
    plain_host.write("/var/lib/kubelet/config.yaml", "cgroupDriver: cgroupfs\n")
    refused = plain_host.apply(runtime(RuntimeSettings(systemd_cgroup=True)))
    assert refused.status == 1
    assert "declare runtime.systemdCgroup: false" in refused.errors
    assert "nothing was changed on this host" in refused.errors
    assert plain_host.apply(runtime(RuntimeSettings(systemd_cgroup=False))).status == 0


def test_containers_get_the_declared_locked_memory(plain_host: Running) -> None:
    before = plain_host.tree()
    wanted = prepare(system=SystemSettings(limits={LimitItem.MEMLOCK: -1}), engine=Engine.DOCKER)
    assert plain_host.apply(wanted).status == 0
    for unit in ("docker", "containerd"):
        place = f"/etc/systemd/system/{unit}.service.d/50-gpu-cluster-limits.conf"
        assert "[Service]\nLimitMEMLOCK=infinity\n" in plain_host.read(place)
    assert plain_host.apply(wanted).output == "changed=0\n"
    assert plain_host.undo(wanted).status == 0
    assert differences(before, plain_host.tree()) == {}


def library_says(host: Running, lines: str) -> str:
    """Return what shell code prints that calls functions of the phase `prepare`."""
    *rest, _ = prepare(inline=True).splitlines()
    done = host.run("sh -s", "\n".join([*rest, lines]) + "\n")
    assert done.status == 0, done
    return done.output


def test_programs_of_usr_local_are_found_where_sudo_leaves_them_out(plain_host: Running) -> None:
    folders = library_says(plain_host, 'echo "$PATH"').strip().split(":")
    ours = {f"{plain_host.root}/usr/{folder}" for folder in ("local/bin", "local/sbin", "sbin")}
    assert ours <= set(folders)
    assert "\nPATH=$PATH:$root/usr/local/sbin:$root/usr/local/bin:" in probe()


def test_packages_that_need_each_other_go_in_one_transaction(plain_host: Running) -> None:
    said = library_says(
        plain_host,
        """
        scratch=$root/scratch state=$root/state manager=apt GC_REMOVE_PACKAGES=true
        mkdir -p "$scratch" "$state"
        list_installed() { printf 'driver 1\\nfirmware 1\\nkernel 1\\n' >"$1"; }
        remove_packages() { echo "removed together: $*"; }
        printf 'driver package firmware\\ndriver package gone\\ndriver package driver\\n' \
            >"$state/effects"
        take_back_step driver
        cat "$state/effects"
        """,
    )
    assert said == "removed together: driver firmware\n"


def test_a_parameter_that_another_one_sets_is_asked_again(plain_host: Running) -> None:
    said = library_says(
        plain_host,
        """
        scratch=$root/scratch state=$root/state
        mkdir -p "$scratch" "$state"
        timeout() { shift; "$@"; }
        sysctl() {
            case $* in
                "-n first second") echo 0; echo 1 ;;
                "-n second") if [ -e "$root/reset" ]; then echo 0; else echo 1; fi ;;
                "-q -w first=1") : >"$root/reset" ;;
                "-q -w second=1") rm "$root/reset" ;;
            esac
        }
        each_sysctl() { "$@" first 1; "$@" second 1; }
        apply_sysctl
        """,
    )
    assert said.splitlines()[1:] == ["+ sysctl first: 0 -> 1", "+ sysctl second: 0 -> 1"]


def test_a_declared_kernel_passes_the_check_that_it_cures(plain_host: Running) -> None:
    refused = plain_host.apply(prepare(kernel="99.0"))
    # A host without namespaces has the kernel of the test machine, so the kernel isn't checked.
    assert refused.status == 0
    said = library_says(
        plain_host,
        """
        root= GC_KERNEL=99.0
        uname() { echo 3.10.0 x86_64; }
        require_system; echo "first:$problems"
        problems= GC_KERNEL_RELEASE=99.1.0; require_system; echo "second:$problems"
        """,
    )
    assert "found kernel 3.10.0; wanted 99.0 or later" in said.partition("second:")[0]
    assert "kernel" not in said.partition("second:")[2]


def test_no_step_takes_a_name_of_the_declaration() -> None:
    """A step must not overwrite the variables `loaded` and `kept`, which the script itself uses."""
    for file in FOLDER.rglob("*.sh"):
        assigned = re.findall(r"\b(loaded|kept)=", file.read_text())
        assert assigned == [], file.name
