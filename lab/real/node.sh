#!/bin/sh
# Builds the root of a real node inside new namespaces and becomes the node's first process.
# lab/real/node.py calls this script: node.sh NAME WORK LOWER GPUS SERVICE. GPUS is the number of the
# mock's GPUs, or `host` for this machine's own. Everything is removed together with the namespaces.
set -eu

name=$1 work=$2 lower=$3 gpus=$4
root=$work/root
# shellcheck source=lab/real/device_files.sh
. "${0%/*}/device_files.sh"

mkdir -p "$work/upper" "$work/overlay" "$work/containerd" "$work/kubelet" "$root"
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$work/upper,workdir=$work/overlay" "$root"
mkdir -p "$root/var/lib/containerd" "$root/var/lib/kubelet" "$root/opt/real" "$root/old"
mount --bind "$work/bin" "$root/opt/real"
# The upper folder of an overlay can't be on another overlay.
mount --bind "$work/containerd" "$root/var/lib/containerd"
mount --bind "$work/kubelet" "$root/var/lib/kubelet"
mount -t proc proc "$root/proc"
if [ "$gpus" = host ]; then
    driver_mounts
else
    # The driver lists its MIG capabilities in this folder.
    mount -t tmpfs -o mode=755 tmpfs "$root/proc/driver"
fi
mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"

own_kernel_settings

cd "$root/dev"
mkdir pts shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts pts
ln -s pts/ptmx ptmx
ln -s /proc/self/fd fd
mknod -m 666 null c 1 3
mknod -m 666 zero c 1 5
mknod -m 666 full c 1 7
mknod -m 666 random c 1 8
mknod -m 666 urandom c 1 9
mknod -m 600 kmsg c 1 11
mknod -m 666 tty c 5 0
if [ "$gpus" = host ]; then
    cp -a /dev/nvidia* .
else
    gpu_nodes "$gpus"
fi

hostname "$name"
ip link set lo up
ip addr add "$5/32" dev lo # The API server's address as a cluster service.
ip addr add 198.18.1.1/32 dev lo # The gateway to which pods send all other traffic.
# The kubelet requires an address that isn't loopback; no other machine can reach this address.
ip link add node0 type veth peer name node1
ip addr add 198.18.0.1/24 dev node0
ip link set node0 up
ip link set node1 up

cd "$root"
pivot_root . old
umount -l /old
mount --make-rshared / # The kubelet propagates mounts to containers.
exec /opt/real/probe init </dev/null >/dev/null 2>&1
