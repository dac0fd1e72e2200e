# NVIDIA's self-extracting runfiles: taken from the first location that has them, verified, then
# run.

# have_runfile WHAT SHA256 LOCATIONS: sets `runfile` to the path of the verified file. LOCATIONS is
# a function (each_...) that lists paths on the host, addresses of mirrors and NVIDIA's address.
have_runfile() {
    cache=$root/var/cache/gpu-cluster
    runfile=$cache/$2.run
    (umask 077 && mkdir -p "$cache") && chmod 700 "$cache" || fail_file "can't make /var/cache/gpu-cluster"
    if [ ! -f "$runfile" ] || ! has_digest "$runfile" "$2"; then
        rm -f -- "$runfile"
        "$3" first_location "$1" "$2"
    fi
    [ -f "$runfile" ] || fail "the $1's installer is at none of its locations; correct the locations of the runfile in the stack file"
}

# first_location WHAT SHA256 LOCATION: gets the file from a location, unless an earlier location had
# it.
first_location() {
    [ ! -f "$runfile" ] || return 0
    case $3 in
        /*)
            [ -f "$root$3" ] || {
                note "no file $3 on this host"
                return 0
            }
            # Copy the file before hashing, because anyone who can write the declared path could
            # change it afterwards.
            (umask 077 && cp -- "$root$3" "$runfile.part") || fail_file "can't write $runfile.part"
            has_digest "$runfile.part" "$2" || {
                rm -f -- "$runfile.part"
                fail "$3: found sha256 $digest; wanted $2, so the file was not run; correct the digest or the file's address in the stack file"
            }
            mv -- "$runfile.part" "$runfile" || fail_file "can't write $runfile"
            ;;
        *) download "$3" "$2" "$runfile" || : ;;
    esac
}

undo_program() {
    [ "$GC_REMOVE_PACKAGES" = true ] || return 0
    [ -x "$root${1%% *}" ] || return 0
    # shellcheck disable=SC2086 # a program and its options
    bounded "$GC_PACKAGE_RUN_LIMIT" "$root"$1 || fail_installer "$1 failed: $(log_end)"
    if [ -e "$root${1%% *}" ]; then
        note "${1%% *} ended well and is still there, and maybe what it came with: $(log_end)"
    else
        undid "${1%% *}"
    fi
}
