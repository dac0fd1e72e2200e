# Sets the mode of SELinux, now and at each boot. Source: selinux/config(5).

selinux_file=/etc/selinux/config

check_selinux() {
    # On a host without SELinux, only the mode enforcing can't be applied.
    [ "$GC_SELINUX" = enforcing ] || return 0
    [ -f "$root$selinux_file" ] && have getenforce ||
        problem "no SELinux ($selinux_file, getenforce)" "SELinux in mode enforcing" \
            "install its policy, or declare system.selinux: leave"
}

# A system without SELinux counts as one in which SELinux is disabled or permissive.
apply_selinux() {
    [ -f "$root$selinux_file" ] && have getenforce || return 0
    awk -v mode="$GC_SELINUX" '/^[ \t]*SELINUX[ \t]*=/ { print "SELINUX=" mode; found = 1; next }
        { print } END { if (!found) print "SELINUX=" mode }' \
        "$root$selinux_file" >"$scratch/selinux" || fail_file "can't read $selinux_file"
    place "$selinux_file" "$scratch/selinux"
    now=$(selinux_mode)
    case $now-$GC_SELINUX in
        disabled-disabled) ;;
        disabled-*)
            # Without labels an enforcing system does not boot (fixfiles(8), onboot).
            [ -e "$root/.autorelabel" ] || { : >"$root/.autorelabel" && did "/.autorelabel"; } ||
                fail_file "can't write /.autorelabel"
            request_reboot "SELinux goes from disabled to $GC_SELINUX"
            ;;
        enforcing-permissive | enforcing-disabled) selinux_set 0 "$now" ;;
        permissive-enforcing) selinux_set 1 "$now" ;;
    esac
    case $now-$GC_SELINUX in
        disabled-disabled) ;;
        *-disabled) request_reboot "SELinux is disabled by a boot only" ;;
        disabled-*) ;;
        *) expect selinux "$GC_SELINUX" ;;
    esac
}

selinux_set() {
    [ -f "$state/selinux" ] || record selinux "$2"
    timeout 60 setenforce "$1" || fail_act "setenforce $1 failed; check ausearch -m avc"
    did "SELinux: $2 -> $(selinux_mode)"
}

undo_selinux() {
    kept "$selinux_file" || return 0
    attempt "$selinux_file" forget "$selinux_file"
    [ -f "$state/selinux" ] || return 0
    was=$(cat "$state/selinux")
    now=$(selinux_mode)
    if [ "$now" != "$was" ] && [ "$now" != disabled ]; then
        need setenforce
        case $was in enforcing) timeout 60 setenforce 1 ;; *) timeout 60 setenforce 0 ;; esac &&
            undid "SELinux: $was" || note "SELinux can't be set back to $was"
    fi
    rm -f -- "$state/selinux"
}

# --- found later: the probe has this part too ---

# Prints the mode of the running system, in the words of selinux/config(5).
selinux_mode() {
    timeout 10 getenforce 2>/dev/null | tr '[:upper:]' '[:lower:]'
}

found_selinux() {
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted="SELinux mode"
    [ "$(selinux_mode)" = "$1" ]
}
