"""Replace each value that a stack's state marks secret by a placeholder, for previews.

What is secret is decided by the engine's mark alone, not by how a value is spelled. A marked value
is replaced by what the program declares there when each of the stack's secrets is a placeholder. If
that is not known, only texts that the same state publishes without a mark are kept.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from components.hosts.credentials import TOKEN
from policies.faults import Fault, FaultError
from toolchain.plugins.command_provider.values import SECRET, SIGNATURE, has_unknown, is_secret

Json = dict[str, Any]

OTHER = "placeholder"
#: By the stack's secret, a text of its form: the program checks the form before it uses the secret.
PLACEHOLDERS = {
    "gpu-cluster:sshPrivateKey": "placeholder: previews log in with GPU_CLUSTER_PROBE_KEY_FILE",
    "gpu-cluster:kubeadmToken": "000000.0000000000000000",
    "gpu-cluster:registryCredentials": '{"auths": {}}',
}
MAKES_ACCESS = "gpucluster:index:KubeadmCluster$command:remote:Command::"
"""In the URN of a Command that prints the access to a new cluster."""
FIRST_LINE = re.compile(rf"{TOKEN.pattern}((?: sha256:[0-9a-f]{{64}}){{1,4}})")
SERVER = re.compile(r"https://[A-Za-z0-9.:\[\]-]{1,300}")
CERTIFICATES = re.compile(
    rb"(?:-----BEGIN CERTIFICATE-----\n(?:[A-Za-z0-9+/=]{1,64}\n)+-----END CERTIFICATE-----\n)+"
)


def placeholder(name: str) -> str:
    """Return the placeholder of the stack's secret of that name."""
    return PLACEHOLDERS.get(name, OTHER)


def blinded(state: Json, declared: Mapping[str, Json], secrets: Mapping[str, str]) -> Json:
    """Return a state in which a placeholder stands for each value that is marked secret.

    Args:
        state: what ``pulumi stack export --show-secrets`` prints.
        declared: by URN, the inputs that the program declares from placeholders.
        secrets: the stack's secrets by their configuration key.

    Raises:
        FaultError: a secret stands in a value without a mark. Nothing of it is repeated.
    """
    public = frozenset(_scalars(state))
    for name, secret in secrets.items():
        if secret and any(secret in text for text in public if isinstance(text, str)):
            raise _unmarked(name)
    deployment = state["deployment"]
    resources = [
        _resource(resource, declared.get(resource["urn"], {}), public)
        for resource in deployment.get("resources") or []
    ]
    rest = {key: value for key, value in deployment.items() if key != "resources"}
    return {**state, "deployment": {**_blind(rest, None, public, {}), "resources": resources}}


def is_complete(state: Json, declared: Mapping[str, Json]) -> bool:
    """Return whether the program's declaration is known for each secret input of the state."""
    return all(
        _is_known(resource.get("inputs", {}), declared.get(resource["urn"], {}))
        for resource in state["deployment"].get("resources") or []
    )


def _is_known(value: Any, declared: Any) -> bool:
    if is_secret(value):
        return declared is not None and not has_unknown(declared)
    return all(_is_known(item, _at(declared, key)) for key, item in _items(value))


def _resource(resource: Json, declared: Json, public: frozenset[Any]) -> Json:
    """Return a resource whose outputs repeat its inputs where they did so before."""
    twins: dict[str, Any] = {}
    inputs = _blind(resource.get("inputs", {}), declared, public, twins)
    rest = {key: value for key, value in resource.items() if key != "inputs"}
    printed = resource.get("outputs", {}).get("stdout")
    if MAKES_ACCESS in resource["urn"] and is_secret(printed):
        twins[_known(printed)] = blinded_access(_plain(printed))
    blind: Json = _blind(rest, None, public, twins)
    return {**blind, "inputs": inputs} if "inputs" in resource else blind


