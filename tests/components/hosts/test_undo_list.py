"""An undo is a list: a part that fails stays recorded and is named last, and the rest is undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proofs.world.hosts import shell

PARTS = (
    *("library/base", "library/files", "library/effects", "library/expectations"),
    *("library/drop_ins", "library/prepare", "swap", "sysctl", "modules"),
)
STUCK = """\
rm -rf "$scratch"
mkdir "$scratch"
remove_unwanted() { :; }
mv() {
    case "$*" in *"$stuck") return 1 ;; esac
    command mv "$@"
}
"""
"""Shell that refuses to replace one file, as an immutable or read-only file does."""
FILES = ("/etc/fstab", "/etc/first.conf", "/etc/second.conf")


def undo(root: Path, stuck: str) -> tuple[int, str]:
    lines = f"{STUCK}stuck={stuck}\ntake_back_step test\nattempt 'step swap' undo_swap\nrefuse_left"
    done = shell.run(root, PARTS, lines)
    return done.returncode, done.stderr


def apply(root: Path) -> None:
    """Place three files, and turn off swap in fstab."""
    (root / "etc").mkdir()
    for name in FILES:
        (root / name[1:]).write_text("before\n")
    (root / "etc/fstab").write_text("/dev/sda2 none swap sw 0 0\n")
    placed = "".join(f"step_file {name} 'after\n'\n" for name in FILES[1:])
    done = shell.run(root, PARTS, f"step=test\n{placed}mark_fstab\n")
    assert (done.returncode, done.stderr) == (0, "")


def left(root: Path) -> list[str]:
    """Return the files that aren't as they were, and drafts."""
    wanted = {"/etc/fstab": "/dev/sda2 none swap sw 0 0\n"}
    changed = [n for n in FILES if (root / n[1:]).read_text() != wanted.get(n, "before\n")]
    return changed + [path.name for path in (root / "etc").glob("*.gpu-cluster-new")]


@pytest.mark.promise(
    "An undo goes on after a part that fails, names last what stays, and ends once that is mended."
)
@pytest.mark.parametrize("stuck", FILES)
def test_what_an_undo_cannot_restore_stays_alone_and_is_named_last(
    tmp_path: Path, stuck: str
) -> None:
    apply(tmp_path)
    status, errors = undo(tmp_path, stuck)
    assert status == 1
    assert left(tmp_path) == [stuck]
    last = errors.splitlines()[-1]
    stays = stuck if stuck == "/etc/fstab" else f"file {stuck}"
    assert f"could not remove: {stays} (all else is undone); correct" in last
    assert undo(tmp_path, "/none") == (0, "")
    assert left(tmp_path) == []


def test_a_file_that_no_run_has_changed_is_not_restored(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/fstab").write_text("/dev/sda2 none swap sw 0 0\n")
    refused = shell.run(tmp_path, PARTS, f"{STUCK}stuck=/etc/fstab\nmark_fstab\n")
    assert refused.returncode == 1
    assert undo(tmp_path, "/etc/fstab") == (0, "")
    assert [path.name for path in (tmp_path / "etc").iterdir()] == ["fstab"]


UNIT = "/etc/systemd/system/containerd.service.d/50-gpu-cluster-proxy.conf"


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "GPUs in use"])
def test_a_service_whose_drop_in_is_undone_is_restarted_or_found_until_then(
    tmp_path: Path, busy: bool
) -> None:
    begun = 'step=proxy\nunit_drop_in containerd proxy text\nrm -f "$drop_ins_pending"\n'
    assert shell.run(tmp_path, PARTS, begun).returncode == 0
    fakes = (
        'systemctl() { echo "systemctl $*" >>"$root/asked"; }\n'
        'bounded() { shift; "$@"; }\n'
        f"containers_at_risk() {{ {'echo a pod runs' if busy else 'false'}; }}\n"
        "remove_unwanted() { :; }\n"
    )
    ended = f"{fakes}take_back_step proxy\nafter_steps\nkeep_expectations\n"
    done = shell.run(tmp_path, PARTS, ended)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / UNIT[1:]).exists()
    asked = (tmp_path / "asked").read_text() if (tmp_path / "asked").exists() else ""
    assert ("systemctl restart containerd" in asked) is not busy
    expected = (tmp_path / "var/lib/gpu-cluster/prepare/expected").read_text()
    assert ("in_force containerd" in expected) is busy
    assert ("no longer declared, waits" in done.stdout) is busy
    found = "found_in_force containerd && echo in force\n"
    again = shell.run(tmp_path, PARTS, found)
    assert (again.stdout == "in force\n") is not busy


@pytest.mark.parametrize(
    ("tool", "step", "stays"),
    [
        ("swapon", "swap", "swap"),
        ("sysctl", "sysctl", "kernel parameters"),
        ("modprobe", "modules", "kernel modules"),
    ],
)
def test_what_a_missing_program_keeps_from_being_undone_is_kept_for_the_next_undo(
    tmp_path: Path, tool: str, step: str, stays: str
) -> None:
    begun = (
        'mkdir -p "$state/sysctl" "$root/proc" "$root/sys/module/dummy"\n: >"$root/proc/swaps"\n'
        'echo 1 >"$state/sysctl/vm.overcommit_memory"\necho /swap.img >"$state/swaps"\n'
        'echo dummy >"$state/modules"\n'
    )
    undone = (
        f'rm -rf "$scratch"\nmkdir "$scratch"\nattempt "step {step}" undo_{step}\nrefuse_left\n'
    )
    gone = f'have() {{ [ "$1" != {tool} ]; }}\n'
    first = shell.run(tmp_path, PARTS, f"{begun}{gone}{undone}")
    assert first.returncode == 1, first
    assert f"could not remove: {stays} (all else is undone)" in first.stderr
    assert f"found no command {tool} on PATH" in first.stderr
    ends = 'timeout() { shift; echo "$*" >>"$root/asked"; }\n'
    again = shell.run(tmp_path, PARTS, f"{ends}{undone}")
    assert (again.returncode, again.stderr) == (0, ""), again
    assert tool in (tmp_path / "asked").read_text()
