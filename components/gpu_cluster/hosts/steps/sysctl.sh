# Sets kernel parameters, now and at each boot. Source: Kubernetes docs, "Container Runtimes"
# (ip_forward).

# A boot reads all files in the order of their names, whichever folder they are in (sysctl.d(5)), so
# this file comes after 99-sysctl.conf, which distributions link to /etc/sysctl.conf.
sysctl_file=/etc/sysctl.d/zz-gpu-cluster.conf

# each_sysctl COMMAND: calls COMMAND with each KEY VALUE; a declaration with other values redefines
# it.
# shellcheck disable=SC2317 # a later one wins
each_sysctl() {
    "$@" net.bridge.bridge-nf-call-iptables 1
    "$@" net.bridge.bridge-nf-call-ip6tables 1
    "$@" net.ipv4.ip_forward 1
}

check_sysctl() {
    missing_modules=
    for module in ${GC_MODULES-}; do
        module_there "$module" || missing_modules="$missing_modules $module"
    done
    each_sysctl require_key
    each_sysctl require_last
    each_sysctl require_routes
}

# require_routes KEY VALUE: reports default routes that Linux removes when it begins to forward IPv6:
# those that the kernel took from router advertisements, unless accept_ra is 2 (Linux,
# Documentation/networking/ip-sysctl.rst, accept_ra; net/ipv6/addrconf.c, dev_forward_change). Flag
# 0x40000 of a route is RTF_ADDRCONF (include/uapi/linux/ipv6_route.h).
require_routes() {
    [ "$1" = net.ipv6.conf.all.forwarding ] && [ "$2" = 1 ] && [ -r "$root/proc/net/ipv6_route" ] || return 0
    # shellcheck disable=SC2013 # names without spaces
    for device in $(awk '$1 ~ /^0*$/ && $2 == "00" && substr($9, 4, 1) ~ /[4-7c-f]/ && $10 != "lo" { print $10 }' \
        "$root/proc/net/ipv6_route" | sort -u); do
        [ "$(timeout 10 sysctl -n "net.ipv6.conf.$device.accept_ra" 2>/dev/null)" != 2 ] || continue
        ! each_sysctl sysctl_line | grep -Fqx "net.ipv6.conf.$device.accept_ra = 2" || continue
        problem "a default route of $device from router advertisements, which Linux drops once it forwards IPv6" \
            "a route that stays" "declare net.ipv6.conf.$device.accept_ra: \"2\" in system.sysctl, or configure a static route"
    done
}

# require_key KEY VALUE: reports a parameter that the kernel doesn't have, unless a module that isn't
# loaded yet may bring it.
require_key() {
    [ -z "$missing_modules" ] && ! timeout 10 sysctl -n "$1" >/dev/null 2>&1 || return 0
    problem "no sysctl $1" "a parameter of the running kernel" \
        "take it out of system.sysctl, or declare the kernel module that brings it in system.modules"
}

# require_last KEY VALUE: reports a file that a boot reads later and that sets another value.
require_last() {
    later=$(later_sysctl "$1") || return 0
    same_words "${later#*=}" "$2" ||
        problem "$1 = ${later#*=} in ${later%%=*}, which a boot reads after $sysctl_file" \
            "$1 = $2 at each boot" "take $1 out of that file, or declare that value in system.sysctl"
}

