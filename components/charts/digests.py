"""Digests of images and charts that their makers publish; what no tag moved afterwards can change.

A reference keeps its tag beside the digest, for people: engines pull by the digest alone
(distribution/reference, reference.go; CRI of containerd and CRI-O).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any


@cache
def facts() -> dict[str, Any]:
    """All that is known of images, by chart and by reference (``images.yaml``)."""
    import yaml  # needed where images are named

    document: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("images.yaml").read_text())
    return document


def digest(reference: str) -> str:
    """The digest that is known of an image; empty where none is."""
    return str(facts()["digests"].get(reference, ""))


def chart_digest(chart: str, version: str) -> str:
    """The SHA-256 that a chart's repository publishes of its archive; empty where none is known."""
    return str(facts()["charts"].get(chart, {}).get(version, ""))


def pinned(reference: str) -> str:
    """An image with its digest where one is known and none is given."""
    known = digest(reference)
    return f"{reference}@{known}" if known else reference
