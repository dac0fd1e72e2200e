# Entries in apt's sources: written by these scripts, or by others for the same repository.
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

# find_entries URL SUITE COMPONENTS OURS: lists the files of others with an entry of this repository
# in the file `entries`, and the addresses that they make apt read in the file `offered`. apt itself
# reads the files, because their two formats have variables, comments, switches and options
# (sources.list(5)). `update --print-uris` connects to nothing.
find_entries() {
    : >"$scratch/entries" && : >"$scratch/offered"
    printf '%s' "$text" | sed '/^Signed-By:/d' >"$scratch/declared.sources"
    apt_addresses "$scratch/declared.sources" "$scratch/declared"
    place=${1#*://}
    for file in "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/*.list "$root"/etc/apt/sources.list.d/*.sources; do
        [ -r "$file" ] && [ "$file" != "$root$4" ] && grep -Fiq -e "${place%%/*}" "$file" || continue
        case ${file##*/} in
            *[!A-Za-z0-9_.-]*) continue ;; # apt ignores such names.
        esac
        apt_addresses "$file" "$scratch/addresses"
        grep '/InRelease$' "$scratch/declared" | grep -Fqx -f - "$scratch/addresses" || continue
        printf '%s\n' "$file" >>"$scratch/entries"
        cat -- "$scratch/addresses" >>"$scratch/offered"
    done
    apt_loads "$4"
    options_of_entries "$1" "$2"
}

# apt_loads OURS: fails if apt refuses the host's own sources, such as a broken line of another
# repository, or one repository with two keyrings. If the file OURS of these scripts exists, the
# checks of that file find such faults instead.
apt_loads() {
    [ ! -e "$scratch/apt-loads" ] && [ ! -e "$root$1" ] && [ -d "$root/etc/apt" ] || return 0
    bounded 60 apt-get update --print-uris -o "Dir::Etc::sourcelist=$root/etc/apt/sources.list" \
        -o "Dir::Etc::sourceparts=$root/etc/apt/sources.list.d" ||
        fail_act "apt can't read its sources: $(log_end); wanted sources that apt can read; correct the file that apt names"
    : >"$scratch/apt-loads"
}

# apt_addresses FILE RESULT: writes the addresses that apt reads because of a file with sources.
apt_addresses() {
    bounded 60 apt-get update --print-uris -o "Dir::Etc::sourcelist=$1" -o Dir::Etc::sourceparts=- ||
        fail "apt can't read ${1#"$root"}: $(log_end); wanted sources that apt can read; correct that file"
    sed -n "s/^'\\([^']*\\)' .*/\\1/p" "$scratch/log" >"$2"
}

# options_of_entries URL SUITE: writes what the entries say about the verification of this
# repository, which apt does not print: the keyring of the first entry to the file `signed-by`, and
# the files that switch the verification off to the file `unverified`.
options_of_entries() {
    : >"$scratch/signed-by" && : >"$scratch/unverified"
    architecture=$(dpkg --print-architecture)
    while IFS= read -r file; do
        awk -v url="$1" -v suite="$2" -v stanzas="${file##*.}" -v architecture="$architecture" \
            -v keyring="$scratch/signed-by" -v unverified="$scratch/unverified" '
            function plain(text) {
                gsub(/\$\(ARCH\)/, architecture, text)
                sub(/\/+$/, "", text)
                return text
            }
            function is_on(text) { return tolower(text) ~ /^(1|yes|true|with|on|enable)$/ }
            function option(name, value) {
                if (name == "signed-by") key = " " value
                if (name == "trusted" || name == "allow-insecure") open = is_on(value)
            }
            function entry() {
                if (key != "" && (getline n <keyring) <= 0) printf "%s", key >keyring
                close(keyring)
                if (open) print FILENAME >>unverified
            }
            function stanza(   list, n, here, there) {
                for (n = split(value["uris"], list, " "); n; n--) here = here || plain(list[n]) == plain(url)
                for (n = split(value["suites"], list, " "); n; n--) there = there || plain(list[n]) == plain(suite)
                gsub(/[ \t\n]/, "", value["enabled"])
                if (here && there && tolower(value["enabled"]) !~ /^(0|no|false|without|off|disable)$/) {
                    key = value["signed-by"]
                    gsub(/[ \t\n]/, "", value["trusted"])
                    gsub(/[ \t\n]/, "", value["allow-insecure"])
                    open = is_on(value["trusted"]) || is_on(value["allow-insecure"])
                    entry()
                }
                split("", value)
                field = ""
            }
            { sub(/\r$/, "") }
            /^[ \t]*#/ { next }
            stanzas == "sources" && /^[ \t]*$/ { stanza(); next }
            stanzas == "sources" && /^[ \t]/ { value[field] = value[field] "\n" $0; next }
            stanzas == "sources" {
                field = $0
                sub(/:.*/, "", field)
                field = tolower(field)
                text = $0
                sub(/^[^:]*:[ \t]*/, "", text)
                sub(/[ \t]+$/, "", text)
                value[field] = text == "" ? "" : " " text
                next
            }
            $1 == "deb" || $1 == "deb-src" {
                key = ""
                open = 0
                if (match($0, /\[[^]]*\]/)) {
                    options = substr($0, RSTART + 1, RLENGTH - 2)
                    $0 = substr($0, 1, RSTART - 1) substr($0, RSTART + RLENGTH)
                    for (n = split(options, list, " "); n; n--)
                        option(tolower(substr(list[n], 1, index(list[n], "=") - 1)), substr(list[n], index(list[n], "=") + 1))
                }
                sub(/#.*/, "")
                if (plain($2) == plain(url) && plain($3) == plain(suite)) entry()
            }
            END { if (stanzas == "sources") stanza() }' "$file" || fail_file "can't read $file"
    done <"$scratch/entries"
}

# lacks_components COMPONENTS: returns true if no other entry offers something of the declared
# repository to this host; sets `lacking` to the components that no entry offers.
lacks_components() {
    lacking=
    for component in $1; do
        grep "/$component/binary-$architecture/Packages" "$scratch/declared" | grep -Fqx -f - "$scratch/offered" ||
            lacking="$lacking $component"
    done
    lacking=${lacking# }
    # A flat repository has no components.
    [ -z "$1" ] || { [ -n "$lacking" ]; return; }
    ! grep '/Packages[^/]*$' "$scratch/declared" | grep -Fqx -f - "$scratch/offered"
}

# use_entries NAME URL: uses the entries of others unchanged, after checking that the declared key
# has signed their repository.
use_entries() {
    entries=$(cat "$scratch/entries")
    if [ -s "$scratch/unverified" ]; then
        read -r file <"$scratch/unverified"
        fail "repository $1 ($2): found an entry in ${file#"$root"} that is used unverified; wanted signature checks; remove the options trusted and allow-insecure from this entry"
    fi
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
    printf '%s\n' "$wanted" >"$state/draft" && mv -- "$state/draft" "$mark" || fail_file "can't write $mark"
    note "repository $1: the entry in ${file#"$root"} is used"
}

refuse_entries() {
    # shellcheck disable=SC2086 # a list of files, split on purpose
    fail "repository $1 ($2), which$(printf ' %s' $entries) has, is refused: $(log_end); correct the repository in the stack file"
}
