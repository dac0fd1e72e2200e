"""Shell functions that hosts use to read container engines' CRI responses, and JSON."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_cluster.hosts.script import FOLDER
from tests.fixtures.programs import run_program

SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]
AWKS = [awk for awk in ("mawk", "gawk", "original-awk") if shutil.which(awk)]
CONFIG = {
    "containerd": {
        "defaultRuntimeName": "nvidia",
        "runtimes": {
            "nvidia": {"runtimeType": "io.containerd.runc.v2", "options": {"SystemdCgroup": True}},
            "runc": {"runtimeType": "io.containerd.runc.v2", "options": None},
        },
    },
    "registry": {"note": "x" * 200_000},
}
"""A part of containerd's configuration, longer than the first window of an HTTP/2 stream."""


def _field(number: int, content: bytes) -> bytes:
    size, out = len(content), bytes([number << 3 | 2])
    while size > 127:
        out, size = out + bytes([size & 127 | 128]), size >> 7
    return out + bytes([size]) + content


def _status(info: dict[str, str]) -> bytes:
    """Return an encoded `StatusResponse` of the CRI with this `info`."""
    entries = (
        _field(2, _field(1, key.encode()) + _field(2, text.encode())) for key, text in info.items()
    )
    return _field(1, _field(1, _field(1, b"RuntimeReady"))) + b"".join(entries)


@pytest.fixture
def engine() -> Iterator[Callable[[dict[str, str] | None], Path]]:
    """Return a function that serves a fake CRI with this `info`, or without the CRI if None."""
    server = grpc.server(futures.ThreadPoolExecutor(2))
    # A socket's path has at most 107 characters (unix(7)); that of `tmp_path` may be longer.
    folder = tempfile.TemporaryDirectory(prefix="cri-", dir="/tmp")
    socket = Path(folder.name) / "engine.sock"

    def serve(info: dict[str, str] | None) -> Path:
        if info is not None:
            answer = _status(info)

            def status(request: bytes, _: grpc.ServicerContext) -> bytes:
                assert request == b"\x08\x01", "StatusRequest{verbose: true}"
                return answer

            handler = grpc.unary_unary_rpc_method_handler(status)
            service = {"Status": handler}
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", service),)
            )
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        return socket

    yield serve
    server.stop(None)
    folder.cleanup()


def run(lines: str, *, path: str | None = None, shell: str = "sh") -> tuple[int, str]:
    """Run shell lines after the shell libraries `json` and `cri`; return exit status and output."""
    library = "".join((FOLDER / f"library/{name}.sh").read_text() for name in ("json", "cri"))
    done = run_program(
        [shutil.which(shell) or shell, "-s"],
        env={**os.environ, **({"PATH": path} if path else {})},
        input=library + lines,
        timeout=60,
    )
    return done.returncode, done.stdout


def programs(folder: Path, *left_out: str) -> str:
    """Return a PATH with only the programs that the shell functions use, except `left_out`."""
    folder.mkdir()
    for name in ("awk", "curl", "grep", "head", "paste", "perl", "sed", "tail", "timeout", "tr"):
        found = shutil.which(name)
        if found and name not in left_out:
            (folder / name).symlink_to(found)
    return str(folder)


@pytest.mark.parametrize("left_out", ["perl", "curl"])
def test_an_engine_is_asked_by_what_each_distribution_has(
    engine: Callable[[dict[str, str] | None], Path], tmp_path: Path, left_out: str
) -> None:
    if not shutil.which({"perl": "curl", "curl": "perl"}[left_out]):
        pytest.skip("this machine has only one of perl and curl")
    socket = engine({"golang": '"go1.26"', "config": json.dumps(CONFIG, separators=(",", ":"))})
    path = programs(tmp_path / "programs", left_out)
    status, text = run(
        f"cri_config {socket} | grep -v note; cri_answers {socket} nvidia", path=path
    )
    assert text.splitlines() == [
        'containerd.defaultRuntimeName "nvidia"',
        'containerd.runtimes.nvidia.runtimeType "io.containerd.runc.v2"',
        "containerd.runtimes.nvidia.options.SystemdCgroup true",
        'containerd.runtimes.runc.runtimeType "io.containerd.runc.v2"',
        "containerd.runtimes.runc.options null",
    ]
    assert status == 0


@pytest.mark.parametrize("info", [None, {}, {"config": "{"}, {"config": '{"containerd":{}}'}])
def test_an_engine_without_the_runtime_has_it_not(
    engine: Callable[[dict[str, str] | None], Path], info: dict[str, str] | None
) -> None:
    assert run(f"cri_answers {engine(info)} ''") == (1, "")


def test_no_socket_is_no_answer(tmp_path: Path) -> None:
    assert run(f"cri_answers {tmp_path}/none nvidia") == (1, "")


def shown(text: str, tmp_path: Path, awk: str, shell: str) -> tuple[int, str]:
    file = tmp_path / "value.json"
    file.write_text(text)
    return run(f"awk() {{ {awk} \"$@\"; }}\njson_lines '{file}'", shell=shell)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("awk", AWKS)
def test_numbers_escapes_and_order_stay_as_they_are(tmp_path: Path, awk: str, shell: str) -> None:
    text = r'{"b": 9223372036854775807, "a": [1e400, -0.10, "é\u00e9 \" \\ {"], "n": null, "b": {}}'
    status, lines = shown(text, tmp_path, awk, shell)
    assert status == 0
    assert lines == (
        '{\n    "b": {},\n    "a": [\n        1e400,\n        -0.10,\n'
        '        "é\\u00e9 \\" \\\\ {"\n    ],\n    "n": null\n}\n'
    )


@pytest.mark.parametrize("text", ['{"a": 1,}', "", "[1 2]", "{} {}", "{'a': 1}", '{"a": 01}', '"'])
def test_what_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    assert shown(text, tmp_path, AWKS[0], SHELLS[0])[0] != 0


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBER = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=15, deadline=None)
@given(value=VALUES, indent=st.sampled_from([None, 1, 7]))
def test_each_value_stays_the_same(
    tmp_path_factory: pytest.TempPathFactory, value: object, indent: int | None
) -> None:
    text = json.dumps(value, indent=indent)
    status, lines = shown(text, tmp_path_factory.mktemp("json"), AWKS[0], SHELLS[0])
    assert (status, json.loads(lines)) == (0, value)
