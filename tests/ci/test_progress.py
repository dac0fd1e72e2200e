"""Tests of the progress output of `make test`."""

from __future__ import annotations

import pytest

from tests import progress

RESULTS = """<testsuites><testsuite>
<testcase classname="tests.ci.test_progress" name="a" time="1.25"/>
<testcase classname="tests.ci.test_progress.TestGroup" name="b" time="0.75"/>
<testcase classname="tests.ci.test_makefile" name="c" time="3"/>
<testcase classname="tests.gone.test_removed" name="d" time="9"/>
</testsuite></testsuites>"""


def test_seconds_are_those_of_files_that_exist_longest_first() -> None:
    found = progress.read_results(RESULTS)
    assert list(found.items()) == [("tests/ci/test_makefile.py", 3.0), (progress_file(), 2.0)]


def progress_file() -> str:
    return "tests/ci/test_progress.py"


def test_what_is_left_is_judged_by_the_pace_so_far() -> None:
    estimate = progress.Estimate({"a": 2, "b": 1}, {"a": 30.0, "b": 90.0})
    assert (estimate.whole, estimate.share) == (120.0, 0.0)
    estimate.finish("a")
    estimate.finish("a")
    assert estimate.share == 0.25
    assert estimate.left(passed=15.0, workers=2) == pytest.approx(45.0)
    assert estimate.left(passed=60.0, workers=2) == pytest.approx(180.0), "four times as slow"


def test_an_unknown_file_counts_little_and_a_run_without_tests_is_done() -> None:
    assert progress.Estimate({"new": 4}, {}).whole == progress.UNKNOWN
    assert progress.Estimate({}, {}).share == 1.0


def test_lines_name_the_length_the_share_and_the_file(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(progress.ROOT))
    pytester.makeconftest(
        "from tests import progress\n"
        "progress.EVERY = 0.0\n"
        "def pytest_configure(config):\n"
        "    if not hasattr(config, 'workerinput'):\n"
        "        config.pluginmanager.register(progress.Progress(config))\n"
    )
    pytester.makepyfile("def test_a(): pass\ndef test_b(): assert False")
    for arguments in ((), ("--numprocesses", "2", "--dist", "loadfile")):
        lines = pytester.runpytest_subprocess("-q", *arguments).outlines
        name = "test_lines_name_the_length_the_share_and_the_file.py"
        assert "2 tests in 1 files: less than a minute on an idle machine" in lines
        assert f" 50%  {name}, less than a minute left" in lines
        assert f"100%  {name}, less than a minute left" in lines
        assert f"failed: {name}::test_b (call)" in lines
