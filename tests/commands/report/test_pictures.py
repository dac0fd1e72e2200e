"""README's pictures show what the report and the comment look like today."""

from __future__ import annotations

import json

from tests.pictures import FOLDER, SIZES, SOURCES, digests

PNG = b"\x89PNG\r\n\x1a\n"


def test_no_picture_is_older_than_what_it_shows() -> None:
    assert json.loads(SOURCES.read_text()) == digests(), "run `make pictures`"


def test_each_picture_is_a_png_of_its_size() -> None:
    for name, (width, height) in SIZES.items():
        head = (FOLDER / f"{name}.png").read_bytes()[:24]
        assert head.startswith(PNG)
        assert int.from_bytes(head[16:20]) == width
        assert int.from_bytes(head[20:24]) == height
