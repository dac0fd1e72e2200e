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
            bounded 60 apt-mark hold "$name" || fail_packages "$name can't be held: $(log_end)"
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
        bounded 60 apt-mark unhold "$1" || fail_packages "the hold of $1 can't be removed: $(log_end)"
    else
        write_excludes "" "$1"
    fi
    undid "hold $1"
}

list_held() {
    held_packages 60 >"$scratch/held"
}

# write_excludes ADD REMOVE: changes `excludepkgs` in [main] of dnf's configuration file, which
# holds packages without the versionlock plugin. Words and lines of others stay unchanged, and others
# may change them, such as another phase with holds: the probe looks for the words of the holds.
write_excludes() {
    [ -f "$root$dnf_conf" ] && cat -- "$root$dnf_conf" >"$scratch/old.conf" || : >"$scratch/old.conf"
    awk -v add="$1" -v remove="$2" '
        function ours() { if (add != "" && !done) print "excludepkgs=" add eol; done = 1 }
        { line = $0; eol = sub(/\r$/, "", line) ? "\r" : "" }
        # A list that goes on in the next lines needs the line of its key.
        empty != "" { if (line ~ /^[ \t]+[^ \t]/) print empty; empty = "" }
        line ~ /^\[/ { if (main) ours(); main = (line ~ /^\[main\][ \t]*$/); seen = seen || main }
        main && line ~ /^(excludepkgs|exclude)[ \t]*=/ {
            head = line; sub(/=.*/, "=", head)
            rest = substr(line, length(head) + 1)
            if (add != "" && !done) {
                done = 1
                line = line (rest ~ /^[ \t]*$/ ? "" : " ") add
            } else if (remove != "") {
                words = " " rest " "
                gsub(/[,\t]/, " ", words)
                at = index(words, " " remove " ")
                if (at == 1) rest = substr(rest, length(remove) + 2)
                else if (at) rest = substr(rest, 1, at - 2) substr(rest, at + length(remove))
                line = head rest
                if (at && rest == "") { empty = line eol; next }
            }
            print line eol
            next
        }
        { print }
        END { if (!done && add != "") { if (!seen) print "[main]"; ours() } }' \
        "$scratch/old.conf" >"$scratch/new.conf" || fail_file "can't read $dnf_conf"
    place "$dnf_conf" "$scratch/new.conf"
    # The last line of the earlier file may have no end, and the file may have had no section.
    earlier=
    ! kept "$dnf_conf" || earlier=$(cat "$state/kept$dnf_conf")
    left=$(cat "$scratch/new.conf")
    if { kept "$dnf_conf" && [ "$left" = "$earlier" ]; } || [ "$left" = "${earlier:+$earlier
}[main]" ]; then
        forget "$dnf_conf"
    else
        drop_path written "$dnf_conf"
    fi
}

# --- found later: the probe has this part too ---

# excluded_names FILE: prints what the section main excludes. A list may go on in lines that begin
# with a blank.
excluded_names() {
    awk '{ sub(/\r$/, "") }
        /^\[/ { main = ($0 ~ /^\[main\][ \t]*$/); list = 0 }
        !(list && /^[ \t]+[^ \t]/) { list = main && sub(/^(excludepkgs|exclude)[ \t]*=/, "") }
        list { gsub(/[ \t,]+/, "\n"); print }' "$1" | sed '/^$/d'
}

# held_packages SECONDS [NAME...]: prints the held packages, of these or of all.
held_packages() {
    its_limit=$1
    shift
    [ -n "${manager-}" ] || find_manager
    # shellcheck disable=SC2016 # dpkg-query's own variables
    if [ "${manager-}" = apt ]; then
        timeout "$its_limit" dpkg-query -W -f '${db:Status-Want} ${Package}\n' "$@" 2>/dev/null |
            sed -n 's/^hold //p'
    elif [ -f "$root/etc/dnf/dnf.conf" ]; then
        excluded_names "$root/etc/dnf/dnf.conf"
    fi
}

# Called by the probe: lists the held packages.
list_hold() {
    held=$(held_packages 5 "$@")
}

found_hold() {
    has_line "$held" "$1"
}
