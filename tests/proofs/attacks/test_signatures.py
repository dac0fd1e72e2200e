"""The verb images verifies signatures that the real cosign wrote to a registry.

The tests need cosign v3, on PATH or named by the variable `COSIGN`. Build it from its Go module:
`go install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3` (1,700 packages).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from gpu_cluster.commands import images
from gpu_cluster.platforms.needed import Image
from gpu_cluster_lab.simulator.http_servers import QuietHandler, running
from tests.fixtures.programs import run_program

pytestmark = pytest.mark.full

COSIGN = os.environ.get("COSIGN") or shutil.which("cosign")
LIMIT = 120
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_PATH = re.compile(r"/v2/(?P<name>[a-z0-9/]+)/(?P<kind>manifests|blobs|referrers)/(?P<which>.*)")


class Registry:
    """Container registry that stores uploads (OCI Distribution Specification 1.1).

    Attributes:
        port: TCP port on 127.0.0.1.
        blobs: Content and media type, by digest, or by repository name and tag.
    """

    def __init__(self) -> None:
        self.blobs: dict[str, tuple[bytes, str]] = {}
        self.port = 0

    def put(self, content: bytes, kind: str, *, tag: str = "") -> str:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blobs[digest] = self.blobs[tag or digest] = (content, kind)
        return digest

    def image(self, name: str, text: str) -> str:
        """Store an image with one layer under the tag v1; return the image's digest."""
        described = []
        for kind, content in (("config.v1+json", b"{}"), ("layer.v1.tar", text.encode())):
            media = f"application/vnd.oci.image.{kind}"
            digest = self.put(content, media)
            described.append({"mediaType": media, "digest": digest, "size": len(content)})
        config, layer = described
        document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
        return self.put(json.dumps(document).encode(), MANIFEST, tag=f"{name}:v1")

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        held = self

        class Handler(QuietHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def do_GET(self) -> None:
                asked = _PATH.fullmatch(self.path)
                if self.path == "/v2/":
                    return self.answer(200)
                if asked is None or asked["kind"] == "referrers":
                    return self.answer(404)
                key = asked["which"]
                found = held.blobs.get(key) or held.blobs.get(f"{asked['name']}:{key}")
                if found is None:
                    return self.answer(404)
                digest = f"sha256:{hashlib.sha256(found[0]).hexdigest()}"
                self.answer(200, found[0], Content_Type=found[1], Docker_Content_Digest=digest)

            do_HEAD = do_GET

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.answer(202, Location=f"{self.path.rstrip('/')}/1")

            def do_PATCH(self) -> None:
                held.put(self.body(), "application/octet-stream")
                self.answer(202, Location=self.path)

            def do_PUT(self) -> None:
                asked = _PATH.fullmatch(self.path.partition("?")[0])
                body, kind = self.body(), self.headers.get("Content-Type", "")
                tag = f"{asked['name']}:{asked['which']}" if asked else ""
                if asked and asked["kind"] == "manifests":
                    return self.answer(201, Docker_Content_Digest=held.put(body, kind, tag=tag))
                if body:
                    held.put(body, "application/octet-stream")
                self.answer(201)

            def body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                parts = b""
                while size := int(self.rfile.readline(), 16):
                    parts += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return parts

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = server.server_port
        with running(server):
            yield


class Signer:
    """Runs the real cosign with newly created key pairs."""

    def __init__(self, folder: Path) -> None:
        if not COSIGN:
            pytest.skip("cosign: not on PATH; tests/proofs/attacks/test_signatures.py says how")
        self.program, self.folder = COSIGN, folder
        self.environment = {**os.environ, "COSIGN_PASSWORD": "test", "HOME": str(folder)}

    def run(self, *arguments: str) -> None:
        done = run_program(
            [self.program, *arguments], cwd=self.folder, env=self.environment, timeout=LIMIT
        )
        assert done.returncode == 0, done.stderr

    def key(self, name: str) -> Path:
        """Create a key pair and return the path of the public key."""
        self.run("generate-key-pair", f"--output-key-prefix={name}")
        return self.folder / f"{name}.pub"

    def sign(self, reference: str, key: Path) -> None:
        """Sign an image as NVIDIA does: with a key, and without an entry in a transparency log."""
        self.run(
            "sign", f"--key={key.with_suffix('.key')}", "--use-signing-config=false",
            "--tlog-upload=false", "--yes", reference,
        )  # fmt: skip


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    with made.served():
        yield made


@pytest.mark.promise("`gpu-cluster images` takes the publisher's real signature, and no other one.")
def test_a_real_signature_is_verified_by_its_key_alone(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer, place = Signer(tmp_path), f"127.0.0.1:{registry.port}"
    _, *flags = images.SIGNERS["nvcr.io/"]
    right, wrong = signer.key("right"), signer.key("wrong")
    monkeypatch.setenv("HOME", str(tmp_path))

    def checked(name: str, key: Path) -> images.Check:
        monkeypatch.setattr(images, "SIGNERS", {f"{place}/": (f"--key={key}", *flags)})
        reference = f"{place}/{name}:v1"
        digest = f"sha256:{hashlib.sha256(registry.blobs[f'{name}:v1'][0]).hexdigest()}"
        (check,) = images.checks((Image(reference, reference, digest),), signer.program)
        return check

    for name in ("signed", "unsigned", "other"):
        digest = registry.image(name, name)
        if name != "unsigned":
            signer.sign(f"{place}/{name}@{digest}", right if name == "signed" else wrong)
    assert checked("signed", right) == images.Check(
        f"# signature {place}/signed:v1: verified by --key={right}"
    )
    for name, key in (("signed", wrong), ("unsigned", right), ("other", right)):
        check = checked(name, key)
        assert check.refused, (name, check)
        assert f"# signature {place}/{name}:v1: NOT verified: " in check.text

    # Push another image under the same tag, and attach the signatures of the first image to it.
    old = hashlib.sha256(registry.blobs["signed:v1"][0]).hexdigest()
    new = registry.image("signed", "tampered").removeprefix("sha256:")
    for tag, content in list(registry.blobs.items()):
        if tag.startswith(f"signed:sha256-{old}"):
            registry.blobs[tag.replace(old, new)] = content
    assert checked("signed", right).refused
