# Configures the NVIDIA runtime in CRI-O with a drop-in, with the functions that runtime.sh calls.
# Sources: crio.conf.d(5) and crio.conf(5): drop-ins are read after crio.conf in the order of their
# names, tables are merged, and new runtimes need a restart; nvidia-ctk 1.20.0 `runtime configure
# --runtime=crio`.

unit=crio
dropin=/etc/crio/crio.conf.d/99-nvidia.toml
files=$dropin

require_engine() {
    if ! have crio; then
        problem "no crio" "CRI-O 1.24 or later" "install CRI-O"
        return 0
    fi
    version=$(ask 90 crio --version 2>/dev/null | sed -n 's/^\(crio version \|Version: *\)//p' | head -n 1)
    case $version in
        0.* | 1.[0-9].* | 1.1[0-9].* | 1.2[0-3].*) problem "CRI-O $version" "1.24 or later" "upgrade CRI-O" ;;
    esac
    merged "$scratch/before" || problem "a configuration that CRI-O can't read: $(why)" \
        "one that loads" "mend it (crio config names the place)"
}

# merged RESULT: writes CRI-O's own view of all its files, one "table.key = value" per line.
merged() {
    ask 90 crio config >"$scratch/dump" 2>"$scratch/judgement" || return 1
    awk '
        /^[[:space:]]*($|#)/ { next }
        /^[[:space:]]*\[.*\][[:space:]]*$/ {
            table = $0
            gsub(/^[[:space:]]*\[|\][[:space:]]*$/, "", table)
            next
        }
        { sub(/^[[:space:]]+/, ""); print table "." $0 }' "$scratch/dump" >"$1"
}

make_wanted() {
    make_folder "$dropin"
    mkdir "$scratch/etc" || fail "can't make folders in $scratch"
    # Use the merged configuration, because CRI-O's packages define their runtimes in a drop-in, and
    # nvidia-ctk copies the options of the nvidia runtime from them.
    cp -- "$scratch/dump" "$scratch/etc/crio.conf"
    set -- --runtime=crio --config-source=file --config="$scratch/etc/crio.conf" \
        --drop-in-config="$scratch/etc/99-nvidia.toml" --nvidia-runtime-path="$GC_RUNTIME_PATH"
    [ "$GC_DEFAULT_RUNTIME" != nvidia ] || set -- "$@" --set-as-default
    ask 90 nvidia-ctk runtime configure "$@" >"$scratch/toolkit" 2>&1 </dev/null ||
        fail "nvidia-ctk runtime configure failed: $(tail -n 1 "$scratch/toolkit")"
    # CRI-O uses CDI by default since 1.23. With the cgroup manager cgroupfs, conmon can't run in a
    # systemd slice (crio.conf(5)).
    awk -v cgroup="$GC_SYSTEMD_CGROUP" '
        function manager() {
            print "    cgroup_manager = \"" (cgroup == "true" ? "systemd" : "cgroupfs") "\""
            if (cgroup != "true") print "    conmon_cgroup = \"pod\""
            done = 1
        }
        /^[[:space:]]*(cgroup_manager|conmon_cgroup)[[:space:]]*=/ { next }
        { print }
        /^[[:space:]]*\[crio\.runtime\][[:space:]]*$/ { manager() }
        END { if (!done) { print "\n[crio.runtime]"; manager() } }' "$scratch/etc/99-nvidia.toml" \
        >"$scratch/drafts$dropin" || fail "can't read what nvidia-ctk wrote"
    grep -q '^[[:space:]]*\[crio\.runtime\.runtimes\.nvidia\]' "$scratch/drafts$dropin" ||
        fail "nvidia-ctk wrote no nvidia runtime: $(tail -n 1 "$scratch/toolkit")"
}

check_wanted() {
    for file in "$root${dropin%/*}"/*; do
        [ -f "$file" ] && after "${file##*/}" "${dropin##*/}" || continue
        grep -q '^[[:space:]]*\(default_runtime[[:space:]]*=\|\[crio\.runtime\.runtimes\.nvidia\]\)' "$file" &&
            problem "${file#"$root"}, which is read after ours and says otherwise" \
                "${dropin##*/} as the last word on the nvidia runtime" "rename or remove it"
    done
    return 0
}

needed_action() {
    action=restart
}

judge_applied() {
    merged "$scratch/applied" &&
        grep -Fqx "crio.runtime.runtimes.nvidia.runtime_path = \"$GC_RUNTIME_PATH\"" "$scratch/applied" &&
        { [ "$GC_DEFAULT_RUNTIME" != nvidia ] ||
            grep -Fqx 'crio.runtime.default_runtime = "nvidia"' "$scratch/applied"; }
}

engine_view() {
    have crio && merged "$1"
}

# The settings reject checkImage for CRI-O, because it runs no container without a pod.
smi_in_container() {
    printf 'no container without a pod\n' >"$scratch/smi"
    return 1
}
