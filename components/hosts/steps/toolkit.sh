# The NVIDIA container toolkit: found on the host, or installed from a signed repository by the
# host's package manager (packages.sh). Source: NVIDIA Container Toolkit 1.20 installation guide.

check_toolkit() {
    find_manager
    if [ "$GC_TOOLKIT_SOURCE" = package ]; then require_manager; else require_toolkit; fi
}

require_toolkit() {
    for name in nvidia-ctk nvidia-container-runtime; do
        have "$name" || problem "no $name on PATH" "the NVIDIA container toolkit, 1.18 or later" \
            "install the package nvidia-container-toolkit, or declare runtime.toolkit.source: package"
    done
    have nvidia-ctk || return 0
    toolkit=$(ask 90 nvidia-ctk --version 2>/dev/null | sed -n 's/.*version //p' | head -n 1)
    case $toolkit in
        0.* | 1.[0-9].* | 1.1[0-7].*)
            problem "nvidia-ctk $toolkit" "1.18 or later (drop-in files)" "upgrade the toolkit" ;;
    esac
}

toolkit_on() {
    step=toolkit
    if [ "$GC_TOOLKIT_SOURCE" = package ]; then
        open_state
        each_repository toolkit_repository
        # shellcheck disable=SC2086 # a list of words
        install_packages $GC_TOOLKIT_PACKAGES
        settle
        require_toolkit
    else
        toolkit_off
    fi
}

toolkit_off() {
    [ -f "$state/effects" ] || return 0
    find_manager
    record_killed
    take_back_step toolkit
}

# toolkit_repository MANAGER NAME URL ...: those of the other package manager are passed over.
toolkit_repository() {
    [ "$1" = "$manager" ] || return 0
    name=$2
    name_host
    url=$(printf '%s' "$3" | sed "s|{distribution}|$distribution|g; s|{architecture}|$architecture|g")
    shift 3
    repository toolkit "$name" "$url" "$@"
}

# NVIDIA's repositories by distribution have no folder for each rebuild of RHEL: Rocky 9 takes
# rhel9.0 (libnvidia-container's repository layout).
name_host() {
    identity=$(sed -n 's/^ID=//p' "$root/etc/os-release" | tr -d \"\')
    release=$(sed -n 's/^VERSION_ID=//p' "$root/etc/os-release" | tr -d \"\')
    case $identity in
        rhel | rocky | almalinux | centos | ol) distribution=rhel${release%%.*}.0 ;;
        *) distribution=$identity$release ;;
    esac
    if [ "$manager" = apt ]; then architecture=$(dpkg --print-architecture); else architecture=$(uname -m); fi
}
