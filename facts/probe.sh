#!/bin/sh
# shellcheck disable=SC2015 # a && b || continue: continue is meant for both
# Tells what a host is, as key=value lines. Reads only; every path is prefixed by
# GPU_CLUSTER_ROOT, which is empty on real hosts. Keys may repeat (drift, digest).
root=${GPU_CLUSTER_ROOT-}

# One line each, whatever the value holds. A look waits for the slowest host, so nothing here
# starts a process that the shell can do without.
say() {
    key=$1
    set -f
    IFS='
'
    # shellcheck disable=SC2086 # split at line ends
    set -- $2
    IFS=' '
    printf '%s=%s\n' "$key" "$*"
    unset IFS
    set +f
}

unquoted() {
    value=${1#[\"\']}
    value=${value%[\"\']}
}

os_release() {
    [ -r "$root/etc/os-release" ] || return 0
    while IFS='=' read -r name value; do
        case $name in
            ID) unquoted "$value" && say os "$value" ;;
            VERSION_ID) unquoted "$value" && say os_version "$value" ;;
        esac
    done <"$root/etc/os-release"
}

nvidia_devices() {
    count=0
    switches=0
    for device in "$root"/sys/bus/pci/devices/*; do
        [ -r "$device/vendor" ] && [ -r "$device/class" ] || continue
        read -r vendor <"$device/vendor"
        read -r class <"$device/class"
        case $vendor-$class in
            0x10de-0x0300* | 0x10de-0x0302*) count=$((count + 1)) ;;
            0x10de-0x0680*) switches=$((switches + 1)) ;;
        esac
    done
    say nvidia_devices "$count"
    say nvswitches "$switches"
}

# dpkg and apt lock with fcntl, which /proc/locks shows by inode.
package_lock() {
    for file in /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/rpm/.rpm.lock; do
        [ -e "$root$file" ] && [ -r "$root/proc/locks" ] || continue
        awk -v inode=":$(stat -c %i "$root$file")" -v file="$file" '$2 != "->" &&
            substr($6, length($6) - length(inode) + 1) == inode { print file; exit }' \
            "$root/proc/locks"
    done | head -n 1
}

# UEFI, GetVariable: four bytes of attributes, then one byte, 1 where Secure Boot is on.
secure_boot() {
    for variable in "$root"/sys/firmware/efi/efivars/SecureBoot-*; do
        [ -r "$variable" ] || continue
        case $(od -An -t u1 -j 4 -N 1 "$variable" 2>/dev/null) in
            *1) echo yes ;;
            *0) echo no ;;
        esac
    done
}

nvidia_runtime() {
    command -v containerd >/dev/null 2>&1 || return 0
    [ -f "$root/etc/containerd/config.toml" ] || return 0
    # 2.0's `dump` leaves out what a file of version 2 says of CRI; its `migrate` shows it.
    for verb in dump migrate; do
        timeout 5 containerd --config "$root/etc/containerd/config.toml" config $verb 2>/dev/null |
            grep -q 'containerd\.runtimes\.nvidia\]' && echo yes && return 0
    done
    echo no
}

os_release
say arch "$(uname -m)"
say kernel "$(uname -r)"
nvidia_devices
for module in nouveau nova_core; do
    [ -d "$root/sys/module/$module" ] && say loaded "$module"
done
[ -r "$root/proc/driver/nvidia/version" ] && say driver "$(sed -n 's/^NVRM version:.*Module  *\([0-9][0-9.]*\).*/\1/p' \
    "$root/proc/driver/nvidia/version" 2>/dev/null)"
say containerd "$(timeout 5 containerd --version 2>/dev/null | awk '{ print $3 }' | sed 's/^v//')"
if command -v docker >/dev/null 2>&1; then
    say docker "$(timeout 5 docker --version 2>/dev/null | sed -n 's/^Docker version \([^, ]*\).*/\1/p')"
fi
if command -v crio >/dev/null 2>&1; then
    say crio "$(timeout 5 crio --version 2>/dev/null | sed -n 's/^crio version \([^ ]*\).*/\1/p')"
fi
if [ -d "$root/lib/modules/$(uname -r)/build" ]; then say headers yes; else say headers no; fi
say secure_boot "$(secure_boot)"
say toolkit "$(timeout 5 nvidia-ctk --version 2>/dev/null | sed -n 's/.*version //p' | head -n 1)"
nvidia_runtime=$(nvidia_runtime)
say nvidia_runtime "$nvidia_runtime"
swap=$(awk 'NR > 1 { print $1 }' "$root/proc/swaps" 2>/dev/null)
say swap "$swap"
case $(stat -f -c %T "$root/sys/fs/cgroup" 2>/dev/null) in
    cgroup2fs) say cgroup 2 ;;
    *) say cgroup 1 ;;
esac
say disk_free_mib "$(df -Pk "$root/var/lib" | awk 'NR == 2 { print int($4 / 1024) }')"
say package_lock "$(package_lock)"
say boot_id "$(cat "$root/proc/sys/kernel/random/boot_id" 2>/dev/null)"
if [ -r "$root/run/gpu-cluster/reboot-required" ]; then
    while IFS= read -r reason; do
        say reboot "$reason"
    done <"$root/run/gpu-cluster/reboot-required"
