"""Check the flags of gpu-manager's two programs by image tag. All functions are pure.

A program exits if it gets an unknown flag (spf13/pflag, `unknown flag`). Flags by tag:
tkestack/gpu-manager v1.0.9 and v1.1.5, cmd/manager/options/options.go and build/start.sh;
tkestack/gpu-admission a79ef45 (requires `--incluster-mode` and a configuration) and f7d9868 (knows
neither), main.go, Dockerfile and pkg/predicate/gpu_predicate.go NewGPUFilter. The flags of
TKEStack's image v1.0.0 are in its manifest: tkestack/tke 31e93ce,
pkg/platform/provider/baremetal/manifests/gpu-manager/gpu-manager.yaml.
"""

from __future__ import annotations

import re

from gpu_cluster_lab.simulator.api import Json

#: First version of gpu-manager that supports CRI; earlier versions support Docker only.
CRI = (1, 1, 0)
COMMON = frozenset(
    {
        "allocation-check-period", "checkpoint-path", "device-plugin-path", "driver",
        "extra-config", "hostname-override", "kubeconfig", "node-labels", "query-addr",
        "query-port", "sample-period", "share-mode", "virtual-manager-path", "volume-config",
        # Flags that the logging library glog adds to a program.
        "alsologtostderr", "log-backtrace-at", "log-dir", "logtostderr", "stderrthreshold", "v",
        "version", "vmodule",
    }
)  # fmt: skip
BEFORE = frozenset({"docker-endpoint", "incluster-mode", "standalone"})
SINCE = frozenset({"cgroup-driver", "container-runtime-endpoint", "runtime-request-timeout"})
_TAG = re.compile(r":v?(\d+)\.(\d+)\.(\d+)$")


#: Path where TKEStack's manifest mounts the configuration of the scheduler extender.
ADMISSION_CONFIG = "/root/gpu-quota-admission"


def _flag_names(container: Json) -> list[str]:
    """Return the names of the flags in a container's variable `EXTRA_FLAGS`."""
    variables = container.get("env") or []
    environment = {variable["name"]: variable.get("value", "") for variable in variables}
    return [flag.partition("=")[0][2:] for flag in environment.get("EXTRA_FLAGS", "").split()]


def admission_refusal(pod: Json) -> str:
    """Return why the program of a gpu-quota-admission pod exits; empty if it runs."""
    (container, *_) = pod["spec"]["containers"]
    flags = _flag_names(container)
    if not container["image"].endswith(":v1.0.0"):
        unknown = "incluster-mode" in flags
        return "unknown flag: --incluster-mode" if unknown else ""
    if "incluster-mode" not in flags:
        return "Error building kubeconfig: stat /etc/kubernetes/kube-scheduler/kubeconfig"
    mounts = {mount["mountPath"].rstrip("/") for mount in container.get("volumeMounts") or []}
    return "" if ADMISSION_CONFIG in mounts else "invalid GPUFilter config in file"


def refusal(pod: Json) -> str:
    """Return why the program of a gpu-manager pod exits; empty if it runs."""
    (container, *_) = pod["spec"]["containers"]
    tag = _TAG.search(container["image"])
    if tag is None:
        return ""  # The image was built by the user, so its flags are unknown and not checked.
    old = tuple(map(int, tag.groups())) < CRI
    flags = _flag_names(container)
    known_flags = COMMON | (BEFORE if old else SINCE)
    if unknown := next((flag for flag in flags if flag not in known_flags), ""):
        return f"unknown flag: --{unknown}"
    if old and "incluster-mode" not in flags:
        return "stat /root/.kube/config: no such file or directory"
    return ""
