"""What a program of another project prints has one reader, which probe and steps share.

Two readers of one text disagree sooner or later, and then one of them refuses a host that the other
accepts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpu_cluster.hosts.observed.probe import MARK, probe

ROOT = Path(__file__).resolve().parents[2]
HOSTS = ROOT / "components/gpu_cluster/hosts"
READERS = HOSTS / "steps/library/versions.sh"
PRODUCT = ("components", "policies")
READ_ONCE = {
    r"--version\b(?! *\))": "steps/library/versions.sh",
    r"modinfo -F version": "steps/library/versions.sh",
    r"/proc/driver/nvidia/version\"\)": "steps/library/versions.sh",
    r"property=MainPID": "steps/library/running.sh",
    r"property=Environment ": "steps/library/running.sh",
    r"property=EnvironmentFiles": "steps/library/running.sh",
    r"property=ExecStart": "steps/library/running.sh",
    r"\$\{Package\} \$\{Version\}": "steps/library/package_manager.sh",
    r"%\{NAME\} %\{VERSION\}-%\{RELEASE\}\\n'? \"\$@\"": "steps/library/package_manager.sh",
    r"apt-cache madison|repoquery --latest-limit": "steps/library/package_manager.sh",
    r"db:Status-Want": "steps/library/holds.sh",
    r"SW_MNG": "steps/library/fabric.sh",
}
"""Query of a program, or mark in its text, and the file of its only reader."""


def marks() -> list[str]:
    """Return the words before a version that the readers look for."""
    found = re.findall(r'set -- "\$2" \'([^\']+)\'', READERS.read_text())
    return [mark for mark in (each.strip(" *:") for each in found) if " " in mark]


def sources() -> Mapping[str, str]:
    """Return the product's programs by path, shell without its comments."""
    files = (file for top in PRODUCT for file in sorted((ROOT / top).rglob("*")))
    return {
        file.relative_to(ROOT).as_posix(): code_of(file)
        for file in files
        if file.suffix in (".py", ".sh")
    }


def code_of(file: Path) -> str:
    """Return the text of a file without lines of comments."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


@pytest.mark.parametrize("mark", marks())
def test_no_second_reader_looks_for_a_program_s_version(mark: str) -> None:
    here = READERS.relative_to(ROOT).as_posix()
    assert [path for path, code in sources().items() if mark in code] == [here]


@pytest.mark.parametrize("query", READ_ONCE)
def test_each_query_of_a_program_stands_in_one_file(query: str) -> None:
    found = {
        path.removeprefix("components/gpu_cluster/hosts/")
        for path, code in sources().items()
        if path.startswith("components/gpu_cluster/hosts/")
        and path.endswith(".sh")
        and re.search(query, code)
    }
    assert found == {READ_ONCE[query]}


def test_the_probe_has_the_readers_of_the_steps() -> None:
    for file in sorted({HOSTS / file for file in READ_ONCE.values()}):
        assert file.read_text().partition(MARK)[2] in probe()


def test_a_node_s_engine_is_read_in_one_place() -> None:
    split = re.compile(r"partition\(\"://\"\)|\"(?:containerd|cri-o|docker)://")
    found = {path for path, code in sources().items() if split.search(code)}
    assert found == set()
