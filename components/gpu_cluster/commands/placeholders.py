"""Replacement of the secret values in a stack's state by placeholders, for previews.

Only the engine's secret mark decides which values are secret, never their spelling. A secret value
is replaced by the value that the program declares when all secrets of the stack are placeholders.
If that value is not known, only the texts are kept that the same state also contains without a
secret mark.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from gpu_cluster.hosts.credentials import TOKEN
from gpu_cluster.property_values import (
    SECRET,
    SIGNATURE,
    has_unknown,
    is_secret,
)
from gpu_rules.faults import Fault, FaultError

Json = dict[str, Any]

OTHER = "placeholder"
# The placeholder for each secret of the stack. The program checks the format of some secrets, so
# their placeholders have a valid format.
PLACEHOLDERS = {
    "gpu-cluster:sshPrivateKey": "placeholder: previews log in with GPU_CLUSTER_PROBE_KEY_FILE",
    "gpu-cluster:kubeadmToken": "000000.0000000000000000",
    "gpu-cluster:registryCredentials": '{"auths": {}}',
}
MAKES_ACCESS = "gpucluster:index:KubeadmCluster$command:remote:Command::"
"""Part of the URN of a Command that prints the credentials for a new cluster."""
FIRST_LINE = re.compile(rf"{TOKEN.pattern}((?: sha256:[0-9a-f]{{64}}){{1,4}})")
SERVER = re.compile(r"https://[A-Za-z0-9.:\[\]-]{1,300}")
CERTIFICATES = re.compile(
    rb"(?:-----BEGIN CERTIFICATE-----\n(?:[A-Za-z0-9+/=]{1,64}\n)+-----END CERTIFICATE-----\n)+"
)


def placeholder(name: str) -> str:
    """Return the placeholder for the stack's secret with that name."""
    return PLACEHOLDERS.get(name, OTHER)


def blinded(state: Json, declared: Mapping[str, Json], secrets: Mapping[str, str]) -> Json:
    """Return a copy of a state in which each value that is marked secret is a placeholder.

    Args:
        state: The output of ``pulumi stack export --show-secrets``.
        declared: The inputs that the program declares if all secrets are placeholders, by URN.
        secrets: The stack's secrets by their configuration key.

    Raises:
        FaultError: A secret is part of a value without a secret mark. The error does not contain
            the secret.
    """
    public = frozenset(_walk_scalars(state))
    for name, secret in secrets.items():
        if secret and any(secret in text for text in public if isinstance(text, str)):
            raise _unmarked_secret(name)
    deployment = state["deployment"]
    resources = [
        _blind_resource(resource, declared.get(resource["urn"], {}), public)
        for resource in deployment.get("resources") or []
    ]
    other_fields = {key: value for key, value in deployment.items() if key != "resources"}
    return {
        **state,
        "deployment": {**_blind_value(other_fields, None, public, {}), "resources": resources},
    }


def is_complete(state: Json, declared: Mapping[str, Json]) -> bool:
    """Return whether the program declares a known value for each secret input in the state."""
    return all(
        _is_known_value(resource.get("inputs", {}), declared.get(resource["urn"], {}))
        for resource in state["deployment"].get("resources") or []
    )


def _is_known_value(value: Any, declared: Any) -> bool:
    if is_secret(value):
        return declared is not None and not has_unknown(declared)
    return all(_is_known_value(item, _item_at(declared, key)) for key, item in _items_of(value))


def _blind_resource(resource: Json, declared: Json, public: frozenset[Any]) -> Json:
    """Return a resource with placeholders.

    If an output of the resource was equal to one of its secret inputs, both get the same
    placeholder.
    """
    twins: dict[str, Any] = {}
    inputs = _blind_value(resource.get("inputs", {}), declared, public, twins)
    other_fields = {key: value for key, value in resource.items() if key != "inputs"}
    printed = resource.get("outputs", {}).get("stdout")
    if MAKES_ACCESS in resource["urn"] and is_secret(printed):
        twins[_secret_key(printed)] = blinded_access(_plaintext_of(printed))
    blind: Json = _blind_value(other_fields, None, public, twins)
    return {**blind, "inputs": inputs} if "inputs" in resource else blind


