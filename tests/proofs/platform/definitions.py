"""Minimal CustomResourceDefinitions of other software, such as the Prometheus Operator."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from gpu_cluster.kubernetes.api import Refused
from tests.proofs.e2e.project import Project

Json = dict[str, Any]

BASE = "/apis/apiextensions.k8s.io"
# Seconds to wait until the API server serves a new definition, or no longer serves a deleted one.
LIMIT = 60


def definition(group: str, version: str, kind: str, scope: str) -> Json:
    """Return a CustomResourceDefinition whose objects may have any fields."""
    singular = kind.lower()
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": f"{singular}s",
                "singular": singular,
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


@contextlib.contextmanager
def defined(project: Project, *bodies: Json) -> Iterator[None]:
    """Create the definitions, and delete them at the end of the context."""
    try:
        for body in bodies:
            project.request("POST", "customresourcedefinitions", base=BASE, body=body)
            spec = body["spec"]
            group, version = spec["group"], spec["versions"][0]["name"]
            _until(project, spec["names"]["plural"], f"/apis/{group}", version, there=True)
        yield
    finally:
        for body in bodies:
            url = f"customresourcedefinitions/{body['metadata']['name']}"
            with contextlib.suppress(Refused):
                project.request("DELETE", url, base=BASE)
            _until(project, url, BASE, "v1", there=False)


def _until(project: Project, url: str, base: str, version: str, *, there: bool) -> None:
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        try:
            project.request("GET", url, base=base, version=version)
            result = True
        except Refused as error:
            # Status 429 means that the API server is still creating the storage of a new CRD.
            if error.code not in (404, 429, 503):
                raise
            result = False
        if result is there:
            return
    raise AssertionError(f"{base} {url}: still {'not ' if there else ''}there after {LIMIT} s")
