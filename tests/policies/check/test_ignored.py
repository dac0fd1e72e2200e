"""Files and folders can be left out of a check, by the command line and by the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_rules.check.ignored import IgnoredPaths, anchored
from tests.policies.check.running import check

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n"


@pytest.mark.parametrize(
    ("pattern", "path", "ignored"),
    [
        ("testdata/", "testdata", True),
        ("testdata/", "a/b/testdata/c.yaml", True),
        ("testdata", "a/testdata-2/c.yaml", False),
        ("vendor/**", "vendor/a/b.yaml", True),
        ("vendor/**", "vendor", False),
        ("vendor/**", "a/vendor/b.yaml", False),
        ("**/vendor/**", "a/b/vendor/c.yaml", True),
        ("*.gen.yaml", "a/b/c.gen.yaml", True),
        ("a/*.yaml", "a/b/c.yaml", False),
        ("a/**/c.yaml", "a/c.yaml", True),
        ("./a/b", "a/b/c.yaml", True),
        ("../a", "a", False),
        ("", "a", False),
    ],
)
def test_a_pattern_matches_as_ignore_files_do(pattern: str, path: str, ignored: bool) -> None:
    assert IgnoredPaths(anchored([pattern], "/site")).includes(f"/site/{path}") is ignored


def test_many_wildcards_take_linear_time() -> None:
    pattern = "/".join(["**", "a"] * 200)
    assert not IgnoredPaths(anchored([pattern], "/")).includes("/a" * 150 + "/b")


@pytest.mark.parametrize("option", ["--ignore-paths", "--skip-path"])
def test_what_the_command_line_leaves_out_is_counted(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "testdata", "b/testdata"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "pod.yaml").write_text(POD)
    assert "3 objects checked" in check(".").output
    done = check(".", option, "testdata/")
    assert "1 object checked" in done.output
    assert "2 paths ignored" in done.output
    named = check("testdata/pod.yaml", option, "testdata/")
    assert (named.code, named.output.partition(",")[0]) == (0, "nothing was checked")


def test_patterns_of_the_settings_are_relative_to_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gpu-rules.yaml").write_text("ignorePaths: [apps/testdata/**]\n")
    for name in ("apps/testdata", "apps/web"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "pod.yaml").write_text(POD)
    monkeypatch.chdir(tmp_path / "apps")
    assert "1 object checked" in check(".").output
