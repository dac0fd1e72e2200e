# Configures the NVIDIA runtime in CRI-O with a drop-in, with the functions that runtime.sh calls. The
# running daemon's answer on its socket decides whether the result is right.
#
# Facts behind the decisions (seen with CRI-O 1.36.3 and nvidia-ctk 1.20.2; the same in the source of
# 1.24, server/inspect.go and pkg/config/config.go):
# - Drop-ins are read after crio.conf in the order of their paths, whatever their suffix. Keys of a later
#   file override single keys, but its table of a runtime replaces the earlier table. Flags of the unit
#   and variables CONTAINER_* override all files. New runtimes need a restart.
# - `crio config` only reads files. The daemon ignores a runtime whose program is missing, and ends
#   after its start if that is the default runtime.
# - The daemon responds to GET /config on its CRI socket. `crio status config` requests the same, but
#   is another program, crio-status, before 1.28.

unit=crio

# Sets `engine_program`, `from_unit` and `dropin` to the program of the unit's daemon, the settings that
# its flags and variables override, as variables, and the drop-in in the daemon's folder.
find_engine() {
    find_running "$unit" crio
    engine_program=${running_program:-$(command -v crio)}
    from_unit='' dropins=/etc/crio/crio.conf.d
    for name in config config-dir default-runtime runtimes cgroup-manager listen; do
        variable=CONTAINER_$(printf '%s' "$name" | tr 'a-z-' 'A-Z_')
        # The short flags are -c and -d.
        case $name in config) short=c ;; config-dir) short=d ;; *) short= ;; esac
        case $name in
            runtimes) value=$(flags "$name" | paste -s -d , -) ;; # may be repeated
            *) value=$(flag "$name" "$short") ;;
        esac
        value=${value:-$(variable "$variable")}
        case $value in '' | *[[:space:]]*) continue ;; esac
        from_unit="$from_unit $variable=$value"
        [ "$name" != config-dir ] || dropins=${value%/}
    done
    dropin=$dropins/99-nvidia.toml
    files=$dropin
}

require_engine() {
    find_engine
    require_known "$unit"
    if [ -z "$engine_program" ]; then
        problem "no crio" "CRI-O 1.24 or later" "install CRI-O"
        return 0
    fi
    require_version crio "$engine_program" CRI-O 1.24
    take_version
    merged "$scratch/before" || problem "a configuration that CRI-O can't read: $(why)" \
        "one that loads" "mend it (crio config names the place)"
    socket=$({ crio_text api.listen <"$scratch/before"; } 2>/dev/null)
    socket=${socket:-/var/run/crio/crio.sock}
    crio_wanted="${GC_DEFAULT_RUNTIME:-runc} $(cgroup_manager) $GC_RUNTIME_PATH"
}

cgroup_manager() {
    if [ "$GC_SYSTEMD_CGROUP" = true ]; then echo systemd; else echo cgroupfs; fi
}

# merged RESULT [FOLDER]: writes CRI-O's own view of all its files, flags and variables, with the
# drop-ins in FOLDER instead of its own.
merged() {
    # shellcheck disable=SC2086 # assignments without spaces
    ask 90 env $from_unit ${2:+CONTAINER_CONFIG_DIR="$2"} "$engine_program" config \
        >"$scratch/dump" 2>"$scratch/judgement" && crio_settings <"$scratch/dump" >"$1"
}

