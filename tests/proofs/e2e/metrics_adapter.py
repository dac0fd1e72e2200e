"""A server of custom metrics behind the real API server of an embedded cluster.

The API server decides who may read a metric, and forwards the request with its own client
certificate. A Service of type ExternalName leads it to the server, which listens on loopback only.
The responses have the form of `tests/commands/metrics.py`.
"""

from __future__ import annotations

import base64
import datetime
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gpu_cluster.commands.utilization import GROUP, METRIC, YOUNGEST
from gpu_cluster_lab.simulator.control_plane import ControlPlane
from gpu_cluster_lab.simulator.http_servers import QuietHandler
from tests.commands.metrics import VERSIONS, Json, values
from tests.proofs.e2e.project import Project

NAME = "metrics-adapter"
REGISTRATION = "/apis/apiregistration.k8s.io"
SECONDS = 60.0
"""Time limit until the API server forwards requests."""


class Adapter(ThreadingHTTPServer):
    """HTTPS server of one metric of pods; only the API server of the cluster may connect.

    Attributes:
        amounts: Value of each pod, by `namespace/name`.
        age: Seconds since the values were measured; by default they are of the future, so that
            the pods of a test are not too young to be judged.
        users: Users for whom the API server forwarded requests for values.
    """

    daemon_threads = True

    def __init__(self, certificate: Path, clients: Path) -> None:
        """Listen on a free port of 127.0.0.1.

        Args:
            certificate: File with the server's certificate and key.
            clients: File with the authority of the API server's client certificate.
        """
        super().__init__(("127.0.0.1", 0), _Handler)
        self.amounts: Mapping[str, str] = {}
        self.age = -YOUNGEST.total_seconds()
        self.users: set[str] = set()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )

    def response(self, path: str) -> Json | None:
        """Return the response for a path, or None for a path without one."""
        parts = path.strip("/").split("/")
        if parts[:2] != ["apis", GROUP] or parts[2:3] == [] or parts[2] not in VERSIONS:
            return None
        version, rest = parts[2], parts[3:]
        if not rest:
            resource = {"name": f"pods/{METRIC}", "namespaced": True, "kind": "MetricValueList",
                        "singularName": "", "verbs": ["get"]}  # fmt: skip
            return {"kind": "APIResourceList", "apiVersion": "v1",
                    "groupVersion": f"{GROUP}/{version}", "resources": [resource]}  # fmt: skip
        if len(rest) != 5 or [rest[0], *rest[2:]] != ["namespaces", "pods", "*", METRIC]:
            return None
        measured = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=self.age)
        own = {pod: it for pod, it in self.amounts.items() if pod.startswith(f"{rest[1]}/")}
        return values(version, own, f"{measured:%Y-%m-%dT%H:%M:%SZ}")


class _Handler(QuietHandler):
    server: Adapter
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = unquote(self.path.partition("?")[0])
        found = self.server.response(path)
        if "/namespaces/" in path:
            self.server.users.add(self.headers.get("X-Remote-User", ""))
        body = json.dumps(found or {"kind": "Status", "apiVersion": "v1", "code": 404}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _write_certificate(path: Path, name: str) -> str:
    """Write a key with a certificate for a host name; return the certificate in base64."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(names)
        .issuer_name(names)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    public = certificate.public_bytes(pem)
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.touch(mode=0o600)
    path.write_bytes(private + public)
    return base64.b64encode(public).decode()


@contextmanager
def adapter(project: Project, folder: Path, version: str) -> Iterator[Adapter]:
    """Let the cluster serve the metric in one version of the API while the context is open.

    Args:
        project: A project whose embedded cluster runs.
        folder: Folder for the server's key and certificate.
        version: Version of the API, such as `v1beta2`.
    """
    authority = _write_certificate(folder / "adapter.pem", f"{NAME}.default.svc")
    server = Adapter(folder / "adapter.pem", ControlPlane(project.stack).cluster / "pki" / "ca.crt")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    service = {
        "metadata": {"name": NAME},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    registered = {
        "metadata": {"name": f"{version}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "version": version,
            "service": {"namespace": "default", "name": NAME, "port": server.server_port},
            "caBundle": authority,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }
    place = f"apiservices/{version}.{GROUP}"
    try:
        project.request("POST", "namespaces/default/services", body=service)
        try:
            project.request("POST", "apiservices", base=REGISTRATION, body=registered)
            try:
                _await_available(project, place)
                yield server
            finally:
                project.request("DELETE", place, base=REGISTRATION)
        finally:
            project.request("DELETE", f"namespaces/default/services/{NAME}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _await_available(project: Project, place: str) -> None:
    """Wait until the API server has reached the server."""
    deadline = time.monotonic() + SECONDS
    while True:
        found = project.request("GET", place, base=REGISTRATION)
        conditions = found.get("status", {}).get("conditions", [])
        if any(each["type"] == "Available" and each["status"] == "True" for each in conditions):
            return
        assert time.monotonic() < deadline, conditions
        time.sleep(0.5)
