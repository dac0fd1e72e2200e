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
    # Old releases look for relative globs in the working directory, which is / for a daemon.
    (cd / && ask 90 "$engine_program" --config "$1" config $verb) >"$scratch/dump" 2>"$scratch/dump-error" ||
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

# find_glob_folder: sets `glob_folder` to the folder of imports that are relative and a glob: that of the
# root file, or, in releases of 1.x before the backports of containerd/containerd#9746, the daemon's
# working directory. Releases of distributions differ, so the program itself is asked.
find_glob_folder() {
    glob_folder=${config%/*}
    [ "$major" = 1 ] || return 0
    mkdir -p "$scratch/globs/conf.d" && printf 'version = 2\nimports = ["conf.d/*.toml"]\n' >"$scratch/globs/config.toml" &&
        printf 'version = 2\noom_score = -7\n' >"$scratch/globs/conf.d/glob.toml" || fail_file "can't write in $scratch"
    dump "$scratch/globs/config.toml" "$scratch/globs/view"
    grep -Fqx 'oom_score = -7' "$scratch/globs/view" || glob_folder=
}

# top_level SOURCE RESULT TRIAL IMPORT [FROM=TO]...: copies a root file, with changes of its top-level
# arrays, which are read as TOML has them: strings of both kinds, comments, arrays over lines (TOML
# 1.0.0, "Array", "String"). Everything else stays as it is. Imports are compared as containerd
# resolves them (cmd/containerd/server/config/config.go, resolveImports).
# - The first two words are the names of a file.
# - TRIAL is empty, or a folder that replaces that of the drop-ins; then all imports are absolute.
# - IMPORT is empty, or the import that is added if no import loads the drop-in.
# - The words after it are imports that are replaced.
# Creates $scratch/otherwise if CRI is taken off disabled_plugins, or a version is added.
top_level() {
    source=$1 result=$2
    shift 2
    find_glob_folder
    printf '%s\n' "${config%/*}" "$glob_folder" "$dropin" "$@" >"$scratch/words-of-imports"
    LC_ALL=C awk -v words="$scratch/words-of-imports" -v format="$format" -v otherwise="$scratch/otherwise" '
        function letter() { return substr(text, at, 1) }
        function to_line_end() { while (at <= size && letter() != "\n") at++ }
        # string: skips the string at the current position, and sets `content` to its text.
        function string(   quote, from) {
            quote = letter()
            if (substr(text, at, 3) == quote quote quote) {
                at += 3
                while (at <= size && substr(text, at, 3) != quote quote quote) at += quote == "\"" && letter() == "\\" ? 2 : 1
                at += 3
                return
            }
            from = ++at
            while (at <= size && letter() != quote) at += quote == "\"" && letter() == "\\" ? 2 : 1
            content = substr(text, from, at - from)
            at++
        }
        # value: skips a value, and records the strings of an array with their end positions.
        function value(   depth) {
            count = 0
            for (first = 0; at <= size; at++) {
                if (letter() == "#") { to_line_end(); at--; continue }
                if (letter() == "\n" && !depth) return
                if (letter() == "[" || letter() == "{") { if (!depth++) first = at; continue }
                if (letter() == "]" || letter() == "}") { depth--; continue }
                if (letter() == "\"" || letter() == "\047") {
                    from[++count] = at
                    string()
                    item[count] = content
                    till[count] = at - 1
                    at--
                }
            }
        }
        function whole(name) {
            sub(/^(\.\/+)+/, "", name)
            return name ~ /^\// ? name : (name ~ /\*/ ? globs : base) "/" name
        }
        function folder_of(path) { sub(/\/[^\/]*$/, "", path); return path }
        function path(name,   full) {
            full = whole(name)
            if (full in target) return target[full]
            if (trial == "") return name
            if (folder_of(full) == folder_of(dropin)) return trial substr(full, length(folder_of(full)) + 1)
            # A wider glob does not load the drop-in of the trial.
            return loads(name) ? full "\", \"" target[dropin] : full
        }
        # loads: returns whether an import loads the drop-in; it is a glob (path/filepath, Match) only with a *.
        function loads(name) {
            name = whole(name)
            if (name !~ /\*/) return name == dropin
            gsub(/[.+(){}^$|]/, "\\\\&", name)
            gsub(/\*/, "[^/]*", name)
            gsub(/\?/, "[^/]", name)
            return dropin ~ "^" name "$"
        }
        # imports: returns the statement `imports = [...]` with its changes.
        function imports(begin,   n, out, last, there) {
            last = begin
            for (n = 1; n <= count; n++) {
                if (loads(item[n])) there = 1
                if (path(item[n]) == item[n]) out = out substr(text, last, till[n] - last + 1)
                else out = out substr(text, last, from[n] - last) "\"" path(item[n]) "\""
                last = till[n] + 1
                if (n == count && import != "" && !there) out = out ", \"" import "\""
            }
            if (!count && first && import != "") {
                out = substr(text, begin, first - begin + 1) "\"" import "\""
                last = first + 1
            }
            imported = 1
            return out substr(text, last, at - last)
        }
        function disabled(begin,   n, out, kept) {
            for (n = 1; n <= count; n++) {
                if (item[n] == "cri" || item[n] == "io.containerd.grpc.v1.cri") continue
                out = out (kept++ ? ", " : "") substr(text, from[n], till[n] - from[n] + 1)
            }
            if (kept + 0 == count) return substr(text, begin, at - begin)
            printf "" >otherwise
            return "disabled_plugins = [" out "]"
        }
        BEGIN {
            getline base <words
            getline globs <words
            getline dropin <words
            getline trial <words
            getline import <words
            while ((getline line <words) > 0) {
                n = index(line, "=")
                target[substr(line, 1, n - 1)] = substr(line, n + 1)
            }
        }
        { text = text $0 "\n" }
        END {
            size = length(text)
            for (at = 1; at <= size;) {
                if (letter() == "[") break
                if (letter() == "#") { begin = at; to_line_end(); out = out substr(text, begin, at - begin); continue }
                if (index(" \t\r\n", letter())) { out = out letter(); at++; continue }
                begin = at
                while (at <= size && letter() != "=") {
                    if (letter() == "\"" || letter() == "\047") string()
                    else at++
                }
                key = substr(text, begin, at - begin)
                gsub(/[ \t"\047]/, "", key)
                at++
                value()
                if (key == "version") versioned = 1
                if (key == "imports") out = out imports(begin)
                else if (key == "disabled_plugins" && import != "") out = out disabled(begin)
                else out = out substr(text, begin, at - begin)
            }
            if (import != "") {
                if (!versioned) { print "version = " format; printf "" >otherwise }
                if (!imported) print "imports = [\"" import "\"]"
            }
            printf "%s%s", out, substr(text, at)
        }' "$source" >"$result"
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
    if [ -f "$root$config" ]; then
        top_level "$root$config" "$1" '' "$import"
    else
        printf 'version = %s\nimports = ["%s"]\n' "$format" "$import" >"$1"
    fi
}

make_texts() {
    mkdir "$scratch/etc" "$scratch/conf.d" || fail_file "can't make folders in $scratch"
    make_root "$scratch/drafts$config" || fail_file "can't read $config"
    view_without || return 0
    choose_source "$scratch/etc/config.toml" || fail_file "can't write $scratch/etc/config.toml"
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
        fail_toolkit "nvidia-ctk runtime configure failed: $(tail -n 1 "$scratch/toolkit")"
    # containerd 1.7's built-in runc has this option besides its type; an explicit section would
    # lose it.
    builtin=
    [ "$major.$minor" != 1.7 ] || builtin='sandbox_mode = "podsandbox"'
    awk -v cgroup="$GC_SYSTEMD_CGROUP" -v builtin="$builtin" -v merged="$([ "$major" = 1 ] || echo yes)" '
        # containerd 2.x ignores these keys of a file of version 2 without runtimes, and would begin to
        # take them from the drop-in (2.4.2, plugins/cri/images/plugin.go, migrateConfig). It merges
        # the files, so the drop-in needs none of them.
        merged && table ~ /\.v1\.cri"\.containerd\]$/ &&
            /^[[:space:]]*(snapshotter|disable_snapshot_annotations|discard_unpacked_layers)[[:space:]]*=/ { next }
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
        fail_toolkit "nvidia-ctk wrote no nvidia runtime: $(tail -n 1 "$scratch/toolkit")"
}

# trial NAME DROPIN: writes containerd's view of the desired root file, with imports of the drop-ins
# in $scratch/conf.d instead of the host's, and of DROPIN instead of the nvidia drop-in. A root file
# that imports itself, as operators leave it, imports the trial.
trial() {
    top_level "$scratch/drafts$config" "$scratch/trial.toml" "$scratch/conf.d" '' \
        "$dropin=$2" "$config=$scratch/trial.toml"
    dump "$scratch/trial.toml" "$scratch/$1"
}

# view_without: writes containerd's view of the desired root file without the nvidia drop-in to
# $scratch/without; reports a problem and fails if it has none.
view_without() {
    for file in "$root$dropins"/*; do
        [ ! -f "$file" ] || [ "$file" = "$root$dropin" ] || cp -- "$file" "$scratch/conf.d/"
    done
    ! trial without "$scratch/none/*.toml" || return 0
    problem "files that containerd $engine_version can't read: $(tail -n 1 "$scratch/dump-error")" \
        "files that load" "look at those that $config imports"
    return 1
}

# choose_source RESULT: writes the configuration whose CRI section nvidia-ctk copies: the root file.
# In containerd 1.x a drop-in's CRI section replaces the whole CRI section of other files. So if
# another drop-in has a CRI section, the source is containerd's merged configuration. A later change
# of these drop-ins must be copied again, so the host probe watches them.
choose_source() {
    repeated=
    case $major in 1) find_repeated ;; esac
    if [ -z "$repeated" ]; then
        cp -- "$scratch/drafts$config" "$1"
        return
    fi
    sed '/^imports = /d' "$scratch/dump" >"$1" || return 1
    for file in $repeated; do
        digest "$file"
        file=${file#"$root"}
        case $file in "${scratch#"$root"}"/conf.d/*) file=$dropins/${file##*/} ;; esac
        expect repeated "$file" "$digest"
    done
}

