# shellcheck shell=sh disable=SC2154 # root: of who reads it
# Files that a node with real components has instead of the machine's. This script is sourced; $root
# is the root of the node's file system.

# The kubelet sets these kernel settings at its start (pkg/kubelet/cm/container_manager_linux.go).
# They belong to the whole machine, so the node gets files in their place.
own_kernel_settings() {
    for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
        kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
        mkdir -p "$root/run/sysctl/${setting%/*}"
        cat "/proc/sys/$setting" >"$root/run/sysctl/$setting"
        mount --bind "$root/run/sysctl/$setting" "$root/proc/sys/$setting"
    done
}

# gpu_nodes NUMBER: create device nodes with NVIDIA's own numbers (open-gpu-kernel-modules, nv.h),
# without a driver behind them.
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

# driver_mounts: mount what this machine has mounted below /usr and /opt, such as a driver of its own
# file system. An overlay shows only the file system of its lower folder.
driver_mounts() {
    while read -r _ mounted _; do
        case $mounted in
            /usr/* | /opt/*) mount --rbind "$mounted" "$root$mounted" ;;
        esac
    done </proc/self/mounts
}
