# What steps do beside placing files, and how it is taken back.
#
# A step is a group of changes that are declared together (driver, kubernetes, ...). What it does is
# kept as lines `<step> <kind> <subject>` in /var/lib/gpu-cluster/<phase>/effects, written before the
# change where a kill in between could lose it. A step that is no longer declared, or an effect that
# a step no longer wants, is taken back in reverse order by the functions undo_<kind>; they are all
# here or in packages.sh, holds.sh and repositories.sh, because the step itself may be gone.

step=

# bounded SECONDS COMMAND...: output to a log, no descriptor of our lock, an end in time.
bounded() {
    timeout -k 10 "$@" >"$scratch/log" 2>&1 9>&-
}

log_end() {
    grep -v '^[[:space:]]*$' "$scratch/log" | tail -n 4 | paste -s -d ' ' -
}

effect() {
    printf '%s\n' "$step $*" >>"$scratch/wanted"
    record effects "$step $*"
}

recorded() {
    grep -Fqx -e "$step $*" "$state/effects" 2>/dev/null
}

# Effects of this step that this run did not ask for any more.
settle() {
    [ -f "$state/effects" ] || return 0
    touch "$scratch/wanted"
    grep -e "^$step " "$state/effects" | grep -Fvx -f "$scratch/wanted" >"$scratch/stale"
    take_back_stale
}

take_back_step() {
    step=$1
    grep -e "^$step " "$state/effects" >"$scratch/stale"
    take_back_stale
}

take_back_stale() {
    [ -s "$scratch/stale" ] || return 0
    sed -n '1!G;h;$p' "$scratch/stale" >"$scratch/reversed"
    while read -r _ kind subject <&3; do
        "undo_$kind" "$subject"
    done 3<"$scratch/reversed"
    grep -Fvx -f "$scratch/stale" "$state/effects" >"$state/draft"
    mv -- "$state/draft" "$state/effects" || fail "can't write $state/effects"
}

recorded_steps() {
    [ -f "$state/effects" ] || return 0
    # The last step first.
    awk '{ step[NR] = $1 } END { for (n = NR; n > 0; n--) if (!seen[step[n]]++) print step[n] }' \
        "$state/effects"
}

steps_check() {
    if [ -n "$GC_STEPS" ] || [ -f "$state/effects" ]; then
        find_manager
    fi
    for step in $GC_STEPS; do
        "check_$step"
    done
}

steps_on() {
    for recorded in $(recorded_steps); do
        case " $GC_STEPS " in
            *" $recorded "*) ;;
            *) take_back_step "$recorded" ;;
        esac
    done
    for step in $GC_STEPS; do
        rm -f -- "$scratch/wanted"
        "apply_$step"
        settle
    done
    after_steps
}

steps_off() {
    find_manager
    record_killed
    for recorded in $(recorded_steps); do
        take_back_step "$recorded"
    done
    after_steps
}

# What several changes ask for is done once, also after a run that was killed in between.
after_steps() {
    [ -f "$state/boot-menu-pending" ] || return 0
    write_boot_menu
    rm -f -- "$state/boot-menu-pending"
}

# step_file PATH TEXT: a file that belongs to the step.
step_file() {
    effect file "$1"
    place_text "$1" "$2"
}

undo_file() {
    forget "$1"
}

# --- programs, boot menu, cluster --------------------------------------------------------------

undo_program() {
    [ "$GC_REMOVE_PACKAGES" = true ] || return 0
    [ -x "$root${1%% *}" ] || return 0
    # shellcheck disable=SC2086 # a program and its options
    bounded "$GC_PACKAGE_RUN_LIMIT" "$root"$1 || fail "$1 failed: $(log_end)"
    undid "${1%% *}"
}

boot_menu_tool() {
    if have grub2-mkconfig; then
        echo "grub2-mkconfig /boot/grub2/grub.cfg"
    elif have grub-mkconfig; then
        echo "grub-mkconfig /boot/grub/grub.cfg"
    else
        return 1
    fi
}

write_boot_menu() {
    tool=$(boot_menu_tool) || fail "found no grub-mkconfig or grub2-mkconfig; wanted one; install GRUB's tools"
    bounded 300 "${tool%% *}" -o "$root${tool#* }" ||
        fail "the boot menu can't be written by ${tool%% *}: $(log_end)"
}

# Recorded before the file, so undone after it.
undo_boot_menu() {
    : >"$state/boot-menu-pending"
}

# What joined is taken out again: kubelet's identity and static pods; never a node we did not join.
undo_joined() {
    [ -f "$root/etc/kubernetes/kubelet.conf" ] || return 0
    have kubeadm || fail "found no kubeadm; wanted it to take this host out of its cluster; install it"
    bounded 300 kubeadm reset --force || fail "kubeadm reset failed: $(log_end)"
    undid "joined the cluster"
    note "the node object stays in the cluster: kubectl delete node $(uname -n)"
}

# --- units -------------------------------------------------------------------------------------

# unit_on NAME [later]: enabled and running, or running from the next boot on. --no-reload: a reload of systemd's manager takes the GPUs from
# running containers that have them without CDI (NVIDIA/nvidia-container-toolkit#48).
unit_on() {
    if systemctl is-enabled --quiet "$1" 2>/dev/null; then
        ! recorded enabled "$1" || effect enabled "$1"
    else
        effect enabled "$1"
        bounded 60 systemctl --no-reload enable "$1" || fail "unit $1 can't be enabled: $(log_end)"
        did "unit $1 enabled"
    fi
    if [ "${2-}" = later ]; then
        effect started "$1"
        return 0
    fi
    expect active "$1"
    if systemctl is-active --quiet "$1" 2>/dev/null; then
        ! recorded started "$1" || effect started "$1"
    else
        effect started "$1"
        bounded 120 systemctl start "$1" || fail "unit $1 does not start: $(log_end)"
        did "unit $1 started"
    fi
}

undo_enabled() {
    systemctl is-enabled --quiet "$1" 2>/dev/null || return 0
    bounded 60 systemctl --no-reload disable "$1" || fail "unit $1 can't be disabled: $(log_end)"
    undid "unit $1 enabled"
}

undo_started() {
    systemctl is-active --quiet "$1" 2>/dev/null || return 0
    bounded 120 systemctl stop "$1" || fail "unit $1 can't be stopped: $(log_end)"
    undid "unit $1 started"
}
