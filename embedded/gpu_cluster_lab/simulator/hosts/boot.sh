#!/bin/sh
# First process of a simulated host. It runs in new mount, PID, UTS and IPC namespaces, builds the
# host's file system there, and becomes the host's sshd. All mounts are in this namespace and end
# with its last process, so nothing must be unmounted outside. Environment:
# GPU_CLUSTER_SIMULATED_HOST (the host's folder), HOST_NAME, HOST_USER, LOWER (Debian root), LAYER
# (fakes, nvidia-ctk), GPUS (number of simulated PCI devices), DRIVER (version, may be empty),
# EQUIPMENT (a script that extends the host, may be empty).
set -eu
cd "$GPU_CLUSTER_SIMULATED_HOST"
here=$PWD
root=$here/merged
rm -rf work && mkdir work # After a killed boot the overlay's work folder can't be reused.
mount -t overlay -o "lowerdir=$LAYER:$LOWER,upperdir=$here/upper,workdir=$here/work" overlay "$root"
printf '%s' "$HOST_NAME" >/proc/sys/kernel/hostname

mount -t tmpfs -o mode=755 run "$root/run"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
kernel=$root/run/simulated-kernel
mkdir -p "$root/run/sshd" "$root/run/gpu-cluster-ssh" "$kernel/sysctl" "$kernel/power"
mount --bind power "$kernel/power"
cp -p ssh/* "$root/run/gpu-cluster-ssh/"
chmod 755 "$root/run/gpu-cluster-ssh"
cat >"$root/run/gpu-cluster-simulated" <<EOF
simulated host: swap, kernel modules, sysctl values, PCI devices and NVIDIA driver are fakes
EOF

mount -t tmpfs -o mode=755 dev "$root/dev"
for node in null zero full random urandom tty; do
    : >"$root/dev/$node"
    mount --bind "/dev/$node" "$root/dev/$node"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for number in 0 1 2; do
    name=stdin
    [ $number = 1 ] && name=stdout
    [ $number = 2 ] && name=stderr
    ln -s "/proc/self/fd/$number" "$root/dev/$name"
done

[ -e "$root/etc/hosts" ] ||
    printf '127.0.0.1 localhost %s\n::1 localhost\n' "$HOST_NAME" >"$root/etc/hosts"

# The declared user may become root without a password, like the first user of a cloud image.
if [ "$HOST_USER" != root ] && ! grep -q "^$HOST_USER:" "$root/etc/passwd"; then
    echo "$HOST_USER:x:1000:1000::/home/$HOST_USER:/bin/bash" >>"$root/etc/passwd"
    echo "$HOST_USER:x:1000:" >>"$root/etc/group"
    echo "$HOST_USER:*:19000:0:99999:7:::" >>"$root/etc/shadow"
    mkdir -p "$root/home/$HOST_USER" "$root/etc/sudoers.d"
    chown 1000:1000 "$root/home/$HOST_USER"
    echo "$HOST_USER ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/90-$HOST_USER"
fi

# The kernel's real settings belong to the machine: they are read-only here, with simulated settings
# on top.
mount -t proc proc "$root/proc"
printf 'Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n' >"$kernel/swaps"
cat /proc/sys/kernel/random/uuid >"$kernel/boot_id"
mount --bind "$kernel/swaps" "$root/proc/swaps"
mount --bind "$kernel/boot_id" "$root/proc/sys/kernel/random/boot_id"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,ro,bind "$root/proc/sys"
mount --bind "$kernel/boot_id" "$root/proc/sys/kernel/random/boot_id"
if [ -e "$root/proc/sysrq-trigger" ]; then
    mount --bind /dev/null "$root/proc/sysrq-trigger"
fi
mount -t tmpfs -o mode=755 driver "$root/proc/driver"
if [ -n "$DRIVER" ]; then
    mkdir "$root/proc/driver/nvidia"
    echo "NVRM version: NVIDIA UNIX x86_64 Kernel Module  $DRIVER  (simulated)" \
        >"$root/proc/driver/nvidia/version"
fi

mount -t tmpfs -o mode=755 sys "$root/sys"
mkdir -p "$root/sys/module" "$root/sys/fs/cgroup" "$root/sys/bus/pci/devices"
(cd /sys/module && set -- * && cd "$root/sys/module" && mkdir -- "$@")
if [ -d /sys/fs/cgroup ]; then
    mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
fi
number=0
while [ $number -lt "$GPUS" ]; do
    device=$root/sys/bus/pci/devices/$(printf '0000:%02x:00.0' $((number + 16)))
    mkdir "$device"
    echo 0x10de >"$device/vendor"
    echo 0x2330 >"$device/device"
    echo 0x030200 >"$device/class"
    number=$((number + 1))
done

# The variables of a host with UEFI firmware, which a test has placed.
if [ -d "$root/usr/lib/simulated/efi" ]; then
    mkdir -p "$root/sys/firmware"
    cp -R "$root/usr/lib/simulated/efi" "$root/sys/firmware/efi"
fi

# shellcheck source=/dev/null
[ -z "$EQUIPMENT" ] || . "$EQUIPMENT"

cd "$root"
pivot_root . .
# Use a fixed PATH, because the caller's PATH may have folders that the host doesn't have.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
umount -l .
mount --make-rshared / # Containers see mounts of the kubelet, as with systemd.
cd /
unset GPU_CLUSTER_SIMULATED_HOST LOWER LAYER GPUS DRIVER EQUIPMENT

# Print the menu that GRUB reads. GRUB begins with the grub.cfg in its own folder, which is on the EFI
# system partition if UEFI firmware started it; that file may only name the menu (configfile).
# Sources: UEFI 2.10, "Boot Manager" (BootCurrent, Boot####); GRUB manual, "prefix", "configfile".
grub_menu() {
    for menu in /boot/grub2/grub.cfg /boot/grub/grub.cfg; do
        [ ! -r "$menu" ] || break
    done
    variables=/sys/firmware/efi/efivars
    for number in "$variables"/BootCurrent-*; do
        [ -r "$number" ] || continue
        number=$(od -An -t x1 -j 4 -N 2 "$number" | awk '{ print toupper($2 $1) }')
        loader=$(tr -d '\000' <"$variables/Boot$number-8be4df61-93ca-11d2-aa0d-00e098032b8c" | tr '\134' / |
            grep -a -o '/EFI/[A-Za-z0-9_.-]*/' | head -n 1)
        # The partition's file system ignores case.
        first=$(find /boot/efi -ipath "/boot/efi${loader}grub.cfg" 2>/dev/null | head -n 1)
        [ -r "$first" ] || continue
        grep -q '^configfile ' "$first" || menu=$first
    done
    echo "$menu"
}

