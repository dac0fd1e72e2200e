"""Ends of support, and the claims of the documents that depend on them."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictStr

from components.settings.base import yaml_file
from components.settings.base.model import Model

FILE = Path(__file__).with_name("support.yaml")
ShortText = Annotated[StrictStr, Field(min_length=1, max_length=200)]


class Ends(Model):
    """The last days of support of one part's versions, and where they are written."""

    source: ShortText
    last: dict[ShortText, date] = Field(max_length=100)


class Claim(Model):
    """A text of a document that says a version is supported; `of`: part and version."""

    file: ShortText
    text: ShortText
    of: ShortText


class Support(Model):
    """The hand-kept file."""

    ends: dict[ShortText, Ends] = Field(max_length=100)
    claims: tuple[Claim, ...] = Field(max_length=1000)

    def ended(self, of: str, today: date) -> bool:
        """Return whether a version such as ``kubernetes/1.34`` has passed its last day."""
        part, _, version = of.partition("/")
        return self.ends[part].last[version] < today


def support() -> Support:
    """Return what the file says."""
    return Support.model_validate(yaml_file.read(FILE).value)


def overdue(root: Path, today: date) -> list[str]:
    """Return the claims that aren't in their document, or ended without a word of it.

    A claim of an ended version stands in a line with the word "ended".
    """
    facts, found = support(), []
    for claim in facts.claims:
        lines = (root / claim.file).read_text(encoding="utf-8").splitlines()
        of_claim = [line for line in lines if claim.text in line]
        if not of_claim:
            found.append(f"{claim.file}: no text {claim.text!r}")
        elif facts.ended(claim.of, today):
            found += [f"{claim.file}: {claim.of} ended" for x in of_claim if "ended" not in x]
    return found
