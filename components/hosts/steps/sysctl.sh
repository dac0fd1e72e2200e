# Sets kernel parameters, now and at each boot. Source: Kubernetes docs, "Container Runtimes"
# (ip_forward).

sysctl_file=/etc/sysctl.d/99-gpu-cluster.conf

# each_sysctl COMMAND: calls COMMAND with each KEY VALUE; a declaration with other values redefines
# it.
# shellcheck disable=SC2317 # a later one wins
each_sysctl() {
    "$@" net.bridge.bridge-nf-call-iptables 1
    "$@" net.bridge.bridge-nf-call-ip6tables 1
    "$@" net.ipv4.ip_forward 1
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
    [ -n "$value" ] || fail "sysctl $1 is not there; is its module loaded?"
    old=$(printf '%s\n' "$value" | tr "\t" " ")
    if [ ! -f "$state/sysctl/$1" ]; then
        mkdir -p "$state/sysctl" && printf '%s\n' "$old" >"$state/draft" &&
            mv -- "$state/draft" "$state/sysctl/$1" || fail "can't write $state/sysctl/$1"
    fi
    timeout 10 sysctl -q -w "$1=$2" || fail "sysctl $1 can't be set to $2"
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
    forget "$sysctl_file"
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
