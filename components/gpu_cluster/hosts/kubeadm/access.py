"""Parser of the output of a new cluster's control-plane host: token, hashes and kubeconfig.

The host is the least trusted party. A kubeconfig can name a program that the next client runs
(`exec`), a proxy, or files of the engineer's machine (k8s.io/client-go v0.34
tools/clientcmd/api/v1/types.go). So only four values are read, each value is checked, and any other
key is an error.
The expected form is that of kubeadm v1.34 (cmd/kubeadm/app/util/kubeconfig/kubeconfig.go,
CreateWithCerts).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from gpu_cluster.base.yaml_file import parse
from gpu_cluster.ssh.answers import Channel
from gpu_rules.faults import Fault, FaultError, InputError
from gpu_rules.printable import printable

SIZE_LIMIT: Final = 64 * 1024
"""Maximum number of characters of the host's output; kubeadm's admin.conf has about 5,600."""
DATA_LIMIT: Final = 16 * 1024
"""Maximum number of characters of one base64 value."""
CERTIFICATES: Final = 4
"""Maximum number of certificates in one value.

Two are usual while a certificate authority is being replaced by hand.
"""
NAME_LIMIT: Final = 253
"""Maximum number of characters of the cluster, user and context names in the kubeconfig."""
_SHOWN: Final = 60

FIRST_LINE = re.compile(r"([a-z0-9]{6}\.[a-z0-9]{16})((?: sha256:[0-9a-f]{64}){1,4})")
"""Pattern of the first line that `access.sh` prints.

The line has a bootstrap token and the hashes of the certificate authority's public keys.
"""
_KEY = re.compile(
    r"-----BEGIN ((?:RSA |EC )?PRIVATE KEY)-----\n(?:[A-Za-z0-9+/=]{1,64}\n)+-----END \1-----\n?"
)
_TOP = frozenset({"apiVersion", "kind", "clusters", "users", "contexts", "current-context"})


@dataclass(frozen=True)
class Administrator:
    """Administrator's access to the cluster: everything that is read from the kubeconfig.

    Attributes:
        server: URL of the API server, as declared.
        authority: The cluster's certificate authority, PEM in base64.
        certificate: Client certificate, PEM in base64.
        key: Client key in base64. The function `check_key` checks it.
    """

    server: str
    authority: str
    certificate: str
    key: str = field(repr=False)

    @property
    def cluster(self) -> dict[str, str]:
        """Return the kubeconfig's entry for the cluster."""
        return {"server": self.server, "certificate-authority-data": self.authority}

    @property
    def user(self) -> dict[str, str]:
        """Return the kubeconfig's entry for the user."""
        return {"client-certificate-data": self.certificate, "client-key-data": self.key}


@dataclass(frozen=True)
class Access:
    """Values that give access to a new cluster.

    Attributes:
        token: kubeadm's bootstrap token.
        hashes: Hashes of the public keys of the cluster's authority, each `sha256:…`.
        administrator: Administrator's access to the cluster.
    """

    token: str = field(repr=False)
    hashes: tuple[str, ...]
    administrator: Administrator


def _read_access(text: str, host: str, endpoint: str) -> Access:
    """Parse what the script of `access_script` printed on the control-plane host.

    Args:
        text: Output of the host.
        host: Name of the host, for errors.
        endpoint: Declared host:port of the API server.

    Raises:
        FaultError: The output isn't exactly what a control-plane host prints. The error
            contains nothing that may be secret.
    """
    line, _, kubeconfig = text.partition("\n")
    first = FIRST_LINE.fullmatch(line)
    if first is None:
        wanted = "a bootstrap token of kubeadm and 1 to 4 hashes sha256:…"
        raise _refused_answer(host, "another first line (not repeated here)", wanted)
    hashes = tuple(first[2].split())
    return Access(first[1], hashes, _read_administrator(kubeconfig, host, endpoint, hashes))


def _read_administrator(
    text: str, host: str, endpoint: str, hashes: tuple[str, ...]
) -> Administrator:
    try:
        document = parse(text).value
    except InputError as error:
        raise _refused_answer(host, f"a kubeconfig with {error.found}", error.wanted) from None
    top = _checked_fields(document, "the kubeconfig", host, _TOP, frozenset({"preferences"}))
    for key, wanted in (("apiVersion", "v1"), ("kind", "Config")):
        if top[key] != wanted:
            raise _refused_answer(host, f"another {key} of the kubeconfig", wanted)
    if top.get("preferences"):
        raise _refused_answer(host, "preferences in the kubeconfig", "none")
    _single_entry(top, "contexts", "context", host, frozenset({"cluster", "user"}))
    cluster = _single_entry(
        top, "clusters", "cluster", host, frozenset({"server", "certificate-authority-data"})
    )
    user = _single_entry(
        top, "users", "user", host, frozenset({"client-certificate-data", "client-key-data"})
    )
    if cluster["server"] != f"https://{endpoint}":
        found = f"the server {printable(cluster['server'], _SHOWN)} in the kubeconfig"
        raise _refused_answer(
            host, found, f"https://{endpoint}, as kubernetesPackages.init.endpoint says"
        )
    authority = _read_certificates(cluster, "certificate-authority-data", host)
    for certificate in authority:
        if (found := _hash(certificate, host)) not in hashes:
            wanted = f"one that kubeadm printed: {' '.join(hashes)}"
            raise _refused_answer(host, f"an authority with the public key {found}", wanted)
    client = _encode_certificates(_read_certificates(user, "client-certificate-data", host))
    _decode_value(user, "client-key-data", host)
    return Administrator(
        cluster["server"], _encode_certificates(authority), client, user["client-key-data"]
    )


