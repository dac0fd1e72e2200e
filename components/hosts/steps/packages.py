"""Packages that are declared, and what builds the driver's modules for the kernel that runs."""

from __future__ import annotations

from components.desired.host import DesiredHost
from components.hosts.step import Given, Step, repositories, said
from components.hosts.steps.driver import driver_of
from components.settings.hosts.packages import BUILD


def _given(host: DesiredHost) -> Given | None:
    """Return lists and packages: the driver's packages bring DKMS where they need it.

    RHEL and its rebuilds have no DKMS of their own, so it is installed where it is asked for.
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


STEP = Step(given=_given, after="excluded")
