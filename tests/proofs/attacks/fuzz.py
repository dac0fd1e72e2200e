"""Fuzzer (`make fuzz`): call the parsers of outside input with a million changed values.

The corpus files `corpus/<target>.json` have typical values and each value that once caused a fault.
`test_fuzz.py` generates values by structure with Hypothesis; this program needs no library and is
therefore fast.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tests.toolchain.plugins.rig  # noqa: F401 -- adds the plugins' folder to sys.path
from gpu_rules.printable import printable, printable_lines
from tests.proofs.attacks.targets import TARGETS, Target

CORPUS = Path(__file__).with_name("corpus")
INPUTS = 1_000_000
BLOCK = 500
"""Number of inputs for one target before the next target is chosen."""
MOST_CHANGES = 4
LONGEST = 20_000
"""Length in characters to which a text is cut before it is changed again."""

NASTY = (
    *("", "\x00", "\x1b[2J", "\x9b31m", "\u202e", "\u2028", "\u0085", "\ufeff", "\ud800"),
    *("²", "٣", "-1", "1e999", "Infinity", "NaN", "9" * 400, "0x1F", "1_000", "~", "null"),
    *("::error::x", "##[x]", "$(id)", "`id`", "'; id #", "..", "../..", "%2f", "{{x}}"),
    *("&a [*a]", "*a", "<<: *a", "!!python/object:os.system", "!!binary", "---", "# ", ": ", "- "),
    *("\n", "\r", "\t", "=", "\\", "[", "{", '"', "'"),
    *("H4sIAAAA", "=ok", "end=ok", "Test PASSED", "UUID: GPU-1"),
)
NUMBERS = (0, 1, -1, 2, 255, 2**31, 2**63, -(2**63) - 1, 10**400)
# Fields with objects whose keys users choose (FREE), and fields that may be missing (OPTIONAL).
FREE = frozenset({"labels", "annotations", "allocatable", "capacity", "limits", "requests"})
OPTIONAL = FREE | {"taints", "value", "resources", "nodeName", "reason", "message", "terminated",
                   "waiting", "containerStatuses", "ownerReferences", "controller"}  # fmt: skip


@dataclass(frozen=True)
class Changer:
    """Changes values at random; the same seed makes the same changes."""

    chance: random.Random
    texts: tuple[str, ...]

    def value(self, value: Any, target: Target) -> Any:
        """Return a JSON value with a few random changes."""
        for _ in range(self.chance.randint(1, MOST_CHANGES)):
            value = self._change(value, target, "")
        return value

    def _change(self, value: Any, target: Target, field: str) -> Any:
        if not target.typed and self.chance.random() < 0.2:
            return self.chance.choice((None, True, 1.5, [], {}, self.text("x"), *NUMBERS))
        match value:
            case bool():
                return not value
            case str():
                return self.text(value)
            case int() | float() | None:
                return value if value is None else self.chance.choice(NUMBERS[:5])
            case list():
                return self._list(value, target, field)
            case dict():
                return self._object(value, target, field)
        return value

    def _list(self, value: list[Any], target: Target, field: str) -> list[Any]:
        if not value:
            return value
        at = self.chance.randrange(len(value))
        match self.chance.randrange(8):
            case 0:
                return [*value[:at], *value[at + 1 :]]
            case 1:
                return [*value, value[at]] if len(value) < 100 else value[:10]
            case _:
                return [*value[:at], self._change(value[at], target, field), *value[at + 1 :]]

    def _object(self, value: dict[str, Any], target: Target, field: str) -> dict[str, Any]:
        if field in FREE and self.chance.random() < 0.3:
            return {**value, self.text(next(iter(value), "a")): self.text("1")}
        keys = [key for key in value if key not in target.fixed]
        if not keys:
            return value
        key = self.chance.choice(keys)
        if (key in OPTIONAL or field in FREE) and self.chance.random() < 0.1:
            return {name: part for name, part in value.items() if name != key}
        return {**value, key: self._change(value[key], target, key)}

    def text(self, text: str) -> str:
        """Return the text with one random change."""
        chance, text = self.chance, text[:LONGEST]
        at = chance.randint(0, len(text))
        to = min(len(text), at + chance.randint(0, 8))
        match chance.randrange(9):
            case 0 | 1 | 2:
                return text[:at] + chance.choice(NASTY) + text[at:]
            case 3:
                return text[:at] + text[to:]
            case 4:
                return text[:to] + text[at:to] * chance.choice((1, 2, 50, 1000)) + text[to:]
            case 5:
                return text[:at] + chr(chance.randrange(0x3000)) + text[to:]
            case 6:
                return text[:at] + chance.choice(self.texts)[:200] + text[to:]
            case 7:
                return text[:at]
            case _:
                return chance.choice(NASTY) if chance.random() < 0.2 else text.swapcase()


def corpus() -> dict[str, list[Any]]:
    """Return the values of the corpus that the fuzzer changes, by target name."""
    return {name: json.loads((CORPUS / f"{name}.json").read_text()) for name in TARGETS}


def strings(value: Any) -> Iterator[str]:
    """Yield all strings in a JSON value, including the keys of objects."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value if isinstance(value, list) else (*value, *value.values()):
            yield from strings(part)


