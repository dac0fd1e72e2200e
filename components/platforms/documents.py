"""What the check and the inspection are asked about a platform: a plain document."""

from __future__ import annotations

from typing import Any

from components.platforms.base import Platform
from components.settings.driver_installer import DriverInstaller

Json = dict[str, Any]


def presence_document(platform: Platform, installer: DriverInstaller | None) -> Json:
    """Return the input of the program ``presence``: the release, and what is made beside it.

    Parts that wait for a secret are left out: where the stack has none, others make them.
    """
    objects = [_named(part.manifest) for part in platform.parts() if not part.secret]
    objects += [
        _object(api_version, kind, name)
        for program in platform.programs()
        for api_version, kind, name in program.objects
    ]
    if installer is not None:
        objects += [
            _object(
                "apps/v1", "DaemonSet", f"nvidia-driver-installer-{pool.name}", installer.namespace
            )
            for pool in platform.site.gpu_pools
        ]
    return {
        "context": platform.site.context,
        "platform": platform.site.platform,
        "release": {"name": platform.chart, "namespace": platform.namespace},
        "version": platform.version,
        "objects": objects,
    }


def _named(manifest: Json) -> Json:
    metadata = manifest["metadata"]
    return _object(
        manifest["apiVersion"], manifest["kind"], metadata["name"], metadata.get("namespace", "")
    )


def _object(api_version: str, kind: str, name: str, namespace: str = "") -> Json:
    return {"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name}