# Print `<id> <release>` of each entry, newest kernel first. The command blscfg reads the files of the
# Boot Loader Specification (rhboot/grub2, grub-core/commands/blscfg.c).
grub_entries() {
    if grep -q '^blscfg' "$1"; then
        for file in /boot/loader/entries/*.conf; do
            [ ! -r "$file" ] || awk -v id="$(basename "$file" .conf)" '$1 == "linux" { sub(/.*vmlinuz-/, "", $2); print id, $2 }' "$file"
        done | sort -k 2 -V -r
    fi
    awk -v quote="'" '$1 == "menuentry" { split($0, part, "menuentry_id_option " quote); id = part[2]; sub(quote ".*", "", id) }
        $1 == "linux" { sub(/.*vmlinuz-/, "", $2); print id, $2 }' "$1"
}

# GRUB's default is an ID, after the ID of its submenu, or a number, or the entry that grubby saved.
grub_release() {
    default=$(sed -n 's/^ *set default="\(.*\)"$/\1/p' "$1" | tail -n 1)
    [ "$default" != "\${saved_entry}" ] || default=$(sed -n 's/^saved_entry=//p' "${1%/*}/grubenv" /boot/grub2/grubenv 2>/dev/null | head -n 1)
    grub_entries "$1" | awk -v id="${default##*>}" 'NR == 1 { first = $2 }
        $1 == id || (id ~ /^[0-9]+$/ && NR == id + 1) { found = $2; exit } END { print found == "" ? first : found }'
}

menu=$(grub_menu)
[ ! -r "$menu" ] || grub_release "$menu" >/run/simulated-kernel/release

# swap_unit FOLDER DEVICE TEXT: write a swap unit that a generator makes, wanted by swap.target.
swap_unit() {
    name=$(echo "${2#/}" | sed 's/-/\\x2d/g; s|/|-|g').swap
    mkdir -p "$1/swap.target.wants"
    printf '[Unit]\n%s\n[Swap]\nWhat=%s\n' "$3" "$2" >"$1/$name"
    ln -s "../$name" "$1/swap.target.wants/$name"
}

# Swap as systemd turns it on: by fstab, by the partition table's types if fstab names no swap, by
# zram-generator, and by units. Sources: systemd-fstab-generator(8); systemd v257,
# src/gpt-auto-generator/gpt-auto-generator.c, add_partition_swap; zram-generator.conf(5) (the first
# of the main files counts; one section for each device); systemd.unit(5), "Unit File Load Path" (a
# mask in /etc hides the units of generators).
generated=/run/systemd/generator
while read -r device _ type options _; do
    case ,$options, in *,noauto,*) continue ;; esac
    case $device in '#'*) continue ;; esac
    [ "$type" != swap ] || swap_unit $generated "$device" "SourcePath=/etc/fstab"
done </etc/fstab
if [ -r /usr/lib/simulated/gpt-swap ] && ! awk '$1 !~ /^#/ && $3 == "swap" { found = 1 } END { exit !found }' /etc/fstab; then
    swap_unit $generated.late "$(cat /usr/lib/simulated/gpt-swap)" "Documentation=man:systemd-gpt-auto-generator(8)"
fi
for file in /etc/systemd/zram-generator.conf /usr/lib/systemd/zram-generator.conf; do
    [ -r "$file" ] || continue
    [ -x /usr/lib/systemd/system-generators/zram-generator ] || break
    sed -n 's/^\[\(zram[0-9]*\)\]$/\1/p' "$file" | while read -r device; do
        swap_unit $generated "/dev/$device" "Documentation=man:zram-generator(8)"
    done
    break
done
for link in /etc/systemd/system/swap.target.wants/*.swap /usr/lib/systemd/system/swap.target.wants/*.swap \
    "$generated"/swap.target.wants/*.swap "$generated".late/swap.target.wants/*.swap; do
    [ -L "$link" ] || continue
    for folder in /etc/systemd/system $generated /usr/lib/systemd/system $generated.late; do
        [ -e "$folder/${link##*/}" ] || continue
        device=$(sed -n 's/^What=//p' "$folder/${link##*/}" | tail -n 1)
        [ -z "$device" ] || grep -q "^$device " /run/simulated-kernel/swaps ||
            printf '%s file 2097148 0 -2\n' "$device" >>/run/simulated-kernel/swaps
        break
    done
