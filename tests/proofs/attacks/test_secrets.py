"""Attack: secrets in stack files, Pulumi state, diffs, logs or error messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_provider import operations
from command_provider.output import Redactor

from gpu_cluster.commands import stack
from gpu_cluster.loading.loader import load
from gpu_rules.faults import ConfigError
from tests.toolchain.plugins.rig import Failed, Plugin

CANARY = "canary5f1d0c2bb7"
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKvDyV1cmEiXz9dP0UXFkyBKtNBYLVgEdSOvVr4fsW1F"
SUM = "a" * 64
ADDRESS = f"https://user:{CANARY}@mirror.example.org/deb"
DOCUMENT: dict[str, Any] = {
    "version": "v1",
    "kubernetes": {"context": "test"},
    "pools": [{"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": 8}],
    "hosts": [{"name": "gpu-1", "address": "192.0.2.11", "hostKey": HOST_KEY}],
    "platform": "device-plugin",
}
EXPOSED: dict[str, dict[str, Any]] = {
    "a repository": {
        "packages": {"install": ["htop"], "repositories": {"a": {"apt": {"url": ADDRESS}}}}
    },
    "a runfile": {"driver": {"runfile": {"sha256": SUM, "locations": [ADDRESS]}}},
    "a registry's mirror": {"registry": {"mirror": ADDRESS}},
    "a chart's repository": {"charts": {"repository": ADDRESS}},
    "a chart's value": {"devicePlugin": {"extraValues": {"anything": {"proxy": ADDRESS}}}},
    "a token alone": {"registry": {"mirror": f"https://{CANARY}@mirror.example.org"}},
    "a label": {"pools": [{**DOCUMENT["pools"][0], "labels": {"a": ADDRESS}}]},
}


@pytest.mark.parametrize("part", EXPOSED.values(), ids=EXPOSED.keys())
def test_an_address_with_a_password_is_refused_and_not_repeated(part: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as error:
        load(DOCUMENT | part)
    text = str(error.value)
    assert "an address with a user or password (not repeated here)" in text
    assert CANARY not in text


def test_addresses_without_a_user_are_taken() -> None:
    for text in ("https://mirror.example.org/a@b", "oci://ghcr.io/nvidia/chart", "user@host"):
        document = {**DOCUMENT, "pools": [{**DOCUMENT["pools"][0], "labels": {"a": text}}]}
        with pytest.raises(ConfigError) as error:
            load(document)  # The text is invalid as a label value, but it is no secret.
        assert "(not repeated here)" not in str(error.value)


JSON = json.dumps({"context": "test", "privateKey": f"-----BEGIN\n{CANARY}\n-----END", "n": 1})


@pytest.mark.parametrize(
    "secret",
    [
        JSON,
        json.dumps({"auths": {"registry.example.org": {"auth": CANARY}}}),
        json.dumps({"inner": JSON}),
        f"GC_STEPS='a b'\nGC_JOIN='{json.dumps({'discovery': {'token': CANARY}})}'\n",
        f"export JOIN_TOKEN={CANARY}\nrun\n",
        f'PASSWORD="{CANARY}"',
        CANARY,
        f"first\n  {CANARY}\nlast",
    ],
    ids=["JSON", "registry", "JSON in JSON", "script", "export", "quoted", "alone", "lines"],
)
def test_a_secret_is_blanked_also_where_it_stands_in_a_document(secret: str) -> None:
    redact = Redactor([secret])
    for text in (f"error: {CANARY} was refused", f'{{"token":"{CANARY}"}}', secret):
        assert CANARY not in redact(text)
    assert redact("context test on 127.0.0.1") == "context test on 127.0.0.1"


def test_no_error_of_a_command_shows_what_its_secret_input_holds() -> None:
    plugin = Plugin()
    try:
        with pytest.raises(Failed) as error:
            plugin.create(
                "command:local:Command",
                create="grep -o 'canary[0-9a-f]*'; exit 1",
                stdin={"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
                       "value": JSON},
            )  # fmt: skip
    finally:
        plugin.close()
    assert "[secret]" in str(error.value)
    assert CANARY not in str(error.value) + plugin.shown


@pytest.mark.parametrize("held", [True, False], ids=["with secrets", "without"])
def test_a_stack_file_keeps_the_salt_that_its_own_secrets_need(
    held: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack, "ROOT", tmp_path)
    monkeypatch.setenv("GPU_CLUSTER_CACHE", str(tmp_path / "cache"))
    declared = DOCUMENT | {"kubernetes": {"context": "gpu-cluster-own"}}
    token = {"gpu-cluster:licenseToken": {"secure": "v1:def"}} if held else {}
    own = stack.Stack("own")
    salt = "encryptionsalt: v1:abc\n"
    text = yaml.safe_dump({"config": {"gpu-cluster:cluster": declared, **token}})
    own.file.write_text(salt + text)
    with own.unsalted():
        # Pulumi writes the encryption salt into the stack file again.
        own.file.write_text(salt + text)
    assert own.file.read_text() == (salt if held else "") + text


class Silent:
    """Log that discards all lines."""

    def status(self, line: str) -> None: ...
    def warning(self, text: str) -> None: ...


def test_an_error_names_where_a_connection_goes_and_none_of_its_keys() -> None:
    end = {"host": "127.0.0.1", "port": 2222.0, "user": "root", "privateKey": CANARY}
    connection = {
        "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
        "value": {**end, "proxy": {"host": "192.0.2.1", "user": "jump", "password": f"{CANARY}p"}},
    }
    job = operations.Job("", {"connection": connection}, {}, Silent())
    text = f"http://127.0.0.1:2222 of /root by jump@192.0.2.1: {CANARY} {CANARY}p"
    shown = "http://127.0.0.1:2222 of /root by jump@192.0.2.1: [secret] [secret]"
    assert [redact(text) for redact in job.redactors()] == [shown, shown]
