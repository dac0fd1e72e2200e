# shellcheck shell=sh disable=SC2154 # root: of who reads it
# What a node of real parts has of its own in place of the machine's. Sourced; $root: its file system.

# The kubelet sets these at its start (pkg/kubelet/cm/container_manager_linux.go); they are the whole
# machine's, so the node has files in their place.
own_kernel_settings() {
    for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
        kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
        mkdir -p "$root/run/sysctl/${setting%/*}"
        cat "/proc/sys/$setting" >"$root/run/sysctl/$setting"
        mount --bind "$root/run/sysctl/$setting" "$root/proc/sys/$setting"
    done
}

# gpu_nodes NUMBER: NVIDIA's own numbers (open-gpu-kernel-modules, nv.h); no driver is behind them.
gpu_nodes() {
    index=0
    while [ "$index" -lt "$1" ]; do
        mknod -m 666 "$root/dev/nvidia$index" c 195 "$index"
        index=$((index + 1))
    done
    mknod -m 666 "$root/dev/nvidiactl" c 195 255
    mknod -m 666 "$root/dev/nvidia-modeset" c 195 254
    mknod -m 666 "$root/dev/nvidia-uvm" c 511 0
    mknod -m 666 "$root/dev/nvidia-uvm-tools" c 511 1
}
