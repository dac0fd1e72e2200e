# Prepares a host for Kubernetes and the NVIDIA driver, step by step.
#
# A step is one file steps/<step>.sh:
#   check_<step>   says by `problem` what stands in its way; nothing is changed yet (optional)
#   apply_<step>   brings the host to what is declared, says by `expect` what must be found later
#   undo_<step>    undoes what its effects (effects.sh) don't (optional)
#   fetch_<step>   downloads and verifies what apply will need, and installs nothing (optional)
#   upgrade_<step> changes what the whole cluster goes by, while the node's pods run (optional)
#   found_<kind>   whether an expectation holds, for the probe (optional; reads only)
# all_steps (script.py) has them in their order, GC_STEPS those that this host declares. A step that
# is no longer declared is undone, the last one first, before anything else is done.

apply() {
    check
    open_state
    for each in $(reversed "$all_steps"); do
        declared "$each" || undo_step "$each"
    done
    for step in $GC_STEPS; do
        : >"$scratch/wanted"
        "apply_$step"
        settle
    done
    after_steps
}

# Before a rollout, on all hosts: what can't be had stops it while nothing is changed yet.
fetch() {
    each_declared fetch
}

# In a rollout, before the node is drained.
upgrade() {
    each_declared upgrade
}

# each_declared KIND: the functions of that kind that declared steps have.
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
    require_package_manager_idle
    find_manager
    for step in $GC_STEPS; do
        ! defined "check_$step" || "check_$step"
    done
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
    after_steps
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
    take_back_step "$1"
    ! defined "undo_$1" || "undo_$1"
}

# What several changes ask for is done once, also after a run that was killed in between.
after_steps() {
    [ -f "$state/boot-menu-pending" ] || return 0
    write_boot_menu
    rm -f -- "$state/boot-menu-pending"
}