fi
if [ -e "$root/run/reboot-required" ]; then say reboot_required yes; fi
if [ -e "$root/run/gpu-cluster-simulated" ]; then say simulated yes; fi

# What our scripts said that must be found besides files (library.sh, expect): all sysctl values by
# one process; a kind that is unknown here is passed over.
expected() {
    [ -r "$1" ] || return 0
    listed=$(list_software "$1")
    keys=$(awk '$1 == "sysctl" { print $2 }' "$1")
    # shellcheck disable=SC2086 # a list of names
    [ -z "$keys" ] || values=$(timeout 5 sysctl -n $keys 2>&1 | tr '\t' ' ')
    while read -r kind name value; do
        case $kind in
            sysctl)
                found=${values%%
*}
                values=${values#*
}
                [ "$found" = "$value" ] || say drift "$2 sysctl $name"
                ;;
            module) module_there "$name" || say drift "$2 module $name" ;;
            active) timeout 5 systemctl is-active --quiet "$name" || say drift "$2 $name is not active" ;;
            inactive) timeout 5 systemctl is-active --quiet "$name" && say drift "$2 $name is active" ;;
            member)
                case " $(id -nG "$name" 2>/dev/null) " in
                    *" $value "*) ;;
                    *) say drift "$2 $name not in the group $value" ;;
                esac
                ;;
            forward)
                timeout 5 iptables -w -S FORWARD 2>/dev/null | grep -qx -e "-P FORWARD $name" ||
                    say drift "$2 iptables FORWARD not $name"
                ;;
            selinux) [ "$(timeout 5 getenforce | tr '[:upper:]' '[:lower:]')" = "$name" ] || say drift "$2 SELinux mode" ;;
            port)
                case $name in
                    firewalld) timeout 5 firewall-cmd -q --query-port="$value" ;;
                    ufw) timeout 5 ufw show added | grep -q "^ufw allow $(echo "$value" | tr - :)\\( \\|\$\\)" ;;
                esac || say drift "$2 port $value"
                ;;
            package | hold | path) software "$kind" "$name" "$value" || say drift "$2 $kind $name" ;;
        esac
    done <"$1"
}

# What expected() asks for was listed by one process (list_software): `<version> <name>` of what is
# installed, `hold <name>` of what upgrades leave alone.
software() {
    case $1 in
        package) line="$3 $2" ;;
        hold) line="hold $2" ;;
        path)
            [ -e "$root$2" ]
            return
            ;;
    esac
    case $listed in
        *"
$line
"*) return 0 ;;
    esac
    return 1
}

list_software() {
    names=$(awk '$1 == "package" || $1 == "hold" { print $2 }' "$1" | sort -u)
    [ -n "$names" ] || return 0
    echo
    # shellcheck disable=SC2016,SC2086 # dpkg-query's own variables; a list of names
    if command -v dpkg-query >/dev/null 2>&1; then
        timeout 5 dpkg-query -W -f '${db:Status-Want} ${db:Status-Status} ${Version} ${Package}\n' $names 2>/dev/null |
            awk '$2 == "installed" { sub(/^[0-9]+:/, "", $3); print $3, $4 } $1 == "hold" { print $1, $4 }'
    else
        timeout 5 rpm -q --qf '%{VERSION}-%{RELEASE} %{NAME}\n' $names
        awk '/^\[/ { main = ($0 == "[main]") } main && /^(excludepkgs|exclude)[ \t]*=/ {
            sub(/^[^=]*=/, ""); count = split($0, word, /[ ,]+/)
            for (n = 1; n <= count; n++) print "hold", word[n] }' "$root/etc/dnf/dnf.conf" 2>/dev/null
    fi
    echo .
}

# As in system.sh: a module may be built in.
module_there() {
    [ -d "$root/sys/module/$1" ] || grep -qw -e "$1" "$root/proc/filesystems" 2>/dev/null ||
        grep -q "/$1\.ko" "$root/lib/modules/$(uname -r)/modules.builtin" 2>/dev/null
}

# What our scripts wrote (the last line of a path counts), and whether it is still so.
for written in "$root"/var/lib/gpu-cluster/*/written; do
    [ -r "$written" ] || continue
    phase=${written%/written}
    phase=${phase##*/}
    awk '{ path = $0; sub(/^[0-9a-f]+  /, "", path); last[path] = $1 }
        END { for (path in last) print last[path], path }' "$written" |
        while read -r wanted path; do
            found=$(sha256sum <"$root$path" 2>/dev/null)
            found=${found%% *}
            say digest "$phase ${found:-missing} $path"
            [ "$found" = "$wanted" ] || say drift "$phase $path"
        done
done
for phase in "$root"/var/lib/gpu-cluster/*/; do
    [ -r "$phase/written" ] || continue
    phase=${phase%/}
    say applied "${phase##*/}"
    expected "$phase/expected" "${phase##*/}"
    case ${phase##*/} in
        prepare) [ -z "$swap" ] || ! grep -q '^#gpu-cluster# ' "$root/etc/fstab" || say drift "prepare swap" ;;
        runtime)
            engine=containerd
            [ ! -r "$phase/engine" ] || read -r engine <"$phase/engine"
            [ "$engine" != containerd ] || [ "$nvidia_runtime" = yes ] || say drift "runtime containerd"
            ;;
    esac
done
say now "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
say clock "$(date +%s)"
say end ok
