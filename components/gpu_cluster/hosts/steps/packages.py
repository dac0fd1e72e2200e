"""Step that installs declared packages, and the tools to build the driver's kernel modules."""

from __future__ import annotations

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts.step import Given, Step, repositories, said
from gpu_cluster.hosts.steps.driver import driver_of
from gpu_cluster.settings.hosts.packages import BUILD


def _packages_inputs(host: DesiredHost) -> Given | None:
    """Return the step's inputs: packages and repositories.

    DKMS is only added if it is requested or a runfile driver uses it: driver packages depend on
    DKMS if they need it, and RHEL and its rebuilds don't ship DKMS.
    """
    packages, driver = host.sections.packages, driver_of(host)
    build = packages.build or (driver is not None and driver.by_preparation)
    by_runfile = driver is not None and driver.runfile is not None and driver.runfile.dkms
    with_dkms = packages.build or by_runfile
    tools = tuple(name for name in BUILD if with_dkms or name != "dkms") if build else ()
    words = tools + packages.install
    if not words:
        return None
    settings = {"GC_PACKAGES": " ".join(dict.fromkeys(words)), "GC_HEADERS": said(build)}
    rows = repositories("packages", packages.repository)
    return Given(settings=settings, repositories=rows, runs=2)


STEP = Step(does="installs packages", given=_packages_inputs, after="excluded")
