#!/bin/sh
# Makes /dev/nvidia-uvm where it is missing: by the driver's own program, or as tkestack/tke does.
[ ! -e /dev/nvidia-uvm ] || exit 0
nvidia-modprobe -u -c 0 2>/dev/null && [ -e /dev/nvidia-uvm ] && exit 0
modprobe nvidia-uvm 2>/dev/null
major=$(awk '$2 == "nvidia-uvm" { print $1 }' /proc/devices)
[ -n "$major" ] && mknod -m 666 /dev/nvidia-uvm c "$major" 0 && exit 0
echo "node $NODE_NAME: found no /dev/nvidia-uvm; wanted it, which each container with a card names; cure: install the driver with nvidia-modprobe" >&2
exit 1
