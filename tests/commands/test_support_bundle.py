"""The archive of `gpu-cluster support-bundle`: no secret, listed contents, bounded parts."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.commands import support_bundle
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.support_bundle import (
    Contents,
    Entry,
    Part,
    archive,
    collected,
    event_of,
    lines,
    node_of,
    pod_of,
    stack_text,
    without_marked,
)
from gpu_cluster.property_values import SECRET, SIGNATURE
from gpu_rules.faults import ConfigError
from tests.commands.unwritable import assert_refused, read_nothing

CANARY = "canary-6f1d"
STACK_FILE = f"""\
secretsprovider: awskms://alias/{CANARY}
encryptedkey: {CANARY}
encryptionsalt: v1:{CANARY}
config:
  gpu-cluster:sshPrivateKey:
    secure: v1:{CANARY}
  gpu-cluster:cluster:
    version: v1
    nested: [{{deep: {{secure: v1:{CANARY}}}}}]
    pools:
      - {{name: a100, nodes: [gpu-1], gpusPerNode: 8}}
"""


def stack_with(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(text)
    monkeypatch.setattr(Stack, "file", path)
    return Stack("dev")


@pytest.mark.promise(
    "The archive of `gpu-cluster support-bundle` holds no secret of stack file or state."
)
def test_what_is_marked_secret_is_left_out_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = stack_text(stack_with(STACK_FILE, tmp_path, monkeypatch))
    assert CANARY not in text
    assert "name: a100" in text
    assert text.count(support_bundle.SECRET) == 2
    hidden = {SIGNATURE: SECRET, "ciphertext": CANARY, "plaintext": CANARY}
    state = {"deployment": {"resources": [{"inputs": {"a": [hidden], "b": "seen"}}]}}
    kept = without_marked(state)
    assert CANARY not in json.dumps(kept)
    assert kept["deployment"]["resources"][0]["inputs"]["b"] == "seen"


def test_a_stack_file_with_a_secret_in_plain_text_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"config:\n  gpu-cluster:sshPrivateKey: {CANARY}\n  gpu-cluster:cluster: {{}}\n"
    stack = stack_with(text, tmp_path, monkeypatch)
    with pytest.raises(ConfigError):
        stack_text(stack)
    ((entry, content),) = collected([Part("stack.yaml", "a", lambda: stack_text(stack))])
    assert content == b""
    assert entry.left_out
    assert CANARY not in entry.left_out


def test_of_objects_only_named_fields_are_taken() -> None:
    """Environment variables, commands, outputs and other software's annotations may be secret."""
    status: dict[str, Any] = {
        "phase": "Running",
        "containerStatuses": [
            {
                "name": "a",
                "image": "i",
                "lastState": {"terminated": {"exitCode": 1, "message": CANARY}},
            }
        ],
    }
    pod = {
        "metadata": {"name": "p", "namespace": "n", "annotations": {"a": CANARY}},
        "spec": {"containers": [{"env": [{"name": "A", "value": CANARY}], "args": [CANARY]}]},
        "status": status,
    }
    node = {
        "metadata": {"name": "n", "annotations": {"other": CANARY, "gpu-cluster/validation": "v"}},
        "spec": {"providerID": CANARY},
        "status": {"capacity": {"cpu": "1"}},
    }
    kept = [pod_of(pod), node_of(node)]
    assert CANARY not in json.dumps(kept)
    assert kept[0]["containers"][0]["last"] == {"terminated": {"exitCode": 1}}
    assert kept[1]["annotations"] == {"gpu-cluster/validation": "v"}


def test_texts_of_others_are_escaped_and_bounded() -> None:
    event = {"message": "\x1b[2J" + "x" * 9000, "involvedObject": {"kind": "Pod"}}
    message = event_of(event)["message"]
    assert message.isprintable()
    assert len(message) < 1200


