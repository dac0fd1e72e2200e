"""What stands in the place of a stack's secrets where previews see its state."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from components.hosts.keys import shortest
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


def placeholder(name: str) -> str:
    """The placeholder of the stack's secret of that name."""
    return PLACEHOLDERS.get(name, OTHER)


def blinded(state: Json, secrets: Mapping[str, str]) -> Json:
    """A state, exported with its secrets in clear, in which a placeholder stands for each of them.

    A text that holds one among other things, such as a script, keeps the rest: a preview finds
    it unchanged.

    Args:
        state: what ``pulumi stack export --show-secrets`` prints.
        secrets: the stack's secrets by their configuration key.

    Raises:
        FaultError: something of a secret is left; nothing of it is repeated.
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
        return value
    if isinstance(value, dict):
        return {key: _replace(item, pairs) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace(item, pairs) for item in value]
    return value


def _check(text: str, secrets: Iterable[tuple[str, str]]) -> None:
    for name, secret in secrets:
        lines = {line.strip() for form in _forms(secret) for line in form.splitlines()}
        told = {line for line in lines if len(line) >= SHORTEST and not line.startswith("-----")}
        if any(line in text and line not in placeholder(name) for line in told):
            raise FaultError(
                Fault(
                    "state for previews",
                    f"a part of {name} (not repeated here)",
                    "none",
                    "report it: this program doesn't know the form in which the state holds it",
                )
            )
