"""What the check and the inspection are asked about a platform."""

from __future__ import annotations

from typing import Any

from components.platforms.base import Platform
from components.platforms.requests import Expected, HelmRelease, PresenceRequest
from components.settings.driver_installer import DriverInstaller

Json = dict[str, Any]


def presence_request(platform: Platform, installer: DriverInstaller | None) -> PresenceRequest:
    """Return the request of the program ``presence``: the release, and what is made beside it.

    Parts that wait for a secret are left out: where the stack has none, others make them.
    """
    objects = [_named(part.manifest) for part in platform.parts() if not part.secret]
    objects += [each for program in platform.programs() for each in program.objects]
    if installer is not None:
        objects += [
            Expected(
                "apps/v1", "DaemonSet", installer.namespace, f"nvidia-driver-installer-{pool.name}"
            )
            for pool in platform.site.gpu_pools
        ]
    return PresenceRequest(
        context=platform.site.context,
        platform=platform.site.platform,
        release=HelmRelease(name=platform.chart, namespace=platform.namespace),
        version=platform.version,
        objects=tuple(objects),
    )


def _named(manifest: Json) -> Expected:
    metadata = manifest["metadata"]
    return Expected(
        manifest["apiVersion"], manifest["kind"], metadata.get("namespace", ""), metadata["name"]
    )
