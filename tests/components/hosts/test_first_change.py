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
    lines = f"systemctl() {{ echo {state}; }}\nunit=containerd\nrequire_unmasked\nrefuse_problems\n"
    done = shell.run(tmp_path, ("library/base", "library/runtime"), lines)
    assert (done.returncode == 1) is (state == "masked")
    assert ("`systemctl unmask containerd`" in done.stderr) is (state == "masked")
