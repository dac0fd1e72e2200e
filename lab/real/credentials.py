"""Client certificate of a kubelet, signed by the CA of the embedded cluster."""

from __future__ import annotations

import base64
import datetime
import warnings
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAYS = 1


def kubeconfig(name: str, server: str, pki: Path) -> str:
    """Return a kubeconfig for the user `system:node:<name>` in the group `system:nodes`.

    The API server's Node authorizer grants rights to this user.
    """
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", CryptographyDeprecationWarning
        )  # Python warns about the CA certificate of kwokctl, because its serial number is 0.
        authority = x509.load_pem_x509_certificate((pki / "ca.crt").read_bytes())
    signer = serialization.load_pem_private_key((pki / "ca.key").read_bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{name}"),
        ]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())  # type: ignore[arg-type]
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "real",
            "clusters": [
                {
                    "name": "real",
                    "cluster": {
                        "server": server,
                        "certificate-authority": "/etc/kubernetes/ca.crt",
                    },
                }
            ],
            "users": [
                {"name": name, "user": _credential_data(certificate.public_bytes(pem), private)}
            ],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": name}}],
        }
    )


def _credential_data(certificate: bytes, private: bytes) -> dict[str, str]:
    return {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(private).decode(),
    }
