# Prepares a host for Kubernetes and the NVIDIA driver, step by step.
#
# A step is one file steps/<step>.sh:
#   check_<step>   reports with `problem` what prevents the step; changes nothing (optional)
#   apply_<step>   applies what is declared, records with `expect` what must be found later
#   undo_<step>    undoes what is not recorded as an effect (effects.sh) (optional)
#   fetch_<step>   downloads and verifies what apply needs, installs nothing (optional)
#   upgrade_<step> changes what the whole cluster depends on, while pods run (optional)
#   found_<kind>   checks an expectation for the probe (optional; reads only)
# all_steps (script.py) lists all steps in order, GC_STEPS the steps that this host declares. Steps
# that are no longer declared are undone first, the last step before the others.

apply() {
    check
    [ -d "$state" ] || first_run=yes
    open_state
    for each in $(reversed "$all_steps"); do
        declared "$each" || undo_step "$each"
    done
    refuse_left
    for step in $GC_STEPS; do
        : >"$scratch/wanted"
        "apply_$step"
        settle
        refuse_left
    done
    after_steps
}

# roll_back: undoes what a first run has changed if it fails before it has installed anything. Nobody
# else would: a stack whose first run failed may be destroyed without this host.
roll_back() {
    [ -n "${first_run-}" ] && [ -d "$state" ] || return 0
    first_run=
    for file in "$state"/before-*; do
        [ ! -e "$file" ] || return 0
    done
    ! grep -Evqs '^[a-z]+ (file|drop_in) ' "$state/effects" || return 0
    problems=
    : >"$scratch/left"
    (undo && close_state) && printf 'what this run had changed is undone\n' >&2
}

# fetch: runs on all hosts before a rollout, so that a failed download stops the rollout before any change.
fetch() {
    each_declared fetch
}

# upgrade: runs in a rollout, before the node is drained.
upgrade() {
    each_declared upgrade
}

# each_declared KIND: calls the function <KIND>_<step> of each declared step that has one.
each_declared() {
    check
    open_state
    for step in $GC_STEPS; do
        ! defined "${1}_$step" || "${1}_$step"
    done
}

check() {
    require_root
    require_commands awk cat chmod cmp cp cut df grep mkdir modprobe mv paste rm rmdir sed sha256sum \
        sort stat swapoff sysctl tail timeout uname
    require_system
    require_disk
    require_writable /etc /etc/fstab /etc/sysctl.d /etc/modprobe.d /etc/modules-load.d /var/lib
    require_package_manager_idle
    find_manager
    for step in $GC_STEPS; do
        ! defined "check_$step" || "check_$step"
    done
    each_repository check_key_folder
    refuse_problems
}

undo() {
    require_root
    refuse_problems
    find_manager
    record_killed
    for each in $(reversed "$all_steps"); do
        undo_step "$each"
    done
    attempt "the boot menu, or services with what was declared for them" after_steps
    refuse_left
}

defined() {
    command -v "$1" >/dev/null
}

declared() {
    case " $GC_STEPS " in
        *" $1 "*) return 0 ;;
    esac
    return 1
}

reversed() {
    line=
    for word in $1; do
        line="$word $line"
    done
    printf '%s' "$line"
}

undo_step() {
    undoing=yes
    drop_reboots "$1"
    take_back_step "$1"
    ! defined "undo_$1" || attempt "step $1" "undo_$1"
    undoing=
}

# after_steps: does work that several steps requested only once, also if an earlier run was killed
# before it did this work.
after_steps() {
    services_back
    [ -f "$state/boot-menu-pending" ] || return 0
    write_boot_menu
    rm -f -- "$state/boot-menu-pending"
}
