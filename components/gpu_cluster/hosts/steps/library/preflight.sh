# Checks the requirements of a host before anything on the host is changed. The checks change nothing
# and report all problems together.

# Accepted values of ID in os-release(5).
: "${GC_SYSTEMS:=debian ubuntu rhel rocky almalinux centos fedora amzn ol}"
# Oldest kernel of these systems (RHEL 8).
: "${GC_KERNEL:=4.18}"
# MiB that must be free in /var/lib, for backups, an initramfs and containerd's state.
: "${GC_DISK_MIB:=1024}"
# Seconds to wait for a running package manager.
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
        *) problem "operating system '${os_name:-${os:-unknown}}' (/etc/os-release)" "one of: $GC_SYSTEMS" \
            "use a supported system, or add it to the list if you have tested it" ;;
    esac
    find_image
    [ -z "$image" ] ||
        problem "${os_name:-$os}, whose packages come in an image ($image)" "packages by apt or dnf" \
            "use a system whose packages can be installed one by one"
    case $os-${os_version%%.*} in
        centos-[1-7] | rhel-[1-7] | ol-[1-7] | amzn-2 | amzn-2018)
            problem "$os $os_version, which has yum and no dnf" "a system with apt or dnf" \
                "install a later system"
            ;;
    esac
    # shellcheck disable=SC2046 # two words, split on purpose
    set -- $(uname -m -r)
    kernel=${GC_KERNEL_RELEASE:-$1} arch=$2
    case $arch in
        x86_64 | aarch64) ;;
        arm64) [ -n "$root" ] || problem "architecture arm64" "aarch64" "use Linux" ;;
        *) problem "architecture $arch" "x86_64 or aarch64" "use a machine that NVIDIA supports" ;;
    esac
    # An old running kernel is accepted if a newer kernel is declared.
    ! is_before "$kernel" "$GC_KERNEL" || [ -n "$root" ] || problem "kernel $kernel" "$GC_KERNEL or later" \
        "upgrade the kernel, or declare kernel.release"
}

# require_writable PATH...: reports folders and files that can't be changed: on a file system that is
# mounted read-only, or with the attribute `immutable` (chattr(1)), which hardening guides set.
require_writable() {
    for path in "$@"; do
        [ -e "$root$path" ] || continue
        if [ ! -w "$root$path" ]; then
            problem "$path, which is read-only" "a file system that can be written" "mount it writable: \`mount -o remount,rw\`, and see dmesg"
        elif have lsattr && lsattr -d -- "$root$path" 2>/dev/null | grep -q '^[^ ]*i'; then
            problem "$path with the attribute immutable" "one that can be changed" "\`chattr -i $path\`"
        fi
    done
}

# require_unmasked UNIT...: reports masked units, which can be neither enabled nor started
# (systemctl(1), mask).
require_unmasked() {
    for name in "$@"; do
        [ "$(systemctl is-enabled "$name" 2>/dev/null)" != masked ] ||
            problem "unit $name masked" "a unit that can start" "\`systemctl unmask $name\`"
    done
}

require_disk() {
    # df prints "Filesystem 1024-blocks Used Available Capacity Mounted on", then the numbers.
    free=$(df -Pk "$root/var/lib" | { read -r _ && read -r _ _ _ free _ && echo $((free / 1024)); })
    [ "${free:-0}" -ge "$GC_DISK_MIB" ] ||
        problem "$free MiB free in /var/lib" "$GC_DISK_MIB MiB" "free space or grow the disk"
}

# Waits for a running package manager, which may be replacing the files that these scripts change.
# Unattended upgrades end by themselves.
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

# Sets `os` and `os_version` from os-release(5).
# shellcheck disable=SC2034 # callers read these variables
read_os_release() {
    os='' os_version='' os_name=''
    [ -r "$root/etc/os-release" ] || return 0
    its_return=$(printf '\r') # of a file that was written with the line ends of Windows
    while IFS='=' read -r its_name its_value; do
        its_value=${its_value%"$its_return"}
        its_value=${its_value#[\"\']}
        its_value=${its_value%[\"\']}
        case $its_name in
            ID) os=$its_value ;;
            VERSION_ID) os_version=$its_value ;;
            PRETTY_NAME) os_name=$its_value ;;
        esac
    done <"$root/etc/os-release"
}

# Sets `image` to what delivers the whole system as an image: rpm-ostree, or bootc with composefs
# alone, which boots with composefs= and without /run/ostree-booted (bootc, crates/lib,
# composefs_booted).
# shellcheck disable=SC2034 # callers read this variable
find_image() {
    image=
    if [ -e "$root/run/ostree-booted" ]; then
        image=rpm-ostree
    elif [ -r "$root/proc/cmdline" ]; then
        read -r its_line <"$root/proc/cmdline" || :
        case " $its_line" in *" composefs="*) image="bootc, composefs" ;; esac
    fi
}

# find_package_lock: sets `locked` to the package manager's lock that a process holds, and `locker`
# to the process; returns false if no lock is held. dpkg and apt lock with fcntl, which /proc/locks
# lists by inode: the sixth word ends in the inode, and the second word is -> for a waiting process.
# rpm's lock is listed in the same way.
# shellcheck disable=SC2034 # callers read these variables
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
