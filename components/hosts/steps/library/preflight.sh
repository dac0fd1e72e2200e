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
    os=$(sed -n 's/^ID=//p' "$root/etc/os-release" 2>/dev/null | tr -d \"\')
    case " $GC_SYSTEMS " in
        *" $os "*) ;;
        *) problem "operating system '${os:-unknown}' (/etc/os-release)" "one of: $GC_SYSTEMS" \
            "use a supported system, or add it to the list if you have tested it" ;;
    esac
    arch=$(uname -m)
    case $arch in
        x86_64 | aarch64) ;;
        arm64) [ -n "$root" ] || problem "architecture arm64" "aarch64" "use Linux" ;;
        *) problem "architecture $arch" "x86_64 or aarch64" "use a machine that NVIDIA supports" ;;
    esac
    kernel=$(uname -r)
    # A kernel that is too old may be what the declared one cures.
    awk -v have="${GC_KERNEL_RELEASE:-$kernel}" -v want="$GC_KERNEL" 'BEGIN {
        split(have, h, /[^0-9]+/); split(want, w, ".")
        exit !(h[1] > w[1] || (h[1] == w[1] && h[2] >= w[2]))
    }' || [ -n "$root" ] || problem "kernel ${GC_KERNEL_RELEASE:-$kernel}" "$GC_KERNEL or later" \
        "upgrade the kernel, or declare kernel.release"
}

require_disk() {
    free=$(df -Pk "$root/var/lib" | awk 'NR == 2 { print int($4 / 1024) }')
    [ "$free" -ge "$GC_DISK_MIB" ] ||
        problem "$free MiB free in /var/lib" "$GC_DISK_MIB MiB" "free space or grow the disk"
}

# The process that holds the package manager's lock, and which one. dpkg and apt lock with fcntl,
# which /proc/locks shows by inode; rpm's lock is a file that its process holds.
package_manager_lock() {
    for file in /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/rpm/.rpm.lock; do
        [ -e "$root$file" ] && [ -r "$root/proc/locks" ] || continue
        inode=$(stat -c %i "$root$file")
        awk -v inode=":$inode" -v file="$file" '$2 != "->" && index($6, inode) &&
            substr($6, length($6) - length(inode) + 1) == inode { print file, $5; exit }' \
            "$root/proc/locks"
    done | head -n 1
}

# A package manager at work may be replacing the files that we are about to change: it is waited
# for, since unattended upgrades come and go by themselves.
require_package_manager_idle() {
    waited=0
    while held=$(package_manager_lock) && [ -n "$held" ] && [ "$waited" -lt "$GC_PACKAGE_LOCK_LIMIT" ]; do
        [ "$waited" -gt 0 ] || note "waiting for the package manager (${held% *})"
        sleep 1
        waited=$((waited + 1))
    done
    [ -z "$held" ] ||
        problem "${held% *} held by process ${held##* } for $waited s" "no package manager at work" \
            "wait until it ends (unattended upgrades take minutes), then run again"
}
