# daemon.json: merged key by key from the previous file and the declared settings.

# Prints the file with the keys before the first change by these scripts; an undo restores those
# keys.
original() {
    if kept "$config"; then
        printf '%s' "$state/kept$config"
    elif was_absent "$config"; then
        printf ''
    else
        printf '%s' "$root$config"
    fi
}

# normal FILE RESULT: writes the file as json_lines prints it: one value per line, four spaces per
# level. The merge in awk relies on this format. nvidia-ctk would write numbers as floats (1.20.2,
# pkg/config/engine/docker: a Go map).
normal() {
    if [ -s "$1" ]; then cat -- "$1" >"$scratch/any.json"; else printf '{}\n' >"$scratch/any.json"; fi
    json_lines "$scratch/any.json" >"$2" 2>"$scratch/json-error" || return 1
    grep -q '^{' "$2" || { echo "no object" >"$scratch/json-error" && return 1; }
}

# merge_json MIRRORS ORIGINAL CURRENT: prints CURRENT, with the managed keys computed from ORIGINAL
# and the declared settings. Settings that a flag of the unit has are left out, because dockerd does
# not start with both. In the awk code, list() returns the items of a list without items that begin
# with `drop`, followed by `more`, without duplicates.
merge_json() {
    awk -v default_runtime="$write_default" -v cgroup="$write_cgroup" -v cdi="$cdi" \
        -v data_root="$write_data_root" -v storage="$storage" -v runtime="$write_runtime" '
        function finish(   i, k, count) {
            count = split("data-root default-runtime exec-opts features registry-mirrors storage-driver", ours, " ")
            for (i in ours) mine[ours[i]] = 1
            if (default_runtime == "nvidia") set("default-runtime", "\"nvidia\"")
            if (data_root != "") set("data-root", "\"" data_root "\"")
            if (storage != "") set("storage-driver", "\"" storage "\"")
            if (cgroup == "true")
                set("exec-opts", list("exec-opts", "native.cgroupdriver=", "\"native.cgroupdriver=systemd\""))
            if (mirrors != "") set("registry-mirrors", list("registry-mirrors", "", mirrors))
            if (cdi == "true") set("features", table(old["features"], "\"cdi\"", "\"cdi\": true"))
            if (runtime != "") {
                if (!("runtimes" in current)) order[++keys] = "runtimes"
                current["runtimes"] = table(current["runtimes"], "\"nvidia\"", "\"nvidia\": {\"args\": [], \"path\": \"" runtime "\"}")
            }
            print "{"
            for (k = 1; k <= keys; k++) if (!(order[k] in mine)) entry(order[k], current[order[k]])
            for (k = 1; k <= count; k++) if (ours[k] in old) entry(ours[k], old[ours[k]])
            print "\n}"
        }
        function set(k, text) { old[k] = text }
        function entry(k, text) { printf "%s\"%s\": %s", (printed++ ? ",\n" : ""), k, text }
        function list(k, drop, more,   n, i, out, items, seen) {
            n = split(old[k] "\n" more, items, "\n")
            for (i = 1; i <= n; i++) {
                sub(/^ +/, "", items[i]); sub(/,$/, "", items[i])
                if (items[i] !~ /^"/ || items[i] in seen) continue
                if (drop != "" && index(items[i], "\"" drop) == 1 && items[i] != more) continue
                seen[items[i]] = 1
                out = out (out == "" ? "" : ",\n") items[i]
            }
            return "[" out "]"
        }
        # table: returns an object without the member `drop`, followed by `more`.
        function table(text, drop, more,   n, i, out, items, stays) {
            n = split(text, items, "\n")
            for (i = 1; i <= n; i++) {
                if (items[i] !~ /^        /) continue
                if (items[i] ~ /^        "/) {
                    stays = index(items[i], "        " drop ":") != 1
                    if (stays && out != "") out = out ","
                }
                if (items[i] ~ /^        [^ ]/) sub(/,$/, "", items[i])
                if (stays) out = out "\n" items[i]
            }
            return "{" out (out == "" ? "" : ",") more "}"
        }
        function take(   text) {
            if (match($0, /^    "([^"\\]|\\.)*": /)) {
                key = substr($0, 6, RLENGTH - 8)
                text = substr($0, RLENGTH + 1)
                if (which == 3) order[++keys] = key
            } else if (/^[{}]/) return
            else text = "\n" $0
            if (which == 2) old[key] = old[key] text
            else current[key] = current[key] text
        }
        FNR == 1 { which = ARGIND_of(FILENAME) }
        function ARGIND_of(name,   i) { for (i = 1; i < ARGC; i++) if (ARGV[i] == name) return i }
        which == 1 { mirrors = mirrors (mirrors == "" ? "" : "\n") $0; next }
        { take() }
        END {
            for (k in old) sub(/,$/, "", old[k])
            for (k in current) sub(/,$/, "", current[k])
            finish()
        }' "$@"
}

