# containerd, as an engine of runtime.sh: the NVIDIA runtime as a drop-in, made by the host's own
# nvidia-ctk from the root configuration, judged by containerd's merged view before and after.
#
# Facts behind the decisions (containerd 1.6.20 to 2.4.2 and nvidia-ctk 1.20.2, as run):
# - containerd 1.x replaces a plugin's whole section by the drop-in's, 2.x merges them. nvidia-ctk
#   therefore copies the section; what another drop-in adds to it would be lost on 1.x.
# - a section that names any runtime loses the built-in runc, so runc is always written out.
# - imports of the root file alone count, and a file without version is version 1.
# - 2.3 does not start with a drop-in of a version above the root file's.

unit=containerd
config=/etc/containerd/config.toml
dropins=/etc/containerd/conf.d
dropin=$dropins/99-nvidia.toml
files="$dropin $config"

require_engine() {
    if ! have containerd; then
        problem "no containerd" "containerd 1.6 or later" "install containerd"
        return 0
    fi
    find_version
    case $major.$minor in
        1.[6-9] | [2-9].*) ;;
        *) problem "containerd $version" "1.6 or later" "upgrade containerd" ;;
    esac
    # What a new root file is written in, the newest version that is read, CRI's own section. An
    # older containerd starts with a newer file and passes over what it does not know (seen: 1.6).
    format=3 newest=3 cri='plugins."io.containerd.cri.v1.runtime".containerd'
    case $major.$minor in
        1.*) format=2 newest=2 cri='plugins."io.containerd.grpc.v1.cri".containerd' ;;
        2.[0-2]) ;;
        *) newest=4 ;;
    esac
    [ -f "$root$config" ] || return 0
    root_format=$(format_of "$root$config")
    [ "${root_format:-1}" -le "$newest" ] ||
        problem "$config of version $root_format" "version $newest or earlier for containerd $version" \
            "upgrade containerd, or write the file for this one"
    if ! dump "$root$config" "$scratch/before"; then
        problem "$config that containerd $version can't read: $(tail -n 1 "$scratch/dump-error")" \
            "a configuration that loads" "mend it (containerd --config $config config dump)"
    fi
    if [ -z "$root_format" ] && grep -q '^[[:space:]]*\[plugins' "$root$config"; then
        problem "$config without a version, so version 1, with plugin sections" "version $format" \
            "migrate it (containerd config migrate, or by hand) and run again"
    fi
}

make_wanted() {
    make_folder "$dropin" # below that of $config
    make_texts
}

check_wanted() {
    expect runtime containerd
    ! differs || check_texts
}

# The daemon is restarted only where what it reads from all files together changes.
needed_action() {
    if [ -f "$scratch/before" ] && cmp -s "$scratch/before" "$scratch/after"; then
        action=none
    else
        action=restart
    fi
}

judge_applied() {
    dump "$root$config" "$scratch/applied" && judge "$scratch/applied" || {
        printf '%s\n' "its merged configuration has no nvidia runtime as wanted" >"$scratch/judgement"
        return 1
    }
}

# view RESULT: what the daemon reads now.
engine_view() {
    have containerd && [ -f "$root$config" ] && find_version && dump "$root$config" "$1"
}

# One container with the NVIDIA runtime from an image: nvidia-smi inside it, nothing left after it.
smi_in_container() {
    pulled=no
    if [ -z "$(timeout 60 ctr -n gpu-cluster images ls -q "name==$1")" ]; then
        pulled=yes
        # ctr reads no hosts.toml on its own: mirrors are CRI's (containerd 1.7.29, cmd/ctr/commands).
        dump "$root$config" "$scratch/registries"
        hosts=$(sed -n 's/.*registry\.config_path = "\([^:"]\{1,\}\).*/\1/p' "$scratch/registries" | head -n 1)
        timeout 300 ctr -n gpu-cluster images pull ${hosts:+--hosts-dir "$hosts"} "$1" >"$scratch/pull" 2>&1 ||
            fail "$1 can't be pulled: $(tail -n 1 "$scratch/pull")"
    fi
    timeout 120 ctr -n gpu-cluster run --rm --runc-binary="$GC_RUNTIME_PATH" \
        --cap-add CAP_SYS_ADMIN --env NVIDIA_VISIBLE_DEVICES=all "$1" "gpu-cluster-$$" nvidia-smi -L >"$scratch/smi" 2>&1
    status=$?
    [ "$pulled" = no ] || timeout 60 ctr -n gpu-cluster images rm --sync "$1" >/dev/null 2>&1
    return $status
}

# --- found later: the probe has this part too ---

# In the merged configuration of the containerd that is there, whose version the probe has found. 2.0's
# `dump` leaves out what a file of version 2 says about CRI; its `migrate` shows it.
found_runtime() {
    # shellcheck disable=SC2034 # told by the probe
    drifted=$1
    # shellcheck disable=SC2154 # found by the probe
    case $containerd in 2.0.* | "") verbs='dump migrate' ;; *) verbs=dump ;; esac
    for verb in $verbs; do
        case $(ask 5 containerd --config "$root/etc/containerd/config.toml" config "$verb" 2>/dev/null) in
            *'containerd.runtimes.nvidia]'*) return 0 ;;
        esac
    done
    return 1
}
