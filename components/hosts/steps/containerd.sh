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
    make_folder "$dropin" # also creates the folder of $config, which is above it
    make_texts
}

check_wanted() {
    expect runtime containerd
    ! differs || check_texts
}

# Restart the daemon only if the merged configuration changes.
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

# engine_view RESULT: writes the configuration that the daemon reads now.
engine_view() {
    have containerd && [ -f "$root$config" ] && find_version && dump "$root$config" "$1"
}

# Runs nvidia-smi in one container with the NVIDIA runtime, and removes the container and the image.
smi_in_container() {
    pulled=no
    if [ -z "$(timeout 60 ctr -n gpu-cluster images ls -q "name==$1")" ]; then
        pulled=yes
        # ctr does not read hosts.toml by itself: only CRI uses the mirrors (containerd 1.7.29,
        # cmd/ctr/commands).
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

# Checks containerd's merged configuration, for the version that the probe has found. In 2.0 `config
# dump` omits what a file of version 2 sets for CRI; `config migrate` shows it.
found_runtime() {
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted=$1
    # shellcheck disable=SC2154 # the probe sets this variable
    case $containerd in 2.0.* | "") verbs='dump migrate' ;; *) verbs=dump ;; esac
    for verb in $verbs; do
        case $(ask 5 containerd --config "$root/etc/containerd/config.toml" config "$verb" 2>/dev/null) in
            *'containerd.runtimes.nvidia]'*) return 0 ;;
        esac
    done
    return 1
}
