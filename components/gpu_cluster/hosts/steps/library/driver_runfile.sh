# The driver from NVIDIA's self-extracting runfile. Source: NVIDIA/nvidia-installer (options in
# option_table.h at each tag; refusals in install-from-cwd.c, misc.c, kernel.c).

unloaded= # Modules that used the driver's module and must be loaded again.

# Prints the options for the installer of the declared version.
runfile_options() {
    kind=$(module_kind)
    set -- --silent --no-questions --ui=none --no-x-check
    [ "$GC_DRIVER_DKMS" != true ] || set -- "$@" --dkms
    if driver_since 555.42.02; then
        set -- "$@" "--kernel-module-type=$kind"
    elif [ "$kind" = open ]; then
        # Open modules and this option exist since 515.43.04.
        set -- "$@" --kernel-module-build-directory=kernel-open
    fi
    # While nouveau is loaded, the module is only installed; the requested reboot loads it.
    [ -z "$(nouveau_loaded)" ] || set -- "$@" --no-nouveau-check --skip-module-load
    echo "$@"
}

driver_since() {
    [ "$(printf '%s\n' "$1" "$GC_DRIVER_VERSION" | sort -V | head -n 1)" = "$1" ]
}

# loaded_of NAME...: prints the modules among these that are loaded.
loaded_of() {
    for module in "$@"; do
        [ ! -d "$root/sys/module/$module" ] || echo "$module"
    done
}

nouveau_loaded() {
    loaded_of nouveau nova_core
}

# Unloads the driver's module, because the installer refuses to run while it is loaded. Units and
# other modules use it.
driver_unload() {
    [ -n "$(driver_loaded)" ] || return 0
    stopped=
    for unit in $driver_units; do
        systemctl is-active --quiet "$unit" 2>/dev/null || continue
        bounded 120 systemctl stop "$unit" || {
            reason=$(log_end)
            users_again
            fail_unit "unit $unit can't be stopped: $reason"
        }
        stopped="$unit $stopped"
    done
    # Only loaded modules are named, because modprobe fails for an unknown module name.
    users=$(loaded_of nvidia_fs gdrdrv nvidia_peermem)
    # shellcheck disable=SC2046,SC2086 # lists of words, split on purpose
    set -- $users $(loaded_of nvidia_uvm nvidia_drm nvidia_modeset)
    bounded 120 modprobe -r "$@" nvidia || {
        reason=$(log_end)
        others=$(other_holders)
        [ $# -eq 0 ] || bounded 120 modprobe -a "$@"
        users_again
        fail_act "found driver $(driver_loaded) in use${others:+ by $others} ($reason); wanted no loaded driver, as the installer requires; drain the node and end the programs that use GPUs (fuser -v /dev/nvidia*)"
    }
    did "module nvidia unloaded for the installer"
    unloaded="$unloaded $users"
}

# Starts the units again that were stopped for a driver change, if the change does not take place.
users_again() {
    for unit in $stopped ${display_manager:+display-manager}; do
        bounded 120 systemctl start "$unit"
    done
}

# Loads the modules again that used the driver's module before.
users_back() {
    [ "$(driver_loaded)" = "$GC_DRIVER_VERSION" ] || return 0
    for module in $unloaded; do
        bounded 60 modprobe "$module" ||
            note "the module $module, which was loaded before, can't be loaded with driver $GC_DRIVER_VERSION: $(log_end)"
    done
}

# runfile_uninstall PROGRAM: checks that the program itself is gone, because it exits with 0 even if
# it did nothing (NVIDIA/nvidia-installer 590.48.01, backup.c, uninstall_existing_driver), and it
# removes itself.
runfile_uninstall() {
    bounded "$GC_PACKAGE_RUN_LIMIT" "$1" --silent || fail_installer "$1 failed: $(log_end)"
    [ ! -e "$1" ] ||
        fail_act "found $1 still installed after it had run ($(log_end)); wanted no driver of a runfile; check /var/log/nvidia-uninstall.log"
    undid "driver by $1"
}

# UEFI, GetVariable: four bytes of attributes, then one byte, which is 1 if Secure Boot is on.
secure_boot_cure() {
    for variable in "$root"/sys/firmware/efi/efivars/SecureBoot-*; do
        [ -r "$variable" ] || continue
        case $(od -An -t u1 -j 4 -N 1 "$variable" 2>/dev/null) in
            *1) echo "; Secure Boot is on: turn it off, or install a driver that is signed by an enrolled key" ;;
        esac
    done
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
    # All steps that can fail without changing the host run first.
    have_runfile driver "$GC_DRIVER_SHA256" each_driver_location
    if [ -n "$(nouveau_loaded)" ] && ! driver_since 550.40.07; then
        # misc.c, check_for_nouveau: an installer of this age fails here and has no option to skip
        # loading.
        request_reboot "nouveau is loaded: the installer of driver $GC_DRIVER_VERSION runs after a boot without it, by the next up"
        return 0
    fi
    display_manager=
    [ -z "$(driver_loaded)" ] || require_no_holders "before driver $GC_DRIVER_VERSION"
    if systemctl is-active --quiet display-manager 2>/dev/null; then
        display_manager=yes
        bounded 120 systemctl stop display-manager || fail_unit "the display manager can't be stopped: $(log_end)"
        did "display-manager stopped for the installer"
    fi
    driver_unload
    if [ -x "$root$program" ]; then
        recorded "$mark" || [ "$GC_DRIVER_REMOVE_EARLIER" = true ] ||
            fail "found an earlier runfile driver $(driver_installed); wanted $GC_DRIVER_VERSION; declare driver.removeEarlier: true"
        runfile_uninstall "$root$program"
    fi
    [ "$GC_DRIVER_REMOVE_EARLIER" != true ] || remove_earlier_packages
    effect program "$program --silent"
    # shellcheck disable=SC2046 # a list of options, split on purpose
    bounded "$GC_PACKAGE_RUN_LIMIT" sh "$runfile" $(runfile_options) ||
        fail_installer "the driver's installer failed (its own log is /var/log/nvidia-installer.log$(secure_boot_cure)): $(log_end)"
    did "driver $GC_DRIVER_VERSION by runfile"
    printf '%s\n' "$GC_DRIVER_SHA256" >"$state/draft" && mv -- "$state/draft" "$done_mark" ||
        fail_file "can't write $done_mark"
    rm -f -- "$root/var/cache/gpu-cluster/$GC_DRIVER_SHA256.run"
    if [ "$display_manager" = yes ]; then
        bounded 120 systemctl start display-manager || note "the display manager does not start: $(log_end)"
    fi
}
