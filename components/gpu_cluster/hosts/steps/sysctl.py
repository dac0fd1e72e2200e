"""Step that sets kernel parameters: those that Kubernetes needs, and declared ones.

The parameters that Kubernetes needs are in the script; the declared ones are its input.
"""

from __future__ import annotations

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts.step import Given, Step


def _sysctl_inputs(host: DesiredHost) -> Given:
    system, init = host.sections.system, host.sections.kubernetes_packages.init
    ipv6 = init is not None and init.has_ipv6
    declared = tuple(system.sysctl.items())
    rows = tuple(system.all_sysctl(ipv6=ipv6).items()) if declared or ipv6 else ()
    return Given(lists={"each_sysctl": rows}, kept={"each_sysctl": declared})


STEP = Step(
    does="sets kernel parameters",
    given=_sysctl_inputs,
    after="modules",
    writes=("/etc/sysctl.d/zz-gpu-cluster.conf",),
)
