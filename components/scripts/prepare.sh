# Prepares a host for Kubernetes and the NVIDIA driver: swap off, kernel modules, sysctl, nouveau
# kept out. Sources: Kubernetes docs, "Container Runtimes" (overlay, br_netfilter, ip_forward) and
# "Installing kubeadm" (swap); NVIDIA driver installation guide (nouveau).

modules_file=/etc/modules-load.d/gpu-cluster.conf
sysctl_file=/etc/sysctl.d/99-gpu-cluster.conf
blacklist_file=/etc/modprobe.d/gpu-cluster-blacklist.conf

apply() {
    require_root
    require_commands awk cat chmod cmp cp cut df grep mkdir modprobe mv paste rm rmdir sed sha256sum \
        sort stat swapoff sysctl tail timeout uname
    require_system
    require_disk
    require_package_manager_idle
    refuse_problems
    open_state
    swap_off
    modules_on
    sysctl_on
    blacklist_on
}

undo() {
    require_root
    refuse_problems
    blacklist_off
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
}

sysctl_set() {
    old=$(timeout 10 sysctl -n "$1" | tr "\t" " ") && [ -n "$old" ] || fail "sysctl $1 is not there; is its module loaded?"
    [ "$old" = "$2" ] && return 0
    if [ ! -f "$state/sysctl/$1" ]; then
        mkdir -p "$state/sysctl" && printf '%s\n' "$old" >"$state/draft" &&
            mv -- "$state/draft" "$state/sysctl/$1" || fail "can't write $state/sysctl/$1"
    fi
    timeout 10 sysctl -q -w "$1=$2" || fail "sysctl $1 can't be set to $2"
    did "sysctl $1: $old -> $2"
}

sysctl_off() {
    restore "$sysctl_file"
    for file in "$state"/sysctl/*; do
        [ -f "$file" ] || continue
        key=${file##*/}
        old=$(cat "$file")
        [ "$(timeout 10 sysctl -n "$key" 2>/dev/null)" = "$old" ] && continue
        if timeout 10 sysctl -q -w "$key=$old"; then
            undid "sysctl $key: $old"
        else
            note "sysctl $key can't be set back to $old"
        fi
    done
}

rebuild_initramfs() {
    [ -f "$state/initramfs-pending" ] || return 0
    if have update-initramfs; then
        timeout 600 update-initramfs -u >"$scratch/initramfs" 2>&1
    elif have dracut; then
        timeout 600 dracut --force >"$scratch/initramfs" 2>&1
    else
        note "no update-initramfs and no dracut: the initramfs, if there is one, is not rebuilt"
        : >"$scratch/initramfs"
    fi || fail "the initramfs can't be rebuilt: $(tail -n 3 "$scratch/initramfs" | paste -s -d ' ' -)"
    rm -f -- "$state/initramfs-pending"
}

blacklist_on() {
    before=$(cat "$root$blacklist_file" 2>/dev/null)
    if [ -z "$GC_BLACKLIST_TEXT" ]; then
        if kept "$blacklist_file" || was_absent "$blacklist_file"; then
            : >"$state/initramfs-pending"
            forget "$blacklist_file"
        fi
    else
        # The mark comes first: a run that is killed between file and rebuild is made good later.
        [ "$before
" = "$GC_BLACKLIST_TEXT" ] || : >"$state/initramfs-pending"
        place_text "$blacklist_file" "$GC_BLACKLIST_TEXT"
    fi
    rebuild_initramfs
    for module in $GC_BLACKLIST; do
        [ -d "$root/sys/module/$module" ] || continue
        note "reboot needed: $module is loaded and holds the GPUs until the next boot"
    done
}

blacklist_off() {
    kept "$blacklist_file" || was_absent "$blacklist_file" || return 0
    : >"$state/initramfs-pending"
    restore "$blacklist_file"
    rebuild_initramfs
}
