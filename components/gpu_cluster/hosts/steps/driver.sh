# Installs the NVIDIA driver from packages or from NVIDIA's runfile, with its daemons and devices.
# Sources: NVIDIA Driver Installation Guide r595 (nvidia-persistenced, "Removing the driver");
# README chapter "nvidia-modprobe" (-u creates /dev/nvidia-uvm).

# each_driver_location COMMAND: calls COMMAND for each location; a declaration with locations
# redefines it.
each_driver_location() { :; }

persistenced=nvidia-persistenced
uvm_unit=gpu-cluster-nvidia-uvm

ours() {
    [ -f "$state/effects" ] && grep -q -e "^driver $1" "$state/effects"
}

check_driver() {
    require_manager
    case $GC_DRIVER_SOURCE in package | runfile) ;; *) return 0 ;; esac
    check_module_kind
    require_unmasked "$uvm_unit"
    [ "$GC_DRIVER_PERSISTENCE" != true ] || require_unmasked "$persistenced"
    ! fabric_wanted || require_unmasked nvidia-fabricmanager
    [ -z "${GC_DRIVER_IMEX_NODES-}" ] || require_unmasked nvidia-imex
    if [ "$GC_DRIVER_SOURCE" = package ] && have nvidia-uninstall && ! ours program &&
        [ "$GC_DRIVER_REMOVE_EARLIER" != true ]; then
        problem "a driver installed by a runfile ($(command -v nvidia-uninstall))" "none beside the packages" \
            "declare driver.removeEarlier: true, or driver.source: preinstalled"
    fi
    if [ "$GC_DRIVER_SOURCE" = package ]; then
        ours package || [ "$GC_DRIVER_REMOVE_EARLIER" = true ] || refuse_foreign_driver
        return 0
    fi
    earlier=$(earlier_packages | paste -s -d ' ' -)
    if [ -n "$earlier" ] && ! ours package && [ "$GC_DRIVER_REMOVE_EARLIER" != true ]; then
        problem "driver packages $earlier" "none beside a runfile's driver" \
            "declare driver.removeEarlier: true, or driver.source: package or preinstalled"
    fi
}

refuse_foreign_driver() {
    earlier=$(foreign_packages | paste -s -d ' ' -)
    [ -z "$earlier" ] || problem "driver packages of somebody else ($earlier)" \
        "the declared driver${GC_DRIVER_VERSION:+ $GC_DRIVER_VERSION} alone" \
        "declare driver.removeEarlier: true, which removes them, or driver.source: preinstalled"
}

# undo_driver: the module of the step's driver that is gone goes too if nothing uses it, else at the
# next boot. A driver container's module, which no file on the host has, stays.
undo_driver() {
    running=$(driver_loaded)
    [ -f "$state/driver-ours" ] && [ -n "$running" ] && [ -z "$(driver_installed)" ] || return 0
    # shellcheck disable=SC2046 # a list of words, split on purpose
    if bounded 120 modprobe -r $(loaded_of nvidia_fs gdrdrv nvidia_peermem nvidia_uvm nvidia_drm nvidia_modeset) nvidia; then
        undid "module nvidia $running"
    else
        request_reboot "driver $running, which was removed, is still loaded"
    fi
    rm -f -- "$state/driver-ours"
}

fetch_driver() {
    each_repository step_repository
    case $GC_DRIVER_SOURCE in
        package) fetch_driver_packages ;;
        runfile)
            [ "$(cat "$state/runfile-driver" 2>/dev/null)" = "$GC_DRIVER_SHA256" ] ||
                have_runfile driver "$GC_DRIVER_SHA256" each_driver_location
            ;;
    esac
}

apply_driver() {
    each_repository step_repository
    case $GC_DRIVER_SOURCE in
        package) driver_packages ;;
        runfile)
            driver_runfile
            # The runfile is only installed once nouveau is gone, after the requested reboot.
            [ -x "$root$program" ] || return 0
            ;;
        *)
            driver_away
            return 0
            ;;
    esac
    driver_rebuild
    driver_load
    users_back
    driver_services
    hold_driver
}

# Builds the driver's module for the running and for the pinned kernel, if the module so far exists
# only for another kernel.
driver_rebuild() {
    built=$(module_name)
    for release in "$(uname -r)" ${GC_KERNEL_RELEASE-}; do
        timeout 10 modinfo -k "$release" "$built" >/dev/null 2>&1 && continue
        if have dkms && [ -n "$(timeout 60 dkms status "$built" 2>/dev/null)" ]; then
            [ -e "$root/lib/modules/$release/build" ] || {
                note "kernel $release has no build files: the driver is not built for it"
                continue
            }
            # Check the result, not the exit status of dkms: the status covers all modules of the
            # host, and is 0 even if the NVIDIA module was skipped (dell/dkms 3.1.8, dkms.in,
            # autoinstall).
            bounded "$GC_PACKAGE_RUN_LIMIT" dkms autoinstall -k "$release"
            timeout 10 modinfo -k "$release" "$built" >/dev/null 2>&1 ||
                fail_act "the driver can't be built for kernel $release (dkms): $(log_end); install the headers of that kernel, or declare a driver that builds for it (see make.log below /var/lib/dkms/nvidia), then run \`gpu-cluster up\` again"
            did "driver built for kernel $release"
        elif [ "$GC_DRIVER_SOURCE" = runfile ] && [ "$release" = "$(uname -r)" ]; then
            note "the driver was built for another kernel: it is installed again"
            rm -f -- "$done_mark"
            runfile_install
        fi
    done
}

