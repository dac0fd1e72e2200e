"""Kubernetes objects and Helm releases by their plain manifests.

They are registered under the same tokens and with the same inputs as by the typed classes of
pulumi-kubernetes 4.25, whose modules take half a second to import (``core.v1`` alone holds some
10,000 types). A plain manifest is also what the rules judge and what ``kubectl get -o yaml`` shows.
"""

from __future__ import annotations

from typing import Any

import pulumi

Json = dict[str, Any]


def token(api_version: str, kind: str) -> str:
    """The type token of a kind: ``v1`` is the group ``core``."""
    group = "core/v1" if api_version == "v1" else api_version
    return f"kubernetes:{group}:{kind}"


class Manifest(pulumi.CustomResource):
    """One object. Its provider comes from the options, or from its parent's."""

    metadata: pulumi.Output[Json]
    spec: pulumi.Output[Json]

    def __init__(self, name: str, manifest: Json, opts: pulumi.ResourceOptions) -> None:
        kind = token(manifest["apiVersion"], manifest["kind"])
        super().__init__(kind, name, dict(manifest), opts)


class Release(pulumi.CustomResource):
    """One Helm release; ``inputs`` by the names of ``kubernetes:helm.sh/v3:Release``."""

    status: pulumi.Output[Json | None]

    @property
    def revision(self) -> pulumi.Output[int]:
        """Helm's number of the release as the engine left it; 0 where it is not known."""
        return self.status.apply(lambda status: int((status or {}).get("revision") or 0))

    def __init__(self, name: str, inputs: Json, opts: pulumi.ResourceOptions) -> None:
        # The typed class sets `compat`, too; `status` is an output.
        props = {**inputs, "compat": "true", "status": None}
        super().__init__("kubernetes:helm.sh/v3:Release", name, props, opts)
