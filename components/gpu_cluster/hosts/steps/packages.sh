# Installs declared packages, and the tools to build kernel modules for the running kernel.

check_packages() {
    require_manager
}

apply_packages() {
    each_repository step_repository
    words=$GC_PACKAGES
    release=$(uname -r)
    if [ "$GC_HEADERS" = true ]; then
        headers=$(header_packages "$release")
        # A pinned kernel keeps its build files; else upgrades of the system bring a next kernel's.
        [ -n "${GC_KERNEL_RELEASE-}" ] || moving=" kernel-devel ${headers%%=*} "
        list_installed "$scratch/installed"
        first=${headers%% *}
        # Build files that no package installed are used as they are.
        if [ ! -e "$root/lib/modules/$release/build" ] ||
            [ -n "$(matching "${first%%=*}" "" "$scratch/installed")" ]; then
            words="$words $headers"
        fi
        [ -n "${GC_KERNEL_RELEASE-}" ] || words="$words $(next_headers)"
    fi
    # shellcheck disable=SC2086 # a list of words, split on purpose
    install_packages $words
    moving=
}

# Prints the metapackages with the build files of the next kernels, beside the installed ones that
# bring these kernels (linux-image-virtual: linux-headers-virtual). Cloud images have only the latter,
# and DKMS builds no driver for a kernel without build files. dnf needs none: its build files are
# installed for each kernel.
next_headers() {
    [ "$manager" = apt ] || return 0
    awk '$1 ~ /^linux-image-/ && $1 !~ /-[0-9]+\.[0-9]+\.[0-9]+/ { sub(/-image-/, "-headers-", $1); print $1 }
        $1 ~ /^proxmox-(default-kernel|kernel-[0-9]+\.[0-9]+)$/ { sub(/kernel/, "headers", $1); print $1 }' \
        "$scratch/installed" >"$scratch/next"
    [ -s "$scratch/next" ] || return 0
    # shellcheck disable=SC2046 # a list of words, split on purpose
    list_available $(cat "$scratch/next")
    while IFS= read -r name; do
        [ -z "$(matching "$name" "" "$scratch/installed")$(matching "$name" "" "$scratch/plain")" ] || echo "$name"
    done <"$scratch/next"
}

# header_packages RELEASE: prints the packages with the build files of that kernel. Distributions
# have several kernels, and the name of the build files follows the name of the kernel's package:
# kernel-uek-devel (Oracle's docs, UEK 7 and 8, "Changes to UEK Content Distribution and Packaging"),
# kernel6.12-devel (awslabs/amazon-eks-ami, install-nvidia-driver.sh), kernel-64k-devel and
# kernel-rt-devel (RHEL's kernel.spec), kernel-lt-devel (elrepo), proxmox-headers-*. On Debian and
# Ubuntu, images of all flavors have linux-headers-<release>.
header_packages() {
    if [ "$manager" = apt ]; then
        owner=$(dpkg-query -S "/boot/vmlinuz-$1" 2>/dev/null | sed -n 's/^\([a-z0-9][^ :]*\).*: .*/\1/p' | head -n 1)
        case $owner in
            *-kernel-*) echo "${owner%%-kernel-*}-headers-$1" ;;
            *) echo "linux-headers-$1" ;;
        esac
        return 0
    fi
    found=$(installed_headers "$1")
    [ -n "$found" ] || found=$(offered_headers "$1")
    [ -n "$found" ] || found=$(owners_headers "$1")
    version=${found#* }
    case ${found:=kernel-devel} in
        # Other kernels' *-headers packages conflict with the distribution's, or don't exist. These
        # are for programs and not for modules, so any version fits and upgrades may replace it.
        kernel-devel*) echo "kernel-devel=${version:=${1%.*}} kernel-headers" ;;
        *) echo "${found%% *}=$version" ;;
    esac
}

# Each package of build files provides `kernel-devel-uname-r = <release>` (RHEL's, Amazon's and
# elrepo's kernel.spec). These functions print the name and version of one package, or nothing.
installed_headers() {
    rpm -q --whatprovides kernel-devel-uname-r \
        --qf '%{NAME} %{VERSION}-%{RELEASE} [%{PROVIDENAME}=%{PROVIDEVERSION} ]\n' 2>/dev/null |
        awk -v wanted="kernel-devel-uname-r=$1" 'index($0 " ", " " wanted " ") { print $1, $2; exit }'
}

offered_headers() {
    timeout -k 10 "$GC_PACKAGE_RUN_LIMIT" dnf -q ${unlocked:+"$unlocked"} "$unhidden" repoquery \
        --whatprovides "kernel-devel-uname-r = $1" --qf '%{name} %{version}-%{release}\n' 2>/dev/null 9>&- |
        head -n 1
}

# Takes name and version from the package that owns the kernel's image, or the kernel's modules if no
# package owns the image (unified kernel images).
owners_headers() {
    rpm -q --qf '%{NAME} %{VERSION}-%{RELEASE}\n' -f "/lib/modules/$1/vmlinuz" -f "/boot/vmlinuz-$1" \
        -f "/lib/modules/$1" 2>/dev/null |
        awk '/^kernel/ { name = $1; sub(/-(modules|core|uki).*/, "", name); print name "-devel", $2; exit }'
}
