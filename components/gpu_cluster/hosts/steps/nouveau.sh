# Keeps nouveau and nova_core off the GPUs. Source: NVIDIA driver installation guide (nouveau).

blacklist_file=/etc/modprobe.d/gpu-cluster-blacklist.conf

# Copies the current initramfs, so that a person can choose the copy in the boot menu. Only the first
# copy is from before these scripts' changes. State: images (the copies).
keep_initramfs() {
    release=$(uname -r)
    for image in "/boot/initrd.img-$release" "/boot/initramfs-$release.img"; do
        copy=$image.gpu-cluster-before
        [ -f "$root$image" ] && ! file_has "$state/images" "$copy" || continue
        needed=$(du -k "$root$image" | cut -f 1)
        left=$(df -Pk "$root/boot" | awk 'NR == 2 { print $4 }')
        # The new image is written next to the old image, so it needs the same space again.
        [ "${left:-0}" -gt $((needed * 2 + 1024)) ] || {
            note "$image is not kept: found ${left:-0} KiB free in /boot; wanted $((needed * 2 + 1024))"
            continue
        }
        record images "$copy"
        cp -p -- "$root$image" "$root$copy.gpu-cluster-new" &&
            mv -f -- "$root$copy.gpu-cluster-new" "$root$copy" || fail_file "can't write $copy"
        did "$copy"
    done
}

drop_initramfs() {
    [ -f "$state/images" ] || return 0
    while IFS= read -r copy; do
        rm -f -- "$root$copy.gpu-cluster-new"
        [ ! -e "$root$copy" ] || { rm -f -- "$root$copy" && undid "$copy"; }
    done <"$state/images"
    rm -f -- "$state/images"
}

# rebuild_initramfs fail|note: rebuilds the image of every kernel, because the boot menu decides
# which kernel boots next. If updates are turned off or /boot is read-only, update-initramfs prints
# that and exits with 0 (initramfs-tools 0.142, update and ro_boot_check); the next run tries again.
rebuild_initramfs() {
    [ -f "$state/initramfs-pending" ] || return 0
    if have update-initramfs; then
        timeout 600 update-initramfs -u -k all >"$scratch/initramfs" 2>&1
    elif have dracut; then
        timeout 600 dracut --force --regenerate-all >"$scratch/initramfs" 2>&1
    else
        note "no update-initramfs and no dracut: the initramfs, if there is one, is not rebuilt"
        : >"$scratch/initramfs"
    fi || fail_act "the initramfs can't be rebuilt: $(tail -n 3 "$scratch/initramfs" | paste -s -d ' ' -); free space in /boot, or correct what it names, then run \`gpu-cluster up\` again"
    refusal=$(grep -m 1 'Not updating' "$scratch/initramfs") &&
        "$1" "found \"$refusal\"; wanted each kernel's initramfs as /etc/modprobe.d is now; set update_initramfs=yes in /etc/initramfs-tools/update-initramfs.conf, mount /boot writable"
    rm -f -- "$state/initramfs-pending"
}

# Prints lines for modprobe.d(5); nouveau's option keeps it off the display if it is loaded anyway.
blacklist_lines() {
    echo "# gpu-cluster"
    for module in $GC_BLACKLIST; do
        echo "blacklist $module"
    done
    case " $GC_BLACKLIST " in
        *" nouveau "*) echo "options nouveau modeset=0" ;;
    esac
}

apply_nouveau() {
    lines="$(blacklist_lines)
"
    # The marker file is written first, so that the next run completes a run that was killed before the
    # rebuild.
    same_text "$blacklist_file" "$lines" || : >"$state/initramfs-pending"
    place_text "$blacklist_file" "$lines"
    [ ! -f "$state/initramfs-pending" ] || keep_initramfs
    rebuild_initramfs fail
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
    # The copies go first, because the new images need their space.
    drop_initramfs
    rebuild_initramfs note
}
