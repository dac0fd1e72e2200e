"""What stands in the place of a stack's secrets where previews see its state."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from components.hosts.keys import shortest
from components.secrets import TOKEN
from config.problem import Fault, FaultError
from toolchain.plugins.command_provider.values import SECRET, SIGNATURE, is_secret

Json = dict[str, Any]

SHORTEST = 8
"""Characters of a line of a secret that tell it from chance."""
OTHER = "placeholder"
#: By the stack's secret, something of its form: what is checked before it is used.
PLACEHOLDERS = {
    "gpu-cluster:sshPrivateKey": "placeholder: previews log in with GPU_CLUSTER_PROBE_KEY_FILE",
    "gpu-cluster:kubeadmToken": "000000.0000000000000000",
    "gpu-cluster:registryCredentials": '{"auths": {}}',
}

PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----(?:\\+n|\r?\n)?", re.S
)
"""One in PEM (RFC 7468), also in JSON, with the end of its last line."""
ENCODED_PEM = re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/]*={0,2}")
"""Base64 that begins as PEM does, as a kubeconfig has certificates and keys."""
BASE64 = re.compile(r"[A-Za-z0-9+/]{24,}")
BOOTSTRAP_TOKEN = re.compile(rf"(?<![a-z0-9.]){TOKEN.pattern}(?![a-z0-9.])")


def placeholder(name: str) -> str:
    """The placeholder of the stack's secret of that name."""
    return PLACEHOLDERS.get(name, OTHER)


def blinded(state: Json, secrets: Mapping[str, str]) -> Json:
    """A state, exported with its secrets in clear, in which a placeholder stands for each of them.

    A text that holds one among other things, such as a script, keeps the rest: a preview finds
    it unchanged. Private keys and bootstrap tokens go that are none of the stack's secrets, too: an
    SSH key from a file, the administrator's kubeconfig of a cluster that the stack made.

    Args:
        state: what ``pulumi stack export --show-secrets`` prints.
        secrets: the stack's secrets by their configuration key.

    Raises:
        FaultError: something of a secret, or a private key, is left; nothing of it is repeated.
    """
    spelled = [(name, text) for name in secrets for text in _spellings(secrets[name])]
    pairs = [
        (form, other)
        for name, text in sorted(spelled, key=lambda item: -len(item[1]))
        for form, other in zip(_forms(text), _forms(placeholder(name)), strict=True)
    ]
    result: Json = _walk(state, pairs)
    _check(json.dumps(result), spelled)
    return result


def _spellings(secret: str) -> set[str]:
    """A secret as the stack has it, and as a program declares it where it is a key."""
    return {secret, shortest(secret)} if secret else set()


def _forms(text: str) -> tuple[str, ...]:
    """A text as it stands alone, in JSON, in JSON within JSON, in a Secret's data."""
    once = json.dumps(text)[1:-1]
    return text, once, json.dumps(once)[1:-1], base64.b64encode(text.encode()).decode()


def _walk(value: Any, pairs: list[tuple[str, str]]) -> Any:
    if isinstance(value, dict):
        if is_secret(value) and "plaintext" in value:
            content = _replace(json.loads(value["plaintext"]), pairs)
            return {SIGNATURE: SECRET, "plaintext": json.dumps(content)}
        return {key: _walk(item, pairs) for key, item in value.items()}
    if isinstance(value, list):
        return [_walk(item, pairs) for item in value]
    return value


def _replace(value: Any, pairs: list[tuple[str, str]]) -> Any:
    if isinstance(value, str):
        for secret, other in pairs:
            value = value.replace(secret, other)
        return _unnamed(value)
    if isinstance(value, dict):
        return {key: _replace(item, pairs) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace(item, pairs) for item in value]
    return value


def _unnamed(text: str) -> str:
    """A text without the secrets that are known by their form alone."""
    key = placeholder("gpu-cluster:sshPrivateKey")

    def encoded(match: re.Match[str]) -> str:
        try:
            pem = base64.b64decode(match[0], validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return match[0]  # no PEM; what looks like a key in it is for the check to say
        other = PRIVATE_KEY.sub(key, pem)
        return match[0] if other == pem else base64.b64encode(other.encode()).decode()

    text = ENCODED_PEM.sub(encoded, PRIVATE_KEY.sub(key, text))
    return BOOTSTRAP_TOKEN.sub(placeholder("gpu-cluster:kubeadmToken"), text)


def _check(text: str, secrets: Iterable[tuple[str, str]]) -> None:
    for name, secret in secrets:
        lines = {line.strip() for form in _forms(secret) for line in form.splitlines()}
        told = {line for line in lines if len(line) >= SHORTEST and not line.startswith("-----")}
        if any(line in text and line not in placeholder(name) for line in told):
            raise _left(f"a part of {name}")
    marks = _marks(b"PRIVATE KEY-----")
    if any(mark in one for one in (text, *_decoded(text)) for mark in marks):
        raise _left("a private key")


def _decoded(text: str) -> Iterator[str]:
    """What stands in base64 there."""
    for run in BASE64.findall(text):
        for start in range(4):
            part = run[start : start + (len(run) - start) // 4 * 4]
            yield base64.b64decode(part).decode(errors="replace")


def _marks(part: bytes) -> set[str]:
    """A text as it stands alone, and in base64 from each of three places on."""
    encoded = {base64.b64encode(b"\0" * shift + part).decode()[4:-4] for shift in range(3)}
    return {part.decode(), *encoded}


def _left(found: str) -> FaultError:
    cure = "report it: this program doesn't know the form in which the state holds it"
    return FaultError(Fault("state for previews", f"{found} (not repeated here)", "none", cure))
