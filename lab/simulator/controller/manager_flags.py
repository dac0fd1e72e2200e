"""What gpu-manager's program reports about its flags, by the version of its image. Pure.

A flag that it doesn't know ends it (spf13/pflag, ``unknown flag``). Flags by tag:
tkestack/gpu-manager v1.0.9 and v1.1.5, cmd/manager/options/options.go and build/start.sh.
"""

from __future__ import annotations

import re

from lab.simulator.api import Json

#: Since this version it speaks CRI; before it, Docker alone.
CRI = (1, 1, 0)
COMMON = frozenset(
    {
        "allocation-check-period", "checkpoint-path", "device-plugin-path", "driver",
        "extra-config", "hostname-override", "kubeconfig", "node-labels", "query-addr",
        "query-port", "sample-period", "share-mode", "virtual-manager-path", "volume-config",
        # of glog
        "alsologtostderr", "log-backtrace-at", "log-dir", "logtostderr", "stderrthreshold", "v",
        "version", "vmodule",
    }
)  # fmt: skip
BEFORE = frozenset({"docker-endpoint", "incluster-mode", "standalone"})
SINCE = frozenset({"cgroup-driver", "container-runtime-endpoint", "runtime-request-timeout"})
_TAG = re.compile(r":v?(\d+)\.(\d+)\.(\d+)$")


def refusal(pod: Json) -> str:
    """Why the program of a gpu-manager pod ends; empty where it runs."""
    (container, *_) = pod["spec"]["containers"]
    tag = _TAG.search(container["image"])
    if tag is None:
        return ""  # a tag or a digest of somebody's own
    old = tuple(map(int, tag.groups())) < CRI
    environment = {each["name"]: each.get("value", "") for each in container.get("env") or []}
    flags = [each.partition("=")[0][2:] for each in environment.get("EXTRA_FLAGS", "").split()]
    known = COMMON | (BEFORE if old else SINCE)
    if unknown := next((flag for flag in flags if flag not in known), ""):
        return f"unknown flag: --{unknown}"
    if old and "incluster-mode" not in flags:
        return "stat /root/.kube/config: no such file or directory"
    return ""
