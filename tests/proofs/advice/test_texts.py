"""Cures of stack files that are no right YAML are followed: the text can be read afterwards."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.base.yaml_file import NODE_LIMIT, SIZE_LIMIT, read
from gpu_rules.faults import InputError
from tests.error_texts import anchors, errors

SOURCE = "components/gpu_cluster/base/yaml_file.py"
MANY = b"a: [" + b"gpu-1, " * (SIZE_LIMIT // 7) + b"]"
ALIASES = b"a: &a [" + b"1," * 1000 + b"]\nb: &b [" + b"*a," * (NODE_LIMIT // 1000 + 1) + b"]\n"
TEXTS: tuple[tuple[str, bytes, bytes], ...] = (
    ("write ranges of nodes, such as gpu-[1-100]", MANY, b'a: ["gpu-[1-100]"]'),
    ("save it as UTF-8", "a: für".encode("latin-1"), "a: für".encode()),
    ("put the value in quotes if it is text", b"a: " + b"1" * 5000, b'a: "' + b"1" * 5000 + b'"'),
    ("remove the nesting", b"a: " + b"[" * 2000 + b"]" * 2000, b"a: []"),
    ("remove it", b"a: &a [*a]", b"a: []"),
    ("remove aliases inside of aliased values", ALIASES, b"a: [1]\nb: [1]"),
    ("remove the second one", b"a: 1\na: 2", b"a: 1"),
    ("write `: ` in its place", "a：\n  b: 1".encode(), b"a: \n  b: 1"),
    (
        "give this line the indentation of its neighbours",
        b"a:\n    b: 1\n  c: 2",
        b"a:\n  b: 1\n  c: 2",
    ),
    ("indent the item below its key", b"a: 1\n- b", b"a:\n  - b"),
    ("quote the value, or move the line to the left", b"a: b: c", b'a: "b: c"'),
    ("quote the value, or move the line to the left", b"a: 1\n  b: 2", b"a: 1\nb: 2"),
    ("close it, or write each value on a line of its own", b"a: [1, 2\nb: 3", b"a: [1, 2]\nb: 3"),
    (
        "close it, or write each value on a line of its own",
        b"a: [1, 2\nb: 3",
        b"a:\n- 1\n- 2\nb: 3",
    ),
    ("write the colon after the key", b"a: 1\nb\nc: 2", b"a: 1\nb:\nc: 2"),
    ("close the quote", b'a: "b', b'a: "b"'),
    ("write `key: value`", b"a: %x", b'a: "%x"'),
)


@cache
def _rows() -> dict[str, list[str]]:
    """Return the anchors of the texts of `SOURCE`, by their cures."""
    texts, found = errors(), dict[str, list[str]]()
    for text, anchor in zip(texts, anchors(texts), strict=True):
        if text.file == SOURCE:
            found.setdefault(text.cure, []).append(anchor)
    return found


@pytest.mark.promise("A cure of a stack file's fault removes the fault and brings no new one.")
@pytest.mark.advice("several")
@pytest.mark.parametrize(("cure", "broken", "mended"), TEXTS, ids=[row[0] for row in TEXTS])
def test_the_cure_of_a_text_makes_it_readable(
    cure: str, broken: bytes, mended: bytes, tmp_path: Path, record_property: Any
) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_bytes(broken)
    with pytest.raises(InputError) as refused:
        read(file)
    assert refused.value.cure.startswith(cure), refused.value
    file.write_bytes(mended)
    read(file)
    for anchor in _rows().get(refused.value.cure, ()):
        record_property("advice", ("cure", anchor, True))


def test_the_cure_of_a_missing_file_is_its_name(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.dev.yaml").write_text("a: 1", encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read(tmp_path / "Pulumi.prod.yaml")
    assert refused.value.cure == "check the name Pulumi.prod.yaml"
    read(tmp_path / "Pulumi.dev.yaml")
