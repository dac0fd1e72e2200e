"""Step that sets kernel parameters: those that Kubernetes needs, and declared ones.

The parameters that Kubernetes needs are in the script; the declared ones are its input.
"""

from __future__ import annotations

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts.step import Given, Step


def _sysctl_inputs(host: DesiredHost) -> Given | None:
    if not host.sections.system.all_sysctl:
        return None
    rows = tuple(host.sections.system.all_sysctl.items()) if host.sections.system.sysctl else ()
    declared = tuple(host.sections.system.sysctl.items())
    return Given(lists={"each_sysctl": rows}, kept={"each_sysctl": declared})


STEP = Step(
    does="sets kernel parameters",
    given=_sysctl_inputs,
    after="modules",
    writes=("/etc/sysctl.d/zz-gpu-cluster.conf",),
)