driver_load() {
    : >"$state/driver-ours" || fail_file "can't write $state/driver-ours"
    running=$(driver_loaded)
    wanted=$(driver_installed)
    if [ -z "$wanted" ]; then
        request_reboot "no NVIDIA module for kernel $(uname -r)"
        return 0
    fi
    if [ -n "$running" ] && [ "$running" != "$wanted" ]; then
        request_reboot "driver $running is loaded, $wanted is installed"
    elif [ -z "$running" ]; then
        for module in $(nouveau_loaded); do
            request_reboot "$module is loaded and holds the GPUs"
            return 0
        done
        bounded 120 modprobe nvidia ||
            fail "the NVIDIA module can't be loaded: $(log_end); check dmesg, and with Secure Boot enrol the key that signed the module (mokutil --import)"
        did "module nvidia $(driver_loaded)"
    fi
    [ -z "$GC_DRIVER_VERSION" ] || [ "$wanted" = "$GC_DRIVER_VERSION" ] ||
        fail_act "found driver $wanted installed; wanted $GC_DRIVER_VERSION; check dkms status and the installed driver packages"
}

# A running daemon does not mean that persistence mode is on: Ubuntu's unit starts the daemon with
# --no-persistence-mode. nvidia-smi turns the mode on now, and a drop-in does from the next boot on,
# because a reload of systemd would take the GPUs from running containers.
persistence_mode() {
    for unit in /etc/systemd/system /lib/systemd/system /usr/lib/systemd/system; do
        [ -f "$root$unit/$persistenced.service" ] || continue
        line=$(sed -n 's/^ExecStart=//p' "$root$unit/$persistenced.service" | tail -n 1)
        case " $line " in
            *' --no-persistence-mode '*)
                step_file "/etc/systemd/system/$persistenced.service.d/gpu-cluster.conf" "# gpu-cluster
[Service]
ExecStart=
ExecStart=$(echo "$line" | sed 's/ --no-persistence-mode//')
"
                ;;
        esac
        break
    done
    ! recorded persistence on || effect persistence on
    [ -z "$when" ] || return 0
    persistence_off || return 0
    effect persistence on
    bounded 60 nvidia-smi -pm 1 || fail_act "the persistence mode can't be turned on (nvidia-smi -pm 1): $(log_end); correct what \`dmesg | grep -i nvrm\` shows of the GPU, then run \`gpu-cluster up\` again"
    ! persistence_off || fail_act "found the persistence mode off after nvidia-smi -pm 1; wanted the persistence mode on; check journalctl -u $persistenced"
    did "persistence mode"
}

undo_persistence() {
    have nvidia-smi && [ -n "$(driver_loaded)" ] && ! persistence_off || return 0
    bounded 60 nvidia-smi -pm 0 || fail_act "the persistence mode can't be turned off (nvidia-smi -pm 0): $(log_end); correct what \`dmesg | grep -i nvrm\` shows of the GPU, then run \`gpu-cluster up\` again"
    undid "persistence mode"
}

persistence_off() {
    timeout 60 nvidia-smi --query-gpu=persistence_mode --format=csv,noheader 2>/dev/null | grep -q Disabled
}

driver_services() {
    when=
    # Programs exit at once if their version differs from the loaded module's: those that use NVML
    # or libnvidia-cfg (NVIDIA/open-gpu-kernel-modules 30e15d7, kernel-open/nvidia/nv.c,
    # NV_ESC_CHECK_VERSION_STR), Fabric Manager and IMEX (their guides). So they are started by the
    # requested reboot.
    running=$(driver_loaded)
    [ -n "$running" ] && [ "$running" = "$(driver_installed)" ] || when=later
    if [ "$GC_DRIVER_PERSISTENCE" = true ]; then
        if ! [ -f "$root/lib/systemd/system/$persistenced.service" ] &&
            ! [ -f "$root/usr/lib/systemd/system/$persistenced.service" ]; then
            step_file "/etc/systemd/system/$persistenced.service" "$GC_PERSISTENCED_UNIT"
        fi
        unit_on "$persistenced" $when
        persistence_mode
    fi
    fabric_on $when
    imex_on $when
    # Runs at each boot, because nothing else creates the device before root's first CUDA program.
    step_file "/etc/systemd/system/$uvm_unit.service" "$GC_UVM_UNIT"
    unit_on "$uvm_unit" $when
    if [ -z "$when" ] && [ ! -e "$root/dev/nvidia-uvm" ]; then
        # nvidia-modprobe fails without a message (NVIDIA/nvidia-modprobe 610.43.03,
        # nvidia-modprobe.c).
        bounded 60 nvidia-modprobe -u -c 0 ||
            fail_act "/dev/nvidia-uvm can't be made by nvidia-modprobe -u -c 0; check what modprobe nvidia-uvm and dmesg print"
        did "/dev/nvidia-uvm"
    fi
}
