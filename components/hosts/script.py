"""A script for a host: a declaration, and the files of functions that it names by their SHA-256.

The files lie in ``steps/`` and are copied to the host once (`component HostSteps`). The declaration
is what the state holds and the preview shows: a header of assignments, every value quoted by
:func:`shlex.quote`, one line for each file, and a last line that runs them with standard input
closed. A declaration that arrives cut off therefore does nothing.
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
"""What is copied to hosts; holds nothing else."""
UPLOADED = ".gpu-cluster-steps"
"""Where it lands, below the home of the user who logs in."""
LINT = "# shellcheck disable=SC2015 # a && b || fail: fail ends the script\n"

LOADER = """\
kept=${GPU_CLUSTER_ROOT-}/var/lib/gpu-cluster
if [ "${1-}" = undo ] && [ ! -d "$kept/$GC_PHASE" ]; then
    [ -d "$kept" ] || rm -rf ./.gpu-cluster-steps
    echo changed=0
    exit
fi
fresh=${GPU_CLUSTER_ROOT-}/run/gpu-cluster-steps.$$
trap 'rm -rf "$fresh"' EXIT
load() {
    name=$1 sum=$2 file=$kept/steps/$1-$2.sh loaded="${loaded-} $1-$2"
    shift 2
    [ -f "$file" ] || {
        file=$fresh/${file##*/}
        (umask 077 && mkdir -p "$fresh" && cd .gpu-cluster-steps && cat "$@" >"$file")
    }
    [ "$(sha256sum <"$file")" = "$sum  -" ] || {
        rm -rf "$file" ./.gpu-cluster-steps
        echo "error: host $(uname -n): found other text in the step $name, or none;" \\
            "wanted: sha256 $sum; cure: run \\`pulumi up\\` again, which copies it anew" >&2
        exit 1
    }
    . "$file"
}
"""
"""Nothing runs before its sum was seen in a folder of root's alone: that where an earlier run kept
it for the undo (`kept_steps.sh`), or one in memory."""


@dataclass(frozen=True)
class Bundle:
    """Files of functions that a host reads as one text.

    Attributes:
        name: what a person knows it by.
        files: names below `FOLDER`, without ``.sh``, in the order in which they are read.
    """

    name: str
    files: tuple[str, ...]

    @functools.cached_property
    def text(self) -> str:
        """Their texts, one after the other."""
        return "".join((FOLDER / f"{file}.sh").read_text() for file in self.files)

    @property
    def line(self) -> str:
        """What a declaration says about it."""
        digest = hashlib.sha256(self.text.encode()).hexdigest()
        return shlex.join(["load", self.name, digest, *(f"{file}.sh" for file in self.files)])


PARTS: Mapping[str, tuple[str, ...]] = {
    "driver": ("driver_packages", "driver_debian", "driver_runfile", "module_streams", "fabric"),
    "engine": ("containerd_version",),
    "kubernetes": ("joined",),
}
"""Files of the library that one step alone has."""


@functools.cache
def step(name: str) -> Bundle:
    """The file of one step, with its own of the library."""
    return Bundle(name, (name, *(f"library/{file}" for file in PARTS.get(name, ()))))


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


def assemble(
    settings: Mapping[str, str],
    rows: Mapping[str, Sequence[Sequence[str]]],
    bundles: Iterable[Bundle],
    *,
    inline: bool = False,
) -> str:
    """The declaration of one phase.

    Args:
        settings: shell assignments.
        rows: lists by the function that has them (`each`).
        bundles: what the phase reads.
        inline: the files' own text in place of the lines that load them: a script that needs no
            copy, for those who look at it whole.
    """
    if inline:
        loading = "\n".join(bundle.text for bundle in bundles)
    else:
        loading = LOADER + "".join(f"{bundle.line}\n" for bundle in bundles)
    lists = "".join(each(name, words) for name, words in rows.items() if words)
    return f'{LINT}{header(settings)}{loading}{lists}main "$@" </dev/null\n'
