"""Program of `make sbom`: print the software bill of materials as CycloneDX 1.6 JSON.

It lists the Python packages with the hashes of requirements.lock, the Go modules with the hashes of
go.sum, and the pinned tools. The format follows CycloneDX 1.6, bom-1.6.schema.json; the package
URLs follow purl-spec.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpu_cluster.commands.files import ROOT
from gpu_cluster_lab.toolchain.pins import PINS

Json = dict[str, Any]
_PACKAGE = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ \\]+)")
_HASH = re.compile(r"--hash=sha256:(?P<digest>[0-9a-f]{64})")


def _sbom_component(kind: str, name: str, version: str, url: str, hashes: list[str]) -> Json:
    entry: Json = {"type": kind, "name": name, "version": version, "purl": url, "bom-ref": url}
    if hashes:
        entry["hashes"] = [{"alg": "SHA-256", "content": digest} for digest in sorted(hashes)]
    return entry


def python_packages(lock: Path) -> Iterator[Json]:
    """Yield the packages of a pip-compile lock file, each with the hashes of all of its files."""
    name = version = ""
    hashes: list[str] = []
    for line in [*lock.read_text().splitlines(), "end==0"]:
        if match := _PACKAGE.match(line):
            if name:
                plain = re.sub(r"[-_.]+", "-", name).lower()
                yield _sbom_component(
                    "library", name, version, f"pkg:pypi/{plain}@{version}", hashes
                )
            name, version, hashes = match["name"], match["version"], []
        hashes += _HASH.findall(line)


def go_modules(folder: Path) -> Iterator[Json]:
    """Yield the Go modules of all go.sum files below a folder.

    The hash ``h1`` is a SHA-256 sum over the files of a module.
    """
    digests: dict[tuple[str, str], str] = {}
    for file in sorted(folder.rglob("go.sum")):
        for line in file.read_text().splitlines():
            name, version, digest = line.split()
            if not version.endswith("/go.mod"):
                digests[name, version] = base64.b64decode(digest.removeprefix("h1:")).hex()
    for (name, version), digest in sorted(digests.items()):
        url = f"pkg:golang/{name}@{version}"
        yield _sbom_component("library", name, version, url, []) | {
            "properties": [{"name": "go:sum:h1", "value": digest}]
        }


def tools() -> Iterator[Json]:
    """Yield the pinned tools of the toolchain."""
    for pin in PINS.values():
        url = f"pkg:generic/{pin.name}@{pin.version}"
        yield _sbom_component("application", pin.name, pin.version, url, [])


def bom() -> Json:
    """Return the whole bill of materials; the same input gives the same document."""
    components = [
        *python_packages(ROOT / "requirements.lock"),
        *go_modules(ROOT / "embedded" / "gpu_cluster_lab" / "toolchain" / "go"),
        *tools(),
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "gpu-cluster",
                "bom-ref": "gpu-cluster",
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [
            {"ref": "gpu-cluster", "dependsOn": [component["bom-ref"] for component in components]}
        ],
    }


def main() -> None:
    """Print the bill of materials as JSON."""
    json.dump(bom(), sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
