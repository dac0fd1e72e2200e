# Configures the NVIDIA runtime in the host's container engine. Each engine's own file defines
# $unit, $files, require_engine, make_wanted, check_wanted, needed_action, judge_applied,
# engine_view and smi_in_container. Only Docker also needs before_files, after_start, files_back,
# settled and engine_off; the other engines use the empty ones in engine_plain.sh.
#
# systemctl daemon-reload, which `enable` includes unless --no-reload is given, takes the GPUs from
# running containers that have them without CDI (NVIDIA/nvidia-container-toolkit#48, #1227), so
# nothing here runs it. Packages do (the toolkit's RPM after its installation, units of Debian's
# packages), so the inspection warns of hosts whose runtime is in mode legacy; in mode auto it uses
# CDI.
#
# State: engine, files (of the engine), service (the unit's previous state), pending (what the daemon still needs),
# previous (the files that the daemon last ran with).

action=none
answer=
file_mask=022 # for files that were not there before
# Path of the runtime in the toolkit's packages.
: "${GC_RUNTIME_PATH:=/usr/bin/nvidia-container-runtime}"

apply() {
    require_root
    require_commands awk cat cmp cp cut grep mkdir mv paste rm rmdir sed sha256sum sort systemctl tail \
        timeout uname
    refuse_foreign
    require_engine
    require_cgroup_driver
    require_unmasked "$unit"
    check_toolkit
    refuse_problems
    toolkit_on
    refuse_problems
    make_wanted
    check_wanted
    refuse_problems
    open_state
    toolkit_rights
    remember_service
    before_files
    leave_other_files
    put_in_place
    service_on
    after_start
    expect active "$unit"
    check_gpus
    # Print the running daemon's configuration at the end of each run that changed something.
    [ "$changed" = 0 ] || [ -z "$answer" ] || echo "$answer"
}

undo() {
    require_root
    refuse_problems
    [ ! -f "$state/engine" ] || read -r unit <"$state/engine"
    again=no
    engine_view "$scratch/view" || again=yes
    [ ! -f "$state/pending" ] || again=yes
    printf 'restart\n' >"$state/pending"
    for file in $(cat "$state/files" 2>/dev/null || echo "$files"); do
        attempt "$file" restore "$file"
    done
    engine_off
    engine_view "$scratch/after" && cmp -s "$scratch/view" "$scratch/after" || again=yes
    attempt "$unit" service_back
    take_back_step rights
    attempt "the toolkit" toolkit_off
    refuse_left
}

# Names an engine inside other software (k0s, snaps), before other checks report a missing engine.
refuse_foreign() {
    find_foreign
    [ -z "$foreign" ] || {
        problem "$foreign, with its own container engine" "containerd, Docker or CRI-O of packages, K3s or RKE2" \
            "configure the NVIDIA runtime as its documentation says, and declare this host without runtime"
        refuse_problems
    }
}

# Checks that the kubelet and the engine use the same cgroup driver, or no pod of a joined node gets
# a sandbox again. Source: Kubernetes docs, "Configuring a cgroup driver"; KubeletConfiguration
# (kubelet.config.k8s.io/v1beta1): cgroupfs if the field is missing.
require_cgroup_driver() {
    [ -n "${GC_SYSTEMD_CGROUP-}" ] || return 0
    find_kubelet || return 0
    driver=$(flag cgroup-driver) || driver=$(kubelet_setting cgroupDriver)
    if followed=$(followed_driver); then
        case $followed-$GC_SYSTEMD_CGROUP in systemd-true | cgroupfs-false) return 0 ;; esac
        [ "$followed" = systemd ] && wanted=true || wanted=false
        problem "cgroup driver $followed of the engine, which the running kubelet took over CRI" \
            "the declared one (runtime.systemdCgroup: $GC_SYSTEMD_CGROUP)" \
            "declare runtime.systemdCgroup: $wanted, or drain the node, stop the kubelet, and run again"
        return 0
    fi
    case ${driver:-cgroupfs}-$GC_SYSTEMD_CGROUP in
        systemd-true | cgroupfs-false) return 0 ;;
        systemd-*) wanted=true ;;
        *) wanted=false ;;
    esac
    problem "cgroupDriver ${driver:-cgroupfs} in $kubelet" \
        "that of the engine (runtime.systemdCgroup: $GC_SYSTEMD_CGROUP)" \
        "declare runtime.systemdCgroup: $wanted, or drain the node and change kubelet's first"
}

