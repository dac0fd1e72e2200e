"""Tests of systemd units that set a proxy other than the declared one, with a fake systemctl."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proofs.world.hosts import shell
from tests.proofs.world.hosts.rows import Situation, rows

PARTS = ("library/base", "library/json", "library/running", "proxy")
PROXY = "http://proxy.example.org:3128"
CHECK = f"""\
GC_PROXY_UNITS=containerd
GC_PROXY_UNIT_TEXT='[Service]
Environment="HTTP_PROXY={PROXY}" "HTTPS_PROXY={PROXY}" "http_proxy={PROXY}" "https_proxy={PROXY}"
'
check_proxy
refuse_problems
"""


@pytest.mark.promise(
    "A declared proxy is in the environment of the running engine, or the file that says "
    "otherwise is named before anything changes."
)
@pytest.mark.parametrize("name", rows("proxy"))
def test_a_declared_proxy_holds_or_the_file_that_counts_more_is_named(
    tmp_path: Path, situation: Callable[[str, str], Situation], name: str
) -> None:
    row = situation("proxy", name)
    unit = tmp_path / "lib/systemd/system/containerd.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/usr/bin/containerd\n")
    row.place(tmp_path)
    done = shell.run(tmp_path, PARTS, CHECK)
    if row.wanted == "named":
        assert done.returncode == 1, done
        assert all(word in done.stderr for word in row.says), done.stderr
        assert "nothing was changed on this host" in done.stderr
    else:
        assert (done.returncode, done.stderr) == (0, "")
