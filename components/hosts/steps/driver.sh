# The NVIDIA driver: by packages or by NVIDIA's self-extracting installer; its daemons; its devices.
# Sources: NVIDIA Driver Installation Guide r595 (packages, pinning, nvidia-persistenced,
# "Removing the driver"); README of the .run installer, "nvidia-installer --advanced-options"
# (--silent, --no-questions, --dkms, --no-x-check); NVIDIA Fabric Manager user guide (its version is the
# driver's); README chapter "nvidia-modprobe" (-u makes /dev/nvidia-uvm).

# each_driver_location COMMAND: the declared rows; a declaration that has some says so itself.
each_driver_location() { :; }

persistenced=nvidia-persistenced
uvm_unit=gpu-cluster-nvidia-uvm

# Packages of NVIDIA's kernel or user mode driver; the container toolkit's are not among them.
earlier_packages() {
    list_installed "$scratch/installed"
    awk '$1 ~ /^(nvidia-(open|driver|dkms|kernel|headless|utils|fabricmanager|persistenced|modprobe|settings|firmware|imex|libXNVCtrl|xconfig)|libnvidia-|kmod-nvidia|cuda-drivers|xserver-xorg-video-nvidia)/ &&
        $1 !~ /^(libnvidia-container|nvidia-container)/ { print $1 }' "$scratch/installed"
}

ours() {
    [ -f "$state/effects" ] && grep -q -e "^driver $1" "$state/effects"
}

check_driver() {
    require_manager
    if [ "$GC_DRIVER_SOURCE" = package ] && have nvidia-uninstall && ! ours program &&
        [ "$GC_DRIVER_REMOVE_EARLIER" != true ]; then
        problem "a driver installed by a runfile ($(command -v nvidia-uninstall))" "none beside the packages" \
            "declare driver.removeEarlier: true, or driver.source: preinstalled"
    fi
    [ "$GC_DRIVER_SOURCE" = runfile ] || return 0
    earlier=$(earlier_packages | paste -s -d ' ' -)
    if [ -n "$earlier" ] && ! ours package && [ "$GC_DRIVER_REMOVE_EARLIER" != true ]; then
        problem "driver packages $earlier" "none beside a runfile's driver" \
            "declare driver.removeEarlier: true, or driver.source: package or preinstalled"
    fi
}

apply_driver() {
    each_repository step_repository
    if [ "$GC_DRIVER_SOURCE" = package ]; then
        driver_packages
    else
        driver_runfile
    fi
    driver_rebuild
    driver_load
    driver_services
}

driver_packages() {
    if have nvidia-uninstall && [ "$GC_DRIVER_REMOVE_EARLIER" = true ]; then
        runfile_uninstall "$(command -v nvidia-uninstall)"
    fi
    if [ "$GC_DRIVER_REMOVE_EARLIER" = true ]; then
        remove_other_versions
    fi
    pin_driver
    # shellcheck disable=SC2086 # a list of words
    install_packages $GC_DRIVER_PACKAGES
    # shellcheck disable=SC2086 # a list of words
    [ "$GC_DRIVER_HOLD" = false ] || hold_packages $GC_DRIVER_HELD
}

# apt takes the newest of what a package needs, even where that does not fit; dnf finds what fits.
# The toolkit's packages have no such version, so the pin passes them over.
pin_driver() {
    [ "$manager" = apt ] && [ -n "$GC_DRIVER_VERSION" ] || return 0
    step_file /etc/apt/preferences.d/gpu-cluster-driver "# gpu-cluster
Package: nvidia-* libnvidia-* cuda-drivers* xserver-xorg-video-nvidia*
Pin: version $GC_DRIVER_VERSION-*
Pin-Priority: 1001
"
}

