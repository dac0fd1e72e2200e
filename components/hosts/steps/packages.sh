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
        list_installed "$scratch/installed"
        first=${headers%% *}
        # Build files that no package installed are used as they are.
        if [ ! -e "$root/lib/modules/$release/build" ] ||
            [ -n "$(matching "${first%%=*}" "" "$scratch/installed")" ]; then
            words="$words $headers"
        fi
    fi
    # shellcheck disable=SC2086 # a list of words, split on purpose
    install_packages $words
}

# header_packages RELEASE: prints the packages with the build files of that kernel.
header_packages() {
    if [ "$manager" = apt ]; then
        echo "linux-headers-$1"
        return 0
    fi
    owner=$(rpm -q --qf '%{NAME}\n' -f "/lib/modules/$1/vmlinuz" -f "/boot/vmlinuz-$1" 2>/dev/null |
        grep '^kernel' | head -n 1)
    case $owner in
        # elrepo's kernel-headers conflict with the distribution's, so they are not installed.
        kernel-lt* | kernel-ml*) echo "${owner%-core}-devel=${1%.*}" ;;
        *) echo "kernel-devel=${1%.*} kernel-headers=${1%.*}" ;;
    esac
}
