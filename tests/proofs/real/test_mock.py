"""Tests of the mock of NVIDIA's NVML library, which is called by its C function names."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.real import build
from lab.real.mock import DRIVERS, Mock
from tests.fixtures.programs import run_program

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(bool(build.missing()), reason=f"make test-real {build.missing()}"),
]

# Each query runs in a new process, because Go's runtime can't be unloaded from a process. The
# process creates device nodes in a private /dev.
ASK = """
import ctypes, json, os, sys
for index in range(int(sys.argv[2])):
    os.mknod(f"/dev/nvidia{index}", 0o20600, os.makedev(195, index))
library = ctypes.CDLL(sys.argv[1])
text, number, handle = ctypes.create_string_buffer(96), ctypes.c_uint(), ctypes.c_void_p()
answers = {"init": library.nvmlInit_v2(), "unknown": library.nvmlSystemGetHicVersion()}
library.nvmlSystemGetDriverVersion(text, 96)
answers["driver"] = text.value.decode()
library.nvmlDeviceGetCount_v2(ctypes.byref(number))
answers["uuids"], answers["lost"] = [], []
for index in range(number.value):
    library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
    code = library.nvmlDeviceGetUUID(handle, text, 96)
    answers["lost" if code == 15 else "uuids"].append(index if code else text.value.decode())
print(json.dumps(answers))
"""


def ask(state: Path, nodes: int) -> Any:
    library = build.build("mock")[build.LIBRARY]
    own = 'mount -t tmpfs tmpfs /dev && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", own, "sh", sys.executable, "-c", ASK]
    done = run_program(
        [*command, str(library), str(nodes)],
        env={"MOCK_NVML_STATE": str(state), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("profile", DRIVERS)
def test_each_profile_shows_eight_gpus_by_uuid(profile: str, tmp_path: Path) -> None:
    gpus = Mock("a-node", profile)
    gpus.write(tmp_path / "state")
    uuids = ask(tmp_path / "state", 8)
    assert uuids["init"] == 0
    assert uuids["driver"] == DRIVERS[profile]
    assert tuple(uuids["uuids"]) == gpus.uuids


def test_a_program_sees_the_gpus_whose_nodes_it_has(tmp_path: Path) -> None:
    gpus = Mock("a-node")
    gpus.write(tmp_path / "state")
    assert tuple(ask(tmp_path / "state", 3)["uuids"]) == gpus.uuids[:3]
    assert ask(tmp_path / "state", 0)["uuids"] == []


def test_a_lost_gpu_answers_nothing(tmp_path: Path) -> None:
    gpus = Mock("a-node")
    gpus.fault(2, "lost")
    gpus.write(tmp_path / "state")
    assert ask(tmp_path / "state", 8)["lost"] == [2]


def test_what_the_mock_lacks_is_not_supported(tmp_path: Path) -> None:
    Mock("a-node").write(tmp_path / "state")
    assert ask(tmp_path / "state", 1)["unknown"] == 3


def test_without_a_state_there_is_no_driver(tmp_path: Path) -> None:
    assert ask(tmp_path / "none", 8)["init"] == 9
