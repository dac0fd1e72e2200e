"""Step that installs the container engine, if the settings declare its installation."""

from __future__ import annotations

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts.step import Given, Step, at_version, places, repositories, said


def _engine_inputs(host: DesiredHost) -> Given | None:
    runtime, install = host.sections.runtime, host.sections.runtime.install
    if install is None:
        return None
    first, *other_packages = install.packages
    adapter = install.cri_dockerd
    return Given(
        settings={
            "GC_ENGINE": runtime.engine.value,
            "GC_ENGINE_PACKAGES": " ".join(
                (at_version((first,), install.version), *other_packages)
            ),
            "GC_ENGINE_HELD": " ".join(install.packages),
            "GC_ENGINE_HOLD": said(install.hold),
            "GC_SYSTEMD_CGROUP": said(runtime.systemd_cgroup),
            "GC_SANDBOX_IMAGE": install.sandbox_image or "",
            "GC_ADAPTER_SHA256": adapter.sha256 if adapter else "",
        },
        lists={"each_adapter_location": places(adapter.locations if adapter else ())},
        repositories=repositories("engine", install.repository),
        runs=3,
    )


STEP = Step(
    does="installs the container engine",
    given=_engine_inputs,
    after="cuda",
    disrupts=("GC_ENGINE_PACKAGES", "GC_ADAPTER_SHA256"),
)