# Earlier packages of another version, or all of them before a runfile.
remove_other_versions() {
    earlier_packages >"$scratch/earlier"
    old=
    while IFS= read -r name; do
        ! recorded package "$name" || continue
        [ "$GC_DRIVER_SOURCE" = package ] && [ -n "$GC_DRIVER_VERSION" ] &&
            [ -n "$(matching "$name" "$GC_DRIVER_VERSION" "$scratch/installed")" ] && continue
        [ "$GC_DRIVER_SOURCE" = package ] && [ -z "$GC_DRIVER_VERSION" ] && continue
        old="$old $name"
    done <"$scratch/earlier"
    # shellcheck disable=SC2086 # a list of words
    [ -z "$old" ] || remove_packages $old
}

# The installer refuses to work while the module is loaded.
driver_unload() {
    [ -n "$(driver_loaded)" ] || return 0
    for unit in $uvm_unit nvidia-fabricmanager $persistenced; do
        ! systemctl is-active --quiet "$unit" 2>/dev/null || bounded 120 systemctl stop "$unit" ||
            fail "unit $unit can't be stopped: $(log_end)"
    done
    bounded 120 modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia ||
        fail "found driver $(driver_loaded) in use; wanted it unloaded for the installer; drain the node, end what uses GPUs (fuser -v /dev/nvidia*): $(log_end)"
    did "module nvidia unloaded for the installer"
}

runfile_uninstall() {
    bounded "$GC_PACKAGE_RUN_LIMIT" "$1" --silent || fail "$1 failed: $(log_end)"
    undid "driver by $1"
}

# The installed driver for the kernel that runs, empty where there is none.
driver_installed() {
    timeout 10 modinfo -F version nvidia 2>/dev/null | head -n 1
}

driver_runfile() {
    program=/usr/bin/nvidia-uninstall
    mark="program $program --silent"
    done_mark=$state/runfile-driver
    if [ -x "$root$program" ] && [ "$(cat "$done_mark" 2>/dev/null)" = "$GC_DRIVER_SHA256" ]; then
        effect program "$program --silent"
    elif [ -x "$root$program" ] && ! recorded "$mark" && [ "$(driver_installed)" = "$GC_DRIVER_VERSION" ]; then
        note "driver $GC_DRIVER_VERSION was installed by a runfile before: it is left as it is"
    else
        runfile_install
    fi
    expect path "$program"
}

runfile_install() {
    # Everything that can be refused comes before the first change.
    have_runfile driver "$GC_DRIVER_SHA256" each_driver_location
    display_manager=
    if systemctl is-active --quiet display-manager 2>/dev/null; then
        display_manager=yes
        bounded 120 systemctl stop display-manager || fail "the display manager can't be stopped: $(log_end)"
        did "display-manager stopped for the installer"
    fi
    driver_unload
    if [ -x "$root$program" ]; then
        recorded "$mark" || [ "$GC_DRIVER_REMOVE_EARLIER" = true ] ||
            fail "found an earlier runfile driver $(driver_installed); wanted $GC_DRIVER_VERSION; declare driver.removeEarlier: true"
        runfile_uninstall "$root$program"
    fi
    [ "$GC_DRIVER_REMOVE_EARLIER" != true ] || remove_other_versions
    effect program "$program --silent"
    # shellcheck disable=SC2086 # a list of options
    bounded "$GC_PACKAGE_RUN_LIMIT" sh "$runfile" $GC_DRIVER_OPTIONS ||
        fail "the driver's installer failed (its own log is /var/log/nvidia-installer.log): $(log_end)"
    did "driver $GC_DRIVER_VERSION by runfile"
    printf '%s\n' "$GC_DRIVER_SHA256" >"$state/draft" && mv -- "$state/draft" "$done_mark" ||
        fail "can't write $done_mark"
    rm -f -- "$root/var/cache/gpu-cluster/$GC_DRIVER_SHA256.run"
    if [ "$display_manager" = yes ]; then
        bounded 120 systemctl start display-manager || note "the display manager does not start: $(log_end)"
    fi
}

