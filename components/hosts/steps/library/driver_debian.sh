# The driver as Debian's own archive has it: no package nvidia-open or cuda-drivers, and a module
# under another name. Sources: packages.debian.org/bookworm; nvidia-graphics-drivers 535.261.03-1 and
# nvidia-graphics-drivers-tesla-535 535.216.03-3~deb12u1 (control, dkms.conf, nvidia-modprobe.conf).

# `words` and `meta` in Debian's names, where they are the only ones that the repositories have.
# nvidia-driver itself brings a desktop: it depends on Xorg's driver.
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
    # A source package of its own, in a version of its own.
    [ "$GC_DRIVER_PERSISTENCE" = false ] || words="$words nvidia-persistenced"
}

# What NVIDIA's repository calls the driver, at the declared version: installed or to be had.
nvidias_names() {
    list_installed "$scratch/installed"
    list_available nvidia-open cuda-drivers
    for name in nvidia-open cuda-drivers; do
        matching "$name" "$GC_DRIVER_VERSION" "$scratch/installed"
        matching "$name" "$GC_DRIVER_VERSION" "$scratch/plain"
    done
}

# The package with the kernel module, of the branch that has the declared version.
debian_module() {
    modules=nvidia-open-kernel-dkms
    [ "$kind" = open ] ||
        modules="nvidia-kernel-dkms nvidia-tesla-$(driver_branch)-kernel-dkms nvidia-tesla-kernel-dkms"
    # shellcheck disable=SC2086 # a list of words
    list_available $modules
    for name in $modules; do
        [ -n "$(matching "$name" "$GC_DRIVER_VERSION" "$scratch/installed")" ] ||
            [ -n "$(matching "$name" "$GC_DRIVER_VERSION" "$scratch/plain")" ] || continue
        echo "$name"
        return 0
    done
}

# The name under which modules are built and found: /etc/modprobe.d gives `nvidia` the one of the
# chosen alternative, such as nvidia-current (`install nvidia modprobe -i nvidia-current`).
module_name() {
    name=$(cat "$root"/etc/modprobe.d/*.conf 2>/dev/null |
        sed -n 's/^install nvidia modprobe -i \([^ ]*\).*/\1/p' | tail -n 1)
    echo "${name:-nvidia}"
}
