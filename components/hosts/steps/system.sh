# The operating system below a node: swap, kernel modules, sysctl, limits, SELinux. Sources:
# Kubernetes docs, "Container Runtimes" (overlay, br_netfilter, ip_forward) and "Installing kubeadm"
# (swap); limits.conf(5); selinux/config(5).

modules_file=/etc/modules-load.d/gpu-cluster.conf
sysctl_file=/etc/sysctl.d/99-gpu-cluster.conf
limits_file=/etc/security/limits.d/99-gpu-cluster.conf
selinux_file=/etc/selinux/config

system_on() {
    swap_off
    modules_on
    sysctl_on
    limits_on
    selinux_on
}

system_off() {
    selinux_off
    restore "$limits_file"
    sysctl_off
    modules_off
    swap_on
}

swap_off() {
    [ "$GC_SWAP_OFF" = true ] || return 0
    awk 'NR > 1 { print $1 }' "$root/proc/swaps" >"$scratch/swaps"
    if [ -s "$scratch/swaps" ]; then
        while IFS= read -r name; do
            record swaps "$name"
        done <"$scratch/swaps"
        timeout 300 swapoff -a || fail "swapoff -a failed: is there memory for what is swapped out?"
        did "swap off: $(paste -s -d ' ' "$scratch/swaps")"
    fi
    [ -f "$root/etc/fstab" ] || return 0
    if awk '$1 !~ /^#/ && $3 == "swap" { found = 1 } END { exit !found }' "$root/etc/fstab"; then
        awk '$1 !~ /^#/ && $3 == "swap" { print "#gpu-cluster# " $0; next } { print }' \
            "$root/etc/fstab" >"$scratch/fstab" || fail "can't read /etc/fstab"
        place /etc/fstab "$scratch/fstab"
    fi
}

swap_on() {
    if kept /etc/fstab; then
        # Lines that were added since must stay: only our mark goes, unless nothing else changed.
        sed 's/^#gpu-cluster# //' "$root/etc/fstab" >"$scratch/fstab"
        awk 1 "$state/kept/etc/fstab" >"$scratch/kept"
        if cmp -s "$scratch/fstab" "$scratch/kept"; then
            restore /etc/fstab
        else
            note "/etc/fstab was changed by somebody else: only our comment marks are taken out"
            place /etc/fstab "$scratch/fstab"
        fi
    fi
    [ -f "$state/swaps" ] || return 0
    while IFS= read -r name; do
        grep -q "^${name}[[:space:]]" "$root/proc/swaps" && continue
        if timeout 60 swapon "$name"; then
            undid "swap $name on"
        else
            note "swap $name can't be turned on again"
        fi
    done <"$state/swaps"
}

module_there() {
    [ -d "$root/sys/module/$1" ] && return 0
    grep -qw -e "$1" "$root/proc/filesystems" 2>/dev/null && return 0
    grep -q "/$1\.ko" "$root/lib/modules/$(uname -r)/modules.builtin" 2>/dev/null
}

modules_on() {
    if [ -z "$GC_MODULES" ]; then
        forget "$modules_file"
        return 0
    fi
    # shellcheck disable=SC2086 # a list of words
    place_text "$modules_file" "$(printf '%s\n' '# gpu-cluster' $GC_MODULES)
"
    for module in $GC_MODULES; do
        expect module "$module"
        module_there "$module" && continue
        record modules "$module"
        timeout 60 modprobe "$module" ||
            fail "module $module can't be loaded; install the kernel's module package and look at dmesg"
        did "module $module"
    done
}

modules_off() {
    restore "$modules_file"
    [ -f "$state/modules" ] || return 0
    while IFS= read -r module; do
        [ -d "$root/sys/module/$module" ] || continue
        if timeout 60 modprobe -r "$module" 2>/dev/null; then
            undid "module $module"
        else
            note "module $module is in use and stays loaded until the next boot"
        fi
    done <"$state/modules"
}