@dataclass(frozen=True)
class Fault:
    """Input that a target doesn't handle correctly, with the traceback of the exception."""

    target: str
    value: Any
    trace: str

    def __str__(self) -> str:
        text, trace = printable(json.dumps(self.value), 2000), printable_lines(self.trace)
        return f"{self.target}: {text}\n{trace}\ncure: mend it; add it to corpus/{self.target}.json"


def run(
    inputs: int, number: int, names: tuple[str, ...] = tuple(TARGETS)
) -> tuple[Counter[str], list[Fault]]:
    """Call the fuzz targets in turn with changed values.

    Return the number of inputs of each target, and the first faults.

    Args:
        inputs: Number of inputs for all targets together.
        number: Seed of the random changes.
        names: Names of the targets to test.
    """
    values = corpus()
    chance = random.Random(number)  # noqa: S311  makes no secret
    changer = Changer(chance, tuple(strings(list(values.values()))))
    done: Counter[str] = Counter()
    faults: list[Fault] = []
    while (left := inputs - done.total()) > 0 and len(faults) < 5:
        name = min(names, key=lambda choice: done[choice])
        for _ in range(min(BLOCK, left)):
            value = changer.value(changer.chance.choice(values[name]), TARGETS[name])
            done[name] += 1
            if fault := judge(name, value):
                faults.append(fault)
                break
    return done, faults


def judge(name: str, value: Any) -> Fault | None:
    """Call a target with a value; return the fault if the target raises an exception, else None."""
    try:
        TARGETS[name].check(value)
    except Exception:
        return Fault(name, value, traceback.format_exc(limit=-4))
    return None


def shares(inputs: int, workers: int) -> list[int]:
    """Split a number of inputs into equal parts, one for each worker process."""
    return [inputs // workers + (number < inputs % workers) for number in range(workers)]


def many(inputs: int, seed: int) -> tuple[Counter[str], list[Fault]]:
    """Call `run` in one worker process per CPU, and add up the results."""
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers) as pool:
        futures = [
            pool.submit(run, share, seed * 1000 + number)
            for number, share in enumerate(shares(inputs, workers))
        ]
        results = [future.result() for future in futures]
    total: Counter[str] = Counter()
    for done, _ in results:
        total.update(done)
    return total, [fault for _, faults in results for fault in faults]


def report(done: Mapping[str, int], faults: list[Fault], seconds: float) -> str:
    """Return the last lines that `make fuzz` prints."""
    counts = ", ".join(f"{name} {count}" for name, count in done.items())
    total = sum(done.values())
    return f"{counts}\nfuzz: {total} inputs, {len(faults)} faults, {seconds:.0f} s"


def main() -> None:
    """Run the fuzzer; exit with code 1 after a fault. The seed is FUZZ_SEED, or today's date."""
    inputs = int(sys.argv[1]) if len(sys.argv) > 1 else INPUTS
    seed = int(os.environ.get("FUZZ_SEED") or time.strftime("%Y%m%d"))
    print(f"FUZZ_SEED={seed}", flush=True)
    started = time.monotonic()
    done, faults = many(inputs, seed)
    for fault in faults:
        print(fault)
    print(report(done, faults, time.monotonic() - started))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
