# The driver from Debian's own archive, which has no package nvidia-open or cuda-drivers, and
# another module name. Sources: packages.debian.org/bookworm; nvidia-graphics-drivers 535.261.03-1
# and nvidia-graphics-drivers-tesla-535 535.216.03-3~deb12u1 (control, dkms.conf,
# nvidia-modprobe.conf).

# Sets `words` and `meta` to Debian's package names, if the repositories only have those.
# nvidia-driver itself is not used, because it depends on Xorg's driver and so installs a desktop.
debian_words() {
    [ "$manager" = apt ] || return 0
    [ -z "$(nvidias_names)" ] || return 0
    module=$(debian_module)
    if [ -z "$module" ]; then
        refresh_all
        [ -z "$(nvidias_names)" ] || return 0
        module=$(debian_module)
    fi
    [ -n "$module" ] || return 0
    case $module in
        nvidia-tesla-*)
            family=${module#nvidia-}
            family=${family%-kernel-dkms}
            meta="$module nvidia-$family-smi libnvidia-$family-cuda1"
            ;;
        *) meta="$module nvidia-smi libcuda1" ;;
    esac
    words=
    for name in $meta; do
        words="$words $name${GC_DRIVER_VERSION:+=$GC_DRIVER_VERSION}"
    done
    # nvidia-persistenced is a separate source package with its own version.
    [ "$GC_DRIVER_PERSISTENCE" = false ] || words="$words nvidia-persistenced"
}

# Prints versions of NVIDIA's own packages that match the declared one, installed or available.
nvidias_names() {
    list_installed "$scratch/installed"
    list_available nvidia-open cuda-drivers
    for name in nvidia-open cuda-drivers; do
        matching "$name" "$GC_DRIVER_VERSION" "$scratch/installed"
        matching "$name" "$GC_DRIVER_VERSION" "$scratch/plain"
    done
}

# Prints the package with the kernel module, from the branch that has the declared version.
debian_module() {
    modules=nvidia-open-kernel-dkms
    [ "$kind" = open ] ||
        modules="nvidia-kernel-dkms nvidia-tesla-$(driver_branch)-kernel-dkms nvidia-tesla-kernel-dkms"
    # shellcheck disable=SC2086 # a list of words, split on purpose
    list_available $modules
    for name in $modules; do
        [ -n "$(matching "$name" "$GC_DRIVER_VERSION" "$scratch/installed")" ] ||
            [ -n "$(matching "$name" "$GC_DRIVER_VERSION" "$scratch/plain")" ] || continue
        echo "$name"
        return 0
    done
}
