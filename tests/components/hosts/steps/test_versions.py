"""Each program's version text has one reader, which reads the text of each packager."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from gpu_cluster.hosts.observed.probe import parse
from gpu_cluster.hosts.script import FOLDER
from tests.fixtures.probed import Machine

READERS = FOLDER / "library/versions.sh"
ASK = 'ask() { shift; "$@"; }\n'
KEYS = {
    "containerd": "containerd",
    "dockerd": "docker",
    "crio": "crio",
    "runc": "runc",
    "nvidia-ctk": "toolkit",
}
"""The fact that the probe reports for each program."""


class Printed(NamedTuple):
    """One row of `versions.yaml`."""

    program: str
    by: str
    text: str
    version: str
    source: str


ROWS = tuple(
    Printed(**row) for row in yaml.safe_load(Path(__file__).with_name("versions.yaml").read_text())
)


@pytest.mark.promise(
    "The version of containerd, runc, Docker, CRI-O and the toolkit is read from what the programs "
    "of each packager print."
)
@pytest.mark.parametrize("shell", ["dash", "bash"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.program} {row.by} {row.version}")
def test_the_text_of_each_packager_has_the_version_that_it_names(row: Printed, shell: str) -> None:
    done = subprocess.run(
        [shell, "-s", row.program, row.text],
        input=f'{READERS.read_text()}read_version "$1" "$2"; printf %s "$program_version"\n',
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == (row.version, "")


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_the_probe_reports_each_version_by_the_reader_of_the_steps(
    shell: str, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, shell)
    first = {row.program: row for row in reversed(ROWS) if row.version}
    for row in first.values():
        machine.program(row.program, row.text)
    facts = parse(machine.lines())
    for program, key in KEYS.items():
        assert getattr(facts, key) == first[program].version


def test_a_program_whose_text_has_no_version_is_not_reported_missing(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "dash")
    for program in KEYS:
        machine.program(program, "something else")
    facts = parse(machine.lines())
    assert {getattr(facts, key) for key in KEYS.values()} == {"unknown"}
