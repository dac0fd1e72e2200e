# Prepares a host for Kubernetes and the NVIDIA driver: the operating system (system.sh,
# firewall.sh), nouveau kept out. Source: NVIDIA driver installation guide (nouveau).

blacklist_file=/etc/modprobe.d/gpu-cluster-blacklist.conf

apply() {
    require_root
    require_commands awk cat chmod cmp cp cut df grep mkdir modprobe mv paste rm rmdir sed sha256sum \
        sort stat swapoff sysctl tail timeout uname
    require_system
    require_disk
    require_package_manager_idle
    require_selinux
    steps_check
    refuse_problems
    open_state
    system_on
    firewall_on
    blacklist_on
    steps_on
}

undo() {
    require_root
    refuse_problems
    steps_off
    blacklist_off
    firewall_off
    system_off
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
        request_reboot "$module is loaded and holds the GPUs"
    done
}

blacklist_off() {
    kept "$blacklist_file" || was_absent "$blacklist_file" || return 0
    : >"$state/initramfs-pending"
    restore "$blacklist_file"
    rebuild_initramfs
}
