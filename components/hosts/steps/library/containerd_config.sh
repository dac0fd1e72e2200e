# containerd's configuration: its merged view, the desired files, and checks of the result.

# format_of FILE: prints the version in the file; nothing if the file has none, which containerd
# treats as version 1.
format_of() {
    awk '/^[[:space:]]*\[/ { exit }
        /^[[:space:]]*version[[:space:]]*=/ { sub(/^[^=]*=[[:space:]]*/, ""); print $0 + 0; exit }' "$1"
}

# dump FILE RESULT: writes containerd's merged view of a root file, one "table.key = value" per
# line. In 2.0 `config dump` omits what a file of version 2 sets for CRI, although the daemon reads
# it (seen with 2.0.5); `config migrate` shows it.
dump() {
    verb=dump
    [ "$major.$minor" != 2.0 ] || [ "$(format_of "$1")" != 2 ] || verb=migrate
    ask 90 containerd --config "$1" config $verb >"$scratch/dump" 2>"$scratch/dump-error" ||
        return 1
    awk '
        /^[[:space:]]*($|#)/ { next }
        /^imports = / { next }
        { gsub(/\047/, "\"") }
        /^[[:space:]]*\[.*\][[:space:]]*$/ {
            table = $0
            gsub(/^[[:space:]]*\[|\][[:space:]]*$/, "", table)
            next
        }
        { sub(/^[[:space:]]+/, ""); print (table == "" ? "" : table ".") $0 }
    ' "$scratch/dump" >"$2"
}

# make_root RESULT: writes the desired root file: with a version, with an import of the drop-ins,
# with CRI not disabled, and otherwise unchanged. Creates $scratch/otherwise if more than the
# imports changes.
make_root() {
    # Other files in the folder that nothing imports yet must not become active through the new
    # import.
    import="$dropins/*.toml"
    for file in "$root$dropins"/*.toml; do
        [ ! -f "$file" ] || [ "$file" = "$root$dropin" ] || import=$dropin
    done
    [ -f "$root$config" ] || {
        printf 'version = %s\nimports = ["%s"]\n' "$format" "$import" >"$1"
        return 0
    }
    awk -v import="$import" -v glob="$dropins/*.toml" -v own="$dropin" -v format="$format" \
        -v versioned="$root_format" -v otherwise="$scratch/otherwise" '
        function bare(text) { gsub(/"[^"]*"|\047[^\047]*\047/, "", text); return text }
        function open(text) { text = bare(text); return gsub(/\[/, "[", text) - gsub(/\]/, "]", text) }
        function has(text, path) {
            return index(text, "\"" path "\"") || index(text, "\047" path "\047")
        }
        function finish(line) {
            if (key == "imports") {
                imported = 1
                if (!has(line, glob) && !has(line, own)) {
                    empty = line ~ /=[[:space:]]*\[[[:space:]]*\]/
                    sub(/,?[[:space:]]*\][^]]*$/, (empty ? "" : ", ") "\"" import "\"]", line)
                }
            } else {
                list = line
                gsub(/["\047](cri|io\.containerd\.grpc\.v1\.cri)["\047][[:space:]]*,?[[:space:]]*/, "", list)
                if (list != line) { sub(/,[[:space:]]*\]/, "]", list); line = list; printf "" >otherwise }
            }
            text[++count] = line
            key = ""
        }
        tables { text[++count] = $0; next }
        key != "" {
            pending = pending " " $0
            if (open(pending) == 0) finish(pending)
            next
        }
        /^[[:space:]]*\[/ { tables = 1; text[++count] = $0; next }
        /^[[:space:]]*(imports|disabled_plugins)[[:space:]]*=/ {
            key = /imports[[:space:]]*=/ ? "imports" : "disabled_plugins"
            pending = $0
            if (open(pending) == 0) finish(pending)
            next
        }
        { text[++count] = $0 }
        END {
            if (!versioned) { print "version = " format; printf "" >otherwise }
            if (!imported) print "imports = [\"" import "\"]"
            for (i = 1; i <= count; i++) print text[i]
        }' "$root$config" >"$1"
}

make_texts() {
    mkdir "$scratch/etc" "$scratch/conf.d" || fail "can't make folders in $scratch"
    make_root "$scratch/drafts$config" || fail "can't read $config"
    cp -- "$scratch/drafts$config" "$scratch/etc/config.toml"
    set -- --runtime=containerd --config-source=file --config="$scratch/etc/config.toml" \
        --drop-in-config="$scratch/etc/99-nvidia.toml" --nvidia-runtime-path="$GC_RUNTIME_PATH"
    [ "$GC_DEFAULT_RUNTIME" != nvidia ] || set -- "$@" --set-as-default
    if [ "$GC_CDI" = true ]; then
        case $major.$minor in
            1.6) ;; # containerd 1.6 has no CDI, so devices come only from the nvidia runtime.
            *) set -- "$@" --cdi.enabled ;;
        esac
    fi
    ask 90 nvidia-ctk runtime configure "$@" >"$scratch/toolkit" 2>&1 </dev/null ||
        fail "nvidia-ctk runtime configure failed: $(tail -n 1 "$scratch/toolkit")"
    # containerd 1.7's built-in runc has this option besides its type; an explicit section would
    # lose it.
    builtin=
    [ "$major.$minor" != 1.7 ] || builtin='sandbox_mode = "podsandbox"'
    awk -v cgroup="$GC_SYSTEMD_CGROUP" -v builtin="$builtin" '
        /^[[:space:]]*\[/ {
            table = $0
            gsub(/^[[:space:]]+|[[:space:]]+$/, "", table)
            seen[table] = 1
            print
            if (table ~ /\.containerd\.runtimes\.(runc|nvidia)\.options\]$/)
                print "            SystemdCgroup = " cgroup
            if (match(table, /\.containerd\.runtimes\.nvidia\]$/))
                runtimes = substr(table, 1, RSTART) "containerd.runtimes"
            next
        }
        table ~ /\.containerd\.runtimes\.(runc|nvidia)\.options\]$/ &&
            /^[[:space:]]*SystemdCgroup[[:space:]]*=/ { next }
        { print }
        END {
            if (runtimes == "") exit 1
            if (!(runtimes ".runc]" in seen))
                print "\n" runtimes ".runc]\n  runtime_type = \"io.containerd.runc.v2\"\n  " builtin
            for (i = 1; i <= 2; i++) {
                name = runtimes (i == 1 ? ".runc" : ".nvidia") ".options]"
                if (!(name in seen)) print "\n" name "\n  SystemdCgroup = " cgroup
            }
        }' "$scratch/etc/99-nvidia.toml" >"$scratch/drafts$dropin" ||
        fail "nvidia-ctk wrote no nvidia runtime: $(tail -n 1 "$scratch/toolkit")"
}

