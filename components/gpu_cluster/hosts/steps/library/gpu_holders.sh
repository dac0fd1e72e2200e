# Processes that have the driver's devices open, and so keep its kernel modules loaded.

# Units that use the driver and that a change of the driver stops and starts again, in the order in
# which they are stopped: those that use others come first (NVIDIA/gpu-driver-container 09dc954,
# ubuntu24.04/nvidia-driver, _unload_driver; DCGM User Guide, "Getting Started"; operators of GB300
# NVL72 find that IMEX has /dev/nvidiactl open).
driver_units="nvidia-dcgm-exporter nvidia-dcgm dcgm nvidia-cuda-mps-control nvidia-mps nvidia-gridd nvidia-topologyd gpu-cluster-nvidia-uvm nvidia-imex nvidia-fabricmanager nvidia-persistenced"

# Prints the processes that have a device open or mapped, as `<pid>` lines. The names of devices are
# the same in containers.
holding() {
    {
        find "$root"/proc/[0-9]*/fd -lname '/dev/nvidia*' 2>/dev/null | sed 's|/fd/[0-9]*$||'
        grep -ls ' /dev/nvidia' "$root"/proc/[0-9]*/maps 2>/dev/null | sed 's|/maps$||'
    } | sed 's|.*/||' | sort -nu
}

# holder_of PID: prints who the process belongs to: `unit NAME`, `pod NAMESPACE/NAME`, or `process`.
# Kubelet names a pod's cgroup by its UID, and the folder of its logs by namespace, name and UID
# (kubernetes v1.34 pkg/kubelet/cm/pod_container_manager_linux.go; pkg/kubelet/kuberuntime/helpers.go,
# BuildPodLogsDirectory).
holder_of() {
    group=$(cat "$root/proc/$1/cgroup" 2>/dev/null)
    uid=$(printf '%s\n' "$group" | sed -n 's/.*[/-]pod\([0-9a-f]\{8\}[-_0-9a-f]\{28\}\).*/\1/p' | head -n 1 | tr _ -)
    if [ -n "$uid" ]; then
        for folder in "$root"/var/log/pods/*_"$uid"; do
            [ -d "$folder" ] || continue
            folder=${folder##*/}
            folder=${folder%_*}
            echo "pod ${folder%%_*}/${folder#*_}"
            return 0
        done
        echo "pod $uid"
        return 0
    fi
    unit=$(printf '%s\n' "$group" | sed -n 's|.*/system\.slice/\(.*/\)\{0,1\}\([^/]*\)\.service.*|\2|p' | head -n 1)
    if [ -n "$unit" ]; then echo "unit $unit"; else echo process; fi
}

# other_holders: prints, in one line, the processes with open driver devices that a driver change
# does not stop. A process belongs to a stopped unit also if the unit's PID file names the process.
other_holders() {
    for pid in $(holding); do
        owner=$(holder_of "$pid")
        case " $driver_units display-manager " in *" ${owner#unit } "*) continue ;; esac
        ! is_units_process "$pid" || continue
        name=$(tr -cd '[:print:]' <"$root/proc/$pid/comm" 2>/dev/null)
        printf '%s\n' "$owner $([ "$owner" = process ] && echo "$pid ($name)" || echo "(process $pid, $name)")"
    done | sort -u | head -n 10 | paste -s -d ';' - | sed 's/;/; /g'
}

is_units_process() {
    cat "$root"/run/nvidia-persistenced/*.pid "$root"/run/nvidia-fabricmanager/*.pid 2>/dev/null | grep -qx "$1"
}

# require_no_holders WHEN: fails and names whoever keeps the driver loaded. Ending a unit or a drained
# pod is part of the change; ending somebody's process is not.
require_no_holders() {
    others=$(other_holders)
    [ -z "$others" ] ||
        fail "found GPUs in use $1: $others; wanted free GPUs while driver $(driver_loaded) is replaced; end these programs: a pod without a request for GPUs or of a DaemonSet by its owner's selector (taint gpu-cluster/rollout), MPS by \`echo quit | nvidia-cuda-mps-control\`, a unit by systemctl stop"
}
