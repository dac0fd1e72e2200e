# What a host must be before anything is changed on it. Each finding is reported, nothing is changed.

# Values of ID in os-release(5) that are accepted.
: "${GC_SYSTEMS:=debian ubuntu rhel rocky almalinux centos fedora amzn ol}"
# The oldest kernel of these systems (RHEL 8).
: "${GC_KERNEL:=4.18}"
# Free in /var/lib: room for backups, an initramfs and containerd's state.
: "${GC_DISK_MIB:=1024}"
# Seconds to wait for a package manager that is at work.
: "${GC_PACKAGE_LOCK_LIMIT:=120}"

require_root() {
    [ -n "$root" ] || [ "$(id -u)" = 0 ] ||
        problem "user $(id -un)" "root" "log in as root, or as a user with sudo -n"
}

require_commands() {
    for name in "$@"; do
        have "$name" || problem "no command $name on PATH" "$name" "install the package it is in"
    done
}

require_system() {
    read_os_release
    case " $GC_SYSTEMS " in
        *" $os "*) ;;
        *) problem "operating system '${os:-unknown}' (/etc/os-release)" "one of: $GC_SYSTEMS" \
            "use a supported system, or add it to the list if you have tested it" ;;
    esac
    case $os-${os_version%%.*} in
        centos-[1-7] | rhel-[1-7] | ol-[1-7] | amzn-2 | amzn-2018)
            problem "$os $os_version, which has yum and no dnf" "a system with apt or dnf" \
                "install a later system"
            ;;
    esac
    # shellcheck disable=SC2046 # two words
    set -- $(uname -m -r)
    kernel=${GC_KERNEL_RELEASE:-$1} arch=$2
    case $arch in
        x86_64 | aarch64) ;;
        arm64) [ -n "$root" ] || problem "architecture arm64" "aarch64" "use Linux" ;;
        *) problem "architecture $arch" "x86_64 or aarch64" "use a machine that NVIDIA supports" ;;
    esac
    # A kernel that is too old may be what the declared one cures.
    ! is_before "$kernel" "$GC_KERNEL" || [ -n "$root" ] || problem "kernel $kernel" "$GC_KERNEL or later" \
        "upgrade the kernel, or declare kernel.release"
}

# is_before VERSION OTHER: by major and minor version.
is_before() {
    its_minor=${1#*.}
    its_minor=${its_minor%%[!0-9]*}
    [ "${1%%.*}" -lt "${2%%.*}" ] ||
        { [ "${1%%.*}" -eq "${2%%.*}" ] && [ "${its_minor:-0}" -lt "${2#*.}" ]; }
}

require_disk() {
    # "Filesystem 1024-blocks Used Available Capacity Mounted on", then the numbers.
    free=$(df -Pk "$root/var/lib" | { read -r _ && read -r _ _ _ free _ && echo $((free / 1024)); })
    [ "${free:-0}" -ge "$GC_DISK_MIB" ] ||
        problem "$free MiB free in /var/lib" "$GC_DISK_MIB MiB" "free space or grow the disk"
}

# A package manager at work may be replacing the files that we are about to change: it is waited
# for, since unattended upgrades come and go by themselves.
require_package_manager_idle() {
    waited=0
    while find_package_lock && [ "$waited" -lt "$GC_PACKAGE_LOCK_LIMIT" ]; do
        [ "$waited" -gt 0 ] || note "waiting for the package manager ($locked)"
        sleep 1
        waited=$((waited + 1))
    done
    [ -z "$locked" ] ||
        problem "$locked held by process $locker for $waited s" "no package manager at work" \
            "wait until it ends (unattended upgrades take minutes), then run again"
}

# --- found later: the probe has this part too ---

# `os` and `os_version`, as os-release(5) has them.
# shellcheck disable=SC2034 # for those who ask
read_os_release() {
    os='' os_version=''
    [ -r "$root/etc/os-release" ] || return 0
    while IFS='=' read -r its_name its_value; do
        its_value=${its_value#[\"\']}
        its_value=${its_value%[\"\']}
        case $its_name in
            ID) os=$its_value ;;
            VERSION_ID) os_version=$its_value ;;
        esac
    done <"$root/etc/os-release"
}

# find_package_lock: the package manager's lock that a process holds, as `locked` and `locker`; fails
# where none is held. dpkg and apt lock with fcntl, which /proc/locks shows by inode: the sixth word
# ends in it, the second is -> where somebody waits. rpm's lock is a file likewise.
# shellcheck disable=SC2034 # for those who ask
find_package_lock() {
    locked='' locker=''
    set --
    for file in /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/rpm/.rpm.lock; do
        [ ! -e "$root$file" ] || set -- "$@" "$root$file"
    done
    [ $# -gt 0 ] && [ -r "$root/proc/locks" ] || return 1
    for inode in $(stat -c %i "$@"); do
        while read -r _ kind _ _ process place _; do
            case $kind-$place in
                '->'-*) ;;
                *":$inode") [ -n "$locked" ] || { locked=${1#"$root"} && locker=$process; } ;;
            esac
        done <"$root/proc/locks"
        shift
    done
    [ -n "$locked" ]
}
