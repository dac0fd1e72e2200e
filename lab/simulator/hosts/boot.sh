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
if grep -q '^/swap.img ' "$root/etc/fstab"; then
    printf '/swap.img file 2097148 0 -2\n' >>"$kernel/swaps"
fi
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
# Read the kernel of the boot menu's default entry, if there is a menu; uname prints its release.
for menu in /boot/grub/grub.cfg /boot/grub2/grub.cfg; do
    [ -r "$menu" ] || continue
    default=$(sed -n 's/^set default="\(.*\)"$/\1/p' "$menu")
    awk -v id="'${default##*>}'" 'index($0, "menuentry_id_option " id) { found = 1 }
        $1 == "linux" && (found || id == "'"'0'"'") { sub(/.*vmlinuz-/, "", $2); print $2; exit }' "$menu" \
        >/run/simulated-kernel/release
done
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
sysctl -q --system || echo "a kernel parameter could not be set" >&2
systemctl boot || echo "containerd did not start" >&2
exec /usr/sbin/sshd -D -e -f /run/gpu-cluster-ssh/sshd_config
