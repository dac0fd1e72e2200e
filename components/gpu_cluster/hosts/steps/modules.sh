# Loads kernel modules that Kubernetes needs, now and at each boot. Source: Kubernetes docs,
# "Container Runtimes" (overlay, br_netfilter).

modules_file=/etc/modules-load.d/gpu-cluster.conf

# check_modules: asks modprobe for each module without loading it (modprobe(8), --dry-run). No module
# can be loaded until the next boot if kernel.modules_disabled is 1 (Linux,
# Documentation/admin-guide/sysctl/kernel.rst).
check_modules() {
    absent=
    for module in $GC_MODULES; do
        module_there "$module" || absent="$absent $module"
    done
    if [ -n "$absent" ] && [ "$(cat "$root/proc/sys/kernel/modules_disabled" 2>/dev/null)" = 1 ]; then
        problem "kernel.modules_disabled = 1 without the modules$absent" "modules that can be loaded" \
            "take kernel.modules_disabled out of /etc/sysctl.d, or load them before it at boot (/etc/modules-load.d), and reboot"
        return 0
    fi
    for module in $absent; do
        require_module "$module"
    done
}

# require_module NAME: reports a module that modprobe doesn't find, or that a file turns off by another
# command in its place, as hardening guides do (modprobe.d(5), install).
require_module() {
    said=$(timeout 60 modprobe -n -v "$1" 2>/dev/null) || {
        problem "no module $1 for kernel $(uname -r)" "a module that can be loaded" \
            "install the kernel's module package (linux-modules-extra-$(uname -r), kernel-modules-extra), or take it out of system.modules"
        return 0
    }
    case "
$said" in
        *'
install '*/false* | *'
install '*/true*) ;;
        *) return 0 ;;
    esac
    file=$(grep -lE "^[[:space:]]*install[[:space:]]+$1[[:space:]]" "$root"/etc/modprobe.d/*.conf \
        "$root"/run/modprobe.d/*.conf "$root"/usr/lib/modprobe.d/*.conf "$root"/lib/modprobe.d/*.conf 2>/dev/null | head -n 1)
    file=${file#"$root"}
    problem "module $1 turned off${file:+ in $file} (install … /bin/false)" "a module that can be loaded" \
        "take its line install out of that file"
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
    attempt "kernel modules" modules_back
}

modules_back() {
    [ -f "$state/modules" ] || return 0
    need modprobe
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
