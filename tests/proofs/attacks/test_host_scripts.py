"""Attack: an unprivileged user of a host tries to influence the scripts that root runs there."""

from __future__ import annotations

import hashlib
import stat
import subprocess
from pathlib import Path

from tests.fixtures.programs import run_program
from tests.toolchain.plugins.rig import LIMIT, ROOT

SCRIPTS = next(ROOT.rglob("components/gpu_cluster/**/runfile.sh")).parent
GOOD, EVIL = b"#!/bin/sh\necho installed\n", b"#!/bin/sh\necho owned\n"


def run(root: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run shell text with the common functions of the host scripts; the host's root is `root`."""
    parts = [(SCRIPTS / name).read_text() for name in ("base.sh", "runfile.sh")]
    program = "set -u\nGC_PHASE=prepare GC_LOCK_LIMIT=5\n" + "\n".join([*parts, text])
    return run_program(
        ["/bin/sh", "-s"],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "GPU_CLUSTER_ROOT": str(root)},
        input=program,
        timeout=LIMIT,
    )


def test_a_runfile_that_is_swapped_after_its_check_is_not_what_runs(tmp_path: Path) -> None:
    declared = tmp_path / "home" / "user" / "driver.run"
    declared.parent.mkdir(parents=True)
    declared.write_bytes(GOOD)
    evil = tmp_path / "evil"
    evil.write_bytes(EVIL)
    wanted = hashlib.sha256(GOOD).hexdigest()
    # The attacker can write to the declared path. He waits until the script has computed the hash,
    # and then replaces the file.
    done = run(
        tmp_path,
        f"""
digest() {{ digest=$(sha256sum <"$1" | cut -d ' ' -f 1); cp {evil} {declared}; }}
locations() {{ "$@" /home/user/driver.run; }}
have_runfile driver {wanted} locations && cat "$runfile"
""",
    )
    assert (done.returncode, done.stdout) == (0, GOOD.decode()), done.stderr
    cache = tmp_path / "var/cache/gpu-cluster"
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_a_file_with_another_sum_is_neither_run_nor_kept(tmp_path: Path) -> None:
    (tmp_path / "driver.run").write_bytes(EVIL)
    wanted = hashlib.sha256(GOOD).hexdigest()
    done = run(
        tmp_path,
        f'locations() {{ "$@" /driver.run; }}\nhave_runfile driver {wanted} locations',
    )
    assert done.returncode == 1
    assert "the file was not run" in done.stderr
    assert list((tmp_path / "var/cache/gpu-cluster").iterdir()) == []


def test_no_other_user_of_a_host_can_hold_the_lock(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    # An earlier version of the scripts created the lock file with this mode.
    (tmp_path / "run/gpu-cluster.lock").touch(0o644)
    for _ in range(2):
        done = run(tmp_path, "lock")
        assert done.returncode == 0, done.stderr
        mode = stat.S_IMODE((tmp_path / "run/gpu-cluster.lock").stat().st_mode)
        assert mode == 0o600
        (tmp_path / "run/gpu-cluster.lock").unlink()
