"""What a phase can't change or start is named before its first change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proofs.world.hosts import shell

PARTS = ("library/base", "library/files", "library/preflight", "modules")
LSATTR = 'lsattr() { echo "$attributes $3"; }\n'


@pytest.mark.promise(
    "A file that can't be written, a masked unit and a kernel that loads no modules are named "
    "before a host changes."
)
@pytest.mark.parametrize(
    ("attributes", "is_refused"),
    [("----i---------e-------", True), ("--------------e-------", False)],
)
def test_an_immutable_file_is_named_with_the_command_that_frees_it(
    tmp_path: Path, attributes: str, is_refused: bool
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/fstab").write_text("")
    lines = (
        f"attributes={attributes}\n{LSATTR}require_writable /etc/fstab /etc/none\nrefuse_problems"
    )
    done = shell.run(tmp_path, PARTS, lines)
    assert (done.returncode == 1) is is_refused, done
    assert ("`chattr -i /etc/fstab`" in done.stderr) is is_refused
    assert ("nothing was changed on this host" in done.stderr) is is_refused


@pytest.mark.parametrize("disabled", [True, False])
@pytest.mark.parametrize("loaded", [True, False])
def test_a_kernel_that_loads_no_modules_is_named_if_one_is_missing(
    tmp_path: Path, disabled: bool, loaded: bool
) -> None:
    setting = tmp_path / "proc/sys/kernel/modules_disabled"
    setting.parent.mkdir(parents=True)
    setting.write_text(f"{int(disabled)}\n")
    (tmp_path / "sys/module/overlay").mkdir(parents=True)
    if loaded:
        (tmp_path / "sys/module/br_netfilter").mkdir()
    lines = "GC_MODULES='overlay br_netfilter'\ncheck_modules\nrefuse_problems\n"
    done = shell.run(tmp_path, PARTS, lines)
    assert ("kernel.modules_disabled = 1 without the modules br_netfilter;" in done.stderr) is (
        disabled and not loaded
    )
    assert (done.returncode == 1) is (disabled and not loaded)


@pytest.mark.parametrize("state", ["masked", "disabled", "enabled"])
def test_a_masked_engine_is_named_with_its_cure(tmp_path: Path, state: str) -> None:
    lines = f"systemctl() {{ echo {state}; }}\nrequire_unmasked containerd\nrefuse_problems\n"
    done = shell.run(tmp_path, ("library/base", "library/preflight"), lines)
    assert (done.returncode == 1) is (state == "masked")
    assert ("`systemctl unmask containerd`" in done.stderr) is (state == "masked")


@pytest.mark.parametrize(
    ("module", "file", "found"),
    [
        ("dummy", "", ""),
        ("nowhere", "", "found no module nowhere for kernel"),
        (
            "overlay",
            "install overlay /bin/false\n",
            "module overlay turned off in /etc/modprobe.d/cis.conf",
        ),
        ("overlay", "# install overlay /bin/false\n", ""),
        ("overlay", "install overlays /bin/false\n", ""),
        (
            "dummy",
            "install dummy /usr/bin/true\n",
            "module dummy turned off in /etc/modprobe.d/cis.conf",
        ),
    ],
)
def test_a_module_that_can_not_be_loaded_is_named_before_a_change(
    tmp_path: Path, module: str, file: str, found: str
) -> None:
    (tmp_path / "etc/modprobe.d").mkdir(parents=True)
    (tmp_path / "etc/modprobe.d/cis.conf").write_text(file)
    lines = f"GC_MODULES={module}\ncheck_modules\nrefuse_problems\n"
    done = shell.run(tmp_path, PARTS, lines)
    assert (done.returncode == 1) is bool(found), done
    assert found in done.stderr
    assert not (tmp_path / "sys/module").exists()


@pytest.mark.parametrize(
    ("key", "modules", "is_refused"),
    [
        ("vm.swappiness", "", False),
        ("vm.nowhere", "", True),
        ("vm.nowhere", "overlay", True),
        ("vm.nowhere", "overlay br_netfilter", False),
    ],
)
def test_a_parameter_that_no_module_can_bring_is_named_before_a_change(
    tmp_path: Path, key: str, modules: str, is_refused: bool
) -> None:
    (tmp_path / "sys/module/overlay").mkdir(parents=True)
    lines = (
        f"GC_MODULES='{modules}'\neach_sysctl() {{ \"$@\" {key} 1; }}\n"
        "check_sysctl\nrefuse_problems\n"
    )
    done = shell.run(tmp_path, (*PARTS, "sysctl"), lines)
    assert (f"found no sysctl {key}; wanted" in done.stderr) is is_refused, done
    assert (done.returncode == 1) is is_refused


PHASE = (
    *("library/base", "library/files", "library/disruption", "library/expectations"),
    *("library/preflight", "library/effects", "library/package_manager", "library/transactions"),
    *("library/drop_ins", "library/prepare", "swap"),
)


@pytest.mark.parametrize("earlier", ["nothing", "a package", "an earlier run"])
def test_a_first_run_that_fails_before_it_installs_anything_is_undone(
    tmp_path: Path, earlier: str
) -> None:
    state = tmp_path / "var/lib/gpu-cluster/prepare"
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/fstab").write_text("/dev/sda2 none swap sw 0 0\n")
    lines = (
        "check() { :; }\nrequire_steps() { :; }\nrequire_rollout() { :; }\n"
        "all_steps='swap two' GC_STEPS='swap two' manager=none\n"
        f"apply_two() {{ {'effect package make; ' if earlier == 'a package' else ''}"
        "step_file /etc/two.conf text; fail 'no room'; }\nmain apply\n"
    )
    if earlier != "an earlier run":
        lines = f'rm -rf "$state"\n{lines}'
    done = shell.run(tmp_path, PHASE, lines)
    assert done.returncode == 1, done
    undone = earlier == "nothing"
    assert ("what this run had changed is undone" in done.stderr) is undone
    assert "no room" in done.stderr
    assert (tmp_path / "etc/two.conf").exists() is not undone
    assert ("noauto" in (tmp_path / "etc/fstab").read_text()) is not undone
    assert state.exists() is not undone
