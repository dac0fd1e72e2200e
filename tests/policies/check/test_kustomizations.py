"""A kustomization is built without a download, also from this machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_lab.simulator.http_servers import QuietHandler, running
from gpu_rules.check import files, kustomization, progress, rendered
from gpu_rules.check.document import Source
from gpu_rules.check.ignored import IgnoredPaths
from gpu_rules.check.problem import Unjudged
from gpu_rules.check.tool import NotRendered

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
PATCH = "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: x}\npath: URL\n"


@pytest.fixture
def service() -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a server on loopback, and the paths of the requests that it got."""
    seen: list[str] = []

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(POD.encode())

    with running(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as address:
        yield f"{address}/iam.yaml", seen


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


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/argoproj/argo-cd//manifests/crds?ref=v3.0.0",
        "github.com/argoproj/argo-cd/manifests/crds?ref=v3.0.0",
        "git@github.com:argoproj/argo-cd.git//manifests/crds",
        "ssh://git@example.com/argo-cd.git",
        "git::https://example.com/argo-cd.git",
    ],
)
def test_a_remote_base_is_named_by_its_address(address: str, tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text(json.dumps({"resources": [address]}))
    one = kustomization.read(str(tmp_path))
    assert one is not None
    with pytest.raises(NotRendered) as fault:
        kustomization.build(one)
    assert str(fault.value) == f"it has remote parts, which are not downloaded: {address}"


class _Clock:
    """A clock that a test sets."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_long_work_says_how_far_it_is_and_short_work_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = _Clock()
    monkeypatch.setattr("gpu_rules.check.progress.time", clock)
    count = progress.Progress(229, "kustomizations built")
    for _ in range(20):
        count.advance()
    assert capsys.readouterr().err == ""
    clock.now += progress.EVERY
    count.advance()
    assert capsys.readouterr().err == "21 of 229 kustomizations built\n"


@pytest.mark.skipif(
    not (shutil.which("kustomize") or shutil.which("kubectl")),
    reason="needs kustomize or kubectl on PATH",
)
def test_many_kustomizations_are_built_in_parallel_and_yielded_in_order(tmp_path: Path) -> None:
    for number in range(12):
        folder = tmp_path / f"k{number:02}"
        folder.mkdir()
        (folder / "pod.yaml").write_text(POD)
        own = {"resources": ["pod.yaml"], "nameSuffix": f"-{number:02}"}
        if number == 7:
            own["resources"] = ["missing.yaml"]
        (folder / "kustomization.yaml").write_text(json.dumps(own))
    entries = list(rendered.sources(files.find([str(tmp_path)], IgnoredPaths()), render=True))
    built = [each for each in entries if isinstance(each, Source) and each.rendered]
    names = [json.loads(each.part.text)["metadata"]["name"] for each in built]
    assert [name[-2:] for name in names] == [f"{n:02}" for n in range(12) if n != 7]
    (left,) = [each for each in entries if isinstance(each, Unjudged)]
    assert "k07" in left.file


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
