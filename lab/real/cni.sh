#!/bin/sh
# CNI plugin of the real nodes. Each pod gets a veth pair, an address, and a route to its node.
# Through the node the pod reaches the API server at the cluster's service address.
set -eu
addresses=/run/real-cni
name=v$(printf %s "${CNI_CONTAINERID-}" | cut -c 1-12)

forget() { # Remove the recorded address of this container.
    for folder in "$addresses"/*; do
        if [ "$(cat "$folder/id" 2>/dev/null)" = "$CNI_CONTAINERID" ]; then rm -r "$folder"; fi
    done
}

case $CNI_COMMAND in
    VERSION) echo '{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}' ;;
    ADD)
        space=${CNI_NETNS##*/}
        # containerd calls the plugin "loopback" before this plugin.
        if [ "$CNI_IFNAME" = lo ]; then
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
        # The device may already be deleted together with the pod's network.
        ip link delete "$name" 2>/dev/null || :
        forget
        ;;
esac
