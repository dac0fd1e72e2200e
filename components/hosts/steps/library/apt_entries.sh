# Entries of apt's sources: those of these scripts, and those of others for the same repository.
# Sources: sources.list(5); apt accepts one keyring per repository, however many entries it has
# (apt-pkg/deb/debmetaindex.cc, "Conflicting values set for option").

# source_text URL SUITE COMPONENTS: sets `text` to a source entry, verified with the keyring in
# `signed_by`.
source_text() {
    text="# gpu-cluster
Types: deb
URIs: $1
Suites: $2
${3:+Components: $3
}${signed_by:+Signed-By:$signed_by
}"
}

# find_entries URL SUITE OURS: lists other entries of this repository in the file `entries`, as
# lines `<file>` and `<file> <component>`, and the keyring of the first entry in the file
# `signed-by`.
find_entries() {
    : >"$scratch/entries" && rm -f -- "$scratch/signed-by"
    for file in "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/*.list "$root"/etc/apt/sources.list.d/*.sources; do
        [ -r "$file" ] && [ "$file" != "$root$3" ] || continue
        awk -v url="$1" -v suite="$2" -v stanzas="${file##*.}" -v file="$file" -v keyring="$scratch/signed-by" '
            function plain(text) { sub(/\/+$/, "", text); return text }
            function say(words, key,  list, n) {
                if (!said++ && (getline n <keyring) < 0) printf "%s", key >keyring
                print file
                for (n = split(words, list); n; n--) print file, list[n]
            }
            function stanza() {
                if (uri && in_suite && on) say(words, key)
                uri = in_suite = 0; on = 1; words = key = field = ""
            }
            BEGIN { on = 1 }
            /^[ \t]*#/ { next }
            stanzas == "sources" && /^[ \t]*$/ { stanza(); next }
            stanzas == "sources" {
                value = $0
                if (/^[ \t]/) value = "\n" $0
                else { field = tolower($1); sub(/^[^:]*:[ \t]*/, " ", value) }
                if (field == "uris:") for (n = 1; n <= NF; n++) if (plain($n) == plain(url)) uri = 1
                if (field == "suites:") for (n = 1; n <= NF; n++) if ($n == suite) in_suite = 1
                if (field == "enabled:") on = ($NF != "no")
                if (field == "components:") words = words value
                if (field == "signed-by:") key = key value
                next
            }
            $1 == "deb" {
                key = ""
                if (match($0, /\[[^]]*\]/)) {
                    options = substr($0, RSTART + 1, RLENGTH - 2)
                    $0 = substr($0, 1, RSTART - 1) substr($0, RSTART + RLENGTH)
                    for (n = split(options, list); n; n--) if (sub(/^signed-by=/, "", list[n])) key = " " list[n]
                }
                words = ""
                for (n = 4; n <= NF; n++) words = words " " $n
                if (plain($2) == plain(url) && $3 == suite) say(words, key)
            }
            END { stanza() }' "$file" >>"$scratch/entries"
    done
}

# lacking_components COMPONENTS: prints the components that no other entry has.
lacking_components() {
    lacks=
    for component in $1; do
        awk -v wanted="$component" '$NF == wanted && NF > 1 { found = 1 } END { exit !found }' "$scratch/entries" ||
            lacks="$lacks $component"
    done
    echo "${lacks# }"
}

# use_entries NAME URL: uses other entries unchanged, after checking that the declared key has
# signed their repository.
use_entries() {
    entries=$(cut -d ' ' -f 1 "$scratch/entries" | uniq)
    for file in $entries; do
        ! grep -Eiq '(trusted|allow-insecure) *[=:] *yes' "$file" ||
            fail "repository $1 ($2): found an entry in ${file#"$root"} that is used unverified; wanted a signed one; remove trusted and allow-insecure there"
    done
    effect lists "$2"
    mark=$state/repository-$1-entry
    # shellcheck disable=SC2086 # a list of files, split on purpose
    wanted="$(cat $entries | sha256sum) $(printf '%s' "$key$text" | sha256sum)"
    [ "$(cat "$mark" 2>/dev/null)" != "$wanted" ] || return 0
    await_package_manager
    mkdir -p "$scratch/lists/partial"
    printf '%s' "$key" >"$scratch/key.asc"
    printf '%s' "$text" | sed "s|^Signed-By: .*|Signed-By: $scratch/key.asc|" >"$scratch/check.sources"
    apt_lists "$scratch/check.sources" -o "Dir::State::lists=$scratch/lists" -o APT::Sandbox::User=root ||
        refuse_entries "$1" "$2"
    for file in $entries; do
        apt_lists "$file" || refuse_entries "$1" "$2"
    done
    rm -rf -- "$scratch/lists"
    printf '%s\n' "$wanted" >"$state/draft" && mv -- "$state/draft" "$mark" || fail "can't write $mark"
    note "repository $1: the entry in ${file#"$root"} is used"
}

refuse_entries() {
    # shellcheck disable=SC2086 # a list of files, split on purpose
    fail "repository $1 ($2), which$(printf ' %s' $entries) has, is refused: $(log_end)"
}
