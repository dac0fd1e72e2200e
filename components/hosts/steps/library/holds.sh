# Holds keep a package out of upgrades of the whole system. Sources: apt-mark(8), dnf.conf(5).

dnf_conf=/etc/dnf/dnf.conf

# hold_packages NAME...: keeps these packages out of upgrades of the whole system.
hold_packages() {
    list_held
    for name in "$@"; do
        expect hold "$name"
        if grep -Fqx -e "$name" "$scratch/held"; then
            ! recorded hold "$name" || effect hold "$name"
            continue
        fi
        effect hold "$name"
        if [ "$manager" = apt ]; then
            bounded 60 apt-mark hold "$name" || fail "$name can't be held: $(log_end)"
        else
            write_excludes "$name" ""
        fi
        did "hold $name"
    done
}

undo_hold() {
    list_held
    grep -Fqx -e "$1" "$scratch/held" || return 0
    if [ "$manager" = apt ]; then
        await_package_manager
        bounded 60 apt-mark unhold "$1" || fail "the hold of $1 can't be removed: $(log_end)"
    else
        write_excludes "" "$1"
    fi
    undid "hold $1"
}

list_held() {
    if [ "$manager" = apt ]; then
        apt-mark showhold
    elif [ -f "$root$dnf_conf" ]; then
        excluded_names "$root$dnf_conf"
    fi >"$scratch/held" 2>/dev/null
}

# write_excludes ADD REMOVE: changes `excludepkgs` in [main] of dnf's configuration file, which
# holds packages without the versionlock plugin. Words and lines of others stay unchanged, and others
# may change them, such as another phase with holds: the probe looks for the words of the holds.
write_excludes() {
    [ -f "$root$dnf_conf" ] && cat -- "$root$dnf_conf" >"$scratch/old.conf" || : >"$scratch/old.conf"
    awk -v add="$1" -v remove="$2" '
        function ours() { if (add != "" && !done) print "excludepkgs=" add; done = 1 }
        /^\[/ { if (main) ours(); main = ($0 == "[main]"); seen = seen || main }
        main && !done && /^(excludepkgs|exclude)[ \t]*=/ {
            done = 1
            head = $0; sub(/=.*/, "=", head)
            rest = $0; sub(/^[^=]*=/, "", rest)
            if (add != "") { print $0 (rest == "" ? "" : " ") add; next }
            count = split(rest, words, /[ ,]+/); out = ""
            for (n = 1; n <= count; n++)
                if (words[n] != remove && words[n] != "") out = out (out == "" ? "" : " ") words[n]
            if (out != "") print head out
            next
        }
        { print }
        END { if (!done && add != "") { if (!seen) print "[main]"; ours() } }' \
        "$scratch/old.conf" >"$scratch/new.conf" || fail "can't read $dnf_conf"
    place "$dnf_conf" "$scratch/new.conf"
    if kept "$dnf_conf" && cmp -s "$scratch/new.conf" "$state/kept$dnf_conf"; then
        forget "$dnf_conf"
    elif was_absent "$dnf_conf" && [ "$(cat "$scratch/new.conf")" = "[main]" ]; then
        forget "$dnf_conf"
    else
        drop_path written "$dnf_conf"
    fi
}

# --- found later: the probe has this part too ---

excluded_names() {
    awk '/^\[/ { main = ($0 == "[main]") } main && /^(excludepkgs|exclude)[ \t]*=/ {
        sub(/^[^=]*=/, ""); gsub(/[ ,]+/, "\n"); print }' "$1"
}

# Called by the probe: lists the held packages.
list_hold() {
    # shellcheck disable=SC2016 # dpkg-query's own variables
    if command -v dpkg-query >/dev/null 2>&1; then
        held=$(timeout 5 dpkg-query -W -f '${db:Status-Want} ${Package}\n' "$@" 2>/dev/null |
            sed -n 's/^hold //p')
    else
        held=$(excluded_names "$root/etc/dnf/dnf.conf" 2>/dev/null)
    fi
}

found_hold() {
    has_line "$held" "$1"
}
