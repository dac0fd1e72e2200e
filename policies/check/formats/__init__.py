"""Ways to write a report: for people, for programs, for CI."""

from collections.abc import Callable, Mapping
from typing import Final

from policies.check.formats.github import github
from policies.check.formats.json_format import as_json
from policies.check.formats.junit import junit
from policies.check.formats.sarif import sarif
from policies.check.formats.text import text
from policies.check.report import Report

FORMATS: Final[Mapping[str, Callable[[Report], str]]] = {
    "text": text,
    "json": as_json,
    "sarif": sarif,
    "junit": junit,
    "github": github,
}

__all__ = ["FORMATS"]