# Sets `repeated` to the imported files with a section of CRI; the dump of containerd 1.x lists all
# files that it has loaded.
find_repeated() {
    for file in $(sed -n 's/^imports = \[\(.*\)\]$/\1/p' "$scratch/dump" | tr -d '"' | tr ',' ' '); do
        [ "$file" != "$scratch/trial.toml" ] && [ "$file" != "$root$dropin" ] && grep -q 'io\.containerd\.grpc\.v1\.cri' "$file" || continue
        repeated="$repeated $file"
    done
}

# Lets containerd parse the desired files before anything is changed: with the drop-in the nvidia
# runtime exists, and all other settings stay.
check_texts() {
    cp -- "$scratch/drafts$dropin" "$scratch/conf.d/99-nvidia.toml"
    if ! trial after "$scratch/conf.d/99-nvidia.toml"; then
        problem "that containerd $engine_version refuses the new configuration: $(tail -n 1 "$scratch/dump-error")" \
            "one that loads" "compare the versions of $config and of the files it imports"
        return 0
    fi
    judge "$scratch/after" || refuse_later
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
    [ -n "$lost" ] || return 0
    cure="move them into $config from the files that it imports after $dropin, and run again"
    # containerd 2.0 to 2.2 take these settings as soon as any file has a runtime.
    case $major-${root_format-}-$lost in
        2-2-*.cri.v1.images*)
            cure="write into $config, some of whose settings this containerd ignores as long as no file has runtimes, what containerd makes of it: \`(umask 077; $engine_program --config $config config migrate >$config.new && cat $config.new >$config; rm -f $config.new)\`, and run again"
            ;;
    esac
    problem "settings that the new drop-in would change: $lost" "all earlier settings kept" "$cure"
}

