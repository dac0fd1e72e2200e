#!/bin/sh
# Network plugin of the real nodes: an address for the pod's status, and no network behind it.
# What runs on these nodes needs GPUs, not a network; docs/real-parts.md lists that.
case $CNI_COMMAND in
    VERSION) echo '{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}' ;;
    ADD)
        if [ "$CNI_IFNAME" = lo ]; then # containerd asks for the plugin "loopback" before ours
            echo '{"cniVersion":"1.0.0","interfaces":[{"name":"lo"}]}'
            exit 0
        fi
        printf '{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"%s"}],' "$CNI_NETNS"
        printf '"ips":[{"address":"198.18.1.%d/24","interface":0}]}\n' $(($$ % 250 + 2))
        ;;
esac
