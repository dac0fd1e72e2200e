"""Step that sets the proxy with which the container engine pulls images."""

from __future__ import annotations

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts.step import UNITS, Given, Step, text_of


def _proxy_inputs(host: DesiredHost) -> Given | None:
    """Return the proxy variables as `Environment=` lines of systemd units (systemd.exec(5))."""
    variables = host.sections.proxy.environment
    if not variables:
        return None
    lines = [f'Environment="{name}={value}"' for name, value in variables.items()]
    settings = {
        "GC_PROXY_UNITS": " ".join(UNITS[host.sections.runtime.engine]),
        "GC_PROXY_UNIT_TEXT": text_of("[Service]", *lines),
    }
    return Given(settings=settings)


STEP = Step(does="sets the container engine's proxy", given=_proxy_inputs, after="limits")
