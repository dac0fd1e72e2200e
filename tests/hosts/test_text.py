"""The rendering of scripts: values arrive as data, texts are sound POSIX sh."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.hosts import preflight
from components.hosts.settings.runtime import Runtime
from components.hosts.settings.system import System
from components.hosts.steps import container_engine, render
from tests.hosts.machine import Running

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
HOSTILE = [
    "'", '"', "''\"", "$(touch /run/owned)", "`touch /run/owned`", "; touch /run/owned #", "\n",
    "a\nmain undo\n", "\\", "\\n", "${IFS}", "*", "~", "!!", "-n", "", " ", "\t\r",
    "ü → 漢 \U0001f600",
    "EOF\ntouch /run/owned\n", "%s%n", "'$(id)'",
]  # fmt: skip
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]


def shown(shell: str, values: list[str]) -> list[str]:
    """What a real shell holds after it has read the values as assignments and as rows."""
    names = {f"V{number}": value for number, value in enumerate(values)}
    show = "".join(f"printf '%s\\0' \"${name}\"\n" for name in names)
    script = render.header(names) + render.each("rows", [[value, value] for value in values])
    script += f'{show}row() {{ printf \'%s\\0\' "$1" "$2"; }}\nrows row\n'
    command = ["busybox", "sh"] if shell == "busybox" else [shell]
    done = subprocess.run(
        [*command, "-s"], input=script.encode(), capture_output=True, timeout=20, check=True
    )
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=60, deadline=None)
@given(values=st.lists(TEXT, min_size=1, max_size=12))
def test_any_value_arrives_as_it_is(shell: str, values: list[str]) -> None:
    twice = [value for value in values for _ in range(2)]
    assert shown(shell, values) == values + twice


@pytest.mark.full
@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=1000, deadline=None)
@given(value=TEXT)
def test_a_thousand_values_arrive_as_they_are(shell: str, value: str) -> None:
    assert shown(shell, [value]) == [value] * 3


def test_hostile_values_arrive_as_data_on_a_host(host: Running) -> None:
    names = {f"V{number}": value for number, value in enumerate(HOSTILE)}
    script = render.header(names) + "main() {\n"
    script += "".join(f"printf '%s\\n--\\n' \"${name}\"\n" for name in names)
    script += '}\nmain "$@" </dev/null\n'
    done = host.run("sh -s -- apply", script)
    assert done.errors == ""
    assert done.output.split("\n--\n")[:-1] == HOSTILE
    assert not host.exists("/run/owned")


@pytest.mark.parametrize("value", HOSTILE)
def test_no_name_reaches_a_file_that_can_not_carry_it(value: str) -> None:
    with pytest.raises(ValueError, match="wanted"):
        render.prepare(blacklist=[value])
    with pytest.raises(ValueError, match="wanted"):
        System(modules=(value,))
    with pytest.raises(ValueError, match="wanted"):
        System(sysctl={value: "1"})
    with pytest.raises(ValueError, match="wanted"):
        System(firewall_ports=(value,))
    if not value.isprintable() or value != value.strip() or not value:
        with pytest.raises(ValueError, match="wanted"):
            System(sysctl={"net.core.somaxconn": value})


def test_a_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        render.header({"A": "\0"})


def test_rendering_is_pure() -> None:
    assert render.prepare() == render.prepare()
    assert container_engine.runtime() == container_engine.runtime()
    assert container_engine.runtime(Runtime(cdi=True)) != container_engine.runtime()


def test_the_call_is_the_last_line() -> None:
    for script in (render.prepare(), container_engine.runtime()):
        assert script.splitlines()[-1] == 'main "$@" </dev/null'


FILES = sorted(render.Path(render.__file__).parent.glob("*.sh"))


def read_by_a_shell(text: str) -> str:
    """All functions as bash has understood them, and the assignments outside of them."""
    shown = 'eval "$1"; declare -f; declare -p | grep -v " \\(BASH\\|_=\\)"'
    command = ["bash", "--norc", "-c", shown, "bash", text]
    environment = {"PATH": "/usr/bin:/bin", "GC_PHASE": "prepare"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_a_shell_reads_the_same_without_the_comments(file: render.Path) -> None:
    with_comments, without = file.read_text(), render.part(file.stem)
    assert len(without) < len(with_comments)
    read = read_by_a_shell(without)
    assert " () \n" in read
    assert read == read_by_a_shell(with_comments)


def test_preflight_and_script_judge_by_the_same_values() -> None:
    assert preflight.SYSTEMS == render.SYSTEMS
    assert ".".join(map(str, preflight.KERNEL)) == render.KERNEL
    assert preflight.DISK_MIB == render.DISK_MIB