# followed_driver: prints the cgroup driver that the kubelet takes from the engine instead of its own
# setting; fails if it takes its own. It does so from Kubernetes 1.34 on (feature gate
# KubeletCgroupDriverFromCRI: beta and on by default from 1.31 on, locked from 1.34 on; Kubernetes docs,
# "Feature Gates", and KEP-4033), if the engine tells it. A kubelet that doesn't run takes what the engine
# has when it starts.
followed_driver() {
    [ -n "$running_program" ] && find_version 90 kubelet "$running_program" || return 1
    [ -n "$program_version" ] && ! is_before "$program_version" 1.34 || return 1
    endpoint=$(flag container-runtime-endpoint) || endpoint=$(kubelet_setting containerRuntimeEndpoint)
    endpoint=${endpoint:-unix:///run/containerd/containerd.sock}
    told=$(cri_cgroup_driver "$root${endpoint#unix://}") || return 1
    if [ -n "$pid" ]; then
        echo "$told"
    elif [ "$GC_SYSTEMD_CGROUP" = true ]; then
        echo systemd
    else
        echo cgroupfs
    fi
}

# after NAME OTHER: returns true if NAME comes later in the order in which drop-ins are read.
after() {
    [ "$1" != "$2" ] && [ "$(printf '%s\n' "$1" "$2" | LC_ALL=C sort | tail -n 1)" = "$1" ]
}

# make_folder PATH: creates the folder for the draft of PATH.
make_folder() {
    mkdir -p "$scratch/drafts${1%/*}" || fail_file "can't make folders in $scratch"
}

differs() {
    for file in $files; do
        if [ -f "$scratch/drafts$file" ]; then
            [ -f "$root$file" ] && cmp -s "$scratch/drafts$file" "$root$file" || return 0
        elif kept "$file" || was_absent "$file"; then
            return 0
        fi
    done
    return 1
}

remember_service() {
    : >>"$state/written" # The probe recognizes an applied phase by this file.
    [ ! -f "$state/service" ] || return 0
    printf '%s\n' "$unit" >"$state/engine" || fail_file "can't write $state/engine"
    active=$(systemctl is-active "$unit" 2>/dev/null)
    enabled=$(systemctl is-enabled "$unit" 2>/dev/null)
    printf '%s\n' "${active:-unknown} ${enabled:-unknown}" >"$state/draft" &&
        mv -- "$state/draft" "$state/service" || fail_file "can't write $state/service"
}

# Records the action that the daemon needs (reload or restart): the stronger of the action that an
# earlier run left pending and the action for the files of this run.
mark_pending() {
    if [ "$action" = none ] || file_has "$state/pending" restart; then
        return 0
    fi
    printf '%s\n' "$action" >"$state/pending" || fail_file "can't write $state/pending"
}

# Restores the files of an earlier run, in which the unit named another configuration file.
leave_other_files() {
    # shellcheck disable=SC2013 # a list of words, split on purpose
    for file in $(cat "$state/files" 2>/dev/null); do
        case " $files " in
            *" $file "*) ;;
            *) forget "$file" ;;
        esac
    done
    keep_text files "$files
"
}

put_in_place() {
    if ! differs; then
        mark_pending
        return 0
    fi
    needed_action
    if [ ! -d "$state/previous" ]; then
        [ ! -e "$state/draft" ] || rm -rf -- "$state/draft"
        mkdir "$state/draft" || fail_file "can't write in $state"
        for file in $files; do
            [ -f "$root$file" ] || continue
            mkdir -p "$state/draft${file%/*}" && cp -a -- "$root$file" "$state/draft$file" ||
                fail_file "can't keep a copy of $file in $state"
        done
        mv -- "$state/draft" "$state/previous" || fail_file "can't write $state/previous"
    fi
    mark_pending
    for file in $files; do
        if [ -f "$scratch/drafts$file" ]; then
            make_directory "${file%/*}"
            umask "$file_mask"
            place "$file" "$scratch/drafts$file"
            umask 022
        else
            forget "$file"
        fi
    done
}