# Reads the flags of dockerd that daemon.json must not repeat: dockerd does not start if a setting is
# in both, even with equal values (moby daemon/config/config.go, findConfigurationConflicts).
read_flags() {
    flag_data=$(flag 'data-root|graph' g) || flag_data=
    flag_storage=$(flag storage-driver s) || flag_storage=
    flag_default=$(flag default-runtime) || flag_default=
    flag_cgroup=$(flags exec-opt | sed -n 's/^native\.cgroupdriver=//p' | tail -n 1)
    flag_exec=$(flags exec-opt)
    flag_mirrors=$(flags registry-mirror)
    flag_runtimes=$(flags add-runtime)
}

# Computes the settings for daemon.json, and reports flags of the unit that contradict them.
choose_written() {
    write_default=$GC_DEFAULT_RUNTIME write_cgroup=$GC_SYSTEMD_CGROUP
    write_data_root=$GC_DOCKER_DATA_ROOT write_runtime=$GC_RUNTIME_PATH
    : >"$scratch/mirrors"
    if [ -n "$flag_default" ]; then
        [ "$flag_default" = "$write_default" ] || by_unit "--default-runtime=$flag_default" "runtime.defaultRuntime: $write_default"
        write_default=
    fi
    if [ -n "$flag_exec" ]; then
        [ "$write_cgroup" != true ] || [ "$flag_cgroup" = systemd ] ||
            by_unit "--exec-opt=$(echo "$flag_exec" | head -n 1)" "runtime.systemdCgroup: true"
        write_cgroup=
    fi
    if [ -n "$flag_data" ]; then
        [ -z "$write_data_root" ] || [ "$write_data_root" = "$flag_data" ] ||
            by_unit "--data-root=$flag_data" "runtime.docker.dataRoot: $write_data_root"
        write_data_root=
    fi
    if [ -n "$flag_runtimes" ]; then
        has_word "nvidia=$write_runtime" "$flag_runtimes" ||
            by_unit "--add-runtime=$(echo "$flag_runtimes" | head -n 1)" "the runtime nvidia"
        write_runtime=
        # Docker 20.10 checks a default runtime of the file against the file's own runtimes (moby
        # 20.10, daemon/config/config.go, Validate).
        case $engine_version-$write_default in
            20.*-nvidia) by_unit "--add-runtime=nvidia=$GC_RUNTIME_PATH" "runtime.defaultRuntime: nvidia" ;;
        esac
    fi
    if [ -n "$flag_mirrors" ]; then
        printf '%s\n' "$GC_DOCKER_MIRRORS" | tr -d '"' | while IFS= read -r mirror; do
            [ -z "$mirror" ] || has_word "$mirror" "$flag_mirrors" || echo "$mirror"
        done >"$scratch/unflagged"
        [ ! -s "$scratch/unflagged" ] ||
            by_unit "--registry-mirror=$(echo "$flag_mirrors" | head -n 1)" "runtime.docker.registryMirrors: $(head -n 1 "$scratch/unflagged")"
    else
        printf '%s' "$GC_DOCKER_MIRRORS" >"$scratch/mirrors"
    fi
}

has_word() {
    printf '%s\n' "$2" | grep -Fqx -e "$1"
}

by_unit() {
    problem "the flag $1 of dockerd in the unit docker" "$2 in $config, and dockerd starts with only one of both" \
        "take the flag off the unit (systemctl cat docker names the file), or declare what it says"
}

# Keys whose change dockerd applies on SIGHUP; all other keys need a restart.
reloadable="allow-nondistributable-artifacts authorization-plugins debug default-runtime features \
insecure-registries labels live-restore max-concurrent-downloads max-concurrent-uploads \
max-download-attempts registry-mirrors runtimes shutdown-timeout"

needed_action() {
    if cmp -s "$scratch/drafts$config" "$root$config"; then
        return 0
    fi
    action=reload
    for key in $(changed_keys "$scratch/current.json" "$scratch/drafts$config"); do
        case " $reloadable " in
            *" $key "*) ;;
            *) action=restart ;;
        esac
    done
}

changed_keys() {
    awk '
        /^    "/ { key = $1; gsub(/^"|":$/, "", key) }
        { line = $0; sub(/,$/, "", line); text[FILENAME, key] = text[FILENAME, key] line "\n"; keys[key] = 1 }
        END { for (key in keys) if (key != "" && text[ARGV[1], key] != text[ARGV[2], key]) print key }' "$1" "$2"
}

value_of() {
    sed -n "s/^    \"$1\": \"\\(.*\\)\",\\{0,1\\}\$/\\1/p" "$2"
}
