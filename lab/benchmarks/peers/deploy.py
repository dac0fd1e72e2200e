"""pyinfra deploy that brings hosts to the end state of benchmark B1.

Files are copied by operations; commands run only if the file that they depend on has changed.
"""

from pyinfra import host
from pyinfra.operations import files, server

wanted = host.data.wanted


def put(path: str) -> files.put:
    """Copy one file from the folder of expected files to the host."""
    return files.put(name=path, src=f"{wanted}{path}", dest=path, mode=False)


server.shell(name="swap off", commands=["[ $(wc -l </proc/swaps) -eq 1 ] || swapoff -a"])
put("/etc/fstab")
modules = put("/etc/modules-load.d/gpu-cluster.conf")
sysctl = put("/etc/sysctl.d/zz-gpu-cluster.conf")
blacklist = put("/etc/modprobe.d/gpu-cluster-blacklist.conf")
config = put("/etc/containerd/config.toml")
dropin = put("/etc/containerd/conf.d/99-nvidia.toml")
server.shell(
    name="modules now", commands=["modprobe -a overlay br_netfilter"], _if=modules.did_change
)
server.shell(
    name="sysctl now",
    commands=["sysctl -q -p /etc/sysctl.d/zz-gpu-cluster.conf"],
    _if=sysctl.did_change,
)
server.shell(name="initramfs", commands=["update-initramfs -u"], _if=blacklist.did_change)
server.shell(
    name="containerd",
    commands=["systemctl restart containerd"],
    _if=lambda: config.did_change() or dropin.did_change(),
)
