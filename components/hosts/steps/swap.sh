# Turns swap off, now and at each boot; an undo turns it on again. Source: Kubernetes docs,
# "Installing kubeadm" (swap).

apply_swap() {
    expect swap off
    find_swaps
    if [ -n "$swap" ]; then
        for name in $swap; do
            record swaps "$name"
        done
        timeout 300 swapoff -a || fail "swapoff -a failed: is there memory for what is swapped out?"
        did "swap off: $swap"
    fi
    [ -f "$root/etc/fstab" ] || return 0
    awk '$1 !~ /^#/ && $3 == "swap" { print "#gpu-cluster# " $0; found = 1; next } { print }
        END { exit !found }' "$root/etc/fstab" >"$scratch/fstab"
    case $? in
        0) place /etc/fstab "$scratch/fstab" ;;
        1) ;; # no line of a swap device
        *) fail "can't read /etc/fstab" ;;
    esac
}

undo_swap() {
    if kept /etc/fstab; then
        # Lines that were added since must stay: only this script's mark is removed, unless nothing
        # else changed.
        sed 's/^#gpu-cluster# //' "$root/etc/fstab" >"$scratch/fstab"
        awk 1 "$state/kept/etc/fstab" >"$scratch/kept"
        if cmp -s "$scratch/fstab" "$scratch/kept"; then
            restore /etc/fstab
        else
            note "/etc/fstab was changed by somebody else: only our comment marks are taken out"
            place /etc/fstab "$scratch/fstab"
        fi
        release /etc/fstab
    fi
    [ -f "$state/swaps" ] || return 0
    while IFS= read -r name; do
        grep -q "^${name}[[:space:]]" "$root/proc/swaps" && continue
        if timeout 60 swapon "$name"; then
            undid "swap $name on"
        else
            note "swap $name can't be turned on again"
        fi
    done <"$state/swaps"
    rm -f -- "$state/swaps"
}

# --- found later: the probe has this part too ---

# find_swaps: sets `swap` to the active swap devices. The kernel writes a space in a name as \040
# (Linux, mm/swapfile.c, swap_show).
find_swaps() {
    swap=
    [ -r "$root/proc/swaps" ] || return 0
    while read -r its_name _; do
        [ "$its_name" = Filename ] || swap="$swap $its_name"
    done <"$root/proc/swaps"
    swap=${swap# }
}

# Called by the probe: swap devices must not be active. The probe also reports `swap` as a fact.
found_swap() {
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted=swap
    [ -z "$swap" ]
}