make_wanted() {
    make_folder "$dropin"
    mkdir "$scratch/etc" || fail_file "can't make folders in $scratch"
    # Use the merged configuration, because CRI-O's packages define their runtimes in a drop-in, and
    # nvidia-ctk copies the options of the nvidia runtime from them.
    cp -- "$scratch/dump" "$scratch/etc/crio.conf" || fail_file "can't copy $scratch/dump to $scratch/etc"
    set -- --runtime=crio --config-source=file --config="$scratch/etc/crio.conf" \
        --drop-in-config="$scratch/etc/99-nvidia.toml" --nvidia-runtime-path="$GC_RUNTIME_PATH"
    [ "$GC_DEFAULT_RUNTIME" != nvidia ] || set -- "$@" --set-as-default
    ask 90 nvidia-ctk runtime configure "$@" >"$scratch/toolkit" 2>&1 </dev/null ||
        fail_toolkit "nvidia-ctk runtime configure failed: $(tail -n 1 "$scratch/toolkit")"
    # CRI-O uses CDI by default since 1.23. With the cgroup manager cgroupfs, conmon can't run in a
    # systemd slice (crio.conf(5)).
    awk -v cgroup="$(cgroup_manager)" '
        function manager() {
            print "    cgroup_manager = \"" cgroup "\""
            if (cgroup == "cgroupfs") print "    conmon_cgroup = \"pod\""
            done = 1
        }
        /^[[:space:]]*(cgroup_manager|conmon_cgroup)[[:space:]]*=/ { next }
        { print }
        /^[[:space:]]*\[crio\.runtime\][[:space:]]*$/ { manager() }
        END { if (!done) { print "\n[crio.runtime]"; manager() } }' "$scratch/etc/99-nvidia.toml" \
        >"$scratch/drafts$dropin" || fail_toolkit "can't read what nvidia-ctk wrote"
    grep -q '^[[:space:]]*\[crio\.runtime\.runtimes\.nvidia\]' "$scratch/drafts$dropin" ||
        fail_toolkit "nvidia-ctk wrote no nvidia runtime: $(tail -n 1 "$scratch/toolkit")"
}

# Checks the new drop-in together with the other drop-ins before it is placed. A daemon that does not
# run as wanted, though its files are right, has not read them since its start.
check_wanted() {
    mkdir "$scratch/trial" && { [ ! -d "$root$dropins" ] || cp -RL -- "$root$dropins/." "$scratch/trial"; } &&
        cp -- "$scratch/drafts$dropin" "$scratch/trial" || fail_file "can't copy $dropins to $scratch"
    if merged "$scratch/after" "$scratch/trial"; then
        # shellcheck disable=SC2086 # words, split on purpose
        crio_differs $crio_wanted <"$scratch/after" >"$scratch/others"
        while IFS= read -r line; do
            refuse_other "$line"
        done <"$scratch/others"
    else
        problem "that CRI-O $engine_version refuses the new ${dropin##*/}: $(why)" "one that loads" \
            "correct the other files in $dropins"
    fi
    judge_running || action=restart
}

# refuse_other LINE: reports what overrides the drop-in: a flag or variable of the unit, or a later file.
refuse_other() {
    name=${1%% *}
    case $name in
        default_runtime) override=DEFAULT_RUNTIME lines='default_runtime[[:space:]]*=' ;;
        cgroup_manager) override=CGROUP_MANAGER lines='cgroup_manager[[:space:]]*=' ;;
        *) override=RUNTIMES lines='\[crio\.runtime\.runtimes\.nvidia\]' ;;
    esac
    case $from_unit in
        *" CONTAINER_$override="*)
            problem "$1 by the unit $unit, whose flags and variables override all files" "${dropin##*/} as the last word on it" \
                "remove the flag --$(printf '%s' "$override" | tr 'A-Z_' 'a-z-') or the variable CONTAINER_$override from the unit (systemctl cat $unit names the files)"
            return 0
            ;;
    esac
    later=$(find -L "$root$dropins" -type f -exec grep -l "^[[:space:]]*$lines" {} + 2>/dev/null | LC_ALL=C sort | tail -n 1)
    problem "$1 in ${later#"$root"}, which is read after ours and says otherwise" \
        "${dropin##*/} as the last word on it" "rename or remove it"
}

needed_action() {
    cmp -s "$scratch/before" "$scratch/after" || action=restart
}

# Checks the configuration with which the daemon runs.
judge_running() {
    crio_config "$socket" >"$scratch/running" 2>"$scratch/refused"
    # shellcheck disable=SC2086 # words, split on purpose
    others=$(crio_differs $crio_wanted <"$scratch/running" | paste -s -d , -)
    [ -n "$others" ] || return 0
    if [ -s "$scratch/running" ]; then
        printf 'CRI-O at %s runs with the runtimes %s and %s\n' "$socket" "$(crio_runtimes)" "$others"
    else
        printf 'no CRI-O answers at %s%s\n' "$socket" "$(sed 's/^/: /' "$scratch/refused" | tail -n 1)"
    fi >"$scratch/judgement"
    return 1
}

