"""Client that writes and reads through a cluster's endpoint until its standard input ends.

`python -m tests.proofs.ha.writer KUBECONFIG`. It prints a line for each confirmed write, then a
JSON object: the number of confirmed writes, those of them that the API server no longer has, and
the longest time in seconds between two confirmed writes.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
PATH = "/api/v1/namespaces/default/configmaps"
LIMIT = 3.0
"""Seconds that one request waits before it is tried on a new connection."""
PAUSE = 0.1


class Writer:
    """Client with one connection, which is opened again after a failure."""

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        self._endpoint = cluster["server"].removeprefix("https://")
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)
        with tempfile.NamedTemporaryFile() as file:
            for key in ("client-certificate-data", "client-key-data"):
                file.write(base64.b64decode(user[key]))
            file.flush()
            self._context.load_cert_chain(file.name)
        self._connection: http.client.HTTPSConnection | None = None

    def request(self, method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
        """Send a request and return status and body.

        Raises:
            OSError: No answer.
            http.client.HTTPException: The connection ended.
        """
        connection = self._connection or http.client.HTTPSConnection(
            self._endpoint, timeout=LIMIT, context=self._context
        )
        self._connection = None
        connection.request(
            method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"}
        )
        response = connection.getresponse()
        document: Json = json.loads(response.read())
        self._connection = connection
        return response.status, document

    def write(self, name: str) -> bool:
        """Create an object and read it; return whether both were confirmed."""
        body = {"metadata": {"name": name}, "data": {"written": name}}
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            # A write that was done but not confirmed is repeated, and then it conflicts.
            status, _ = self.request("POST", PATH, body)
            if status in (201, 409):
                status, found = self.request("GET", f"{PATH}/{name}")
                return status == 200 and found["data"] == body["data"]
        return False

    def names(self) -> set[str]:
        """Return the names of all objects that exist."""
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                status, found = self.request("GET", PATH)
                if status == 200:
                    return {item["metadata"]["name"] for item in found["items"]}
            time.sleep(PAUSE)


def main() -> None:
    """Write until standard input ends, then print the result."""
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    writer, confirmed, longest, last = Writer(Path(sys.argv[1])), list[str](), 0.0, time.monotonic()
    while not ended.wait(PAUSE):
        name = f"written-{len(confirmed)}"
        if writer.write(name):
            now = time.monotonic()
            longest, last = max(longest, now - last), now
            confirmed.append(name)
            print(name, flush=True)
    longest = max(longest, time.monotonic() - last)
    lost = sorted(set(confirmed) - writer.names())
    print(json.dumps({"confirmed": len(confirmed), "lost": lost, "longest": longest}))


if __name__ == "__main__":
    main()
