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

# normal FILE RESULT: writes the file with the nvidia runtime in nvidia-ctk's JSON format: sorted
# keys, four spaces per level, one value per line. The merge in awk relies on this format.
normal() {
    if [ -s "$1" ]; then cat -- "$1" >"$2"; else printf '{}\n' >"$2"; fi
    ask 90 nvidia-ctk runtime configure --runtime=docker --config="$2" \
        --nvidia-runtime-path="$GC_RUNTIME_PATH" >"$scratch/toolkit" 2>&1 </dev/null
}

# merge_json MIRRORS ORIGINAL CURRENT: prints CURRENT, with the managed keys computed from ORIGINAL
# and the declared settings. nvidia-ctk's own --cdi.enabled would drop other features (1.20.0,
# EnableCDI). In the awk code, list() returns the items of a list without those that begin with
# `drop`, followed by `more`, without duplicates.
merge_json() {
    awk -v default_runtime="$GC_DEFAULT_RUNTIME" -v cgroup="$GC_SYSTEMD_CGROUP" -v cdi="$cdi" \
        -v data_root="$GC_DOCKER_DATA_ROOT" -v storage="$storage" '
        function finish(   i, k) {
            split("data-root default-runtime exec-opts features registry-mirrors storage-driver", ours, " ")
            for (i in ours) mine[ours[i]] = 1
            if (default_runtime == "nvidia") set("default-runtime", "\"nvidia\"")
            if (data_root != "") set("data-root", "\"" data_root "\"")
            if (storage != "") set("storage-driver", "\"" storage "\"")
            if (cgroup == "true")
                set("exec-opts", list("exec-opts", "native.cgroupdriver=", "\"native.cgroupdriver=systemd\""))
            if (mirrors != "") set("registry-mirrors", list("registry-mirrors", "", mirrors))
            if (cdi == "true") set("features", table("features", "\"cdi\"", "\"cdi\": true"))
            print "{"
            for (k in current) if (!(k in mine)) entry(k, current[k])
            for (k in mine) if (k in old) entry(k, old[k])
            print "\n}"
        }
        function set(k, text) { old[k] = text }
        function entry(k, text) { printf "%s\"%s\": %s", (count++ ? ",\n" : ""), k, text }
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
        function table(k, drop, more,   n, i, out, items) {
            n = split(old[k], items, "\n")
            for (i = 1; i <= n; i++) {
                sub(/^ +/, "", items[i]); sub(/,$/, "", items[i])
                if (items[i] ~ /^"/ && index(items[i], drop) != 1) out = out items[i] ",\n"
            }
            return "{" out more "}"
        }
        function take(   text) {
            if (match($0, /^    "([^"\\]|\\.)*": /)) {
                key = substr($0, 6, RLENGTH - 8)
                text = substr($0, RLENGTH + 1)
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
