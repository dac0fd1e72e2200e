"""Tests of the Makefile: the order of steps, and the output of `make help`."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from gpu_cluster.commands.files import copy_project
from gpu_cluster.commands.verbs import BY_NAME
from gpu_cluster_lab import toolchain
from tests.fixtures.programs import run_program

ROOT = Path(__file__).resolve().parents[2]


def test_tools_are_built_before_the_tests_whose_limits_have_no_room_for_it() -> None:
    shown = subprocess.run(
        ["make", "--dry-run", "--old-file=venv/bin/gpu-cluster", "test"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = shown.stdout.splitlines()
    built = next(n for n, line in enumerate(lines) if line.endswith("-m gpu_cluster_lab.toolchain"))
    tested = next(n for n, line in enumerate(lines) if "-m pytest" in line)
    assert built < tested


def test_a_make_that_a_test_starts_prints_what_a_users_own_make_prints() -> None:
    """`make` prints the folders that it enters if another `make` started the tests."""
    command = ["make", "--dry-run", "--old-file=venv/bin/gpu-cluster", "promises"]
    shown = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert shown.stdout.splitlines() == ["venv/bin/python -m tests.promises"]


def test_a_makefile_that_is_named_from_elsewhere_says_where_to_run_it(tmp_path: Path) -> None:
    def make(*words: str) -> subprocess.CompletedProcess[str]:
        return run_program(["make", *words], cwd=tmp_path, timeout=60)

    refused = make("-f", str(ROOT / "Makefile"), "help")
    assert refused.returncode == 2
    cure = f"make -C {ROOT}/ help"
    assert f"run make in the folder of this Makefile: {cure}" in refused.stderr
    assert (
        make("--no-print-directory", *cure.split()[1:]).stdout
        == make("--no-print-directory", "-C", str(ROOT), "help").stdout
    )


def help_text() -> str:
    """Return what `make` prints without a target."""
    return subprocess.run(
        ["make", "--no-print-directory"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def help_groups() -> dict[str, list[str]]:
    """Return the make targets that `make` lists, by the heading of their group."""
    groups: dict[str, list[str]] = {}
    for part in help_text().split("\n\n")[1:]:
        heading, *lines = part.splitlines()
        assert all(line.startswith("make ") for line in lines)
        groups[heading] = [line.split()[1] for line in lines]
    return groups


@pytest.mark.promise(
    "`make` alone says how to begin and which variables all commands have, in 80 columns."
)
def test_the_list_says_how_to_begin_and_fits_a_terminal_of_80_columns() -> None:
    shown = help_text()
    assert max(map(len, shown.splitlines())) <= 80
    first = shown.partition("\n\n")[0]
    assert first.startswith("Begin with `make up`")
    for name in ("STACK=", "EMBEDDED=1", "VERBOSE=1", "JSON=1", "--help"):
        assert name in first


@pytest.mark.promise("`make` lists a user's commands first, then the proofs, then the others.")
def test_help_lists_each_target_once_and_the_users_first() -> None:
    user, proofs, others = help_groups().items()
    assert user[0] == "Your cluster:"
    assert user[1][:3] == ["up", "preview", "validate"]
    assert proofs[0] == "Proofs:"
    assert "test" in proofs[1]
    assert "lock" in others[1]
    declared = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert sorted([*user[1], *proofs[1], *others[1]]) == sorted(declared)


@pytest.mark.promise("Each target of `make` for users calls the verb of its name, in one line.")
def test_each_target_of_users_is_a_verb_in_one_line() -> None:
    text = (ROOT / "Makefile").read_text()
    recipes = dict(re.findall(r"^([a-z-]+):[^\n]*\n((?:\t.*\n)*)", text, re.MULTILINE))
    users, *others = help_groups().values()
    for target in users:
        assert target in BY_NAME
        assert re.fullmatch(rf"\t@\$\(COMMAND\) {target}( .*)?\n", recipes[target]), target
    of_maintainers = [target for group in others for target in group]
    assert [target for target in of_maintainers if "$(COMMAND)" in recipes[target]] == []
    assert [*BY_NAME.keys() & {*of_maintainers}] == []


EVIL = """x'y "b" $(shell touch made)$(id)`id` $HOME läb 集群 $$"""
"""A value that `make` or a shell would change if it read the value."""
SHOW = "#!/bin/sh\nfor word; do printf '%s\\0' \"$word\"; done\n"
"""Program that prints its arguments."""


@pytest.mark.promise("A value of each variable of `make` reaches the command as it is.")
@pytest.mark.parametrize("place", ["environment", "command line"])
def test_each_value_reaches_the_command_as_it_is(place: str, tmp_path: Path) -> None:
    text = (ROOT / "Makefile").read_text()
    recipes = dict(re.findall(r"^([a-z-]+):[^\n]*\n((?:\t.*\n)*)", text, re.MULTILINE))
    program = tmp_path / "show"
    program.write_text(SHOW)
    program.chmod(0o755)
    reached = 0
    users, *_ = help_groups().values()
    for target in users:
        switches = str(re.findall(r"switches,([A-Z_ ]+)|filter 1,([^)]+)", recipes[target]))
        for name in {*re.findall(r"\b[A-Z_]{3,}\b", recipes[target])} - {"COMMAND"}:
            given = [f"{name}={EVIL}"] if place == "command line" else []
            words = ["make", "--silent", "--old-file=venv/bin/gpu-cluster", f"COMMAND={program}"]
            more = {} if given else {name: EVIL}
            done = run_program(
                [*words, target, *given], cwd=ROOT, env={**person(), **more}, timeout=60
            )
            assert done.returncode == 0, f"{target} {name}: {done.stderr}"
            values = [word for word in done.stdout.split("\0") if word.endswith(EVIL)]
            assert len(values) == (not re.search(rf"\b{name}\b", switches)), (
                f"{target} {name}: {done.stdout}"
            )
            reached += len(values)
    assert reached > 20
    assert not (ROOT / "made").exists()


def person() -> dict[str, str]:
    """Return the environment of a user's shell, without variables of an outer make or pytest."""
    kept = ("HOME", "PATH", "GPU_CHARTS")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    return {**environment, "GPU_CLUSTER_CACHE": str(toolchain.cache_dir())}


def test_each_line_of_help_is_a_command_when_it_is_pasted() -> None:
    """A user can paste a line of `make help` into a shell: the text after the target is a comment.

    This must hold whatever quotes and special characters the text has.
    """
    script = """
        make() {
            test $# = 1 && command make --dry-run --old-file=venv/bin/gpu-cluster "$1" >/dev/null
        }
        while IFS= read -r line; do
            if [[ $line == "make "* ]]; then eval "$line" || { echo "$line"; exit 1; }; fi
        done < <(command make --no-print-directory help)
    """
    done = run_program(["bash", "-uc", script], cwd=ROOT, env=person(), timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.promise("What the help of `make` prints works when it is pasted into a shell.")
def test_the_line_that_help_prints_for_a_shell_works_there(tmp_path: Path) -> None:
    project = tmp_path / "project"
    copy_project(project)
    # Because requirements.lock has an old time stamp, `make` does not rebuild the virtual
    # environment.
    os.utime(project / "requirements.lock", (0, 0))
    script = """
        line=$(make help | sed -n 's/^make env .*plain pulumi: //p')
        echo "$line"
        eval "$line"
        test -n "$PULUMI_BACKEND_URL" && command -v pulumi
    """
    done = run_program(["bash", "-euc", script], cwd=project, env=person(), timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('eval "$(make env)"\n')
    assert str(toolchain.cache_dir()) in done.stdout.splitlines()[-1]
