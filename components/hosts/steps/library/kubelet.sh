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

# Returns true if the running kubelet, or its default configuration file, accepts cgroup v1
# (KubeletConfiguration, failCgroupV1; kubelet --fail-cgroupv1). A drop-in of the kubelet's folder
# overrides the file.
takes_cgroup_v1() {
    main=$(main_process kubelet)
    words=$(tr '\000' '\n' <"$root/proc/${main:-0}/cmdline" 2>/dev/null)
    case $words in *--fail-cgroupv1=false*) return 0 ;; esac
    file=$(word_of --config)
    folder=$(word_of --config-dir)
    says=
    for each in "$root${file:-/var/lib/kubelet/config.yaml}" ${folder:+"$root$folder"/*.conf}; do
        line=$(sed 's/^[[:space:]]*#.*//; s/[[:space:]]#.*//' "$each" 2>/dev/null |
            grep -Eo '(^|[[:space:]{,"'\''])failCgroupV1["'\'']?[[:space:]]*:[[:space:]]*(true|false)' | tail -n 1)
        says=${line:-$says}
    done
    case $says in *false) return 0 ;; esac
    return 1
}

# word_of FLAG: prints the last value of a flag in the running kubelet's arguments.
word_of() {
    printf '%s\n' "$words" | awk -v name="$1" '
        follows { print; follows = 0 }
        $0 == name { follows = 1 }
        index($0, name "=") == 1 { print substr($0, length(name) + 2) }' | tail -n 1
}
