"""Cures of addresses, names, keys and secrets of a stack file are followed: the file loads.

The rows have the form of those of `edits.yaml`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.base.yaml_file import read
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_rules.faults import ConfigError, InputError
from tests.fixtures.documents import KEYS, stack_document
from tests.proofs.advice.edits import Json, after, fault_of, leaves
from tests.proofs.advice.follow import is_same
from tests.proofs.advice.rows import Record, note


def _address(wrong: str, cure: str, **right: Any) -> Json:
    edit = {"hosts": {0: right}}
    return {"with": {"hosts": {0: {"address": wrong}}}, "cure": cure, "edit": edit}


def _key(wrong: str, cure: str) -> Json:
    edit = {"hosts": {0: {"hostKey": KEYS[0]}}}
    broken = {"hosts": {0: {"hostKey": wrong}}}
    return {"with": broken, "cure": cure, "edit": edit, "own": "the key is the host's"}


def _label(wrong: str, right: str, cure: str) -> Json:
    edit = {"pools": {0: {"labels": {wrong: None, right: "x"}}}}
    broken = {"pools": {0: {"labels": {wrong: "x"}}}}
    return {"with": broken, "cure": cure, "edit": edit, "own": "the value stays"}


ROWS: tuple[Json, ...] = (
    _address("192.0.2.1:2222", 'write "address: 192.0.2.1" and "port: 2222"', address="192.0.2.1",
             port=2222),
    _address("gpu_1.example.com", "write a name such as gpu-1.example.com",
             address="gpu-1.example.com"),
    _address("192.0.2.300", "its fourth number is wrong", address="192.0.2.11"),
    _address("192.0.2", "write four numbers, such as 192.0.2.11; it has 3", address="192.0.2.11"),
    _address("192.0.2.011", "write 192.0.2.11", address="192.0.2.11"),
    _address("2001:db8::g", "write an address such as 2001:db8::11", address="2001:db8::11"),
    _key("ssh-dss AAAA", "take it from /etc/ssh/ssh_host_ed25519_key.pub"),
    _key("ssh-ed25519 AAAAC3Nza", "take it from /etc/ssh/ssh_host_ed25519_key.pub"),
    _key("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA", "take it from /etc/ssh/ssh_host_ed25519"),
    {
        "with": {"pools": {0: {"labels": {1: "x"}}}},
        "cure": "remove it",
        "edit": {"pools": {0: {"labels": {1: None}}}},
    },
    _label("kubernetes.io/rack", "example.com/rack", "with a prefix of your own"),
    {
        "with": {"registry": {"mirror": "https://registry.example.com/"}},
        "cure": "write registry.example.com/nvidia, for example",
        "edit": {"registry": {"mirror": "registry.example.com/nvidia"}},
    },
    {
        "with": {"hosts": {0: {"name": "Gpu_1"}}},
        "cure": 'write "gpu-1"',
        "edit": {"hosts": {0: {"name": "gpu-1"}}},
    },
    {
        "with": {"devicePlugin": {"namespace": "kube-system"}},
        "cure": "remove it, or write another name, such as gpu-software",
        "edit": {"devicePlugin": {"namespace": "gpu-software"}},
    },
    {
        "with": {"devicePlugin": {"namespace": "kube-system"}},
        "cure": "remove it, or write another name, such as gpu-software",
        "edit": {"devicePlugin": {"namespace": None}},
    },
)  # fmt: skip


@pytest.mark.promise("A cure of a stack file's fault removes the fault and brings no new one.")
@pytest.mark.advice("several")
@pytest.mark.parametrize("row", ROWS, ids=[str(row["cure"])[:60] for row in ROWS])
def test_a_cure_is_followed_as_its_text_says(row: Json, record_property: Record) -> None:
    fault, anchor, before = fault_of(row)
    unknown = [text for text in leaves(row["edit"]) if text not in str(fault)]
    assert not unknown or row.get("own"), (unknown, str(fault))
    remaining = after(row)
    left = [one for one in remaining if is_same(one, fault)]
    new = [one for one in remaining if not any(is_same(one, old) for old in before)]
    assert [*left, *new] == [], str(fault)
    assert anchor
    record_property("advice", ("cure", anchor, True))


@pytest.mark.advice("several")
def test_a_secret_that_pulumi_encrypts_is_accepted(tmp_path: Path, record_property: Record) -> None:
    file = tmp_path / "Pulumi.dev.yaml"

    def write(value: object) -> None:
        config = {"gpu-cluster:cluster": stack_document(), "gpu-cluster:sshPrivateKey": value}
        file.write_text(json.dumps({"config": config}))

    write("-----BEGIN OPENSSH PRIVATE KEY-----")
    with pytest.raises(ConfigError) as refused:
        load_stack_file(file)
    # `pulumi config set --secret gpu-cluster:sshPrivateKey` writes this form.
    write({"secure": "v1:AAAA:BBBB"})
    load_stack_file(file)
    (fault,) = refused.value.faults
    cure = "run `pulumi config set --secret gpu-cluster:sshPrivateKey < key`"
    note(record_property, "components/gpu_cluster/base/confidential.py", fault, cure)


@pytest.mark.advice("several")
def test_a_file_of_the_right_name_is_read(tmp_path: Path, record_property: Record) -> None:
    (tmp_path / "Pulumi.dev.yaml").write_text("a: 1", encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read(tmp_path / "Pulumi.prod.yaml")
    read(tmp_path / "Pulumi.dev.yaml")
    cure = "check the name Pulumi.prod.yaml"
    note(record_property, "components/gpu_cluster/base/yaml_file.py", refused.value, cure)