put_back() {
    for file in $files; do
        if [ -f "$state/previous$file" ]; then
            cp -a -- "$state/previous$file" "$root$file.gpu-cluster-new" &&
                mv -f -- "$root$file.gpu-cluster-new" "$root$file"
        else
            rm -f -- "$root$file"
        fi
    done
    files_back
}

service_on() {
    # In the first run, remember_service has just read this state.
    if [ "${enabled-}" != enabled ] && ! systemctl is-enabled --quiet "$unit"; then
        timeout 60 systemctl --no-reload enable "$unit" >/dev/null 2>&1 || fail_unit "$unit can't be enabled"
        did "$unit enabled"
    fi
    pending=
    [ ! -f "$state/pending" ] || read -r pending <"$state/pending"
    [ "$pending" = restart ] || systemctl is-active --quiet "$unit" || pending=restart
    case $pending in
        reload)
            if timeout 120 systemctl reload "$unit" >"$scratch/restart" 2>&1 && judge_applied; then
                service_settled "$unit reloaded"
                return 0
            fi
            ;;
        restart) ;;
        *)
            judge_applied || fail_unit "$unit runs without a working nvidia runtime: $(why)"
            service_settled
            return 0
            ;;
    esac
    if restart_unit && judge_applied; then
        service_settled "$unit restarted"
        return 0
    fi
    [ -d "$state/previous" ] ||
        fail_act "$unit does not start: $(why); check journalctl -u $unit"
    put_back
    reason=$(why)
    restart_unit || fail_act "$unit starts neither with the new configuration nor with the old one, which was restored: $reason; check journalctl -u $unit"
    rm -rf -- "$state/pending" "$state/previous"
    fail_act "$unit did not start with the new configuration, so the old one was restored: $reason; check journalctl -u $unit"
}

service_settled() {
    settled
    rm -rf -- "$state/pending" "$state/previous"
    [ -z "${1-}" ] || did "$1"
}

restart_unit() {
    # What the daemon answered before is not why it doesn't start.
    rm -f -- "$scratch/judgement"
    timeout 300 systemctl restart "$unit" >"$scratch/restart" 2>&1 9>&- &&
        systemctl is-active --quiet "$unit"
}

# Prints the last message of a failed start or check of the daemon.
why() {
    cat "$scratch/restart" "$scratch/judgement" 2>/dev/null | grep -v '^[[:space:]]*$' | tail -n 1
}

service_back() {
    # An apply that was refused early has no earlier state of the unit.
    [ -f "$state/service" ] && read -r active enabled <"$state/service" || return 0
    if [ "$active" != active ]; then
        systemctl is-active --quiet "$unit" && timeout 120 systemctl stop "$unit" &&
            undid "$unit stopped"
    elif [ "$again" = yes ]; then
        restart_unit || fail_unit "$unit does not start with its earlier configuration: $(why)"
        undid "$unit restarted"
    fi
    if [ "$enabled" = disabled ] && systemctl is-enabled --quiet "$unit"; then
        timeout 60 systemctl --no-reload disable "$unit" >/dev/null 2>&1
        undid "$unit disabled"
    fi
    return 0
}

# Proves with a container that it sees the GPUs, if a check image is declared that the host can
# pull.
check_gpus() {
    [ -n "$GC_CHECK_IMAGE" ] && [ -r "$root/proc/driver/nvidia/version" ] || return 0
    smi_in_container "$GC_CHECK_IMAGE" && grep -q '^GPU 0' "$scratch/smi" ||
        fail "nvidia-smi in a container of $GC_CHECK_IMAGE shows no GPU: $(tail -n 1 "$scratch/smi"); check nvidia-smi on the host, and $files"
}
