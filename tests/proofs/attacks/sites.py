"""Web servers on loopback, with and without TLS, that redirect requests."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gpu_cluster_lab.simulator.http_servers import QuietHandler


class Site:
    """Web server on loopback; run its `server`.

    Attributes:
        files: Content by path.
        moved: Target of a redirect by path.
        asked: Paths that were requested.
        address: URL of the server, without a slash at the end.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        """Create the server.

        Args:
            certificate: File with a private key and its certificate. None: the server has no TLS.
        """
        files: dict[str, bytes] = {}
        moved: dict[str, str] = {}
        asked: list[str] = []
        self.files, self.moved, self.asked = files, moved, asked

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                content = files.get(self.path)
                self.send_response(302 if self.path in moved else 404 if content is None else 200)
                if self.path in moved:
                    self.send_header("Location", moved[self.path])
                # Without a length, GnuTLS can't tell the end of a response from a cut one.
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if certificate:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.address = f"{scheme}://127.0.0.1:{self.server.server_port}"


def write_certificate(folder: Path) -> Path:
    """Write a private key and a self-signed certificate for 127.0.0.1; return the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    certificate = made.add_extension(address, critical=False).sign(key, hashes.SHA256())
    file = folder / "certificate.pem"
    encoding = serialization.Encoding.PEM
    form, secret = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file.write_bytes(key.private_bytes(encoding, form, secret) + certificate.public_bytes(encoding))
    return file
