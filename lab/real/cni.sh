#!/bin/sh
# Network plugin of the real nodes: a pair of devices and an address for each pod, and a route to its
# node. What it reaches there is the API server, by the cluster's service address.
set -eu
addresses=/run/real-cni
name=v$(printf %s "${CNI_CONTAINERID-}" | cut -c 1-12)

forget() { # the address of this container
    for folder in "$addresses"/*; do
        if [ "$(cat "$folder/id" 2>/dev/null)" = "$CNI_CONTAINERID" ]; then rm -r "$folder"; fi
    done
}

case $CNI_COMMAND in
    VERSION) echo '{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}' ;;
    ADD)
        space=${CNI_NETNS##*/}
        if [ "$CNI_IFNAME" = lo ]; then # containerd asks for the plugin "loopback" before ours
            ip -n "$space" link set lo up
            echo '{"cniVersion":"1.0.0","interfaces":[{"name":"lo"}]}'
            exit 0
        fi
        mkdir -p "$addresses"
        last=2
        until mkdir "$addresses/$last" 2>/dev/null; do last=$((last + 1)); done
        printf %s "$CNI_CONTAINERID" >"$addresses/$last/id"
        ip link add "$name" type veth peer name "$CNI_IFNAME" netns "$space"
        ip -n "$space" addr add "198.18.1.$last/32" dev "$CNI_IFNAME"
        ip -n "$space" link set "$CNI_IFNAME" up
        ip -n "$space" route add 198.18.1.1 dev "$CNI_IFNAME"
        ip -n "$space" route add default via 198.18.1.1
        ip link set "$name" up
        ip route add "198.18.1.$last" dev "$name"
        printf '{"cniVersion":"1.0.0","interfaces":[{"name":"%s","sandbox":"%s"}],' \
            "$CNI_IFNAME" "$CNI_NETNS"
        printf '"ips":[{"address":"198.18.1.%d/32","interface":0}]}\n' "$last"
        ;;
    DEL)
        [ "$CNI_IFNAME" = lo ] && exit 0
        ip link delete "$name" 2>/dev/null || : # gone with the pod's network
        forget
        ;;
esac
