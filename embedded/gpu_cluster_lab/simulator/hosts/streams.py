"""Module streams of NVIDIA's dnf repository, by the rules of NVIDIA's generator.

Source: NVIDIA/cuda-repo-management 2944b7a, genmodules.py. Each branch has the streams `<branch>`
(precompiled modules), `<branch>-dkms` and `<branch>-open` (since 515); the newest branch also has
`latest`, `latest-dkms` and `open-dkms`. The default stream is `latest-dkms`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from gpu_cluster_lab.simulator.hosts.packages import Package

Member = tuple[Package, tuple[str, ...], str]
"""A package, the kinds of streams that contain it, and the driver version.

The kinds are `all`, `open`, `dkms` and `precompiled`.
"""
MODULE = "nvidia-driver"
DEFAULT = "latest-dkms"


def document(members: Sequence[Member]) -> str:
    """Return the text of a repository's `modules.yaml` for these packages."""
    documents = [_module_stream(*stream, members) for stream in _list_streams(members)]
    profiles = {document["data"]["stream"]: ["default"] for document in documents}
    documents.append(
        {
            "document": "modulemd-defaults",
            "version": 1,
            "data": {"module": MODULE, "stream": DEFAULT, "profiles": profiles},
        }
    )
    return yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True, explicit_end=True)


def _list_streams(members: Sequence[Member]) -> Iterator[tuple[str, str, str]]:
    """Yield the name, kind and driver branch of each module stream."""
    branches = sorted({version.split(".")[0] for _, _, version in members}, key=int)
    newest = branches[-1]
    for name, kind in (("latest", "precompiled"), (DEFAULT, "dkms"), ("open-dkms", "open")):
        yield name, kind, newest
    for branch in branches:
        yield branch, "precompiled", branch
        yield f"{branch}-dkms", "dkms", branch
        yield f"{branch}-open", "open", branch


def _module_stream(name: str, kind: str, branch: str, members: Sequence[Member]) -> dict[str, Any]:
    packages = [
        package
        for package, kinds, version in members
        if version.split(".")[0] == branch and ("all" in kinds or kind in kinds)
    ]
    return {
        "document": "modulemd",
        "version": 2,
        "data": {
            "name": MODULE,
            "stream": name,
            "version": 20251215000000,
            "context": hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()[:10],
            "arch": "noarch",
            "summary": f"Nvidia driver for {name} branch (simulated by gpu-cluster)",
            "description": "simulated by gpu-cluster",
            "license": {"module": ["MIT"]},
            "artifacts": {"rpms": sorted(_package_nevra(package) for package in packages)},
            "profiles": {"default": {"rpms": sorted({package.name for package in packages})}},
        },
    }


def _package_nevra(package: Package) -> str:
    epoch, _, rest = package.version.rpartition(":")
    return f"{package.name}-{epoch or 0}:{rest}.noarch"
