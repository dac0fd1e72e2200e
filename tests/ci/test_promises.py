"""Tests of docs/promises.md, which is generated from the pytest marks `promise` of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import promises


def test_the_page_lists_each_promise_with_its_test() -> None:
    assert promises.PAGE.read_text(encoding="utf-8") == promises.page(), "run `make promises`"


def test_a_mark_that_is_no_sentence_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("@pytest.mark.promise(name)\ndef test_x(): pass\n")
    with pytest.raises(ValueError, match="test_x"):
        list(promises.promises(tmp_path))


def test_the_last_line_counts_failed_promises_and_kills(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(promises.ROOT))
    pytester.makeini("[pytest]\nmarkers = promise(sentence)")
    pytester.makeconftest(
        "from tests import promises\n"
        "def pytest_configure(config): config.pluginmanager.register(promises.Count())\n"
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items:\n"
        "        mark = item.get_closest_marker('promise')\n"
        "        item.user_properties.append(('promise', mark.args[0]))\n"
    )
    pytester.makepyfile(
        "import pytest\n"
        "@pytest.mark.promise('It heals.')\n"
        "def test_heals(record_property):\n"
        "    record_property('kills', 4)\n"
        "    record_property('kills_healed', 3)\n"
        "@pytest.mark.promise('It fails.')\n"
        "def test_fails(): assert False\n"
    )
    result = pytester.runpytest_subprocess("-m", "promise")
    assert result.outlines[-1] == "promises: 1 of 2 kept, 3 of 4 kills healed and quiet"
