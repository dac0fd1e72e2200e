"""Node names with ranges such as `gpu-[1-4]`, `gpu-[001-800]` and `rack[1-2]-gpu-[1,3-4]`.

Cluster tools such as Slurm and pdsh use the same notation. Numbers with leading zeros keep their
width.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, StrictStr

from gpu_rules.faults import refuse, show
from gpu_rules.kube.names import is_dns_subdomain
from gpu_rules.printable import counted

# Kubernetes supports clusters of at most 5,000 nodes (kubernetes.io, "Considerations for large
# clusters"). The limit also keeps a mistyped range from filling the memory.
NODE_LIMIT = 5000
# Maximum number of digits of a number in a name range such as `gpu-[1-4]`.
LONGEST_NUMBER = 9

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_ITEM = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_EXAMPLE = "write a value such as gpu-[1-4] or gpu-[001-800]"


@lru_cache(maxsize=4096)
def expand(pattern: str) -> tuple[str, ...]:
    """Return all node names of a pattern, in order.

    Raises:
        PydanticCustomError: The pattern is malformed, has too many names, or yields an invalid
            name. The error describes the fault.
    """
    pieces = _BRACKETS.split(pattern)
    if any("[" in text or "]" in text for text in pieces[::2]):
        raise refuse(show(pattern), "a range in one pair of brackets, [ and ]", _EXAMPLE)
    ranges = [_parse_number_ranges(pattern, text) for text in pieces[1::2]]
    if math.prod(len(numbers) for numbers in ranges) > NODE_LIMIT:
        raise refuse(
            show(pattern),
            f"at most {NODE_LIMIT} nodes, the most that Kubernetes supports in a cluster",
            "write a shorter range, such as gpu-[1-4]",
        )
    names = tuple(_join_node_names(pieces, ranges))
    for name in names:
        if not is_dns_subdomain(name):
            raise refuse(
                show(pattern),
                "node names: RFC 1123 subdomains in lower case, at most 253 characters",
                "write names such as gpu-1; `kubectl get nodes` prints them",
            )
    return names


def count_names(pattern: str) -> int:
    """Return how many names a pattern yields, without making them; 1 for a malformed pattern."""
    number = 1
    for text in _BRACKETS.findall(pattern):
        matches = [_ITEM.fullmatch(item) for item in text.split(",")]
        spans = ((int(m[1]), int(m[2] or m[1])) for m in matches if m)
        number *= sum(max(0, last - first + 1) for first, last in spans) or 1
    return number


class _Numbers:
    """A lazy sequence of numbers as text; `len()` works without generating the numbers."""

    def __init__(self, spans: list[tuple[int, int, int]]) -> None:
        self._spans = spans

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last, _ in self._spans)

    def __iter__(self) -> Iterator[str]:
        for first, last, width in self._spans:
            for number in range(first, last + 1):
                yield f"{number:0{width}d}"


def _parse_number_ranges(pattern: str, text: str) -> _Numbers:
    spans = []
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise refuse(show(pattern), f"numbers in the brackets, not [{text}]", _EXAMPLE)
        low, high = match[1], match[2] if match[2] is not None else match[1]
        if int(low) > int(high):
            raise refuse(
                show(pattern),
                f"an ascending range, found {low}-{high}",
                f"write {high}-{low}",
            )
        padded = (low.startswith("0") and len(low) > 1) or high.startswith("0")
        if padded and len(low) != len(high):
            raise refuse(
                show(pattern),
                f"as many digits at both ends of a range with leading zeros, found {low}-{high}",
                f"write {low.zfill(len(high))}-{high.zfill(len(low))}",
            )
        spans.append((int(low), int(high), len(low) if padded else 1))
    return _Numbers(spans)


def _join_node_names(pieces: list[str], ranges: list[_Numbers]) -> Iterator[str]:
    for chosen in itertools.product(*ranges):
        name = pieces[0]
        for number, text in zip(chosen, pieces[2::2], strict=True):
            name += number + text
        yield name


def _validate_name_pattern(text: str) -> str:
    expand(text)
    return text


@lru_cache
def written_out(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the node names of all patterns, in order."""
    return tuple(name for pattern in patterns for name in expand(pattern))


def _validate_distinct_nodes(patterns: tuple[str, ...]) -> tuple[str, ...]:
    names: set[str] = set()
    for name in written_out(patterns):
        if name in names:
            raise refuse(f"{show(name)} twice", "each name once", f"leave {name} out once")
        names.add(name)
    if len(names) > NODE_LIMIT:
        raise refuse(
            counted(len(names), "node"),
            f"at most {NODE_LIMIT} nodes, the most that Kubernetes supports in a cluster",
            "split the cluster into several",
        )
    return patterns


NodeNames = Annotated[
    tuple[Annotated[StrictStr, AfterValidator(_validate_name_pattern)], ...],
    AfterValidator(_validate_distinct_nodes),
]
"""Names and ranges as written in the stack file; each name occurs once."""


def ranges(names: Iterable[str]) -> Iterator[str]:
    """Yield names in natural order, consecutive ones as a range such as `gpu-[1-2]`."""
    for run in runs(names):
        (text, first), (_, last) = split(run[0]), split(run[-1])
        yield f"{text}{first}" if first == last else f"{text}[{first}-{last}]"


def natural_order(name: str) -> tuple[tuple[str, int], ...]:
    """Return a key that sorts `gpu-2` before `gpu-10`."""
    pieces = re.findall(r"([^0-9]*)([0-9]{0,18})", name)
    return tuple((text, int(number or -1)) for text, number in pieces)


def runs(names: Iterable[str]) -> list[list[str]]:
    """Group names whose numbers follow each other, in natural order; leading zeros stay."""
    groups: list[list[str]] = []
    for name in sorted(names, key=natural_order):
        if groups and _is_next_name(groups[-1][-1], name):
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups


def split(name: str) -> tuple[str, str]:
    """Split a name into its text and its trailing digits, which may be empty."""
    text = name.rstrip("0123456789")
    return text, name[len(text) :]


def _is_next_name(before: str, after: str) -> bool:
    (text, first), (next_text, second) = split(before), split(after)
    if text != next_text or not first or not second or len(second) > LONGEST_NUMBER:
        return False
    padded = first.startswith("0") and first != "0"
    return int(second) == int(first) + 1 and (
        len(first) == len(second) or not (padded or second.startswith("0"))
    )
