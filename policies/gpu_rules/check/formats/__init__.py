"""Output formats for the checker's report, for people, programs and CI systems."""

from collections.abc import Callable, Mapping
from typing import Final

from ..report import Report
from .github import github
from .json_format import as_json
from .junit import junit
from .patch import patch
from .sarif import sarif
from .text import text

FORMATS: Final[Mapping[str, Callable[[Report], str]]] = {
    "text": text,
    "json": as_json,
    "sarif": sarif,
    "junit": junit,
    "github": github,
    "patch": patch,
}

__all__ = ["FORMATS"]
