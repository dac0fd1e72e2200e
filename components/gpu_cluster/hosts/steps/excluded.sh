# Excludes GPUs from pods by UUID: the driver itself ignores them, so nothing on the host counts
# them, whether they are on the bus or not, and the other GPUs are numbered without them. Source:
# NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/nv-reg.h (ExcludedGpus: whole UUIDs, starting
# with "GPU-") and nv-procfs.c (params).

excluded_file=/etc/modprobe.d/gpu-cluster-excluded.conf

# Prints the UUIDs that the loaded driver excludes; nothing if no driver is loaded or none is
# excluded.
driver_excludes() {
    sed -n 's/^ExcludedGpus: "\(.*\)"$/\1/p' "$root/proc/driver/nvidia/params" 2>/dev/null
}

# The driver reads its options when it is loaded, and it can't be unloaded while a GPU is in use.
driver_follows() {
    [ -r "$root/proc/driver/nvidia/params" ] && [ "$(driver_excludes)" != "$1" ] || return 0
    request_reboot "the driver leaves out ${2-other GPUs than declared}"
}

apply_excluded() {
    text="# gpu-cluster
options nvidia NVreg_ExcludedGpus=$GC_EXCLUDED
"
    # The marker file is written first, so that a killed run is continued. An initramfs with the driver
    # also contains its options.
    same_text "$excluded_file" "$text" || : >"$state/initramfs-pending"
    place_text "$excluded_file" "$text"
    rebuild_initramfs fail
    driver_follows "$GC_EXCLUDED"
}

undo_excluded() {
    kept "$excluded_file" || was_absent "$excluded_file" || return 0
    : >"$state/initramfs-pending"
    forget "$excluded_file"
    rebuild_initramfs note
    driver_follows "" "GPUs that are no longer declared so"
}
