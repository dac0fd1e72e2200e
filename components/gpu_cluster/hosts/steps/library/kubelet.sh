# The kubelet's configuration, in the files and flags that its unit names: kubeadm's is
# /var/lib/kubelet/config.yaml, kubespray's /etc/kubernetes/kubelet-config.yaml (by its
# kubelet.env), EKS' a JSON file with a folder of drop-ins. Sources: kubelet(1), --config and
# --config-dir (drop-ins end in .conf and are merged in the order of their names); Kubernetes docs,
# "Set Kubelet Parameters Via A Configuration File".

# find_kubelet: sets `kubelet` to the kubelet's configuration file, and writes the kubelet's
# arguments to the file `words`; returns false if the host has neither a kubelet unit nor that file.
find_kubelet() {
    find_running kubelet kubelet
    kubelet=$(flag config) || kubelet=/var/lib/kubelet/config.yaml
    [ -f "$root$kubelet" ] || flag cgroup-driver >/dev/null
}

# kubelet_setting NAME: prints a top-level setting of the kubelet; nothing if no file has it.
kubelet_setting() {
    drop_in_folder=$(flag config-dir)
    setting_in "$1" "$root$kubelet" ${drop_in_folder:+"$root$drop_in_folder"/*.conf}
}

# --- found later: the probe has this part too ---

# Returns true if the running kubelet, or its default configuration file, accepts cgroup v1
# (KubeletConfiguration, failCgroupV1; kubelet --fail-cgroupv1). A flag counts more than a file.
takes_cgroup_v1() {
    main=$(main_process kubelet)
    words=$(tr '\000' '\n' <"$root/proc/${main:-0}/cmdline" 2>/dev/null)
    if ! says=$(last_flag fail-cgroupv1); then
        file=$(last_flag config)
        folder=$(last_flag config-dir)
        says=$(setting_in failCgroupV1 "$root${file:-/var/lib/kubelet/config.yaml}" ${folder:+"$root$folder"/*.conf})
    fi
    [ "$says" = false ]
}

# last_flag NAME: prints the last value of a flag in $words, the kubelet's arguments.
last_flag() {
    its_values=$(printf '%s\n' "$words" | flags_in "$1") && printf '%s\n' "$its_values" | tail -n 1
}

# setting_in NAME FILE...: prints a top-level setting of the kubelet's files, of which the last counts
# that has it; nothing if no file has it.
setting_in() {
    its_setting=$1
    shift
    for file; do
        [ -f "$file" ] || continue
        if its_lines=$(json_lines "$file" 2>/dev/null); then
            printf '%s\n' "$its_lines" | json_paths | sed -n "s/^$its_setting \"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p"
            continue
        fi
        awk -v name="$its_setting" '
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