# refuse_later: names the setting that is not as the drop-in has it, and the file that is read after
# the drop-in and has the last word on it: with containerd 1.x any file with a section of CRI.
refuse_later() {
    IFS='	' read -r key value there <"$scratch/unmet"
    case $major in 1) word='io\.containerd\.grpc\.v1\.cri' ;; *) word=${key##*.} ;; esac
    other=
    for file in "$scratch/conf.d"/*; do
        ! after "${file##*/}" "${dropin##*/}" || ! grep -q "$word" "$file" || other=$dropins/${file##*/}
    done
    if [ -n "$other" ]; then
        problem "$key = ${there:-nothing}, as $other has it, which is read after $dropin" "$value" \
            "take it out of that file, or give the file a name that sorts before ${dropin##*/}"
    else
        problem "$key = ${there:-nothing} in the merged configuration" "$value" \
            "look at the other files that $config imports: one has the last word on it"
    fi
}

# judge DUMP: returns true if the nvidia runtime is configured as declared, in the section that this
# containerd reads. Writes the settings that differ to the file `unmet`, as key, wanted and present value,
# the runtime's own type first.
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
            if (key in wanted) there[key] = substr($0, at + 3)
        }
        END {
            if (!runc) wanted[cri "runtimes.runc.runtime_type"] = "\"io.containerd.runc.v2\""
            for (key in wanted) if (there[key] != wanted[key]) {
                print key "\t" wanted[key] "\t" there[key]
                differs = 1
            }
            exit differs
        }' "$1" >"$scratch/unmet-now"
    its_status=$?
    LC_ALL=C sort -r "$scratch/unmet-now" >"$scratch/unmet"
    return $its_status
}