def blinded_access(text: Any) -> str:
    """Return what a new cluster's host prints, with placeholders for the token and the key.

    The program reads that text in each preview. The rest of it is public: the hash of the
    authority's key, the server, the certificates. A text of any other form becomes a placeholder.

    Args:
        text: a bootstrap token and hashes, then kubeadm's admin.conf.
    """
    line, _, kubeconfig = str(text).partition("\n")
    try:
        document = yaml.safe_load(kubeconfig)
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        kept = {
            "server": str(cluster["server"]),
            "certificate-authority-data": str(cluster["certificate-authority-data"]),
            "client-certificate-data": str(user["client-certificate-data"]),
        }
        certificates = [base64.b64decode(kept[name], validate=True) for name in list(kept)[1:]]
    except (yaml.YAMLError, TypeError, KeyError, IndexError, ValueError):
        return OTHER
    is_public = all(map(CERTIFICATES.fullmatch, certificates)) and SERVER.fullmatch(kept["server"])
    hashes = FIRST_LINE.fullmatch(line)
    if not hashes or not is_public:
        return OTHER
    key = base64.b64encode(placeholder("gpu-cluster:sshPrivateKey").encode()).decode()
    users = {"client-certificate-data": kept.pop("client-certificate-data"), "client-key-data": key}
    blind = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": OTHER, "cluster": kept}],
        "users": [{"name": OTHER, "user": users}],
        "contexts": [{"name": OTHER, "context": {"cluster": OTHER, "user": OTHER}}],
        "current-context": OTHER,
    }
    return f"{placeholder('gpu-cluster:kubeadmToken')}{hashes[1]}\n{yaml.safe_dump(blind)}"


def _plain(secret: Json) -> Any:
    return json.loads(secret.get("plaintext", "null"))


def _known(secret: Json) -> str:
    """Return a secret's JSON in one form."""
    return json.dumps(_plain(secret), sort_keys=True)


def _blind(value: Any, declared: Any, public: frozenset[Any], twins: dict[str, Any]) -> Any:
    """Return a value with placeholders.

    Args:
        value: a part of the state.
        declared: what the program declares there, or None.
        public: what the state publishes without a mark.
        twins: by a secret's JSON, its placeholder; filled with those that the program declares.
    """
    if is_secret(value):
        known = _known(value)
        if declared is not None and not has_unknown(declared):
            twins[known] = declared
        content = twins[known] if known in twins else _opaque(_plain(value), public)
        return {SIGNATURE: SECRET, "plaintext": json.dumps(content)}
    if isinstance(value, dict):
        return {key: _blind(item, _at(declared, key), public, twins) for key, item in value.items()}
    if isinstance(value, list):
        return [
            _blind(item, _at(declared, index), public, twins) for index, item in enumerate(value)
        ]
    return value


def _opaque(value: Any, public: frozenset[Any]) -> Any:
    """Return a value of the same types without anything that isn't public."""
    if isinstance(value, dict):
        return {
            key if key in public else f"{OTHER}-{number}": _opaque(item, public)
            for number, (key, item) in enumerate(value.items())
        }
    if isinstance(value, list):
        return [_opaque(item, public) for item in value]
    if value is None or isinstance(value, bool) or value == "" or value in public:
        return value
    return _opaque_text(value, public) if isinstance(value, str) else 0


def _opaque_text(text: str, public: frozenset[Any]) -> str:
    """Return a placeholder; of a JSON object one in which its public parts are left."""
    try:
        document = json.loads(text)
    except ValueError:
        return OTHER
    return json.dumps(_opaque(document, public)) if isinstance(document, dict) else OTHER


def _scalars(value: Any) -> Iterator[Any]:
    """Yield each text, number and key that stands without a mark, also within JSON."""
    if is_secret(value):
        return
    for key, item in _items(value):
        yield from (key, *_scalars(item)) if isinstance(key, str) else _scalars(item)
    if isinstance(value, str):
        yield value
        if value.startswith("{"):
            try:
                yield from _scalars(json.loads(value))
            except ValueError:
                return
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _at(value: Any, key: Any) -> Any:
    """Return an item of a mapping or list, None where it has none."""
    if isinstance(value, dict):
        return value.get(key)
    return value[key] if isinstance(value, list) and key < len(value) else None


def _unmarked(name: str) -> FaultError:
    return FaultError(
        Fault(
            "state for previews",
            f"{name} in a value that isn't marked secret (not repeated here)",
            "each secret in a value that is",
            "report it: the program must declare that value with pulumi.Output.secret",
        )
    )