sysctl_on() {
    if [ -z "$GC_SYSCTL_TEXT" ]; then
        forget "$sysctl_file"
    else
        place_text "$sysctl_file" "$GC_SYSCTL_TEXT"
    fi
    each_sysctl sysctl_set
    for file in "$state"/sysctl/*; do
        [ -f "$file" ] || continue
        case "
$GC_SYSCTL_TEXT" in *"
${file##*/} = "*) continue ;; esac
        sysctl_back "$file"
        rm -f -- "$file"
    done
}

sysctl_set() {
    expect sysctl "$1" "$2"
    old=$(timeout 10 sysctl -n "$1" | tr "\t" " ") && [ -n "$old" ] || fail "sysctl $1 is not there; is its module loaded?"
    [ "$old" = "$2" ] && return 0
    if [ ! -f "$state/sysctl/$1" ]; then
        mkdir -p "$state/sysctl" && printf '%s\n' "$old" >"$state/draft" &&
            mv -- "$state/draft" "$state/sysctl/$1" || fail "can't write $state/sysctl/$1"
    fi
    timeout 10 sysctl -q -w "$1=$2" || fail "sysctl $1 can't be set to $2"
    did "sysctl $1: $old -> $2"
}

# sysctl_back FILE: the value that FILE keeps, under the name that FILE has.
sysctl_back() {
    key=${1##*/}
    old=$(cat "$1")
    [ "$(timeout 10 sysctl -n "$key" 2>/dev/null | tr "\t" " ")" = "$old" ] && return 0
    if timeout 10 sysctl -q -w "$key=$old"; then
        undid "sysctl $key: $old"
    else
        note "sysctl $key can't be set back to $old"
    fi
}

sysctl_off() {
    restore "$sysctl_file"
    for file in "$state"/sysctl/*; do
        [ ! -f "$file" ] || sysctl_back "$file"
    done
}

limits_on() {
    if [ -z "$GC_LIMITS_TEXT" ]; then
        forget "$limits_file"
    else
        place_text "$limits_file" "$GC_LIMITS_TEXT"
    fi
}

# The mode of the running system, in the words of selinux/config(5).
selinux_mode() {
    timeout 10 getenforce 2>/dev/null | tr '[:upper:]' '[:lower:]'
}

require_selinux() {
    [ "$GC_SELINUX" = enforcing ] || return 0
    [ -f "$root$selinux_file" ] && have getenforce ||
        problem "no SELinux ($selinux_file, getenforce)" "SELinux in mode enforcing" \
            "install its policy, or declare system.selinux: leave"
}

# A system without SELinux is as good as one where it is disabled or permissive.
selinux_on() {
    if [ "$GC_SELINUX" = leave ] || [ ! -f "$root$selinux_file" ] || ! have getenforce; then
        selinux_off
        return 0
    fi
    awk -v mode="$GC_SELINUX" '/^[ \t]*SELINUX[ \t]*=/ { print "SELINUX=" mode; found = 1; next }
        { print } END { if (!found) print "SELINUX=" mode }' \
        "$root$selinux_file" >"$scratch/selinux" || fail "can't read $selinux_file"
    place "$selinux_file" "$scratch/selinux"
    now=$(selinux_mode)
    case $now-$GC_SELINUX in
        disabled-disabled) ;;
        disabled-*)
            # Without labels an enforcing system does not boot (fixfiles(8), onboot).
            [ -e "$root/.autorelabel" ] || { : >"$root/.autorelabel" && did "/.autorelabel"; } ||
                fail "can't write /.autorelabel"
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
    timeout 60 setenforce "$1" || fail "setenforce $1 failed; look at ausearch -m avc"
    did "SELinux: $2 -> $(selinux_mode)"
}

selinux_off() {
    kept "$selinux_file" || return 0
    forget "$selinux_file"
    [ -f "$state/selinux" ] || return 0
    was=$(cat "$state/selinux")
    now=$(selinux_mode)
    if [ "$now" != "$was" ] && [ "$now" != disabled ]; then
        case $was in enforcing) timeout 60 setenforce 1 ;; *) timeout 60 setenforce 0 ;; esac &&
            undid "SELinux: $was" || note "SELinux can't be set back to $was"
    fi
    rm -f -- "$state/selinux"
}
