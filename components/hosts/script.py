"""A script for a host: a declaration, and the files of functions that it names by their SHA-256.

The files lie in ``steps/`` and are copied to the host once (`components.hosts.copies`). The
declaration is what the state holds and the preview shows: a header of assignments, every value
quoted by :func:`shlex.quote`, one line for each step, and a last line that runs them with standard
input closed. A declaration that arrives cut off therefore does nothing. The state holds it twice,
as input and as output, so it says nothing that the files can say.
"""

from __future__ import annotations

import functools
import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "steps"
"""Where the files are that hosts read: each step's own, and in ``library/`` what several share."""
COMMON = ("base", "files", "disruption", "expectations", "preflight")
"""Files of the library that every script reads first."""

LOADER = r"""
kept=${GPU_CLUSTER_ROOT-}/var/lib/gpu-cluster
[ "${1-}" != undo ] || [ -d "$kept/$GC_PHASE" ] || { echo changed=0; exit; }
for each in $loaded; do
    echo "${each##*-}  $kept/steps/$each.sh"
done | sha256sum -c --quiet >&2 || {
    echo "error: host $(uname -n): found other steps; cure: run \`pulumi up\` again" >&2
    exit 1
}
for each in $loaded; do . "$kept/steps/$each.sh"; done
""".removeprefix("\n")
"""Reads the files of ``$loaded``, each after its sum was seen, where root alone can write."""


@dataclass(frozen=True)
class Bundle:
    """Files of functions that a host reads as one text.

    Attributes:
        name: what a person knows it by.
        files: names below `FOLDER`, without ``.sh``, in the order in which they are read.
        head: lines that are read before them.
    """

    name: str
    files: tuple[str, ...]
    head: str = ""

    @functools.cached_property
    def text(self) -> str:
        """Their texts, one after the other."""
        return self.head + "".join((FOLDER / f"{file}.sh").read_text() for file in self.files)

    @functools.cached_property
    def digest(self) -> str:
        """The SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def line(self) -> str:
        """What a declaration says about it."""
        return f"{self.name}-{self.digest}"

    @property
    def file(self) -> str:
        """Its name on a host."""
        return f"{self.line}.sh"


class Declaration(str):
    """A script with what it reads.

    Attributes:
        bundles: what must lie on the host before it runs.
        settings: what the host keeps of its settings, by name (`words`).
    """

    bundles: tuple[Bundle, ...]
    settings: Mapping[str, str]

    @classmethod
    def of(cls, text: str, bundles: tuple[Bundle, ...], settings: Mapping[str, str]) -> Declaration:
        """A declaration of this text."""
        made = cls(text)
        made.bundles = bundles
        made.settings = settings
        return made


@functools.cache
def bundle(name: str, files: tuple[str, ...]) -> Bundle:
    """Return the bundle of these files, which are read once."""
    return Bundle(name, files)


@functools.cache
def others(every: tuple[tuple[str, tuple[str, ...]], ...], declared: frozenset[str]) -> Bundle:
    """Return the steps that a host doesn't declare: one that it no longer declares is undone.

    Args:
        every: name and files of all steps of the phase, in the order in which they are applied.
        declared: those that the host declares.
    """
    files = tuple(file for name, own in every if name not in declared for file in own)
    return Bundle("others", files, f"all_steps='{' '.join(name for name, _ in every)}'\n")


@functools.cache
def library(*files: str) -> Bundle:
    """What the steps of a phase share."""
    return Bundle("library", tuple(f"library/{file}" for file in files))


def header(settings: Mapping[str, str]) -> str:
    """Shell assignments whose values arrive as they are, whatever is in them.

    Raises:
        ValueError: a name that isn't a shell name, a value with a NUL (no shell can hold one).
    """
    lines = []
    for name, value in settings.items():
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
            raise ValueError(f"{name!r}: wanted a name of capitals, digits and underscores")
        if "\0" in value:
            raise ValueError(f"{name}: found a NUL character; a shell can't hold one")
        lines.append(f"{name}={shlex.quote(value)}\n")
    return "".join(lines)


def each(name: str, rows: Sequence[Sequence[str]]) -> str:
    """A shell function that calls its arguments once per row, the row's words appended as data."""
    calls = "".join(f'    "$@" {shlex.join(row)}\n' for row in rows)
    return f"{name}() {{\n{calls or '    :' + chr(10)}}}\n"


PLAIN, WORDED = "GC_PLAIN", "GC_WORDED"
"""Where a script has what the host keeps of its settings: names of those that it keeps as they are,
and lines of the others."""
NOT_KEPT = ("GC_PHASE", "GC_DISRUPTS", "GC_JOIN", "GC_TOKEN")
"""What a host keeps elsewhere, and what holds a token."""
LONGEST = 128
"""Characters of one value that a host keeps; of a longer one it keeps the digest."""
_WORDS = re.compile(r"[A-Za-z0-9.,+~=:/_ -]*")


def words(
    settings: Mapping[str, str], rows: Mapping[str, Sequence[Sequence[str]]]
) -> dict[str, str]:
    """Return what a host keeps of the settings that it was applied with, by name.

    A setting's name is that of its variable without ``GC_``, a row's is in small letters.
    """
    kept = {
        name.removeprefix("GC_"): _word(value)
        for name, value in settings.items()
        if value and name not in NOT_KEPT
    }
    for function, listed in rows.items():
        name = function.removeprefix("each_")
        for row in listed:
            key, values = (f"{name}.{row[0]}", row[1:]) if len(row) > 1 else (name, row)
            kept[key] = _word(" ".join(filter(None, (kept.get(key), *values))))
    return kept


def _keeping(settings: Mapping[str, str], kept: Mapping[str, str]) -> dict[str, str]:
    """Return the assignments from which a host knows `words`; what it has isn't said again."""
    plain = [name for name, value in kept.items() if settings.get(f"GC_{name}") == value]
    lines = (f"{name} {value}\n" for name, value in kept.items() if name not in plain)
    return {PLAIN: " ".join(plain), WORDED: "".join(lines)}


def _word(value: str) -> str:
    if _WORDS.fullmatch(value) and len(value) <= LONGEST:
        return value
    return hashlib.sha256(value.encode()).hexdigest()[:12]


def assemble(
    settings: Mapping[str, str],
    rows: Mapping[str, Sequence[Sequence[str]]],
    bundles: Iterable[Bundle],
    *,
    inline: bool = False,
    declared: Mapping[str, Sequence[Sequence[str]]] | None = None,
) -> Declaration:
    """The declaration of one phase.

    Args:
        settings: shell assignments; an empty one isn't written, as an unset variable is empty.
        rows: lists by the function that has them (`each`).
        bundles: what the phase reads.
        inline: the files' own text in place of the lines that load them: a script that needs no
            copy, for those who look at it whole.
        declared: those of the rows that a person declares; all if left out.
    """
    read = () if inline else tuple(bundles)
    if inline:
        loading = "\n".join(bundle.text for bundle in bundles)
    else:
        loading = "".join(["loaded='\n", *(f"{bundle.line}\n" for bundle in read), "'\n", LOADER])
    lists = "".join(each(name, words) for name, words in rows.items() if words)
    kept = words(settings, rows if declared is None else declared)
    all_settings = {**settings, **_keeping(settings, kept)}
    said = header({name: value for name, value in all_settings.items() if value})
    return Declaration.of(f'{said}{loading}{lists}main "$@" </dev/null\n', read, kept)
