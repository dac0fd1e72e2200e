# Loads kernel modules that Kubernetes needs, now and at each boot. Source: Kubernetes docs,
# "Container Runtimes" (overlay, br_netfilter).

modules_file=/etc/modules-load.d/gpu-cluster.conf

# check_modules: no module can be loaded until the next boot if kernel.modules_disabled is 1 (Linux,
# Documentation/admin-guide/sysctl/kernel.rst).
check_modules() {
    [ "$(cat "$root/proc/sys/kernel/modules_disabled" 2>/dev/null)" = 1 ] || return 0
    for module in $GC_MODULES; do
        module_there "$module" || absent="${absent-} $module"
    done
    [ -z "${absent-}" ] || problem "kernel.modules_disabled = 1 without the modules$absent" "modules that can be loaded" \
        "take kernel.modules_disabled out of /etc/sysctl.d, or load them before it at boot (/etc/modules-load.d), and reboot"
}

apply_modules() {
    # shellcheck disable=SC2086 # a list of words, split on purpose
    place_text "$modules_file" "$(printf '%s\n' '# gpu-cluster' $GC_MODULES)
"
    for module in $GC_MODULES; do
        expect module "$module"
        module_there "$module" && continue
        record modules "$module"
        timeout 60 modprobe "$module" ||
            fail "module $module can't be loaded; install the kernel's module package and check dmesg"
        did "module $module"
    done
}

undo_modules() {
    attempt "$modules_file" forget "$modules_file"
    [ -f "$state/modules" ] || return 0
    while IFS= read -r module; do
        [ -d "$root/sys/module/$module" ] || continue
        if timeout 60 modprobe -r "$module" 2>/dev/null; then
            undid "module $module"
        else
            note "module $module is in use and stays loaded until the next boot"
        fi
    done <"$state/modules"
    rm -f -- "$state/modules"
}

# --- found later: the probe has this part too ---

module_there() {
    [ -d "$root/sys/module/$1" ] && return 0
    if [ -r "$root/proc/filesystems" ]; then
        while read -r its_kind its_name; do
            [ "${its_name:-$its_kind}" != "$1" ] || return 0
        done <"$root/proc/filesystems"
    fi
    grep -q "/$1\.ko" "$root/lib/modules/$(uname -r)/modules.builtin" 2>/dev/null
}

found_module() {
    module_there "$1"
}