judge_applied() {
    again 20 0.5 judge_running || return 1
    expect crio "$socket" "$crio_wanted"
    expect crio_files "$crio_wanted$from_unit $engine_program"
    answer="CRI-O at $socket: CRI-O $engine_version has the runtimes $(crio_runtimes), $(crio_text runtime.default_runtime <"$scratch/running") by default"
}

# Prints the names of the running daemon's runtimes.
crio_runtimes() {
    sed -n 's/^crio\.runtime\.runtimes\.\(.*\)\.runtime_path = .*/\1/p' "$scratch/running" | sort | paste -s -d ' ' -
}

engine_view() {
    find_engine
    [ -n "$engine_program" ] && merged "$1"
}

# The settings reject checkImage for CRI-O, because it runs no container without a pod.
smi_in_container() {
    printf 'no container without a pod\n' >"$scratch/smi"
    return 1
}

# --- found later: the probe has this part too ---

# crio_config SOCKET: prints the configuration with which CRI-O runs, as crio_settings does.
# shellcheck disable=SC2016 # a Perl program
crio_config() {
    if command -v perl >/dev/null 2>&1; then
        timeout 5 perl -e '
            use Socket;
            my ($path, $answer) = ($ARGV[0], "");
            socket(my $engine, PF_UNIX, SOCK_STREAM, 0) or die "$!\n";
            connect($engine, sockaddr_un($path)) or die "$!\n";
            syswrite($engine, "GET /config HTTP/1.0\r\nHost: crio\r\n\r\n");
            while (sysread($engine, $answer, 65536, length $answer)) {
                die "more than 4 MiB\n" if length $answer > 1 << 22;
            }
            $answer =~ s/^HTTP\/1\.[01] 200 .*?\r\n\r\n//s or die "another program\n";
            print $answer;' "$1"
    else
        timeout 5 curl -sS --fail --noproxy '*' --unix-socket "$1" http://crio/config | head -c 4194304
    fi | crio_settings
}

# crio_settings: prints CRI-O's configuration, one "table.key = value" per line.
crio_settings() {
    awk '
        /^[[:space:]]*($|#)/ { next }
        /^[[:space:]]*\[.*\][[:space:]]*$/ {
            table = $0
            gsub(/^[[:space:]]*\[|\][[:space:]]*$/, "", table)
            next
        }
        { sub(/^[[:space:]]+/, ""); print table "." $0 }'
}

# crio_text NAME: reads the output of crio_settings and prints the text of one setting below `crio`.
crio_text() {
    sed -n "s/^crio\.$1 = \"\(.*\)\"\$/\1/p"
}

# crio_differs DEFAULT CGROUP_MANAGER PATH: reads the output of crio_settings and prints each setting of
# the nvidia runtime that has another value. `crio config` leaves out the default systemd.
crio_differs() {
    awk -F ' = ' -v runtime="$1" -v manager="$2" -v path="$3" '
        function check(name, wanted, absent) {
            found = ("crio.runtime." name) in value ? value["crio.runtime." name] : absent
            if (found != "\"" wanted "\"") print name " = " found
        }
        { value[$1] = $2 }
        END {
            check("runtimes.nvidia.runtime_path", path, "nothing")
            if (runtime == "nvidia") check("default_runtime", runtime, "nothing")
            check("cgroup_manager", manager, "\"systemd\"")
        }'
}

# found_crio SOCKET WANTED: requests the configuration of the running daemon.
found_crio() {
    running=$(crio_config "$1" 2>/dev/null)
    # shellcheck disable=SC2086 # words, split on purpose
    others=$(printf '%s\n' "$running" | crio_differs $2 | paste -s -d , -)
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted="crio, which runs with $others"
    [ -n "$running" ] || drifted="crio, which does not answer at $1"
    [ -z "$others" ]
}

# found_crio_files DEFAULT WORDS: reads the files with the unit's flags and variables, which the next start
# reads. WORDS are the other values, the variables and the program.
found_crio_files() {
    # shellcheck disable=SC2086 # words, split on purpose
    set -- $1 $2
    crio_wanted="$1 $2 $3"
    shift 3
    # shellcheck disable=SC2086 # words, split on purpose
    others=$(ask 5 env "$@" config 2>/dev/null | crio_settings | crio_differs $crio_wanted | paste -s -d , -)
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted="crio, whose files have $others for its next start"
    [ -z "$others" ]
}
