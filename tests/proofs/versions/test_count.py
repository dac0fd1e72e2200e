"""The summary line of `make test-versions` only counts tests that passed."""

from __future__ import annotations

import pytest

from tests.proofs.versions import count

TESTS = """
import pytest

@pytest.mark.versions("kubernetes", "1.35")
def test_up(): pass

@pytest.mark.versions("kubernetes", "1.35")
def test_kubelet(): pass

@pytest.mark.parametrize("version", [
    pytest.param("1.36", marks=pytest.mark.versions("kubernetes", "1.36")),
    pytest.param("1.37", marks=pytest.mark.versions("kubernetes", "1.37")),
])
def test_each(version): assert version != "1.37"

@pytest.mark.versions("containerd", "2.4")
def test_skipped(): pytest.skip("no root")

@pytest.mark.versions("bulletin", "A")
@pytest.mark.parametrize("border", range(3))
def test_border(border): pass

@pytest.mark.versions("bulletin", "A")
@pytest.mark.parametrize("border", range(3))
def test_other_side(border): assert border != 1

@pytest.mark.versions("stack")
def test_several(record_property):
    record_property("versions", ("heal", "one", True))
    record_property("versions", ("heal", "other", False))

@pytest.mark.versions("heal")
def test_heals(): pass

@pytest.mark.versions("claim")
def test_claims(): assert False

@pytest.mark.versions("ended", "1.34")
def test_ended(): pass

def test_another(): assert False
"""


@pytest.mark.slow
def test_the_last_line_counts_what_passed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(count.ROOT))
    pytester.makeini("[pytest]\nmarkers = versions(kind, name)")
    pytester.makeconftest(
        "from tests.proofs.versions.count import counting\n"
        "def pytest_configure(config): config.pluginmanager.register(counting())\n"
    )
    pytester.makepyfile(TESTS)
    out = pytester.runpytest_subprocess("-m", "versions", "-n1").outlines
    assert out[-1] == (
        "versions: Kubernetes 1.35 1.36 up and down but not 1.37, 0 of 1 containerd, "
        "0 of 1 bulletins applied at 2 of 3 borders, 2 of 3 heals under the next provider, "
        "1 claims past their end"
    )
    assert "versions:" not in pytester.runpytest_subprocess().stdout.str()
