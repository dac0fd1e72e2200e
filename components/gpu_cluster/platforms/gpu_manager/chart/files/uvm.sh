#!/bin/sh
# Create /dev/nvidia-uvm if it is missing: with nvidia-modprobe, or with mknod as in tkestack/tke.
[ ! -e /dev/nvidia-uvm ] || exit 0
nvidia-modprobe -u -c 0 2>/dev/null && [ -e /dev/nvidia-uvm ] && exit 0
modprobe nvidia-uvm 2>/dev/null
major=$(awk '$2 == "nvidia-uvm" { print $1 }' /proc/devices)
[ -n "$major" ] && mknod -m 666 /dev/nvidia-uvm c "$major" 0 && exit 0
echo "node $NODE_NAME: found no /dev/nvidia-uvm; wanted it, which each container with a card names; cure: install the driver with nvidia-modprobe" >&2
exit 1
