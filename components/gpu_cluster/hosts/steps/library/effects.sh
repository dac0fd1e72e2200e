# Effects: changes that steps make on a host in addition to placed files, and their undo.
#
# A step is a group of changes that are declared together (driver, kubernetes, ...). Its effects are
# recorded as lines `<step> <kind> <subject>` in /var/lib/gpu-cluster/<phase>/effects, before the
# change if a kill in between could lose them. Effects of a step that is no longer declared, or that
# a step no longer needs, are undone in reverse order by the functions undo_<kind>. These functions
# are in the library, or in the file of the only step with such effects.

step=
: "${GC_PACKAGE_RUN_LIMIT:=1800}" # seconds for one run of a package manager or installer

# bounded SECONDS COMMAND...: runs a command with a time limit, its output in a log, without the
# lock's file descriptor.
bounded() {
    timeout -k 10 "$@" >"$scratch/log" 2>&1 9>&-
}

# again TRIES SECONDS COMMAND...: retries a command until it succeeds, with a pause between two
# tries.
again() {
    tries=$1 pause=$2
    shift 2
    until "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep "$pause"
    done
}

log_end() {
    grep -v '^[[:space:]]*$' "$scratch/log" | tail -n 4 | paste -s -d ' ' -
}

effect() {
    printf '%s\n' "$step $*" >>"$scratch/wanted"
    record effects "$step $*"
}

recorded() {
    file_has "$state/effects" "$step $*"
}

# Undoes recorded effects of this step that this run no longer needs.
settle() {
    [ -f "$state/effects" ] || return 0
    : >>"$scratch/wanted"
    grep -e "^$step " "$state/effects" | grep -Fvx -f "$scratch/wanted" >"$scratch/stale"
    take_back_stale
}

take_back_step() {
    step=$1
    [ -f "$state/effects" ] || return 0
    grep -e "^$step " "$state/effects" >"$scratch/stale"
    take_back_stale
}

# Undoes the effects in the file `stale`, the last one first. An effect whose undo fails stays
# recorded. Without kubeadm's reset nothing else may go, because it needs the packages of Kubernetes.
take_back_stale() {
    [ -s "$scratch/stale" ] || return 0
    sed -n '1!G;h;$p' "$scratch/stale" >"$scratch/reversed"
    : >"$scratch/failed"
    while read -r owner kind subject <&3; do
        case $kind in
            initialized | joined | member) "undo_$kind" "$subject" ;;
            *) attempt "$kind $subject" "undo_$kind" "$subject" || printf '%s\n' "$owner $kind $subject" >>"$scratch/failed" ;;
        esac
    done 3<"$scratch/reversed"
    attempt "packages of $step" remove_unwanted || grep -e '^[^ ]* package ' "$scratch/stale" >>"$scratch/failed"
    grep -Fvx -f "$scratch/failed" "$scratch/stale" >"$scratch/undone"
    grep -Fvx -f "$scratch/undone" "$state/effects" >"$state/draft"
    mv -- "$state/draft" "$state/effects" || fail_file "can't write $state/effects"
}

# step_file PATH TEXT: places a file that belongs to the step.
step_file() {
    effect file "$1"
    place_text "$1" "$2"
}

undo_file() {
    forget "$1"
}

# --- units -------------------------------------------------------------------------------------

# unit_on NAME [later]: enables a unit and starts it now, or (later) lets the next boot start it.
# --no-reload, because a reload of systemd takes the GPUs from running containers that have them
# without CDI (NVIDIA/nvidia-container-toolkit#48).
unit_on() {
    if systemctl is-enabled --quiet "$1" 2>/dev/null; then
        ! recorded enabled "$1" || effect enabled "$1"
    else
        effect enabled "$1"
        bounded 60 systemctl --no-reload enable "$1" || fail_unit "unit $1 can't be enabled: $(log_end)"
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
        bounded 120 systemctl start "$1" || fail_unit "unit $1 does not start: $(log_end)"
        did "unit $1 started"
    fi
}

undo_enabled() {
    systemctl is-enabled --quiet "$1" 2>/dev/null || return 0
    bounded 60 systemctl --no-reload disable "$1" || fail_unit "unit $1 can't be disabled: $(log_end)"
    undid "unit $1 enabled"
}

undo_started() {
    systemctl is-active --quiet "$1" 2>/dev/null || return 0
    bounded 120 systemctl stop "$1" || fail_unit "unit $1 can't be stopped: $(log_end)"
    undid "unit $1 started"
}

# --- found later: the probe has this part too ---

found_active() {
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted="$1 is not active"
    timeout 5 systemctl is-active --quiet "$1"
}

found_inactive() {
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted="$1 is active"
    ! timeout 5 systemctl is-active --quiet "$1"
}
