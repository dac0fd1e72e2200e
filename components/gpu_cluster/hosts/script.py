"""Scripts for hosts: a declaration, and the script files that it names by their SHA-256.

The script files are in `steps/` and are copied to the host once (`gpu_cluster.hosts.copies`). The
Pulumi state stores the declaration, and the preview shows it. A declaration consists of a header of
assignments with every value quoted by `shlex.quote`, one line for each step, and a last line that
runs the steps with standard input closed. So a declaration that arrives truncated does nothing. The
state stores a declaration twice, as input and as output, so it is short: all other code is in the
script files.
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
"""Folder of the script files: each step's own files, and shared files in `library/`."""
COMMON = ("base", "files", "disruption", "expectations", "preflight")
"""Library files that every script reads first."""

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
"""Shell code that sources the files in `$loaded` after it has verified their checksums.

Only root can write in the folder of the files.
"""


@dataclass(frozen=True)
class Bundle:
    """Script files that a host reads as one text.

    Attributes:
        name: Readable name of the bundle.
        files: File names relative to `FOLDER`, without `.sh`, in the order in which the host reads
            them.
        head: Lines that precede the files' texts.
    """

    name: str
    files: tuple[str, ...]
    head: str = ""

    @functools.cached_property
    def text(self) -> str:
        """Return the head and the texts of all files, concatenated."""
        return self.head + "".join((FOLDER / f"{file}.sh").read_text() for file in self.files)

    @functools.cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def line(self) -> str:
        """Return the bundle's line in a declaration: `<name>-<sha256>`."""
        return f"{self.name}-{self.digest}"

    @property
    def file(self) -> str:
        """Return the bundle's file name on a host."""
        return f"{self.line}.sh"


class Declaration(str):
    """The text of a script for a host, with the bundles of script files that the script reads.

    Attributes:
        bundles: Bundles that must be on the host before the script runs.
        settings: Settings that the host records, by name (`words`).
    """

    bundles: tuple[Bundle, ...]
    settings: Mapping[str, str]

    @classmethod
    def of(cls, text: str, bundles: tuple[Bundle, ...], settings: Mapping[str, str]) -> Declaration:
        """Return a declaration with this text, these bundles and these recorded settings."""
        declaration = cls(text)
        declaration.bundles = bundles
        declaration.settings = settings
        return declaration


@functools.cache
def bundle(name: str, files: tuple[str, ...]) -> Bundle:
    """Return the bundle of the named script files; the files are read only once (cached)."""
    return Bundle(name, files)


@functools.cache
def others(all_steps: tuple[tuple[str, tuple[str, ...]], ...], declared: frozenset[str]) -> Bundle:
    """Return the bundle with the script files of the steps that a host does not declare.

    The host needs these files to undo a step that is no longer declared.

    Args:
        all_steps: Name and files of all steps of the phase, in the order in which they are applied.
        declared: Names of the steps that the host declares.
    """
    files = tuple(
        file for name, step_files in all_steps if name not in declared for file in step_files
    )
    return Bundle("others", files, f"all_steps='{' '.join(name for name, _ in all_steps)}'\n")


@functools.cache
def library(*files: str) -> Bundle:
    """Return the bundle of the library files that the steps of a phase share."""
    return Bundle("library", tuple(f"library/{file}" for file in files))


def header(settings: Mapping[str, str]) -> str:
    """Return shell assignments that preserve every value exactly, whatever characters it contains.

    Raises:
        ValueError: A name is not a shell variable name, or a value contains a NUL (no shell can
            store one).
    """
    lines = []
    for name, value in settings.items():
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
            raise ValueError(f"{name!r}: wanted a name of capitals, digits and underscores")
        if "\0" in value:
            raise ValueError(f"{name}: found a NUL character, which shells can't process")
        lines.append(f"{name}={shlex.quote(value)}\n")
    return "".join(lines)


def each(name: str, rows: Sequence[Sequence[str]]) -> str:
    """Return a shell function that runs its arguments as a command for each row, plus its words."""
    calls = "".join(f'    "$@" {shlex.join(row)}\n' for row in rows)
    return f"{name}() {{\n{calls or '    :' + chr(10)}}}\n"


PLAIN, WORDED = "GC_PLAIN", "GC_WORDED"
"""Names of the script variables with the settings that a host records.

The first lists the settings that the host records unchanged; the second has a line for each other
setting.
"""
NOT_KEPT = ("GC_PHASE", "GC_DISRUPTS", "GC_JOIN", "GC_TOKEN")
"""Settings that a host does not record here: recorded elsewhere, or they contain a token."""
LONGEST = 128
"""Maximum number of characters of one value that a host records.

A longer value is replaced by its digest.
"""
_WORDS = re.compile(r"[A-Za-z0-9.,+~=:/_ -]*")


def words(
    settings: Mapping[str, str], rows: Mapping[str, Sequence[Sequence[str]]]
) -> dict[str, str]:
    """Return the settings that a host records when they are applied, by name.

    The name of a setting is its variable without `GC_`; the name of a row is in lower case.
    """
    recorded = {
        name.removeprefix("GC_"): _recorded_word(value)
        for name, value in settings.items()
        if value and name not in NOT_KEPT
    }
    for function, listed in rows.items():
        name = function.removeprefix("each_")
        for row in listed:
            key, values = (f"{name}.{row[0]}", row[1:]) if len(row) > 1 else (name, row)
            recorded[key] = _recorded_word(" ".join(filter(None, (recorded.get(key), *values))))
    return recorded


def _record_assignments(settings: Mapping[str, str], recorded: Mapping[str, str]) -> dict[str, str]:
    """Return the shell assignments with the settings that the host must record.

    A setting whose recorded value is that of its variable `GC_<name>` is listed by name only.
    """
    plain = [name for name, value in recorded.items() if settings.get(f"GC_{name}") == value]
    lines = (f"{name} {value}\n" for name, value in recorded.items() if name not in plain)
    return {PLAIN: " ".join(plain), WORDED: "".join(lines)}


def _recorded_word(value: str) -> str:
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
    """Return the declaration, the script text, of one phase on a host.

    Args:
        settings: Shell assignments. An empty value is left out, because an unset variable is empty
            too.
        rows: Rows by the name of the shell function that lists them (`each`).
        bundles: Bundles that the phase reads.
        inline: Whether the script contains the text of the files instead of the lines that load
            them. Such a script needs no upload and can be read as a whole.
        declared: Rows that the user declared, by function name. None: all rows.
    """
    copied = () if inline else tuple(bundles)
    if inline:
        loading = "\n".join(bundle.text for bundle in bundles)
    else:
        loading = "".join(["loaded='\n", *(f"{bundle.line}\n" for bundle in copied), "'\n", LOADER])
    lists = "".join(each(name, words) for name, words in rows.items() if words)
    recorded = words(settings, rows if declared is None else declared)
    all_settings = {**settings, **_record_assignments(settings, recorded)}
    assignments = header({name: value for name, value in all_settings.items() if value})
    return Declaration.of(f'{assignments}{loading}{lists}main "$@" </dev/null\n', copied, recorded)
