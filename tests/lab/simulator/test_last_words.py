"""Tests of the choice of the log line that an error quotes after a program ended unexpectedly."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_cluster_lab.simulator.last_words import CHARACTERS, last_line

ETCD = """\
{"level":"info","msg":"bootstrapping storage"}
{"level":"panic","msg":"failed to create WAL","error":"no space left on device","stacktrace":"a"}
panic: failed to create WAL

goroutine 1 [running]:
main.main()
\tgpu-cluster/etcd/main.go:11 +0x28
"""
"""Last log lines of etcd 3.6.5 on a full disk."""


@pytest.mark.parametrize(
    ("log", "quoted"),
    [
        ("first\nE1 run.go:72] no default routes\n\n", "E1 run.go:72] no default routes"),
        ("half a line", "half a line"),
        ("a \x1b[31mred\x07 line\n", "a \\x1b[31mred\\x07 line"),
        (ETCD, "failed to create WAL: no space left on device"),
        ("panic: nil map\n\ngoroutine 7 [running]:\nmain()\n", "panic: nil map"),
        ('{"level":"ERROR","msg":"Execute exit","err":"timed out"}\n', "Execute exit: timed out"),
        ("[1]\n", "[1]"),
    ],
)
def test_the_line_that_says_why_is_quoted(tmp_path: Path, log: str, quoted: str) -> None:
    file = tmp_path / "log"
    file.write_text(log)
    assert last_line(file) == f", its log ends with: {quoted}"


def test_nothing_is_quoted_of_an_empty_or_missing_log(tmp_path: Path) -> None:
    assert last_line(tmp_path / "none") == ""
    (tmp_path / "empty").write_text("\n\n")
    assert last_line(tmp_path / "empty") == ""


def test_a_long_line_is_cut(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * 1_000_000)
    assert len(last_line(tmp_path / "log")) < 2 * CHARACTERS