done
if [ -L /etc/systemd/system/multi-user.target.wants/waagent.service ] && grep -qs '^ResourceDisk.EnableSwap=y' /etc/waagent.conf; then
    printf '/mnt/resource/swapfile file 2097148 0 -2\n' >>/run/simulated-kernel/swaps
fi
# Load the NVIDIA module by its alias, like udev, under the name with which it was built.
module=$(cat /etc/modprobe.d/*.conf 2>/dev/null | sed -n 's/^install nvidia modprobe -i \([^ ]*\).*/\1/p' | tail -n 1)
if [ -z "$(cat /proc/driver/nvidia/version 2>/dev/null)" ] && modinfo "${module:-nvidia}" >/dev/null 2>&1; then
    modprobe nvidia || echo "the driver was not loaded" >&2
fi
# Do what an init system does at boot: load modules, apply sysctl settings, start enabled units
# (only containerd here).
cat /etc/modules-load.d/*.conf 2>/dev/null | while IFS= read -r module; do
    case $module in '' | '#'*) ;; *) modprobe "$module" || echo "$module was not loaded" >&2 ;; esac
done
# systemd-sysctl reads the files of all folders in the order of their names; a file hides those of the
# same name in later folders (sysctl.d(5)).
for folder in /etc/sysctl.d /run/sysctl.d /usr/local/lib/sysctl.d /usr/lib/sysctl.d; do
    for file in "$folder"/*.conf; do
        [ ! -e "$file" ] || echo "${file##*/} $file"
    done
done | awk '!seen[$1]++' | LC_ALL=C sort | while read -r _ file; do
    # The program sysctl has no slashes as separators and no dash for settings that may fail.
    sed -n 's/^[[:space:]]*-\{0,1\}[[:space:]]*\([^#;=][^=]*=.*\)/\1/p' "$file" | sed ':a; s|^\([^=]*\)/|\1.|; ta' |
        sed 's/^net\.ipv4\.conf\.all\.forwarding\([[:space:]]*=\)/net.ipv4.ip_forward\1/' >/run/simulated-kernel/sysctl.conf
    sysctl -q -p /run/simulated-kernel/sysctl.conf || echo "a kernel parameter could not be set" >&2
done
systemctl boot || echo "containerd did not start" >&2
exec /usr/sbin/sshd -D -e -f /run/gpu-cluster-ssh/sshd_config
