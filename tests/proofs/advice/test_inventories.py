"""Cures of Ansible's inventories are followed: the inventory can be read afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.commands.ansible import read as reading
from gpu_cluster.commands.ansible.read import read
from gpu_cluster.settings.nodes.node_range import NODE_LIMIT
from gpu_rules.faults import ConfigError
from tests.proofs.advice.rows import Record, note

INI = "components/gpu_cluster/commands/ansible/ini.py"
READ = "components/gpu_cluster/commands/ansible/read.py"
GROUP = "{hosts: {gpu-1: {ansible_host: 192.0.2.1}}}"
LISTED = '{"all": {"children": ["gpu"]}, "gpu": {"hosts": ["gpu-1"]}}'
MANY = f"gpu-[1:{NODE_LIMIT + 1}]"
NESTED = "\n".join(f"[g{n}]\nh{n}\n[g{n}:children]\ng{n + 1}" for n in range(1_600))
Files = dict[str, Any]
ROWS: tuple[tuple[str, str, str, Files, str, Files], ...] = (
    (INI, "write a group as `[gpu]`", "a.ini", {"a.ini": "[a b]\nx"}, "a.ini",
     {"a.ini": "[gpu]\ngpu-1 ansible_host=192.0.2.1\n"}),
    (INI, "or name a smaller inventory", "a.ini", {"a.ini": f"[gpu]\n{MANY}\n"}, "b.ini",
     {"b.ini": "[gpu]\ngpu-[1:4]\n"}),
    (INI, "name a smaller one", "a.ini", {"a.ini": NESTED}, "b.ini",
     {"b.ini": "[gpu]\ngpu-[1:4]\n"}),
    (READ, "name the file in it that lists the hosts", ".", {"a.ini": "[gpu]\ngpu-1\n"}, "a.ini",
     {}),
    (READ, "`ansible-inventory -i a.py --list --yaml --output inventory.yaml`", "a.py",
     {"a.py": "#!/usr/bin/env python3\n"}, "inventory.yaml", {"inventory.yaml": LISTED}),
    (READ, "`ansible-inventory -i a.yaml --list --yaml --output inventory.yaml`", "a.yaml",
     {"a.yaml": "plugin: amazon.aws.aws_ec2\n"}, "inventory.yaml", {"inventory.yaml": LISTED}),
    (READ, "check the name", "b.yaml", {"a.yaml": f"gpu: {GROUP}"}, "a.yaml", {}),
    (READ, "check the name", "image.iso", {"image.iso": b"x" * 200_000, "a.yaml": f"gpu: {GROUP}"},
     "a.yaml", {}),
    (READ, "save it as UTF-8", "a.ini", {"a.ini": "[gpu]\ngpu-1 x=für\n".encode("latin-1")},
     "a.ini", {"a.ini": "[gpu]\ngpu-1 x=für\n"}),
    (READ, f"write {{gpu: {GROUP}}}, for example", "a.yaml", {"a.yaml": "- gpu-1\n"}, "a.yaml",
     {"a.yaml": f"{{gpu: {GROUP}}}"}),
    (READ, f"write {GROUP} there, for example", "a.yaml", {"a.yaml": "gpu: [gpu-1]\n"}, "a.yaml",
     {"a.yaml": f"gpu: {GROUP}"}),
    (READ, "correct it", "a.yaml", {"a.yaml": "gpu: {hosts: {'gpu-[4:1]': }}"}, "a.yaml",
     {"a.yaml": "gpu: {hosts: {'gpu-[1:4]': }}"}),
    (READ, "or name a smaller one", "a.yaml", {"a.yaml": f"gpu: {{hosts: {{'{MANY}': }}}}"},
     "b.yaml", {"b.yaml": "gpu: {hosts: {'gpu-[1:4]': }}"}),
)  # fmt: skip
"""Source, words of the cure, the file that is named and the files; the same after the cure."""


def _write(folder: Path, files: Files) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.promise("A cure of an inventory removes the fault and brings no new one.")
@pytest.mark.advice("several")
@pytest.mark.parametrize(
    ("source", "cure", "wrong", "files", "right", "mended"), ROWS, ids=[row[1][:40] for row in ROWS]
)
def test_an_inventory_is_read_after_the_cure(
    source: str,
    cure: str,
    wrong: str,
    files: Files,
    right: str,
    mended: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Record,
) -> None:
    monkeypatch.setattr(reading, "SIZE_LIMIT", 100_000)
    _write(tmp_path, files)
    with pytest.raises(ConfigError) as refused:
        read(tmp_path / wrong)
    _write(tmp_path, mended)
    assert "gpu-1" in read(tmp_path / right).hosts
    (fault,) = refused.value.faults
    note(record_property, source, fault, cure)
