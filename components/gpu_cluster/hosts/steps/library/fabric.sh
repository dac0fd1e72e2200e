# NVSwitches and the services that manage them. Sources: NVIDIA Fabric Manager user guide (its
# version equals the driver's); NVIDIA/gpu-driver-container 06a208c, ubuntu24.04/nvidia-driver
# (_assert_nvlink5_system, _ensure_nvlink5_prerequisites), ubuntu24.04/precompiled/local-repo.sh
# (names by branch).

imex_nodes=/etc/nvidia-imex/nodes_config.cfg
umad_file=/etc/modules-load.d/gpu-cluster-fabric.conf

# Returns true for NVSwitches of the fourth generation (HGX B200, B300).
fourth_generation() {
    for device in "$root"/sys/bus/pci/devices/*; do
        ! is_switch_manager "$device" || return 0
    done
    return 1
}

fabric_wanted() {
    case $GC_DRIVER_FABRIC_MANAGER in
        on) return 0 ;;
        off) return 1 ;;
    esac
    count_nvidia_devices
    fourth_generation || [ "$switches" -gt 0 ]
}

# driver_release: sets $version and $branch of the driver.
driver_release() {
    branch=$(driver_branch)
    version=${GC_DRIVER_VERSION:-$(driver_installed)}
    [ -n "$branch" ] || branch=${version%%.*}
}

# Turns on IMEX, with which GPUs of one NVLink domain access each other's memory across hosts (GB200
# NVL72). All hosts have the same list, which includes their own address. Sources: NVIDIA IMEX
# Service guide; NVIDIA/k8s-device-plugin, internal/lm/imex.go, which reads the list for its labels;
# gpu-driver-container (names by branch).
imex_on() {
    [ -n "${GC_DRIVER_IMEX_NODES-}" ] || return 0
    driver_release
    words=$(offered "$version" nvidia-imex "nvidia-imex-$branch") ||
        fail "IMEX $version: found neither nvidia-imex nor nvidia-imex-$branch in the repositories; wanted the driver's own version; declare driver.repository or a mirror that has it"
    install_beside "$words"
    printf '%s' "$GC_DRIVER_IMEX_NODES" | cmp -s - "$root$imex_nodes" || imex_changed=yes
    step_file "$imex_nodes" "$GC_DRIVER_IMEX_NODES"
    # IMEX reads the list only when it starts.
    if [ "${imex_changed-}" = yes ] && [ "${1-}" != later ] && systemctl is-active --quiet nvidia-imex; then
        bounded 120 systemctl restart nvidia-imex || fail_unit "unit nvidia-imex does not start again: $(log_end)"
        did "unit nvidia-imex restarted with another list"
    fi
    unit_on nvidia-imex "$@"
}

fabric_on() {
    fabric_wanted || return 0
    driver_release
    words=$(offered "$version" nvidia-fabricmanager "nvidia-fabricmanager-$branch" nvidia-fabric-manager) ||
        fail "fabric manager $version: found neither nvidia-fabricmanager nor nvidia-fabricmanager-$branch nor nvidia-fabric-manager in the repositories; wanted the driver's own version; declare driver.repository or a mirror that has it"
    if fourth_generation; then
        [ "$branch" -ge 570 ] ||
            fail "found NVSwitches of the fourth generation with driver $version; wanted branch 570 or later; declare a driver.version of that branch"
        words="$words nvlsm infiniband-diags $(offered "$version" libnvsdm "libnvsdm-$branch")"
        step_file "$umad_file" "# gpu-cluster
ib_umad
"
        [ -d "$root/sys/module/ib_umad" ] || {
            bounded 60 modprobe ib_umad || fail_act "the module ib_umad, which the subnet manager of NVSwitches needs, can't be loaded: $(log_end); install the modules of the running kernel (linux-modules-extra or kernel-modules-extra) or MLNX_OFED for it, then run \`gpu-cluster up\` again"
            did "module ib_umad"
        }
    fi
    # shellcheck disable=SC2086 # a list of words, split on purpose
    install_beside $words
    unit_on nvidia-fabricmanager "$@"
}

# install_beside NAME=VERSION...: installs packages, and removes those of another branch in the same
# transaction, because they have the same files and may not declare a conflict. The function
# `offered`, which found the names, has listed the installed packages.
install_beside() {
    away=$(printf '%s\n' "$@" | awk '
        { name = $1; sub(/=.*/, "", name); plain = name; sub(/-[0-9]+$/, "", plain) }
        FNR == NR { names[name]; plains[plain]; next }
        plain in plains && !(name in names) { print name }' - "$scratch/installed" | paste -s -d ' ' -)
    install_packages "$@"
    away=
}

# offered VERSION NAME...: prints the first of these names that the repositories have at that
# version, as NAME=VERSION; an installed package of that version is preferred.
offered() {
    wanted=$1
    shift
    list_installed "$scratch/installed"
    for try in "$@"; do
        [ -z "$(matching "$try" "$wanted" "$scratch/installed")" ] || {
            echo "$try=$wanted"
            return 0
        }
    done
    list_available "$@"
    for try in "$@"; do
        [ -z "$(matching "$try" "$wanted" "$scratch/plain")" ] || {
            echo "$try=$wanted"
            return 0
        }
    done
    return 1
}

# --- found later: the probe has this part too ---

# Sets $count and $switches to the numbers of GPUs and of NVSwitches: NVIDIA's display controllers and
# bridges on the PCI bus, and the devices in front of NVSwitches of the fourth generation. These are
# found on the bus, because they are no InfiniBand devices until mlx5_ib is loaded
# (NVIDIA/gpu-operator#2781).
# shellcheck disable=SC2034 # the probe reads $count
count_nvidia_devices() {
    count=0
    switches=0
    for device in "$root"/sys/bus/pci/devices/*; do
        [ -r "$device/vendor" ] && [ -r "$device/class" ] || continue
        read -r vendor <"$device/vendor"
        read -r class <"$device/class"
        case $vendor-$class in
            0x10de-0x0300* | 0x10de-0x0302*) count=$((count + 1)) ;;
            0x10de-0x0680*) switches=$((switches + 1)) ;;
            # The second number of a network controller's class may be Ethernet or InfiniBand.
            0x15b3-0x02*) ! is_switch_manager "$device" || switches=$((switches + 1)) ;;
        esac
    done
}

# is_switch_manager DEVICE: returns true for a PCI device with the mark of NVSwitches of the fourth
# generation in its product data: they are behind it.
is_switch_manager() {
    [ -r "$1/vpd" ] && grep -q SW_MNG "$1/vpd"
}