def blinded_access(text: Any) -> str:
    """Return the output of a new cluster's first host with placeholders for the token and the key.

    The program reads this text in each preview. Its other parts are public and are kept: the hash
    of the certificate authority's key, the server and the certificates. A text in any other format
    is replaced as a whole.

    Args:
        text: A line with a bootstrap token and hashes, followed by kubeadm's admin.conf.
    """
    line, _, kubeconfig = str(text).partition("\n")
    try:
        document = yaml.safe_load(kubeconfig)
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        cluster_fields = {
            "server": str(cluster["server"]),
            "certificate-authority-data": str(cluster["certificate-authority-data"]),
            "client-certificate-data": str(user["client-certificate-data"]),
        }
        certificates = [
            base64.b64decode(cluster_fields[name], validate=True)
            for name in list(cluster_fields)[1:]
        ]
    except (yaml.YAMLError, TypeError, KeyError, IndexError, ValueError):
        return OTHER
    is_public = all(map(CERTIFICATES.fullmatch, certificates)) and SERVER.fullmatch(
        cluster_fields["server"]
    )
    hashes = FIRST_LINE.fullmatch(line)
    if not hashes or not is_public:
        return OTHER
    key = base64.b64encode(placeholder("gpu-cluster:sshPrivateKey").encode()).decode()
    users = {
        "client-certificate-data": cluster_fields.pop("client-certificate-data"),
        "client-key-data": key,
    }
    blind = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": OTHER, "cluster": cluster_fields}],
        "users": [{"name": OTHER, "user": users}],
        "contexts": [{"name": OTHER, "context": {"cluster": OTHER, "user": OTHER}}],
        "current-context": OTHER,
    }
    return f"{placeholder('gpu-cluster:kubeadmToken')}{hashes[1]}\n{yaml.safe_dump(blind)}"


def _plaintext_of(secret: Json) -> Any:
    return json.loads(secret.get("plaintext", "null"))


def _secret_key(secret: Json) -> str:
    """Return the JSON text of a secret with sorted keys, so that equal secrets have equal texts."""
    return json.dumps(_plaintext_of(secret), sort_keys=True)


def _blind_value(value: Any, declared: Any, public: frozenset[Any], twins: dict[str, Any]) -> Any:
    """Return a part of the state with placeholders for its secret values.

    Args:
        value: A part of the state.
        declared: The value that the program declares for that part; None if it is not known.
        public: The texts and numbers that the state contains without a secret mark.
        twins: The placeholder of each secret, by the secret's JSON text. This function adds the
            placeholders that the program declares.
    """
    if is_secret(value):
        secret_text = _secret_key(value)
        if declared is not None and not has_unknown(declared):
            twins[secret_text] = declared
        content = (
            twins[secret_text]
            if secret_text in twins
            else _hide_value(_plaintext_of(value), public)
        )
        return {SIGNATURE: SECRET, "plaintext": json.dumps(content)}
    if isinstance(value, dict):
        return {
            key: _blind_value(item, _item_at(declared, key), public, twins)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _blind_value(item, _item_at(declared, index), public, twins)
            for index, item in enumerate(value)
        ]
    return value


def _hide_value(value: Any, public: frozenset[Any]) -> Any:
    """Return a copy of a secret value with placeholders for all parts that are not public."""
    if isinstance(value, dict):
        return {
            key if key in public else f"{OTHER}-{number}": _hide_value(item, public)
            for number, (key, item) in enumerate(value.items())
        }
    if isinstance(value, list):
        return [_hide_value(item, public) for item in value]
    if value is None or isinstance(value, bool) or value == "" or value in public:
        return value
    return _opaque_text(value, public) if isinstance(value, str) else 0


def _opaque_text(text: str, public: frozenset[Any]) -> str:
    """Return a placeholder for a secret text; in a JSON object, keep the public parts."""
    try:
        document = json.loads(text)
    except ValueError:
        return OTHER
    return json.dumps(_hide_value(document, public)) if isinstance(document, dict) else OTHER


def _walk_scalars(value: Any) -> Iterator[Any]:
    """Yield each key, text and number of a value without a secret mark, also inside JSON texts."""
    if is_secret(value):
        return
    for key, item in _items_of(value):
        yield from (key, *_walk_scalars(item)) if isinstance(key, str) else _walk_scalars(item)
    if isinstance(value, str):
        yield value
        if value.startswith("{"):
            try:
                yield from _walk_scalars(json.loads(value))
            except ValueError:
                return
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def _items_of(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _item_at(value: Any, key: Any) -> Any:
    """Return the item of a mapping or list at a key or index; None if it is missing."""
    if isinstance(value, dict):
        return value.get(key)
    return value[key] if isinstance(value, list) and key < len(value) else None


def _unmarked_secret(name: str) -> FaultError:
    return FaultError(
        Fault(
            "state for previews",
            f"{name} in a value that isn't marked secret (not repeated here)",
            "each secret in a value that is",
            "report it: the program must declare that value with pulumi.Output.secret",
        )
    )
