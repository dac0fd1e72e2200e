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
from gpu_rules.check.parse import SIZE_LIMIT
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


ESCAPED = PATCH.replace("URL", '"ESCAPED"')
GENERATOR = "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: x}\nfiles: [a=URL]\n"
ONE_LINE = "{apiVersion: builtin, kind: PatchTransformer, metadata: {name: x}, path: URL}"
LARGE = "# \N{LATIN SMALL LETTER E WITH ACUTE}\n" * (SIZE_LIMIT // 5 + 1)
"""A comment as large as the largest document."""
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
    "inline transformer of one line": ({"transformers": [ONE_LINE]}, {}),
    "inline transformer, escaped": ({"transformers": [ESCAPED]}, {}),
    "transformer in a file, escaped": ({"transformers": ["t.yaml"]}, {"t.yaml": ESCAPED}),
    "generator in a file": ({"generators": ["g.yaml"]}, {"g.yaml": GENERATOR}),
    "field in another case": ({"Transformers": ["t.yaml"]}, {"t.yaml": PATCH}),
    "transformer in a folder": (
        {"transformers": ["more"]},
        {"more/kustomization.yaml": "resources: [t.yaml]\n", "more/t.yaml": PATCH},
    ),
    "transformer in a folder, in another case": (
        {"transformers": ["more"]},
        {"more/kustomization.yaml": "Resources: [t.yaml]\n", "more/t.yaml": PATCH},
    ),
    "folder like an address": (
        {"resources": ["a://base"]},
        {"a:/base/kustomization.yaml": "resources: [URL]\n"},
    ),
    "folder with a line break": (
        {"resources": ["a\nb"]},
        {"a\nb/kustomization.yaml": "resources: [URL]\n"},
    ),
    "folder beside a link": (
        {"resources": ["link/../base"]},
        {"base/kustomization.yaml": "resources: [URL]\n", "other/in/pod.yaml": POD},
    ),
    "replacement": ({"replacements": [{"path": "URL"}]}, {}),
    "schema": ({"openapi": {"path": "URL"}}, {}),
}


@pytest.mark.promise("A kustomization is checked without downloads, also from this machine.")
@pytest.mark.parametrize("case", REMOTE)
def test_a_kustomization_downloads_nothing(
    tmp_path: Path, service: tuple[str, list[str]], case: str
) -> None:
    address, seen = service
    one = kustomized(tmp_path, address, *REMOTE[case])
    with pytest.raises(NotRendered, match=r"remote parts, which are not downloaded: (?i:http):"):
        kustomization.build(one)
    assert seen == []


UNREADABLE: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "large transformer": ({"transformers": ["t.yaml"]}, {"t.yaml": LARGE + PATCH}),
    "large kustomization": (
        {"resources": ["base"]},
        {"base/kustomization.yaml": f"resources: []\n{LARGE}bases: [URL]\n"},
    ),
    "transformer in UTF-16": ({"transformers": ["utf-16"]}, {"utf-16": PATCH}),
    "kustomization in UTF-16": (
        {"resources": ["utf-16"]},
        {"utf-16/kustomization.yaml": "resources: [URL]\n"},
    ),
    "transformer that is no YAML": ({"transformers": ["a: [\n"]}, {}),
    "folder that patches transformers": (
        {"transformers": ["more"]},
        {
            "more/kustomization.yaml": json.dumps(
                {"resources": ["t.yaml"], "patches": [{"path": "p.yaml"}]}
            ),
            "more/t.yaml": PATCH.replace("URL", "p.yaml"),
            "more/p.yaml": PATCH,
        },
    ),
    "folder that composes an address": (
        {"transformers": ["more"]},
        {
            "more/kustomization.yaml": json.dumps(
                {"resources": ["t.yaml"], "replacements": [{"path": "r.yaml"}]}
            ),
            "more/t.yaml": PATCH.replace("URL", "ht@tp"),
        },
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_kustomization_that_may_download_something_is_not_built(
    tmp_path: Path, service: tuple[str, list[str]], case: str
) -> None:
    address, seen = service
    one = kustomized(tmp_path, address, *UNREADABLE[case])
    with pytest.raises(NotRendered, match=r"that (cannot be read|changes them)$"):
        kustomization.build(one)
    assert seen == []


def kustomized(
    folder: Path, address: str, fields: dict[str, Any], files: dict[str, str]
) -> kustomization.Kustomization:
    """Write a kustomization with its files, in which marks stand for an address; return it."""

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(part) for key, part in value.items()}
        if isinstance(value, list):
            return [filled(part) for part in value]
        for mark, text in (
            ("UPPER", address.replace("http:", "HTTP:")),
            ("ESCAPED", address.replace("http:", r"\x68ttp:")),
            ("URL", address),
        ):
            value = value.replace(mark, text)
        return value

    own = {"kustomization.yaml": json.dumps(filled({"resources": ["pod.yaml"], **fields}))}
    for name, text in {"pod.yaml": POD, **own, **filled(files)}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-16" if "utf-16" in name else "utf-8")
    if (folder / "other").exists():
        (folder / "link").symlink_to("other/in")
    one = kustomization.read(str(folder))
    assert one is not None
    return one


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
