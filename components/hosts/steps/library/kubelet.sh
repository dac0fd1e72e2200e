# The kubelet's configuration, in the files and flags that its unit names: kubeadm's is
# /var/lib/kubelet/config.yaml, kubespray's /etc/kubernetes/kubelet-config.yaml (by its
# kubelet.env), EKS' a JSON file with a folder of drop-ins. Sources: kubelet(1), --config and
# --config-dir (drop-ins end in .conf and are merged in the order of their names); Kubernetes docs,
# "Set Kubelet Parameters Via A Configuration File".

# find_kubelet: sets `kubelet` to the configuration file, and the words to the kubelet's; returns
# false if this host has neither a kubelet's unit nor its file.
find_kubelet() {
    find_running kubelet kubelet
    kubelet=$(flag config) || kubelet=/var/lib/kubelet/config.yaml
    [ -f "$root$kubelet" ] || flag cgroup-driver >/dev/null
}

# kubelet_setting NAME: prints a top-level setting of the kubelet; nothing if no file has it.
kubelet_setting() {
    drop_in_folder=$(flag config-dir)
    for file in "$root$kubelet" ${drop_in_folder:+"$root$drop_in_folder"/*.conf}; do
        [ -f "$file" ] || continue
        if json_lines "$file" >"$scratch/kubelet.json" 2>/dev/null; then
            json_paths <"$scratch/kubelet.json" | sed -n "s/^$1 \"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p"
            continue
        fi
        awk -v name="$1" '
            { sub(/\r$/, "") }
            # Flow style (YAML 1.2, 7.4): all settings on one line.
            !block && /^[ \t]*\{/ {
                sub(/^[ \t]*\{/, "")
                while (match($0, /\{[^{}]*\}|\[[^][]*\]/)) $0 = substr($0, 1, RSTART - 1) substr($0, RSTART + RLENGTH)
                sub(/\}[ \t]*(#.*)?$/, "")
                count = split($0, pair, /[ \t]*,[ \t]*/)
                for (n = 1; n <= count; n++) {
                    gsub(/["\047]|^[ \t]+/, "", pair[n])
                    if (pair[n] ~ "^" name "[ \t]*:") { sub(/^[^:]*:[ \t]*/, "", pair[n]); print pair[n] }
                }
                next
            }
            /^[A-Za-z]/ { block = 1 }
            match($0, "^[\"\047]?" name "[\"\047]?[ \t]*:") {
                value = substr($0, RLENGTH + 1)
                sub(/^[ \t]+/, "", value)
                quote = substr(value, 1, 1)
                if (quote == "\"" || quote == "\047") {
                    value = substr(value, 2)
                    sub(quote ".*", "", value)
                } else sub(/[ \t]*(#.*)?$/, "", value)
                print value
            }' "$file"
    done | tail -n 1
}

# --- found later: the probe has this part too ---

# Returns true if the kubelet that runs, or its default file, takes control groups of version 1
# (KubeletConfiguration, failCgroupV1; kubelet --fail-cgroupv1).
takes_cgroup_v1() {
    main=$(timeout 5 systemctl show --property=MainPID kubelet 2>/dev/null)
    main=${main#MainPID=}
    words=$(tr '\000' '\n' <"$root/proc/${main:-0}/cmdline" 2>/dev/null)
    case $words in *--fail-cgroupv1=false*) return 0 ;; esac
    file=$(printf '%s\n' "$words" | sed -n 's/^--config=//p')
    grep -Eq '^[[:space:]{]*["'\'']?failCgroupV1["'\'']?[[:space:]]*:[[:space:]]*["'\'']?false' "$root${file:-/var/lib/kubelet/config.yaml}" 2>/dev/null
}
