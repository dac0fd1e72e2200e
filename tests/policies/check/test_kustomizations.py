"""A kustomization is built without a download, also from this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpu_rules.check import kustomization
from gpu_rules.check.tool import NotRendered

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
PATCH = "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: x}\npath: URL\n"


@pytest.fixture
def service() -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a server on loopback, and the paths of the requests that it got."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(POD.encode())

        def log_message(self, *_: object) -> None:
            """Print nothing, because the server would log each request."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/iam.yaml", seen
        server.shutdown()
        thread.join()


REMOTE: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "resource": ({"resources": ["URL"]}, {}),
    "upper case": ({"resources": ["UPPER"]}, {}),
    "resource of a base": (
        {"resources": ["base"]},
        {"base/kustomization.yaml": "resources: [URL]\n"},
    ),
    "resource of a folder of transformers": (
        {"transformers": ["more"]},
        {"more/kustomization.yaml": "resources: [URL]\n"},
    ),
    "patch": ({"patches": [{"path": "URL", "target": {"kind": "Pod"}}]}, {}),
    "old patch": ({"patchesStrategicMerge": ["URL"]}, {}),
    "file of a ConfigMap": ({"configMapGenerator": [{"name": "a", "files": ["a=URL"]}]}, {}),
    "inline transformer": ({"transformers": [PATCH]}, {}),
    "transformer in a file": ({"transformers": ["t.yaml"]}, {"t.yaml": PATCH}),
    "replacement": ({"replacements": [{"path": "URL"}]}, {}),
    "schema": ({"openapi": {"path": "URL"}}, {}),
}


@pytest.mark.promise("A kustomization is checked without downloads, also from this machine.")
@pytest.mark.parametrize("case", REMOTE)
def test_a_kustomization_downloads_nothing(
    tmp_path: Path, service: tuple[str, list[str]], case: str
) -> None:
    address, seen = service
    fields, files = REMOTE[case]
    own = {"kustomization.yaml": json.dumps({"resources": ["pod.yaml"], **fields})}
    for name, text in {"pod.yaml": POD, **own, **files}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text = text.replace("UPPER", address.replace("http:", "HTTP:"))
        (tmp_path / name).write_text(text.replace("URL", address))
    one = kustomization.read(str(tmp_path))
    assert one is not None
    with pytest.raises(NotRendered, match=r"remote parts, which are not downloaded: (?i:http):"):
        kustomization.build(one)
    assert seen == []


def test_an_address_in_a_text_is_no_download(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "kustomization.yaml").write_text(
        json.dumps(
            {
                "resources": ["pod.yaml"],
                "commonAnnotations": {"docs": "https://example.org/"},
                "configMapGenerator": [{"name": "a", "literals": ["url=https://example.org/"]}],
                "patches": [{"patch": f"{POD}  annotations: {{a: 'https://example.org/'}}\n"}],
            }
        )
    )
    one = kustomization.read(str(tmp_path))
    assert one is not None
    assert one.remote == ()
