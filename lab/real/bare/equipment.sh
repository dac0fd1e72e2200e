# shellcheck shell=sh disable=SC2154 # root, kernel: of who reads it
# Adds to a simulated host what real kubelets and their pods need. embedded/gpu_cluster_lab/simulator/hosts/boot.sh
# sources this script before it switches to the host's root, in the host's own namespaces, including
# network and control groups. Everything is removed together with the namespaces.
# shellcheck source=lab/real/device_files.sh
. "${EQUIPMENT%/*}/../device_files.sh"

# The upper folder of an overlay can't be on another overlay.
mkdir -p containerd "$root/var/lib/containerd"
mount --bind containerd "$root/var/lib/containerd"

mkdir "$kernel/sys"
mount -t sysfs sysfs "$kernel/sys"
for folder in block class devices kernel; do
    mkdir -p "$root/sys/$folder"
    mount --bind "$kernel/sys/$folder" "$root/sys/$folder"
done

# Mount the control group hierarchies as seen in the host's own namespace, whose root is the host's
# group.
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

# The network settings are the host's own. Other settings that a kubelet changes belong to the
# machine.
mount --bind "$root/proc/sys/net" "$root/proc/sys/net"
mount -o remount,rw,bind "$root/proc/sys/net"
own_kernel_settings

mknod -m 600 "$root/dev/kmsg" c 1 11
gpu_nodes "$GPUS"
