"""Attack: a short input that keeps a reader busy for minutes.

Each reader of outside input takes at most 2.5 times as long for twice the input, or refuses it.
Some shapes of input are tried for each reader, others with another `GPU_RULES_SEED`; `FULL=1` tries
all shapes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from math import log2
from typing import Any

import pytest

from tests.proofs.attacks import readers
from tests.proofs.attacks.readers import READERS, Reader, judged, list_of, pods
from tests.proofs.attacks.targets import TARGETS
from tests.proofs.rules.sample import FULL, SEED

SHAPES = 12
"""Number of shapes that are tried for each reader by default."""


def sampled(name: str) -> list[str]:
    """Return the shapes of a reader's input that are tried."""
    shapes = list(READERS[name].shapes)
    if FULL or len(shapes) <= SHAPES:
        return shapes
    return random.Random(f"{SEED} {name}").sample(shapes, SHAPES)  # noqa: S311


@pytest.mark.full
@pytest.mark.promise("Each reader of outside input works in linear time, or refuses the input.")
@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_linear_time(name: str, record_property: Any) -> None:
    record_property("readers", 1)
    reader = READERS[name]
    slow = {grows: reader.slow_steps(reader.shapes[grows]) for grows in sampled(name)}
    assert {grows: steps for grows, steps in slow.items() if steps} == {}
    record_property("linear readers", 1)


@pytest.mark.full
@pytest.mark.promise(
    "A List of 2,000 pods is judged in at most twice the time of 2,000 documents, of any size."
)
@pytest.mark.parametrize("note", ["", "x" * 5000])
def test_a_list_is_judged_in_at_most_twice_the_time_of_its_items(note: str) -> None:
    items = pods(2000, note)
    whole, parts = list_of(items), "\n---\n".join(json.dumps(item, indent=1) for item in items)
    assert (len(whole) > 8 * 1024 * 1024) is bool(note)
    assert judged(whole) == judged(parts) > 0
    reader = Reader(judged, {})
    least = [min(reader.seconds(text) for _ in range(3)) for text in (whole, parts)]
    assert least[0] <= 2 * least[1]


def test_each_target_of_the_fuzzer_is_a_reader() -> None:
    assert READERS.keys() >= TARGETS.keys()


@pytest.mark.parametrize(
    ("seconds", "is_slow"),
    [
        (lambda size: size / 1e4, False),
        (lambda size: size * log2(size) / 1e5, False),
        (lambda size: size**1.5 / 1e6, True),
        (lambda size: size**2 / 1e7, True),
        (lambda size: size / 1e4 + (size / 5e3) ** 2, True),
        (lambda size: size / (1e4 if size < 4096 else 6e3), False),  # It leaves a cache.
        (lambda size: size / (1e4 if size < 1024 else 4e3), False),  # Its output is shortened.
        (lambda size: size / 1e4 if size < 4096 else 1e-6, False),  # It is refused.
    ],
)
def test_only_calls_in_more_than_linear_time_are_slow(
    seconds: Callable[[int], float], is_slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "LINEAR", timed(lambda size: size / 1e4))
    assert bool(timed(seconds).slow_steps(lambda number: number)) is is_slow


@pytest.mark.parametrize(("power", "is_slow"), [(1.3, False), (1.4, False), (1.7, True), (2, True)])
def test_only_calls_that_are_slower_than_linear_ones_are_slow_on_a_busy_machine(
    power: float, is_slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "LINEAR", timed(lambda size: size**1.3 / 1e5))
    slow = timed(lambda size: size**power / 1e5).slow_steps(lambda number: number)
    assert bool(slow) is is_slow


def timed(seconds: Callable[[int], float]) -> Reader:
    """Return a reader of numbers whose calls take a time that a function gives."""

    class Timed(Reader):
        def seconds(self, value: int) -> float:
            return seconds(value)

    return Timed(str, {"rows": lambda number: number})


@pytest.mark.full
def test_a_reader_in_quadratic_time_is_found() -> None:
    def read(text: str) -> int:
        return sum(text.count("a", 0, end) for end in range(len(text)))

    assert Reader(read, {}).slow_steps(lambda number: "a" * number)
