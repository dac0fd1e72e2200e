"""Known digests of images and charts. Unlike a tag, a digest always identifies one content.

An image reference keeps its tag next to the digest for readers; container engines pull by the
digest only (distribution/reference, reference.go; CRI of containerd and CRI-O).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any


@cache
def facts() -> dict[str, Any]:
    """Return the content of the file images.yaml: images by chart, digests by image reference."""
    import yaml  # Importing PyYAML takes time, and only some runs need it.

    from gpu_cluster.base.nesting import LOADER

    text = Path(__file__).with_name("images.yaml").read_text("utf-8")
    document: dict[str, Any] = yaml.load(text, LOADER)  # noqa: S506 - a subclass of SafeLoader
    return document


def digest(reference: str) -> str:
    """Return the known digest of an image, or an empty text."""
    return str(facts()["digests"].get(reference, ""))


def chart_digest(chart: str, version: str) -> str:
    """Return the SHA-256 that a chart's repository publishes for its archive, or an empty text."""
    return str(facts()["charts"].get(chart, {}).get(version, ""))


def pinned(reference: str) -> str:
    """Return an image reference with its known digest appended; unchanged if no digest is known."""
    known_digest = digest(reference)
    return f"{reference}@{known_digest}" if known_digest else reference