# trial NAME DROPIN: writes containerd's view of the desired root file, with imports of the drop-ins
# in $scratch/conf.d instead of the host's, and of DROPIN instead of the nvidia drop-in.
trial() {
    awk -v glob="$dropins/*.toml" -v own="$dropin" -v globs="$scratch/conf.d/*.toml" -v owns="$2" '
        function swap(from, to,   i) {
            if (i = index($0, "\"" from "\""))
                $0 = substr($0, 1, i) to substr($0, i + 1 + length(from))
        }
        /^[[:space:]]*\[/ { tables = 1 }
        !tables && /^[[:space:]]*imports[[:space:]]*=/ {
            gsub(/\047/, "\"")
            swap(glob, globs)
            swap(own, owns)
        }
        { print }' "$scratch/drafts$config" >"$scratch/trial.toml"
    dump "$scratch/trial.toml" "$scratch/$1"
}

# Lets containerd parse the desired files before anything is changed: with the drop-in the nvidia
# runtime exists, and all other settings stay.
check_texts() {
    for file in "$root$dropins"/*.toml; do
        [ ! -f "$file" ] || [ "$file" = "$root$dropin" ] || cp -- "$file" "$scratch/conf.d/"
    done
    if [ -f "$scratch/before" ] && [ ! -f "$root$dropin" ] && [ ! -f "$scratch/otherwise" ]; then
        # Without the drop-in, the configuration is still the one from before.
        cp -- "$scratch/before" "$scratch/without"
    elif ! trial without "$scratch/none/*.toml"; then
        problem "drop-ins that containerd $version can't read: $(tail -n 1 "$scratch/dump-error")" \
            "drop-ins that load" "look at the files in $dropins"
        return 0
    fi
    cp -- "$scratch/drafts$dropin" "$scratch/conf.d/99-nvidia.toml"
    if ! trial after "$scratch/conf.d/99-nvidia.toml"; then
        problem "that containerd $version refuses the new configuration: $(tail -n 1 "$scratch/dump-error")" \
            "one that loads" "compare the versions of $config and of the files it imports"
        return 0
    fi
    judge "$scratch/after" || problem "no nvidia runtime in the merged configuration" \
        "runtimes.nvidia" "look at the other files that $config imports: one replaces the section"
    # A missing key with an empty value means the same as its absence.
    lost=$(awk '
        { key = $0; sub(/ = .*/, "", key); value = substr($0, length(key) + 4) }
        NR == FNR { after[key] = value; next }
        key ~ /\.(default_runtime_name|SystemdCgroup|enable_cdi)$|\.runtimes\.nvidia\./ { next }
        key in after && after[key] == value { next }
        !(key in after) && value ~ /^(""|false|0|\[\])$/ { next }
        ++count <= 3 { keys = keys (count > 1 ? " " : "") key }
        END { print keys }
    ' "$scratch/after" "$scratch/without")
    [ -z "$lost" ] || problem "settings that the new drop-in would hide: $lost" \
        "all earlier settings kept" "move them from $dropins into $config and run again"
}

# judge DUMP: returns true if the nvidia runtime is configured as declared, in the section that this
# containerd reads.
judge() {
    awk -v cri="$cri." -v path="$GC_RUNTIME_PATH" -v cgroup="$GC_SYSTEMD_CGROUP" -v runtime="$GC_DEFAULT_RUNTIME" '
        BEGIN {
            wanted[cri "runtimes.nvidia.runtime_type"] = "\"io.containerd.runc.v2\""
            wanted[cri "runtimes.nvidia.options.BinaryName"] = "\"" path "\""
            wanted[cri "runtimes.nvidia.options.SystemdCgroup"] = cgroup
            wanted[cri "runtimes.runc.options.SystemdCgroup"] = cgroup
            if (runtime == "nvidia") wanted[cri "default_runtime_name"] = "\"nvidia\""
        }
        index($0, cri "runtimes.runc.runtime_type = ") == 1 { runc = 1 }
        {
            at = index($0, " = ")
            key = substr($0, 1, at - 1)
            if (key in wanted && substr($0, at + 3) == wanted[key]) delete wanted[key]
        }
        END {
            for (key in wanted) exit 1
            exit !runc
        }' "$1"
}