# A module that is there for another kernel only is built for the one that runs, and for the pinned one.
driver_rebuild() {
    for release in "$(uname -r)" ${GC_KERNEL_RELEASE-}; do
        timeout 10 modinfo -k "$release" nvidia >/dev/null 2>&1 && continue
        if have dkms && [ -n "$(timeout 60 dkms status nvidia 2>/dev/null)" ]; then
            [ -e "$root/lib/modules/$release/build" ] || {
                note "kernel $release has no build files: the driver is not built for it"
                continue
            }
            bounded "$GC_PACKAGE_RUN_LIMIT" dkms autoinstall -k "$release" ||
                fail "the driver can't be built for kernel $release (dkms): $(log_end)"
            did "driver built for kernel $release"
        elif [ "$GC_DRIVER_SOURCE" = runfile ] && [ "$release" = "$(uname -r)" ]; then
            note "the driver was built for another kernel: it is installed again"
            rm -f -- "$done_mark"
            runfile_install
        fi
    done
}

driver_loaded() {
    sed -n 's/^NVRM version:.*Module[^.]* \([0-9][0-9]*\.[0-9.]*\).*/\1/p' \
        "$root/proc/driver/nvidia/version" 2>/dev/null
}

driver_load() {
    loaded=$(driver_loaded)
    wanted=$(driver_installed)
    if [ -z "$wanted" ]; then
        request_reboot "no NVIDIA module for kernel $(uname -r)"
        return 0
    fi
    if [ -n "$loaded" ] && [ "$loaded" != "$wanted" ]; then
        request_reboot "driver $loaded is loaded, $wanted is installed"
    elif [ -z "$loaded" ]; then
        for module in nouveau nova_core; do
            [ -d "$root/sys/module/$module" ] || continue
            request_reboot "$module is loaded and holds the GPUs"
            return 0
        done
        bounded 120 modprobe nvidia ||
            fail "the NVIDIA module can't be loaded (look at dmesg; with Secure Boot its key must be enrolled): $(log_end)"
        did "module nvidia $(driver_loaded)"
    fi
    [ -z "$GC_DRIVER_VERSION" ] || [ "$wanted" = "$GC_DRIVER_VERSION" ] ||
        fail "found driver $wanted installed; wanted $GC_DRIVER_VERSION; look at dkms status and the packages"
}

nvswitches() {
    count=0
    for device in "$root"/sys/bus/pci/devices/*; do
        [ -r "$device/vendor" ] && [ -r "$device/class" ] || continue
        case $(cat "$device/vendor")-$(cat "$device/class") in
            0x10de-0x0680*) count=$((count + 1)) ;; # a bridge of NVIDIA's: an NVSwitch
        esac
    done
    echo "$count"
}

driver_services() {
    when=
    [ -n "$(driver_loaded)" ] || when=later
    if [ "$GC_DRIVER_PERSISTENCE" = true ]; then
        if ! [ -f "$root/lib/systemd/system/$persistenced.service" ] &&
            ! [ -f "$root/usr/lib/systemd/system/$persistenced.service" ]; then
            step_file "/etc/systemd/system/$persistenced.service" "$GC_PERSISTENCED_UNIT"
        fi
        unit_on "$persistenced" $when
    fi
    if [ "$GC_DRIVER_FABRIC_MANAGER" = on ] ||
        { [ "$GC_DRIVER_FABRIC_MANAGER" = auto ] && [ "$(nvswitches)" -gt 0 ]; }; then
        # shellcheck disable=SC2086 # a list of words
        [ -z "$GC_FABRIC_PACKAGES" ] || install_packages $GC_FABRIC_PACKAGES
        unit_on nvidia-fabricmanager $when
    fi
    # At each boot, because nothing else makes the device before the first CUDA program of root.
    step_file "/etc/systemd/system/$uvm_unit.service" "$GC_UVM_UNIT"
    unit_on "$uvm_unit" $when
    if [ -n "$(driver_loaded)" ] && [ ! -e "$root/dev/nvidia-uvm" ]; then
        bounded 60 nvidia-modprobe -u -c 0 || fail "/dev/nvidia-uvm can't be made: $(log_end)"
        did "/dev/nvidia-uvm"
    fi
}
