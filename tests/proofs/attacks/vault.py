"""Fake of HashiCorp Vault's transit engine on loopback, for Pulumi's secrets provider.

The fake accepts the requests of Pulumi's `hashivault` provider: `transit/encrypt/<key>` and
`transit/decrypt/<key>` (gocloud.dev secrets/hashivault/vault.go). Like Vault it refuses an invalid
token, an unknown key, and a ciphertext of another origin (hashicorp/vault
builtin/logical/transit/path_encrypt.go, path_decrypt.go).
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import PurePosixPath
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gpu_cluster_lab.simulator.http_servers import QuietHandler, running

PREFIX = "vault:v1:"
NONCE = 12


class Refused(Exception):
    """Error: Vault would reject the request; it has the HTTP status and the reason."""


class Transit:
    """Vault's transit engine: encryption keys, each with the tokens that may use the key."""

    def __init__(self, keys: dict[str, set[str]]) -> None:
        self.tokens = keys
        self.keys = {name: AESGCM(AESGCM.generate_key(256)) for name in keys}

    def answer(self, path: str, token: str, body: dict[str, str]) -> dict[str, str]:
        """Return the response to one request.

        Raises:
            Refused: Vault would refuse the request.
        """
        *_, mount, action, name = PurePosixPath(path).parts
        if mount != "transit" or action not in ("encrypt", "decrypt"):
            raise Refused(404, "no handler for route")
        if token not in self.tokens.get(name, set()):
            raise Refused(403, "permission denied")
        try:
            if action == "encrypt":
                nonce, plain = os.urandom(NONCE), base64.b64decode(body["plaintext"], validate=True)
                sealed = nonce + self.keys[name].encrypt(nonce, plain, None)
                return {"ciphertext": PREFIX + base64.b64encode(sealed).decode()}
            sealed = base64.b64decode(body["ciphertext"].removeprefix(PREFIX), validate=True)
            plain = self.keys[name].decrypt(sealed[:NONCE], sealed[NONCE:], None)
            return {"plaintext": base64.b64encode(plain).decode()}
        except (InvalidTag, KeyError, binascii.Error, ValueError):
            raise Refused(400, "invalid ciphertext: unable to decrypt") from None


@contextmanager
def vault(keys: dict[str, set[str]]) -> Iterator[str]:
    """Start the fake Vault and yield its URL.

    Args:
        keys: For each key's name, the tokens that may use the key.
    """
    transit = Transit(keys)

    class Handler(QuietHandler):
        def do_PUT(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                data = transit.answer(self.path, self.headers.get("X-Vault-Token", ""), body)
                self._send(200, {"data": data})
            except Refused as error:
                status, reason = error.args
                self._send(status, {"errors": [reason]})

        do_POST = do_PUT

        def _send(self, status: int, document: dict[str, Any]) -> None:
            text = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    with running(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as address:
        yield address
