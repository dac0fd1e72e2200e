"""Texts of unhealthy GPUs, which the validation of a node records."""

from __future__ import annotations

import pytest

from gpu_cluster.settings.nodes.devices import UnhealthyDevices, recorded_indexes

UUID = "GPU-00000000-0000-0000-0000-000000000001"


@pytest.mark.parametrize(
    ("devices", "indexes"),
    [
        (UnhealthyDevices(index=(3, 10, 0)), (0, 3, 10)),
        (UnhealthyDevices(index=(2,), missing=1, uuid=(UUID,)), (2,)),
        (UnhealthyDevices(missing=1), ()),
        (UnhealthyDevices(uuid=(UUID,)), ()),
    ],
)
def test_the_indexes_of_a_recorded_text_are_those_that_were_declared(
    devices: UnhealthyDevices, indexes: tuple[int, ...]
) -> None:
    assert recorded_indexes(str(devices)) == indexes


@pytest.mark.parametrize("text", ["", "index", "index x", "6 missing; index 3"])
def test_another_text_names_no_index(text: str) -> None:
    assert recorded_indexes(text) == ()