# later_sysctl KEY: prints `<file>=<value>` of the last setting of KEY that a boot applies after the
# file of these scripts; returns false if there is no such setting. Sources: sysctl.d(5) (a file
# hides files of the same name in later folders; explicit names win over patterns), systemd v257
# src/shared/sysctl-util.c, sysctl_normalize (a name whose first separator is a slash has its dots
# kept); Ubuntu's ufw 0.36, ufw-init, reads IPT_SYSCTL when it starts. ip_forward and
# conf.all.forwarding are one setting (Linux, Documentation/networking/ip-sysctl.rst).
later_sysctl() {
    set -- "$1"
    names=' '
    for folder in /etc/sysctl.d /usr/local/lib/sysctl.d /usr/lib/sysctl.d /lib/sysctl.d; do # A boot empties /run.
        for file in "$root$folder"/*.conf; do
            case $names in *" ${file##*/} "*) continue ;; esac
            [ ! -e "$file" ] || names="$names${file##*/} "
            [ ! -f "$file" ] || [ ! -r "$file" ] || set -- "$@" "$file"
        done
    done
    if grep -qs '^ENABLED=yes' "$root/etc/ufw/ufw.conf"; then
        file=$(sed -n 's/^IPT_SYSCTL=//p' "$root/etc/default/ufw" 2>/dev/null | tr -d "\"'" | tail -n 1)
        [ -z "$file" ] || [ ! -f "$root$file" ] || set -- "$@" "$root$file"
    fi
    LC_ALL=C awk -v ours="${sysctl_file##*/}" -v under="$root" '
        function plain(name, first) {
            first = match(name, /[.\/]/)
            if (first && substr(name, RSTART, 1) == ".") {
                gsub(/\//, "\001", name); gsub(/\./, "/", name); gsub(/\001/, ".", name)
            }
            return name == "net/ipv4/conf/all/forwarding" ? "net/ipv4/ip_forward" : name
        }
        BEGIN { wanted = plain(ARGV[1]); ARGV[1] = "" }
        FNR == 1 {
            name = FILENAME; sub(/.*\//, "", name)
            if (FILENAME ~ /\/ufw\//) name = "~~"
            later = name > ours
        }
        later && !/^[ \t]*[#;]/ && (at = index($0, "=")) {
            key = substr($0, 1, at - 1); gsub(/^[ \t]*-?[ \t]*|[ \t]*$/, "", key)
            if (plain(key) != wanted) next
            value = substr($0, at + 1); gsub(/^[ \t]+|[ \t\r]+$/, "", value)
            if (name >= last) { last = name; found = substr(FILENAME, length(under) + 1) "=" value }
        }
        END { if (found != "") print found; exit found == "" }' "$@"
}

sysctl_line() {
    printf '%s = %s\n' "$1" "$2"
}

apply_sysctl() {
    lines="# gpu-cluster
$(each_sysctl sysctl_line)
"
    place_text "$sysctl_file" "$lines"
    # shellcheck disable=SC2046 # a list of names, split on purpose
    list_sysctl $(each_sysctl sysctl_name)
    each_sysctl sysctl_set
    for file in "$state"/sysctl/*; do
        [ -f "$file" ] || continue
        case "
$lines" in *"
${file##*/} = "*) continue ;; esac
        sysctl_back "$file"
        rm -f -- "$file"
    done
}

sysctl_name() {
    echo "$1"
}

sysctl_set() {
    expect sysctl "$1" "$2"
    ! found_sysctl "$1" "$2" || return 0
    [ -n "$value" ] || fail "sysctl $1 does not exist; declare the kernel module that brings it in system.modules"
    old=$(printf '%s\n' "$value" | tr "\t" " ")
    if [ ! -f "$state/sysctl/$1" ]; then
        mkdir -p "$state/sysctl" && printf '%s\n' "$old" >"$state/draft" &&
            mv -- "$state/draft" "$state/sysctl/$1" || fail_file "can't write $state/sysctl/$1"
    fi
    timeout 10 sysctl -q -w "$1=$2" || fail "sysctl $1 can't be set to $2; correct system.sysctl in the stack file"
    # One parameter may change others (Linux, Documentation/networking/ip-sysctl.rst, ip_forward),
    # so the listed values are read again.
    sysctl_values=
    did "sysctl $1: $old -> $2"
}

# sysctl_back FILE: restores the value in FILE; the file's name is the parameter's name.
sysctl_back() {
    key=${1##*/}
    old=$(cat "$1")
    [ "$(timeout 10 sysctl -n "$key" 2>/dev/null | tr "\t" " ")" = "$old" ] && return 0
    if timeout 10 sysctl -q -w "$key=$old"; then
        undid "sysctl $key: $old"
    else
        note "sysctl $key can't be set back to $old"
    fi
}

undo_sysctl() {
    attempt "$sysctl_file" forget "$sysctl_file"
    attempt "kernel parameters" sysctls_back
}

sysctls_back() {
    [ -d "$state/sysctl" ] || return 0
    need sysctl
    for file in "$state"/sysctl/*; do
        [ ! -f "$file" ] || sysctl_back "$file"
    done
    rm -rf -- "$state/sysctl"
}

# --- found later: the probe has this part too ---

# Reads the values of all keys with one process, in order; no value if one key does not exist.
list_sysctl() {
    sysctl_values=$(timeout 5 sysctl -n "$@" 2>/dev/null) || sysctl_values=
}

# found_sysctl KEY VALUE: returns true if the parameter has that value. It takes the next listed
# value, so keys must come in the listed order; without a list it reads the value.
found_sysctl() {
    if [ -n "$sysctl_values" ]; then
        value=${sysctl_values%%
*}
        sysctl_values=${sysctl_values#*
}
    else
        value=$(timeout 5 sysctl -n "$1" 2>/dev/null)
    fi
    same_words "$value" "$2"
}

# The kernel separates the numbers of a value by tabs.
same_words() {
    wanted=$2
    set -f
    # shellcheck disable=SC2086 # words
    set -- $1
    set +f
    [ "$*" = "$wanted" ]
}
