# Placed files: saved before the first change, written atomically by a rename, restored byte for
# byte.

make_directory() {
    [ -n "$1" ] || return 0
    [ -d "$root$1" ] && return 0
    make_directory "${1%/*}"
    record directories "$1"
    mkdir "$root$1" || fail_file "can't make the directory $1"
}

kept() {
    [ -e "$state/kept$1" ] || [ -L "$state/kept$1" ]
}

was_absent() {
    file_has "$state/absent" "$1"
}

# keep PATH: saves a copy of the file before its first change by these scripts.
keep() {
    kept "$1" && return 0
    was_absent "$1" && return 0
    if [ -e "$root$1" ] || [ -L "$root$1" ]; then
        [ ! -e "$state/draft" ] && [ ! -L "$state/draft" ] || rm -rf -- "$state/draft"
        { [ -d "$state/kept${1%/*}" ] || mkdir -p "$state/kept${1%/*}"; } && cp -a -- "$root$1" "$state/draft" &&
            mv -- "$state/draft" "$state/kept$1" || fail_file "can't keep a copy of $1 in $state"
    else
        printf '%s\n' "$1" >>"$state/absent" || fail_file "can't write $state/absent"
    fi
}

# drop_draft PATH: removes the draft of a killed run.
drop_draft() {
    [ ! -e "$root$1.gpu-cluster-new" ] && [ ! -L "$root$1.gpu-cluster-new" ] ||
        rm -f -- "$root$1.gpu-cluster-new"
}

# place PATH SOURCE: replaces PATH with the bytes of SOURCE, atomically, only if they differ.
place() {
    if [ -f "$root$1" ] && cmp -s -- "$2" "$root$1"; then
        stays "$1"
    else
        begin_draft "$1"
        cat -- "$2" >"$root$1.gpu-cluster-new" || fail_file "can't write $1.gpu-cluster-new"
        put_draft "$1"
    fi
}

# place_text PATH TEXT: replaces PATH with a text, atomically, only if it differs.
place_text() {
    if same_text "$1" "$2"; then
        stays "$1"
    else
        begin_draft "$1"
        printf '%s' "$2" >"$root$1.gpu-cluster-new" || fail_file "can't write $1.gpu-cluster-new"
        put_draft "$1"
    fi
}

# same_text PATH TEXT: returns true if the file exists and has exactly that text.
same_text() {
    [ -f "$root$1" ] && printf '%s' "$2" | cmp -s -- - "$root$1"
}

stays() {
    drop_draft "$1"
    digest "$root$1"
    record_written "$1"
}

# begin_draft PATH: saves the existing file and creates a draft with the same owner and mode.
begin_draft() {
    drop_draft "$1"
    make_directory "${1%/*}"
    keep "$1"
    [ ! -f "$root$1" ] || cp -pL -- "$root$1" "$root$1.gpu-cluster-new" || fail_file "can't write $1.gpu-cluster-new"
}

# put_draft PATH: records the draft before it replaces the file, so that an undo recognizes the
# file.
put_draft() {
    digest "$root$1.gpu-cluster-new"
    record_written "$1"
    mv -f -- "$root$1.gpu-cluster-new" "$root$1" || fail_file "can't write $1"
    did "$1"
}

# record_written PATH: adds a line with $digest and the path to the file `written`; of several lines
# for one path, the last one applies.
record_written() {
    earlier=
    if [ -r "$state/written" ]; then
        while read -r its_sum its_path; do
            [ "$its_path" != "$1" ] || earlier=$its_sum
        done <"$state/written"
    fi
    [ "$earlier" = "$digest" ] || printf '%s\n' "$digest  $1" >>"$state/written" ||
        fail_file "can't write $state/written"
}

# restore PATH: restores the file as it was before the first change. If somebody else has changed
# the file since, that version is saved in /var/lib/gpu-cluster/replaced.
restore() {
    drop_draft "$1"
    ! unchanged "$1" || return 0
    if [ -f "$root$1" ] && { kept "$1" || was_absent "$1"; } &&
        digest "$root$1" && ! file_has "$state/written" "$digest  $1" &&
        ! cmp -s -- "$root$1" "$state/kept$1"; then
        replaced=$root/var/lib/gpu-cluster/replaced
        (umask 077 && mkdir -p "$replaced${1%/*}") && cp -a -- "$root$1" "$replaced$1" ||
            fail_file "can't save the changed $1"
        note "$1 was changed by somebody else; that version is in /var/lib/gpu-cluster/replaced$1"
    fi
    if kept "$1"; then
        cmp -s -- "$root$1" "$state/kept$1" && [ ! -L "$state/kept$1" ] || undid "$1"
        cp -a -- "$state/kept$1" "$root$1.gpu-cluster-new" &&
            mv -f -- "$root$1.gpu-cluster-new" "$root$1" || {
            drop_draft "$1"
            fail_file "can't restore $1"
        }
    elif was_absent "$1" && [ -e "$root$1" ]; then
        rm -f -- "$root$1" || fail_file "can't remove $1"
        undid "$1"
    fi
}

# unchanged PATH: returns true if the file is still the one of which a copy was kept, with its owner,
# mode and times: a run was refused before it could replace the file.
unchanged() {
    [ -f "$root$1" ] && [ ! -L "$root$1" ] && [ -f "$state/kept$1" ] && [ ! -L "$state/kept$1" ] &&
        [ "$(stat -c '%a %u %g %y' "$root$1")" = "$(stat -c '%a %u %g %y' "$state/kept$1")" ] &&
        cmp -s -- "$root$1" "$state/kept$1"
}

# forget PATH: restores a file that is no longer needed, and no longer manages it.
forget() {
    kept "$1" || was_absent "$1" || return 0
    restore "$1"
    release "$1"
}

# release PATH: leaves the file as it is, and no longer manages it.
release() {
    rm -f -- "$state/kept$1"
    drop_path absent "$1"
    drop_path written "$1"
}

# drop_path NAME PATH: removes the lines of a path from a file of the state.
drop_path() {
    [ -f "$state/$1" ] || return 0
    awk -v path="$2" '{ line = $0; sub(/^[0-9a-f]+  /, "", line) } line != path' \
        "$state/$1" >"$state/draft" && mv -- "$state/draft" "$state/$1" || fail_file "can't write $state/$1"
}
