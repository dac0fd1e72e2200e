# Turns swap off, now and at each boot; an undo turns it on again. Source: Kubernetes docs,
# "Installing kubeadm" (swap).

check_swap() {
    for file in /etc/rc.local /etc/rc.d/rc.local; do
        ! grep -qs '^[^#]*swapon' "$root$file" || [ ! -x "$root$file" ] ||
            problem "swapon in $file, which runs at each boot" "no swap" "take that line out"
    done
    for file in "$root"/etc/crontab "$root"/etc/cron.d/* "$root"/var/spool/cron/* "$root"/var/spool/cron/crontabs/*; do
        ! grep -qs '^[[:space:]]*@reboot[^#]*swapon' "$file" ||
            problem "swapon in ${file#"$root"}, which cron runs at each boot" "no swap" "take that line out"
    done
    masked=" $(swap_units | paste -s -d ' ' -) "
    for unit in $(swap_services); do
        case $masked in *" $unit "*) continue ;; esac
        problem "swapon in the commands of $unit, which runs at each boot" "no swap" \
            "take it out, or disable the unit if it does nothing else"
    done
}

# Prints the services that a boot starts and that run swapon, in a command or in a script that a
# command names. A unit may do more than that, so these scripts don't mask it.
swap_services() {
    set --
    for file in "$root"/etc/systemd/system/*.wants/*.service "$root"/etc/systemd/system/*.requires/*.service \
        "$root"/usr/local/lib/systemd/system/*.wants/*.service "$root"/usr/lib/systemd/system/*.wants/*.service \
        "$root"/lib/systemd/system/*.wants/*.service; do
        name=${file##*/}
        case $name in *@?*.service) name=${name%%@*}@.service ;; esac
        for folder in etc usr/local/lib usr/lib lib; do
            file=$root/$folder/systemd/system/$name
            [ ! -L "$file" ] || [ "$(readlink "$file")" != /dev/null ] || break
            [ -f "$file" ] || continue
            set -- "$@" "$file"
            break
        done
    done
    [ $# -gt 0 ] || return 0
    awk 'match($0, /^ExecStart(Pre|Post)?=[-@:+!]*/) {
            name = FILENAME; sub(/.*\//, "", name); print name, substr($0, RLENGTH + 1) }' "$@" |
        while IFS=' ' read -r name words; do
            ! echo "$words" | turns_swap_on || echo "$name"
            set -f
            # shellcheck disable=SC2086 # words
            for word in $words; do
                case $word in /*) ;; *) continue ;; esac
                [ -f "$root$word" ] && [ "$(head -c 2 "$root$word")" = '#!' ] && turns_swap_on <"$root$word" || continue
                echo "$name"
            done
            set +f
        done | sort -u
}

# Returns true if a line of standard input runs swapon to turn swap on, not only to list swap.
turns_swap_on() {
    grep '^[^#]*\<swapon\>' | grep -Evq 'swapon[[:space:]]+(-s|--show|--summary|-h|--help|-V|--version)'
}

apply_swap() {
    expect swap off
    find_swaps
    if [ -n "$swap" ]; then
        for name in $swap; do
            record swaps "$name"
        done
        timeout 300 swapoff -a || fail_act "swapoff -a failed: the memory may be too small for what is swapped out; end programs until free -m shows as much free memory as used swap, then run \`gpu-cluster up\` again"
        did "swap off: $swap"
        ! grep -qs ' resume=[^ ]' "$root/proc/cmdline" ||
            note "the kernel's command line has resume=: this host can't hibernate any more, as that needs swap"
    fi
    mark_fstab
    # Units that an earlier run masked stay masked.
    for unit in $(swap_units) $(sed -n 's|^swap file /etc/systemd/system/||p' "$state/effects" 2>/dev/null); do
        mask_unit "$unit"
    done
    if [ -n "$(agents_swap)" ]; then
        sed 's/^\([[:space:]]*ResourceDisk\.EnableSwap[[:space:]]*=[[:space:]]*\)[Yy].*/\1n/' \
            "$root/etc/waagent.conf" >"$scratch/waagent" || fail_file "can't copy /etc/waagent.conf"
        effect file /etc/waagent.conf
        place /etc/waagent.conf "$scratch/waagent"
    elif recorded file /etc/waagent.conf; then
        effect file /etc/waagent.conf
    fi
}

# Replaces each swap line of fstab by a line with noauto, which neither a boot nor `swapon -a` turns
# on. Without any swap line in fstab, systemd would turn on the swap partitions that it finds on the
# disk of the root (systemd v257, src/gpt-auto-generator/gpt-auto-generator.c, add_partition_swap).
mark_fstab() {
    [ -f "$root/etc/fstab" ] || return 0
    # Somebody may have removed these scripts' mark from a line of fstab; the line with noauto that
    # follows is then still written only once.
    awk 'ours != "" && $0 == ours { ours = ""; next }
        { ours = "" }
        $1 !~ /^#/ && $3 == "swap" && $4 !~ /(^|,)noauto(,|$)/ {
            ours = $1 " none swap noauto 0 0"; print "#gpu-cluster# " $0; print ours; found = 1; next }
        { print }
        END { exit !found }' "$root/etc/fstab" >"$scratch/fstab"
    case $? in
        0) place /etc/fstab "$scratch/fstab" ;;
        1) ;; # no line of a swap device
        *) fail_file "can't read /etc/fstab" ;;
    esac
}

