# Adds the NVIDIA runtime to containerd as a drop-in, made by the host's own nvidia-ctk from the
# root configuration. The result is judged by containerd's merged view, before and after.
#
# Facts behind the decisions (containerd 1.6.20 and nvidia-ctk 1.20.0, as run):
# - containerd 1.x replaces a plugin's whole section by the drop-in's, 2.x merges them. nvidia-ctk
#   therefore copies the section; what another drop-in adds to it would be lost on 1.x.
# - a section that names any runtime loses the built-in runc, so runc is always written out.
# - imports of the root file alone count, and a file without version is version 1.

config=/etc/containerd/config.toml
dropins=/etc/containerd/conf.d
dropin=$dropins/99-nvidia.toml

apply() {
    require_root
    require_commands awk cat cmp cp cut grep mkdir mv paste rm rmdir sed sha256sum sort systemctl tail \
        timeout uname
    require_containerd
    require_toolkit
    refuse_problems
    make_wanted
    check_wanted
    refuse_problems
    open_state
    remember_service
    if differs; then
        put_in_place
    fi
    service_on
    dump "$root$config" "$scratch/after" && judge "$scratch/after" ||
        fail "containerd's merged configuration has no working nvidia runtime after the change"
}

undo() {
    require_root
    refuse_problems
    restart=no
    [ ! -f "$state/restart-pending" ] || restart=yes
    have containerd && dump "$root$config" "$scratch/before" || restart=yes
    : >"$state/restart-pending"
    restore "$dropin"
    restore "$config"
    if have containerd; then
        dump_or_default "$scratch/after" && same_dump || restart=yes
        service_back
    fi
}

require_containerd() {
    if ! have containerd; then
        problem "no containerd" "containerd 1.6 or later" "install containerd"
        return 0
    fi
    version=$(timeout 20 containerd --version | awk '{ print $3 }' | sed 's/^v//')
    major=${version%%.*}
    minor=${version#*.}
    minor=${minor%%[!0-9]*}
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
    found=$(format_of "$root$config")
    [ "${found:-1}" -le "$newest" ] ||
        problem "$config of version $found" "version $newest or earlier for containerd $version" \
            "upgrade containerd, or write the file for this one"
    if ! dump "$root$config" "$scratch/before"; then
        problem "$config that containerd $version can't read: $(tail -n 1 "$scratch/dump-error")" \
            "a configuration that loads" "mend it (containerd --config $config config dump)"
    fi
    if [ -z "$found" ] && grep -q '^[[:space:]]*\[plugins' "$root$config"; then
        problem "$config without a version, so version 1, with plugin sections" "version $format" \
            "migrate it (containerd config migrate, or by hand) and run again"
    fi
}

require_toolkit() {
    for name in nvidia-ctk nvidia-container-runtime; do
        have "$name" || problem "no $name on PATH" "the NVIDIA container toolkit, 1.18 or later" \
            "install the package nvidia-container-toolkit"
    done
    have nvidia-ctk || return 0
    toolkit=$(timeout 20 nvidia-ctk --version 2>/dev/null | sed -n 's/.*version //p' | head -n 1)
    case $toolkit in
        0.* | 1.[0-9].* | 1.1[0-7].*)
            problem "nvidia-ctk $toolkit" "1.18 or later (drop-in files)" "upgrade the toolkit" ;;
    esac
}

remember_service() {
    [ ! -f "$state/service" ] || return 0
    active=$(systemctl is-active containerd 2>/dev/null)
    enabled=$(systemctl is-enabled containerd 2>/dev/null)
    printf '%s\n' "${active:-unknown} ${enabled:-unknown}" >"$state/draft" &&
        mv -- "$state/draft" "$state/service" || fail "can't write $state/service"
}

put_in_place() {
    if [ -f "$state/restart-pending" ] || [ ! -f "$scratch/before" ] || ! same_dump; then
        : >"$state/restart-pending"
    fi
    for file in "$config" "$dropin"; do
        [ ! -f "$root$file" ] || cp -a -- "$root$file" "$scratch/old-${file##*/}"
    done
    place "$dropin" "$scratch/99-nvidia.toml"
    place "$config" "$scratch/config.toml"
}

put_back() {
    for file in "$config" "$dropin"; do
        old=$scratch/old-${file##*/}
        if [ -f "$old" ]; then
            cp -a -- "$old" "$root$file.gpu-cluster-new" &&
                mv -f -- "$root$file.gpu-cluster-new" "$root$file"
        else
            rm -f -- "$root$file"
        fi
    done
}

service_on() {
    if ! systemctl is-enabled --quiet containerd; then
        timeout 60 systemctl enable containerd >/dev/null 2>&1 || fail "containerd can't be enabled"
        did "containerd enabled"
    fi
    if [ ! -f "$state/restart-pending" ] && systemctl is-active --quiet containerd; then
        return 0
    fi
    if timeout 120 systemctl restart containerd >"$scratch/restart" 2>&1 &&
        systemctl is-active --quiet containerd; then
        rm -f -- "$state/restart-pending"
        did "containerd restarted"
        return 0
    fi
    if [ -f "$scratch/99-nvidia.toml" ] && [ -f "$scratch/old-config.toml" ]; then
        put_back
        timeout 120 systemctl restart containerd >/dev/null 2>&1
        rm -f -- "$state/restart-pending"
        fail "containerd did not start with the new configuration, so the old one is back: $(tail -n 1 "$scratch/restart"); look at journalctl -u containerd"
    fi
    fail "containerd does not start: $(tail -n 1 "$scratch/restart"); look at journalctl -u containerd"
}

service_back() {
    read -r active enabled <"$state/service" || return 0
    if [ "$active" != active ]; then
        systemctl is-active --quiet containerd && timeout 120 systemctl stop containerd &&
            undid "containerd stopped"
    elif [ "$restart" = yes ]; then
        timeout 120 systemctl restart containerd >"$scratch/restart" 2>&1 ||
            fail "containerd does not start with its earlier configuration: $(tail -n 1 "$scratch/restart")"
        undid "containerd restarted"
    fi
    if [ "$enabled" = disabled ] && systemctl is-enabled --quiet containerd; then
        timeout 60 systemctl disable containerd >/dev/null 2>&1
        undid "containerd disabled"
    fi
    return 0
}
