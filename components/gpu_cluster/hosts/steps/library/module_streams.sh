# Module streams of dnf repositories: packages of other streams can't be installed. Sources: dnf(8),
# "Module Command"; NVIDIA/cuda-repo-management 2944b7a, genmodules.py.

# enable_stream MODULE STREAM: enables a stream, if a repository has the module (not on RHEL 10 or
# with apt).
enable_stream() {
    [ "$manager" = dnf ] || return 0
    has_module "$1" || return 0
    had=$(enabled_stream "$1")
    mine=$(sed -n "s/^$step stream $1 //p" "$state/effects" 2>/dev/null | tail -n 1)
    [ -z "$mine" ] || effect stream "$1 $mine"
    [ "$had" != "$2" ] || return 0
    awk -v module="$1" -v stream="$2" '$1 == module && $2 == stream { found = 1 } END { exit !found }' "$scratch/log" ||
        fail "module $1: found the streams $(awk -v module="$1" '$1 == module { print $2 }' "$scratch/log" | paste -s -d ' ' -); wanted $2; declare a repository that has it, or another driver.version"
    [ -n "$mine" ] || effect stream "$1 ${had:--}"
    keep "/etc/dnf/modules.d/$1.module"
    switch_stream "$1" "$2"
    did "stream $1:$2"
}

# has_module MODULE: returns true if a repository has the module; dnf 5 prints nothing and exits with
# 0 if no repository has the module. The list of modules stays in the log.
has_module() {
    bounded "$GC_PACKAGE_RUN_LIMIT" dnf -q module list "$1" &&
        awk -v module="$1" '$1 == module { found = 1 } END { exit !found }' "$scratch/log"
}

enabled_stream() {
    awk -F= -v module="$1" '/^\[/ { ours = ($0 == "[" module "]") }
        ours && $1 == "stream" { stream = $2 } ours && $1 == "state" { state = $2 }
        END { if (state == "enabled") print stream }' "$root/etc/dnf/modules.d/$1.module" 2>/dev/null
}

# switch_stream MODULE STREAM|-: resets the module first, because dnf refuses another stream
# otherwise.
switch_stream() {
    await_package_manager
    bounded "$GC_PACKAGE_RUN_LIMIT" dnf -y module reset "$1" || fail_packages "module $1 can't be reset: $(log_end)"
    [ "$2" = - ] || bounded "$GC_PACKAGE_RUN_LIMIT" dnf -y module enable "$1:$2" ||
        fail_packages "stream $1:$2 can't be enabled: $(log_end)"
}

undo_stream() {
    if [ "$(enabled_stream "${1% *}")" != "${1#* }" ]; then
        switch_stream "${1% *}" "${1#* }"
        undid "stream ${1% *}"
    fi
    # After a reset, dnf keeps the module's file, but no stream in it is enabled.
    rm -f -- "$root/etc/dnf/modules.d/${1% *}.module"
    forget "/etc/dnf/modules.d/${1% *}.module"
}