ACCESS = Channel("access", SIZE_LIMIT, _read_access)


def check_key(administrator: Administrator) -> None:
    """Check that the client key is valid and belongs to the client certificate.

    In a preview that reads the Pulumi state, a placeholder replaces the secret key. So the key is
    only checked when the kubeconfig is written, not when the host's output is parsed.

    Raises:
        FaultError: The key is not valid or does not belong to the certificate.
    """
    refused = FaultError(
        Fault(
            "administrator's kubeconfig of the new cluster",
            "a client key (not repeated here) that can't be used",
            "the unencrypted private key, in PEM, of the client certificate",
            "inspect /etc/kubernetes/admin.conf on the control-plane host",
        )
    )
    try:
        pem = base64.b64decode(administrator.key, validate=True)
        if not _KEY.fullmatch(pem.decode("ascii")):
            raise refused
        key = load_pem_private_key(pem, None).public_key()
        first = x509.load_pem_x509_certificate(base64.b64decode(administrator.certificate))
        if _public_key_bytes(key) != _public_key_bytes(first.public_key()):
            raise refused
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion):
        raise refused from None


def _checked_fields(
    value: Any,
    place: str,
    host: str,
    required: frozenset[str],
    optional: frozenset[str] = frozenset(),
) -> Mapping[str, Any]:
    """Return a kubeconfig's mapping after checking that no key is missing or unknown."""
    if not isinstance(value, dict):
        raise _refused_answer(host, f"no mapping in the place of {place}", "a mapping")
    for key in value:
        if key not in required | optional:
            found = f"the key {printable(str(key), _SHOWN)} in {place}"
            raise _refused_answer(host, found, f"no keys but {', '.join(sorted(required))}")
    if missing := sorted(required - value.keys()):
        raise _refused_answer(host, f"no {missing[0]} in {place}", f"{', '.join(sorted(required))}")
    return value


def _single_entry(
    top: Mapping[str, Any], kind: str, name: str, host: str, required: frozenset[str]
) -> Mapping[str, str]:
    """Return the content of a kubeconfig list's single entry; all of its values are text."""
    entries = top[kind]
    if not isinstance(entries, list) or len(entries) != 1:
        raise _refused_answer(host, f"not one entry in {kind} of the kubeconfig", "exactly one")
    entry = _checked_fields(
        entries[0], f"{kind}[0] of the kubeconfig", host, frozenset({"name", name})
    )
    place = f"{kind}[0].{name} of the kubeconfig"
    content = _checked_fields(entry[name], place, host, required)
    for key, text in content.items():
        if not isinstance(text, str) or len(text) > DATA_LIMIT:
            raise _refused_answer(host, f"no text of usual length as {key} in {place}", "one")
    if not isinstance(entry["name"], str) or len(entry["name"]) > NAME_LIMIT:
        raise _refused_answer(
            host, f"no name of usual length in {kind}[0] of the kubeconfig", "one"
        )
    return content


def _decode_value(content: Mapping[str, str], key: str, host: str) -> bytes:
    try:
        return base64.b64decode(content[key], validate=True)
    except (binascii.Error, ValueError):
        raise _refused_answer(host, f"no base64 as {key} of the kubeconfig", "base64") from None


def _read_certificates(content: Mapping[str, str], key: str, host: str) -> list[x509.Certificate]:
    pem = _decode_value(content, key, host)
    try:
        certificates = x509.load_pem_x509_certificates(pem)
    except (ValueError, TypeError, x509.InvalidVersion):
        raise _refused_answer(host, f"no certificates as {key} of the kubeconfig", "PEM") from None
    if len(certificates) > CERTIFICATES:
        wanted = f"at most {CERTIFICATES}"
        raise _refused_answer(
            host, f"{len(certificates)} certificates as {key} of the kubeconfig", wanted
        )
    return certificates


def _encode_certificates(certificates: list[x509.Certificate]) -> str:
    """Return certificates in the form of a kubeconfig, without any text around them."""
    pem = b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)
    return base64.b64encode(pem).decode()


def _hash(certificate: x509.Certificate, host: str) -> str:
    """Return the hash of a public key (kubernetes v1.34 cmd/kubeadm/app/util/pubkeypin)."""
    try:
        return f"sha256:{hashlib.sha256(_public_key_bytes(certificate.public_key())).hexdigest()}"
    except (ValueError, UnsupportedAlgorithm):
        raise _refused_answer(
            host, "an authority whose public key can't be read", "RSA or EC"
        ) from None


def _public_key_bytes(key: Any) -> bytes:
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return encoded


def _refused_answer(host: str, found: str, wanted: str) -> FaultError:
    return FaultError(
        Fault(
            f"host {host}, its answer about the new cluster",
            found,
            wanted,
            f"do not trust {host} until you know why: compare /etc/kubernetes/admin.conf there "
            "with what kubeadm writes. No part of the response was used",
        )
    )
