# Sets the proxy of the container engine's service, with which it pulls images. Source:
# systemd.exec(5), Environment; Docker, containerd and CRI-O read the usual variables.

apply_proxy() {
    for unit in $GC_PROXY_UNITS; do
        unit_drop_in "$unit" proxy "$GC_PROXY_UNIT_TEXT"
    done
    drop_ins_in_force
}
