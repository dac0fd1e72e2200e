"""The cgroup driver of the kubelet that a unit starts. The service manager is a fake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proofs.world.hosts import shell
from tests.proofs.world.hosts.rows import Situation, rows

pytestmark = pytest.mark.slow

PARTS = ("library/base", "library/json", "library/running", "library/kubelet", "library/runtime")
CHECK = "GC_SYSTEMD_CGROUP={}\nrequire_cgroup_driver\nrefuse_problems\n"


@pytest.mark.parametrize("name", rows("kubelet"))
def test_the_cgroup_driver_is_the_one_that_the_kubelet_uses(
    tmp_path: Path, situation: Callable[[str, str], Situation], name: str
) -> None:
    row = situation("kubelet", name)
    row.place(tmp_path)
    for path in ("usr/bin/kubelet", "usr/local/bin/kubelet"):
        program = tmp_path / path
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    same, other = ("true", "false") if row.wanted == "systemd" else ("false", "true")
    agreed = shell.run(tmp_path, PARTS, CHECK.format(same))
    assert (agreed.returncode, agreed.stderr) == (0, "")
    refused = shell.run(tmp_path, PARTS, CHECK.format(other))
    assert f"found cgroupDriver {row.wanted} in " in refused.stderr, refused
