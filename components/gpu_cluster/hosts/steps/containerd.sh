# Configures the NVIDIA runtime in containerd, with the functions that runtime.sh calls. The host's
# own nvidia-ctk writes a drop-in from the root configuration; containerd's merged configuration
# before and after decides whether the result is right.
#
# Facts behind the decisions (seen with containerd 1.6.20 to 2.4.2 and nvidia-ctk 1.20.2):
# - containerd 1.x replaces a plugin's whole section by the drop-in's section, 2.x merges them.
#   nvidia-ctk therefore copies the section; what another drop-in adds to it would be lost on 1.x.
# - A section that names any runtime loses the built-in runc, so runc is always written out.
# - Only imports of the root file count, and a file without a version has version 1.
# - containerd 2.3 does not start if a drop-in has a later version than the root file.

unit=containerd
file_mask=077 # The drop-in repeats sections in which passwords of registries may stand.
config=/etc/containerd/config.toml
dropins=/etc/containerd/conf.d
dropin=$dropins/99-nvidia.toml
files="$dropin $config"

# Sets `engine_program`, `config` and `socket` to the program, root file and socket of the unit's
# daemon. Another containerd may be first on PATH, such as a distribution's package in addition to
# Docker's (NVIDIA/nvidia-container-toolkit#982), and installers name another root file in the unit
# (kops: config-kops.toml).
find_engine() {
    find_running "$unit" containerd
    engine_program=${running_program:-$(command -v containerd)}
    config=$(flag config c) || config=/etc/containerd/config.toml
    socket=$(flag address a) || socket=
    dropins=${config%/*}/conf.d
    dropin=$dropins/99-nvidia.toml
    files="$dropin $config"
}

require_engine() {
    find_engine
    require_known "$unit"
    if [ -z "$engine_program" ]; then
        problem "no containerd" "containerd 1.6 or later" "install containerd"
        return 0
    fi
    require_version containerd "$engine_program" containerd 1.6
    take_version
    # Set the version of a new root file (format), the newest version that containerd reads
    # (newest), and the name of CRI's section (cri). An older containerd starts with a newer file
    # and ignores what it does not know (seen with 1.6).
    format=3 newest=3 cri='plugins."io.containerd.cri.v1.runtime".containerd'
    case $major.$minor in
        1.*) format=2 newest=2 cri='plugins."io.containerd.grpc.v1.cri".containerd' ;;
        2.[0-2]) ;;
        *) newest=4 ;;
    esac
    [ -f "$root$config" ] || return 0
    root_format=$(format_of "$root$config")
    [ "${root_format:-1}" -le "$newest" ] ||
        problem "$config of version $root_format" "version $newest or earlier for containerd $engine_version" \
            "upgrade containerd, or write the file for this one"
    if ! dump "$root$config" "$scratch/before"; then
        problem "$config that containerd $engine_version can't read: $(tail -n 1 "$scratch/dump-error")" \
            "a configuration that loads" "mend it ($engine_program --config $config config dump)"
    fi
    if [ -z "$root_format" ] && grep -q '^[[:space:]]*\[plugins' "$root$config"; then
        problem "$config without a version, so version 1, with plugin sections" "version $format" \
            "replace it by what containerd prints of it ($engine_program --config $config config $(migrating)), and run again"
    fi
}

# Prints containerd's command that prints a file of version 1 in a later version.
migrating() {
    case $major in 1) echo dump ;; *) echo migrate ;; esac
}

make_wanted() {
    make_folder "$dropin" # also creates the folder of $config, which is above it
    make_texts
}

check_wanted() {
    [ ! -f "$scratch/drafts$dropin" ] || ! differs || check_texts
}

# Restart the daemon only if the merged configuration changes.
needed_action() {
    if [ -f "$scratch/before" ] && cmp -s "$scratch/before" "$scratch/after"; then
        action=none
    else
        action=restart
    fi
}

# Checks the running daemon over CRI: even if its files are right, the daemon may have failed to load
# CRI, or another program may run.
judge_applied() {
    dump "$root$config" "$scratch/applied" && judge "$scratch/applied" || {
        printf '%s\n' "its merged configuration has no nvidia runtime as wanted" >"$scratch/judgement"
        return 1
    }
    # Without namespaces no daemon runs below GPU_CLUSTER_ROOT.
    [ -z "$root" ] || { expect runtime "$config" && return; }
    find_socket
    # Each try prints what the socket lacks; the daemon's own message is what counts.
    again 20 0.5 cri_answers "$socket" "$GC_DEFAULT_RUNTIME" 2>/dev/null || {
        printf '%s\n' "$(refusal)" >"$scratch/judgement"
        return 1
    }
    expect runtime "$socket" "$GC_DEFAULT_RUNTIME"
    answer="CRI at $socket: containerd $engine_version has the runtimes $(runtimes_of "$scratch/cri")"
}

# Sets `socket` to the socket in containerd's merged configuration, if no flag names the socket: up
# to version 3 of the configuration it is in the table grpc, since version 4 in a plugin's section.
find_socket() {
    [ -z "$socket" ] || return 0
    socket=$(sed -n 's/^\(grpc\|plugins\."io\.containerd\.server\.v1\.grpc"\)\.address = "\(.*\)"$/\2/p' "$scratch/applied" | tail -n 1)
    socket=${socket:-/run/containerd/containerd.sock}
}

# Prints why CRI does not respond as wanted: the daemon's own error message.
refusal() {
    if [ -s "$scratch/cri" ]; then
        echo "CRI at $socket has the runtimes $(runtimes_of "$scratch/cri"), not nvidia as wanted"
        return
    fi
    why=$(timeout 20 "$(beside ctr)" --address "$socket" plugins ls -d id==cri 2>/dev/null | sed -n 's/^[[:space:]]*Message:[[:space:]]*//p' | tail -n 1)
    echo "no CRI answers at $socket${why:+: $why}"
}

# beside NAME: prints the path of a program in the folder of the daemon's program; if the folder has
# no such program, only its name.
beside() {
    if [ -x "${engine_program%/*}/$1" ]; then echo "${engine_program%/*}/$1"; else echo "$1"; fi
}

# engine_view RESULT: writes the configuration that the daemon reads now.
engine_view() {
    find_engine
    [ -n "$engine_program" ] && [ -f "$root$config" ] || return 1
    find_version 90 containerd "$engine_program" && take_version && dump "$root$config" "$1"
}

# Runs nvidia-smi in one container with the NVIDIA runtime, and removes the container and the image.
smi_in_container() {
    ctr=$(beside ctr)
    pulled=no
    if [ -z "$(timeout 60 "$ctr" ${socket:+--address "$socket"} -n gpu-cluster images ls -q "name==$1")" ]; then
        pulled=yes
        # ctr does not read hosts.toml by itself: only CRI uses the mirrors (containerd 1.7.29,
        # cmd/ctr/commands).
        dump "$root$config" "$scratch/registries"
        hosts=$(sed -n 's/.*registry\.config_path = "\([^:"]\{1,\}\).*/\1/p' "$scratch/registries" | head -n 1)
        timeout 300 "$ctr" ${socket:+--address "$socket"} -n gpu-cluster images pull ${hosts:+--hosts-dir "$hosts"} "$1" >"$scratch/pull" 2>&1 ||
            fail "$1 can't be pulled: $(tail -n 1 "$scratch/pull"); correct the image or registry.mirror in the stack file"
    fi
    timeout 120 "$ctr" ${socket:+--address "$socket"} -n gpu-cluster run --rm --runc-binary="$GC_RUNTIME_PATH" \
        --cap-add CAP_SYS_ADMIN --env NVIDIA_VISIBLE_DEVICES=all "$1" "gpu-cluster-$$" nvidia-smi -L >"$scratch/smi" 2>&1
    status=$?
    [ "$pulled" = no ] || timeout 60 "$ctr" ${socket:+--address "$socket"} -n gpu-cluster images rm --sync "$1" >/dev/null 2>&1
    return $status
}

# --- found later: the probe has this part too ---

# found_runtime SOCKET DEFAULT: asks the running daemon over its socket. Without namespaces no daemon
# runs below GPU_CLUSTER_ROOT, and the first word is its root file.
found_runtime() {
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted=containerd
    if [ -n "$root" ]; then
        case $(ask 5 containerd --config "$root$1" config dump 2>/dev/null) in
            *'containerd.runtimes.nvidia]'*) return 0 ;;
        esac
        return 1
    fi
    case $1 in /*) ;; *) set -- /run/containerd/containerd.sock '' ;; esac # An earlier release's words.
    cri_answers "$1" "$2" 2>/dev/null
}

# found_repeated FILE SUM: returns true if a file that the drop-in repeats is as it was.
found_repeated() {
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted="$1, which the drop-in for containerd 1.x repeats"
    [ "$(sha256sum <"$root$1" 2>/dev/null)" = "$2  -" ]
}
