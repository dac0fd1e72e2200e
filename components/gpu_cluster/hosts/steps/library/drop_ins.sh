# Drop-ins for services that other packages installed; they apply once systemd reads its units
# again. State in /run, which a boot clears together with the need: drop-ins-pending (units that
# systemd has not read again yet).

# unit_drop_in UNIT NAME TEXT: writes a drop-in of a unit.
unit_drop_in() {
    file=/etc/systemd/system/$1.service.d/50-gpu-cluster-$2.conf
    # The marker file is written first, so that the next run completes a run that was killed.
    same_text "$file" "$3" || drop_in_waits "$1"
    effect drop_in "$file"
    place_text "$file" "$3"
}

# undo_drop_in PATH: removes a drop-in; the service runs with it until systemd has read its units
# again and has restarted the service (services_back).
undo_drop_in() {
    left_unit=${1#/etc/systemd/system/}
    left_unit=${left_unit%%.service.d/*}
    if [ -f "$root$1" ]; then
        drop_in_waits "$left_unit"
        record leaving "$left_unit"
    fi
    forget "$1"
}

# services_back: restarts the services that still run with an undone drop-in, if nothing is at risk;
# else a run notes them, and the probe finds them until a later run or a boot.
services_back() {
    [ -f "$state/leaving" ] || return 0
    drop_ins_in_force
    while read -r left_unit; do
        ! file_has "$drop_ins_pending" "$left_unit" || expect in_force "$left_unit"
    done <"$state/leaving"
    [ -f "$drop_ins_pending" ] || rm -f -- "$state/leaving"
}

drop_ins_pending=$root/run/gpu-cluster/drop-ins-pending

drop_in_waits() {
    ! file_has "$drop_ins_pending" "$1" || return 0
    mkdir -p "$root/run/gpu-cluster" && printf '%s\n' "$1" >>"$drop_ins_pending" ||
        fail_file "can't write $drop_ins_pending"
}

# Applies pending drop-ins. A reload of systemd takes the GPUs from running containers that have
# them without CDI (NVIDIA/nvidia-container-toolkit#48), and a restart of Docker ends its
# containers. So drop-ins apply immediately only if no such container runs, otherwise in a later run
# or at the next boot.
drop_ins_in_force() {
    [ -f "$drop_ins_pending" ] || return 0
    units=$(paste -s -d ' ' - <"$drop_ins_pending")
    if why=$(containers_at_risk); then
        note "what is declared for the services $units, or is no longer declared, waits for a drained node or the next boot: $why"
        return 0
    fi
    bounded 60 systemctl daemon-reload || fail_unit "systemd can't read its units again: $(log_end)"
    for unit in $units; do
        systemctl is-active --quiet "$unit" 2>/dev/null || continue
        bounded 300 systemctl restart "$unit" || fail_unit "unit $unit does not start again: $(log_end)"
        did "unit $unit restarted with what is declared for it"
    done
    rm -f -- "$drop_ins_pending"
}

# containers_at_risk: prints why a reload must wait; returns false if nothing is at risk.
containers_at_risk() {
    case " $units " in
        *' docker '*)
            if have docker && [ -n "$(timeout 10 docker ps -q 2>/dev/null)" ]; then
                echo "Docker runs containers"
                return 0
            fi
            ;;
    esac
    # The cgroups of pods and of Docker's containers (kubelet, --cgroup-root; Docker,
    # cgroup-parent).
    # shellcheck disable=SC2013 # paths without spaces
    for file in $(grep -l -e kubepods -e docker "$root"/proc/[0-9]*/cgroup 2>/dev/null); do
        if [ -e "${file%/cgroup}/root/dev/nvidiactl" ]; then
            echo "a container that has GPUs runs"
            return 0
        fi
    done
    return 1
}

# --- found later: the probe has this part too ---

# found_in_force UNIT: returns true if the service runs without what is no longer declared.
found_in_force() {
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted="unit $1 runs with what is no longer declared for it"
    ! grep -Fqsx -e "$1" "$root/run/gpu-cluster/drop-ins-pending"
}
