"""Tests that detect the kubelet's cgroup driver from its systemd unit, with a fake systemctl."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proofs.world.hosts import shell
from tests.proofs.world.hosts.rows import Situation, rows

PARTS = (
    *("library/base", "library/json", "library/versions", "library/running"),
    *("library/kubelet", "library/runtime"),
)
CHECK = "GC_SYSTEMD_CGROUP={}\nrequire_cgroup_driver\nrefuse_problems\n"


@pytest.mark.promise(
    "An engine never gets another cgroup driver than its kubelet, whichever files and flags the "
    "kubelet's unit names."
)
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
    assert f"declare runtime.systemdCgroup: {same}" in refused.stderr
    assert "nothing was changed on this host" in refused.stderr
