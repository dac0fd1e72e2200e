# shellcheck shell=sh disable=SC2154 # root, kernel: of who reads it
# What a simulated host lacks for real kubelets and their pods. lab/simulator/hosts/boot.sh reads it
# before the host's root becomes the root, in namespaces of the host's own: network and control groups
# too. All of it goes with them.
# shellcheck source=lab/real/device_files.sh
. "${EQUIPMENT%/*}/../device_files.sh"

# An overlay can't carry another one's upper folder.
mkdir -p containerd "$root/var/lib/containerd"
mount --bind containerd "$root/var/lib/containerd"

mkdir "$kernel/sys"
mount -t sysfs sysfs "$kernel/sys"
for folder in block class devices kernel; do
    mkdir -p "$root/sys/$folder"
    mount --bind "$kernel/sys/$folder" "$root/sys/$folder"
done

# The hierarchies as the host's own namespace shows them: its group is their root.
umount -R "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 cgroup "$root/sys/fs/cgroup"
for hierarchy in /sys/fs/cgroup/*; do
    if [ ! -d "$hierarchy" ] || [ -L "$hierarchy" ]; then continue; fi
    place=$root/sys/fs/cgroup/${hierarchy##*/}
    mkdir "$place"
    case ${hierarchy##*/} in
        unified) mount -t cgroup2 cgroup2 "$place" ;;
        systemd) mount -t cgroup -o none,name=systemd cgroup "$place" ;;
        *) mount -t cgroup -o "${hierarchy##*/}" cgroup "$place" ;;
    esac
done

# Its network's settings are the host's own; others that a kubelet makes are the machine's.
mount --bind "$root/proc/sys/net" "$root/proc/sys/net"
mount -o remount,rw,bind "$root/proc/sys/net"
own_kernel_settings

mknod -m 600 "$root/dev/kmsg" c 1 11
gpu_nodes "$GPUS"
