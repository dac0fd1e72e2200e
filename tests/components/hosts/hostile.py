"""Hostile values, and the values that a real shell reads from a script of this project."""

from __future__ import annotations

import os
import shutil
import subprocess

from hypothesis import strategies as st

from gpu_cluster.hosts.script import each, header

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
HOSTILE = [
    "'", '"', "''\"", "$(touch /run/owned)", "`touch /run/owned`", "; touch /run/owned #", "\n",
    "a\nmain undo\n", "\\", "\\n", "${IFS}", "*", "~", "!!", "-n", "", " ", "\t\r",
    "ü → 漢 \U0001f600",
    "EOF\ntouch /run/owned\n", "%s%n", "'$(id)'",
]  # fmt: skip
VALUE = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60),
)
# With a locale that a machine lacks, bash prints a warning.
ENVIRONMENT = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]


def shown(shell: str, values: list[str]) -> list[str]:
    """Return the values that a real shell read from assignments and from rows of a list."""
    names = {f"V{number}": value for number, value in enumerate(values)}
    show = "".join(f"printf '%s\\0' \"${name}\"\n" for name in names)
    script = header(names) + each("rows", [[value, value] for value in values])
    script += f'{show}row() {{ printf \'%s\\0\' "$1" "$2"; }}\nrows row\n'
    command = ["busybox", "sh"] if shell == "busybox" else [shell]
    done = subprocess.run(
        [*command, "-s"],
        input=script.encode(),
        env=ENVIRONMENT,
        capture_output=True,
        timeout=20,
        check=True,
    )
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


def variables(shell: str, script: str, show: list[str]) -> list[str]:
    """Return the words that a shell prints if it runs the lines `show` after the script.

    The words are separated by NUL bytes. The script's last line, which calls `main`, is removed
    first.
    """
    rest = script.removesuffix('main "$@" </dev/null\n')
    assert rest != script
    done = subprocess.run(
        [shell, "-s"],
        input=(rest + "\n".join([*show, ""])).encode(),
        env=ENVIRONMENT,
        capture_output=True,
        timeout=20,
        check=True,
    )
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]