def test_a_part_that_fails_or_is_too_large_is_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ends() -> str:
        raise SystemExit("no embedded cluster")

    def fails() -> str:
        raise OSError("no such file")

    monkeypatch.setattr(support_bundle, "LARGEST", 5)
    parts = [Part("a", "w", ends), Part("b", "w", fails), Part("c", "w", lambda: "123456"),
             Part("d", "w", lambda: "1234")]  # fmt: skip
    entries = [entry for entry, _ in collected(parts)]
    assert [each.left_out for each in entries] == [
        "no embedded cluster", "no such file", "6 bytes, at most 5", "",
    ]  # fmt: skip
    assert entries[-1].size == 4
    contents = Contents(stack="dev", entries=tuple(entries))
    assert list(lines(contents))[-1] == "support-bundle: 1 part of 4, nothing written"


def test_the_archive_begins_with_its_contents_and_names_no_owner() -> None:
    contents = Contents(stack="dev", entries=(Entry(name="a.json", what="w", size=2),))
    with tarfile.open(fileobj=io.BytesIO(archive(contents, {"a.json": b"{}"}))) as tar:
        members = tar.getmembers()
        assert [each.name for each in members] == [
            "support-dev/contents.json",
            "support-dev/a.json",
        ]
        assert {(each.mode, each.uid, each.uname, each.mtime) for each in members} == {
            (0o600, 0, "", 0)
        }
        first = tar.extractfile(members[0])
        assert first is not None
        assert json.loads(first.read())["entries"][0]["name"] == "a.json"


@pytest.mark.parametrize("asked", [True, False])
def test_the_contents_are_listed_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], asked: bool
) -> None:
    path = tmp_path / "bundle.tar.gz"
    monkeypatch.setattr(support_bundle, "parts", lambda _: (Part("a", "w", lambda: "x"),))
    monkeypatch.setenv("JSON", "1")
    support_bundle.main(file=str(path), only_list=asked)
    shown = capsys.readouterr()
    assert json.loads(shown.out)["entries"][0]["name"] == "a"
    assert shown.err.splitlines()[0] == "a: w: 1 bytes"
    assert path.exists() != asked
    if not asked:
        assert path.stat().st_mode & 0o777 == 0o600


def test_an_archive_that_can_not_be_written_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support_bundle, "parts", read_nothing)
    assert_refused(tmp_path, "bundle.tar.gz", support_bundle.main)


def test_a_secret_without_a_mark_is_left_out_if_its_key_says_so() -> None:
    document = {
        "aws:secretKey": CANARY,
        "extraValues": {"adminPassword": CANARY, "auth": {"token": CANARY}},
        "env": [{"name": "API_TOKEN", "value": CANARY}, {"name": "LEVEL", "value": "info"}],
        "registry": {"pullSecret": "registry", "automountServiceAccountToken": False},
    }
    kept = without_marked(document)
    assert CANARY not in json.dumps(kept)
    assert kept["registry"] == document["registry"]
    assert kept["env"][1] == {"name": "LEVEL", "value": "info"}


SECRETS = {
    "PULUMI_CONFIG_PASSPHRASE": f'{CANARY}"quoted',
    "AWS_SECRET_ACCESS_KEY": f"{CANARY}-aws",
    "PULUMI_ACCESS_TOKEN": f"{CANARY}-token",
    "SHORT_TOKEN": "x",
    "PATH": "/usr/bin:/bin",
}


def test_secrets_of_the_environment_are_hidden_wherever_they_stand(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{CANARY}-line\n-----END\n")
    environment = {
        **SECRETS, "GPU_CLUSTER_SSH_PRIVATE_KEY_FILE": str(key), "LOST_TOKEN_FILE": str(tmp_path),
    }  # fmt: skip
    secrets = support_bundle.own_secrets(environment)
    assert len(secrets) == 4

    def fails() -> str:
        raise OSError(f"cannot open postgres://user:{CANARY}-url@host/db with {CANARY}-token")

    text = json.dumps({"a": SECRETS["PULUMI_CONFIG_PASSPHRASE"], "b": f"x {CANARY}-line y"})
    found = list(collected([Part("a", "w", lambda: text), Part("b", "w", fails)], secrets))
    assert CANARY not in str(found)
    assert json.loads(found[0][1]) == {"a": support_bundle.SECRET, "b": "x [secret] y"}
    assert found[1][0].left_out == "cannot open postgres://[secret]@host/db with [secret]"


def test_an_address_without_a_user_stays() -> None:
    text = "https://host:6443/a@b and oci://registry/x"
    assert support_bundle.hidden(text, ()) == text
