"""The SSH private key in the Pulumi state: the same key in its shortest format."""

from __future__ import annotations

import asyncssh
import pytest

from gpu_cluster.ssh.keys import shortest

OPENSSH = "-----BEGIN OPENSSH PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("algorithm", "longest"),
    [("ssh-ed25519", 119), ("ecdsa-sha2-nistp256", 241), ("ssh-rsa", 3000)],
)
def test_a_key_is_the_same_one_and_shorter(algorithm: str, longest: int) -> None:
    made = asyncssh.generate_private_key(algorithm)
    key = made.export_private_key("openssh").decode()
    assert key.startswith(OPENSSH)
    short = shortest(key)
    assert len(short) <= min(longest, len(key))
    assert asyncssh.import_private_key(short).export_public_key() == made.export_public_key()
    assert shortest(short) == short


@pytest.mark.parametrize("text", ["", "not a key", f"{OPENSSH}AAAA\n", "\N{SNOWMAN}"])
def test_what_is_no_key_stays_for_the_inspection_to_name(text: str) -> None:
    assert shortest(text) == text


def test_a_key_with_a_passphrase_stays_as_it_is() -> None:
    made = asyncssh.generate_private_key("ssh-ed25519")
    key = made.export_private_key("openssh", passphrase="secret").decode()
    assert shortest(key) == key


def test_a_key_that_another_program_wrote_stays_as_it_is() -> None:
    for form in ("pkcs1-pem", "pkcs8-pem"):
        key = asyncssh.generate_private_key("ssh-rsa").export_private_key(form).decode()
        assert shortest(key) == key
