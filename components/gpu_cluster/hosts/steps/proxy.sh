# Sets the proxy of the container engine's service, with which it pulls images. Sources:
# systemd.exec(5), Environment (the last file counts) and EnvironmentFile (which counts more);
# systemd.unit(5), drop-ins (all folders together, in the order of their names); Docker, containerd
# and CRI-O read the usual variables.

check_proxy() {
    for unit in $GC_PROXY_UNITS; do
        refuse_other_proxy "$unit"
    done
}

apply_proxy() {
    for unit in $GC_PROXY_UNITS; do
        unit_drop_in "$unit" proxy "$GC_PROXY_UNIT_TEXT"
    done
    drop_ins_in_force
    [ ! -f "$drop_ins_pending" ] || return 0
    for unit in $GC_PROXY_UNITS; do
        for variable in $(proxy_variables); do
            found_environment "$unit" "$variable" ||
                fail_act "unit $unit runs without $variable, although this program's drop-in sets it; check systemctl show -p Environment $unit"
            expect environment "$unit" "$variable"
        done
    done
}

# Prints the declared proxy variables, one per line; their values have no spaces.
proxy_variables() {
    printf '%s' "$GC_PROXY_UNIT_TEXT" | sed -n 's/^Environment=//p' | assignments
}

# refuse_other_proxy UNIT: reports drop-ins that systemd reads after the drop-in of these scripts and
# that set another proxy, such as the http-proxy.conf of Docker's documentation.
refuse_other_proxy() {
    : >"$scratch/later" && : >"$scratch/unset"
    for name in $(later_drop_ins "$1"); do
        for folder in etc run usr/local/lib usr/lib lib; do
            file=$root/$folder/systemd/system/$1.service.d/$name
            [ -f "$file" ] || continue
            sed -e :again -e '/\\$/{N; s/\\\n//; b again' -e '}' "$file" | sed -n 's/^Environment=//p' | effective |
                sed "s|^|${file#"$root"} |" >>"$scratch/later"
            break
        done
    done
    # systemd applies UnsetEnvironment= last, whichever file contains it.
    for file in "$root"/etc/systemd/system/"$1".service "$root"/lib/systemd/system/"$1".service "$root"/usr/lib/systemd/system/"$1".service \
        "$root"/etc/systemd/system/"$1".service.d/*.conf "$root"/lib/systemd/system/"$1".service.d/*.conf "$root"/usr/lib/systemd/system/"$1".service.d/*.conf; do
        [ ! -f "$file" ] || sed -n 's/^UnsetEnvironment=//p' "$file" | assignments | sed "s|=.*||; s|^|${file#"$root"} |; s|\$|=|" >>"$scratch/unset"
    done
    for file in $(environment_files "$1"); do
        file_variables "$root$file" | sed "s|^|$file |" >>"$scratch/later"
    done
    [ "$1" != docker ] || ! json_lines "$root/etc/docker/daemon.json" 2>/dev/null >"$scratch/docker.json" ||
        json_paths <"$scratch/docker.json" | sed -n 's|^proxies\.\(http\|https\|no\)-proxy "\(.*\)"|/etc/docker/daemon.json \1_proxy=\2|p' |
        awk '{ name = toupper(substr($2, 1, index($2, "="))); print $1, name substr($2, index($2, "=") + 1) }' >>"$scratch/later"
    cat "$scratch/unset" >>"$scratch/later"
    proxy_variables >"$scratch/proxy"
    other=$(awk 'FNR == NR { value[substr($0, 1, index($0, "=") - 1)] = substr($0, index($0, "=") + 1); next }
        {
            file = $1
            text = substr($0, length(file) + 2)
            name = substr(text, 1, index(text, "=") - 1)
            last[name] = substr(text, index(text, "=") + 1)
            from[name] = file
        }
        END {
            for (name in last) if (name in value && last[name] != value[name]) { print from[name], name; exit }
        }' "$scratch/proxy" "$scratch/later")
    [ -z "$other" ] || problem "another ${other#* } in ${other% *}, which counts more than ours for $1" \
        "the declared one" "remove it there, or declare the same in the section proxy"
}

# effective: prints the assignments that systemd takes from the values of Environment=: an empty value
# unsets all earlier ones, and an assignment with a percent sign that is no specifier is left out
# (systemd.unit(5), "Specifiers"; systemd/systemd#9842).
effective() {
    while IFS= read -r words; do
        if [ -z "$words" ]; then
            proxy_variables | sed 's/=.*/=/'
        else
            printf '%s\n' "$words" | assignments | awk '{ text = $0; gsub(/%%/, "", text) } text !~ /%[^A-Za-z]|%$/'
        fi
    done
}

# later_drop_ins UNIT: prints the names of the unit's drop-ins that systemd reads after the drop-in
# of these scripts.
later_drop_ins() {
    for file in "$root"/etc/systemd/system/"$1".service.d/*.conf "$root"/run/systemd/system/"$1".service.d/*.conf \
        "$root"/usr/local/lib/systemd/system/"$1".service.d/*.conf "$root"/usr/lib/systemd/system/"$1".service.d/*.conf \
        "$root"/lib/systemd/system/"$1".service.d/*.conf; do
        [ ! -f "$file" ] || echo "${file##*/}"
    done | LC_ALL=C sort -u | awk '$0 > "50-gpu-cluster-proxy.conf"'
}

# --- found later: the probe has this part too ---

# found_environment UNIT VARIABLE: returns true if the service does not run, or runs with NAME=VALUE.
found_environment() {
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted="unit $1 runs without ${2%%=*} as declared"
    main=$(main_process "$1")
    [ -n "$main" ] || return 0
    tr '\000' '\n' <"$root/proc/$main/environ" 2>/dev/null | grep -Fqx -e "$2"
}
