# Limits of log-ins, and of what the container engine starts: pods have the locked memory of its
# service, not a log-in's. Sources: limits.conf(5); systemd.exec(5), LimitMEMLOCK.
#
# State in /run, which a boot takes away with the need: limits-pending (units whose limits systemd has
# not read yet).

apply_limits() {
    step_file /etc/security/limits.d/99-gpu-cluster.conf "$GC_LIMITS_TEXT"
    for unit in ${GC_LIMITS_UNITS-}; do
        file=/etc/systemd/system/$unit.service.d/50-gpu-cluster-limits.conf
        # The mark comes first: a run that is killed in between is made good later.
        printf '%s' "$GC_LIMITS_UNIT_TEXT" | cmp -s - "$root$file" || limits_wait "$unit"
        step_file "$file" "$GC_LIMITS_UNIT_TEXT"
    done
    limits_in_force
}

limits_pending=$root/run/gpu-cluster/limits-pending

limits_wait() {
    grep -Fqx -e "$1" "$limits_pending" 2>/dev/null && return 0
    mkdir -p "$root/run/gpu-cluster" && printf '%s\n' "$1" >>"$limits_pending" ||
        fail "can't write $limits_pending"
}

# A reload of systemd's manager takes the GPUs from running containers that have them without CDI
# (NVIDIA/nvidia-container-toolkit#48), and Docker ends its containers with itself. So the limits hold at
# once where no such container runs, and otherwise from a later run or the next boot on.
limits_in_force() {
    [ -f "$limits_pending" ] || return 0
    units=$(paste -s -d ' ' - <"$limits_pending")
    if why=$(containers_at_risk); then
        note "the declared memlock of $units waits for a drained node or the next boot: $why"
        return 0
    fi
    bounded 60 systemctl daemon-reload || fail "systemd can't read its units again: $(log_end)"
    for unit in $units; do
        systemctl is-active --quiet "$unit" 2>/dev/null || continue
        bounded 300 systemctl restart "$unit" || fail "unit $unit does not start again: $(log_end)"
        did "unit $unit restarted with its limits"
    done
    rm -f -- "$limits_pending"
}

# containers_at_risk: says why now isn't the time; fails where nothing speaks against it.
containers_at_risk() {
    case " $units " in
        *' docker '*)
            if have docker && [ -n "$(timeout 10 docker ps -q 2>/dev/null)" ]; then
                echo "Docker runs containers"
                return 0
            fi
            ;;
    esac
    # The cgroups of pods and of Docker's containers (kubelet, --cgroup-root; Docker, cgroup-parent).
    # shellcheck disable=SC2013 # paths without spaces
    for file in $(grep -l -e kubepods -e docker "$root"/proc/[0-9]*/cgroup 2>/dev/null); do
        if [ -e "${file%/cgroup}/root/dev/nvidiactl" ]; then
            echo "a container that has GPUs runs"
            return 0
        fi
    done
    return 1
}
