# nouveau and nova_core are kept away from the GPUs. Source: NVIDIA driver installation guide (nouveau).

blacklist_file=/etc/modprobe.d/gpu-cluster-blacklist.conf

# Of every kernel: which one the next boot takes is the boot menu's business.
rebuild_initramfs() {
    [ -f "$state/initramfs-pending" ] || return 0
    if have update-initramfs; then
        timeout 600 update-initramfs -u -k all >"$scratch/initramfs" 2>&1
    elif have dracut; then
        timeout 600 dracut --force --regenerate-all >"$scratch/initramfs" 2>&1
    else
        note "no update-initramfs and no dracut: the initramfs, if there is one, is not rebuilt"
        : >"$scratch/initramfs"
    fi || fail "the initramfs can't be rebuilt: $(tail -n 3 "$scratch/initramfs" | paste -s -d ' ' -)"
    rm -f -- "$state/initramfs-pending"
}

apply_nouveau() {
    # The mark comes first: a run that is killed between file and rebuild is made good later.
    [ "$(cat "$root$blacklist_file" 2>/dev/null)
" = "$GC_BLACKLIST_TEXT" ] || : >"$state/initramfs-pending"
    place_text "$blacklist_file" "$GC_BLACKLIST_TEXT"
    rebuild_initramfs
    for module in $GC_BLACKLIST; do
        [ -d "$root/sys/module/$module" ] || continue
        request_reboot "$module is loaded and holds the GPUs"
    done
}

undo_nouveau() {
    if kept "$blacklist_file" || was_absent "$blacklist_file"; then
        : >"$state/initramfs-pending"
        forget "$blacklist_file"
    fi
    rebuild_initramfs
}
