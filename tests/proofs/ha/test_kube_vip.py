"""Three control planes of real components with a real kube-vip: made, cut off, and taken back.

Real components are those of `tests/proofs/real/test_bare_cluster.py`, on four hosts, and kube-vip,
built from its module.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.proofs.ha.site import MEMBERS, STARTED, Ha, three_with_kube_vip
from tests.proofs.real.bare import MARKS

pytestmark = MARKS

WRITES = 20
"""Confirmed writes before a host is changed, meanwhile, and after it is back."""


@pytest.fixture(scope="module")
def ha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ha]:
    with three_with_kube_vip(tmp_path_factory.mktemp("vip")) as site:
        yield site


def record(result: dict[str, Any], words: str, record_property: Any) -> None:
    """Check what a client saw, and give its figures to the summary line."""
    assert result["lost"] == []
    assert result["longest"] < 15
    record_property("ha", ("writes", f"{result['confirmed']} {words}", True))
    record_property("ha", ("pause", f"{result['longest']:.1f}", True))


@pytest.mark.ha("address")
def test_one_of_three_control_planes_has_the_address(ha: Ha) -> None:
    done = ha.stack.project.command("up")
    assert done.returncode == 0, done.stdout
    assert ha.members() == dict.fromkeys(MEMBERS, STARTED)
    assert len(ha.holders()) == 1
    again = ha.stack.project.command("up")
    assert "8 of 8 GPUs simulated, 0 resources changed" in again.stdout, again.stdout


@pytest.mark.ha("address")
def test_a_client_loses_no_confirmed_write_when_the_holder_is_killed(
    ha: Ha, record_property: Any
) -> None:
    (holder,) = ha.holders()
    with ha.writing() as writing:
        writing.wait(WRITES)
        ha.kill_member(holder)
        writing.wait(WRITES)
        ha.start_member(holder)
        ha.wait_ready(holder)
        writing.wait(WRITES)
    record(writing.result, "holder killed", record_property)


@pytest.mark.ha("cut")
def test_a_client_loses_no_confirmed_write_when_the_holder_is_cut_off(
    ha: Ha, record_property: Any
) -> None:
    (holder,) = ha.holders()
    with ha.writing() as writing:
        writing.wait(WRITES)
        with ha.cut_off(holder):
            writing.wait(WRITES)
        ha.wait_ready(holder)
        writing.wait(WRITES)
    record(writing.result, "cut off", record_property)
    assert len(ha.holders()) == 1


@pytest.mark.ha("destroyed")
def test_going_down_leaves_no_address_and_the_hosts_as_before(ha: Ha) -> None:
    ha.stack.down()
    assert ha.holders() == []