# mask_unit NAME: masks a unit, which has effect in all folders of units and on those that systemd's
# generators write (systemd.unit(5), "Unit File Load Path"). No reload of systemd is needed before
# the boot.
mask_unit() {
    path=/etc/systemd/system/$1
    make_directory "${path%/*}"
    effect file "$path"
    keep "$path"
    [ "$(readlink "$root$path")" != /dev/null ] || return 0
    { rm -f -- "$root$path" && ln -s /dev/null "$root$path"; } || fail_file "can't mask $path"
    did "unit $1 masked"
}

undo_swap() {
    attempt /etc/fstab fstab_back
    attempt "swap" swaps_back
}

fstab_back() {
    if kept /etc/fstab; then
        # Lines that were added since must stay: only this script's marks are removed, unless nothing
        # else changed.
        awk '/^#gpu-cluster# / { line = substr($0, 15); print line; split(line, field)
                ours = field[1] " none swap noauto 0 0"; next }
            $0 == ours { ours = ""; next }
            { ours = ""; print }' "$root/etc/fstab" >"$scratch/fstab"
        awk 1 "$state/kept/etc/fstab" >"$scratch/kept"
        if cmp -s "$scratch/fstab" "$scratch/kept"; then
            restore /etc/fstab
        else
            note "/etc/fstab was changed by somebody else: only our marks are taken out"
            place /etc/fstab "$scratch/fstab"
        fi
        release /etc/fstab
    fi
}

swaps_back() {
    [ -f "$state/swaps" ] || return 0
    need swapon
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

# Prints the units that turn swap on at a boot and are not masked: swap units that a target wants,
# those that generators wrote, such as zram-generator, except for fstab's, and services of known
# packages (Debian's zram-tools, Ubuntu's zram-config, Raspberry Pi's dphys-swapfile, swapspace).
swap_units() {
    for file in "$root"/etc/systemd/system/*.wants/*.swap "$root"/etc/systemd/system/*.requires/*.swap \
        "$root"/usr/local/lib/systemd/system/*.wants/*.swap "$root"/usr/lib/systemd/system/*.wants/*.swap \
        "$root"/lib/systemd/system/*.wants/*.swap "$root"/run/systemd/system/*.wants/*.swap \
        "$root"/run/systemd/generator*/*.swap \
        "$root"/etc/systemd/system/*.wants/zramswap.service "$root"/etc/systemd/system/*.wants/zram-config.service \
        "$root"/etc/systemd/system/*.wants/dphys-swapfile.service "$root"/etc/systemd/system/*.wants/swapspace.service \
        "$root"/etc/systemd/system/*.wants/systemd-swap.service; do
        [ -L "$file" ] || [ -f "$file" ] || continue
        case $file in
            */generator*/*) ! grep -qs '^SourcePath=/etc/fstab' "$file" || continue ;;
        esac
        name=${file##*/}
        [ "$(readlink "$root/etc/systemd/system/$name")" = /dev/null ] || printf '%s\n' "$name"
    done | sort -u
}

# Prints a line if Azure's agent makes a swap file at each boot (Azure/WALinuxAgent, README,
# ResourceDisk.EnableSwap).
agents_swap() {
    [ ! -f "$root/etc/waagent.conf" ] || grep -s '^[[:space:]]*ResourceDisk\.EnableSwap[[:space:]]*=[[:space:]]*[Yy]' "$root/etc/waagent.conf"
}

# Prints the devices in fstab that a boot turns on.
fstab_swaps() {
    [ -r "$root/etc/fstab" ] || return 0
    while read -r its_device _ its_type its_options _; do
        case $its_device in '#'*) continue ;; esac
        case ,$its_options, in *,noauto,*) continue ;; esac
        [ "$its_type" != swap ] || printf '%s\n' "$its_device"
    done <"$root/etc/fstab"
}

# Called by the probe: swap devices must not be active, now and after a boot. The probe also reports
# `swap` as a fact.
found_swap() {
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted=swap
    [ -z "$swap" ] || return 1
    later=$(fstab_swaps && swap_units && agents_swap)
    [ -n "$later" ] || return 0
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted="swap at the next boot: $(echo "$later" | paste -s -d ' ' -)"
    return 1
}
