# Common part of the scripts for hosts: lock, backups, files written whole, undo.
#
# Every path is prefixed by GPU_CLUSTER_ROOT, which is empty on real hosts. State of a phase lives
# in /var/lib/gpu-cluster/<phase>/:
#   kept/<path>   the file as it was before the first change (cp -a)
#   absent        paths that did not exist before
#   directories   directories that we made
#   written       sha256 and path of every text that we put in place
#   expected      what the probe must find besides files
#   disrupts      what it was applied with that disrupts pods (disruption.sh)
#   steps         the files of functions that this phase was applied with, as <name>-<sha256>
# What a declaration doesn't say has its default in the library, by `: "${GC_…:=…}"`.
# Draft files beside their target end in .gpu-cluster-new; the next run under the lock replaces
# or removes those that a killed run left.
#
# A process costs a host some 1 ms, so what is done for every file and every line is done by the shell
# itself where that stays as readable.

root=${GPU_CLUSTER_ROOT-}
: "${GC_LOCK_LIMIT:=300}" # seconds to wait for another script on the same host
# sudo's secure_path on RHEL lacks the folder where K3s and others put their programs (k3s#10175).
PATH=$PATH:$root/usr/local/sbin:$root/usr/local/bin:$root/usr/sbin:$root/usr/bin:$root/sbin:$root/bin
state=$root/var/lib/gpu-cluster/$GC_PHASE
scratch=$root/run/gpu-cluster-$GC_PHASE
changed=0
problems=

did() {
    changed=$((changed + 1))
    printf '+ %s\n' "$*"
}

undid() {
    changed=$((changed + 1))
    printf '%s\n' "- $*"
}

note() {
    printf '! %s\n' "$*"
}

fail() {
    printf 'error: host %s: %s\n' "$(uname -n)" "$*" >&2
    exit 1
}

# problem FOUND WANTED CURE: collected, so that all of them are told at once.
problem() {
    problems="$problems
error: host $(uname -n): found $1; wanted $2; $3"
}

refuse_problems() {
    [ -z "$problems" ] && return 0
    printf '%s\n' "${problems#?}" >&2
    [ "$changed" -gt 0 ] || printf 'nothing was changed on this host\n' >&2
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# ask SECONDS PROGRAM...: one that only answers. Without collector and on one thread a program of Go
# takes two thirds of the time to start (containerd 1.6.20: 12 ms of processor time, not 18).
ask() {
    GOGC=off GOMAXPROCS=1 timeout "$@"
}

# One run at a time on a host, whatever its phase. The kernel drops the lock when the last process
# that holds it ends, so it is never stale.
lock() {
    have flock || fail "found no flock; wanted it for the lock; install the package util-linux"
    umask 022 # whatever the user who logs in has: files of /etc are for all to read
    [ -d "$root/run" ] || mkdir -p "$root/run"
    # Who may open the file could hold the lock, so only its owner may.
    (umask 077 && : >>"$root/run/gpu-cluster.lock") && chmod 600 "$root/run/gpu-cluster.lock" ||
        fail "can't write /run/gpu-cluster.lock"
    exec 9>"$root/run/gpu-cluster.lock"
    flock -w "$GC_LOCK_LIMIT" 9 ||
        fail "another run held /run/gpu-cluster.lock for $GC_LOCK_LIMIT s; wait for it, or end it (fuser -v /run/gpu-cluster.lock names it)"
    [ ! -e "$scratch" ] || rm -rf -- "$scratch"
    (umask 077 && mkdir "$scratch") || fail "can't make $scratch"
    trap 'rm -rf -- "$scratch" "$root/run/gpu-cluster-steps.$$"' EXIT # the loader's copy too
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

open_state() {
    [ -d "$state" ] || (umask 077 && mkdir -p "$state") || fail "can't make $state"
    take_steps
}

# file_has FILE LINE: whether the file is there and has that line.
file_has() {
    [ -r "$1" ] || return 1
    while IFS= read -r its_line; do
        [ "$its_line" != "$2" ] || return 0
    done <"$1"
    return 1
}

# record NAME TEXT: remember a line, once.
record() {
    file_has "$state/$1" "$2" || printf '%s\n' "$2" >>"$state/$1" || fail "can't write $state/$1"
}

# keep_text NAME TEXT: a file of the state, with one rename, only where it differs.
keep_text() {
    keeps_text "$1" "$2" ||
        { printf '%s' "$2" >"$state/draft" && mv -- "$state/draft" "$state/$1"; } || fail "can't write $state/$1"
}

keeps_text() {
    [ -f "$state/$1" ] && printf '%s' "$2" | cmp -s -- - "$state/$1"
}

# request_reboot REASON: the host needs a boot; told once. /run is empty after it.
request_reboot() {
    file=$root/run/gpu-cluster/reboot-required
    ! file_has "$file" "$1" || return 0
    mkdir -p "$root/run/gpu-cluster" && printf '%s\n' "$1" >>"$file" || fail "can't write $file"
    note "reboot needed: $1"
}

make_directory() {
    [ -n "$1" ] || return 0
    [ -d "$root$1" ] && return 0
    make_directory "${1%/*}"
    record directories "$1"
    mkdir "$root$1" || fail "can't make the directory $1"
}

kept() {
    [ -e "$state/kept$1" ] || [ -L "$state/kept$1" ]
}

was_absent() {
    file_has "$state/absent" "$1"
}

# keep PATH: remember the file as it is, before its first change.
keep() {
    kept "$1" && return 0
    was_absent "$1" && return 0
    if [ -e "$root$1" ] || [ -L "$root$1" ]; then
        [ ! -e "$state/draft" ] && [ ! -L "$state/draft" ] || rm -rf -- "$state/draft"
        { [ -d "$state/kept${1%/*}" ] || mkdir -p "$state/kept${1%/*}"; } && cp -a -- "$root$1" "$state/draft" &&
            mv -- "$state/draft" "$state/kept$1" || fail "can't keep a copy of $1 in $state"
    else
        printf '%s\n' "$1" >>"$state/absent" || fail "can't write $state/absent"
    fi
}

# digest FILE: its SHA-256, as $digest.
digest() {
    digest=$(sha256sum <"$1") || fail "can't read $1"
    digest=${digest%% *}
}

has_digest() {
    digest "$1"
    [ "$digest" = "$2" ]
}

# drop_draft PATH: what a killed run left beside it.
drop_draft() {
    [ ! -e "$root$1.gpu-cluster-new" ] && [ ! -L "$root$1.gpu-cluster-new" ] ||
        rm -f -- "$root$1.gpu-cluster-new"
}

# place PATH SOURCE: give PATH the bytes of SOURCE, with one rename, only where they differ.
place() {
    if [ -f "$root$1" ] && cmp -s -- "$2" "$root$1"; then
        stays "$1"
    else
        begin_draft "$1"
        cat -- "$2" >"$root$1.gpu-cluster-new" || fail "can't write $1.gpu-cluster-new"
        put_draft "$1"
    fi
}

# place_text PATH TEXT: likewise.
place_text() {
    if same_text "$1" "$2"; then
        stays "$1"
    else
        begin_draft "$1"
        printf '%s' "$2" >"$root$1.gpu-cluster-new" || fail "can't write $1.gpu-cluster-new"
        put_draft "$1"
    fi
}

# same_text PATH TEXT: whether the file is there and holds that text.
same_text() {
    [ -f "$root$1" ] && printf '%s' "$2" | cmp -s -- - "$root$1"
}

stays() {
    drop_draft "$1"
    digest "$root$1"
    record_written "$1"
}

# begin_draft PATH: what is there is kept; the draft has its owner and mode.
begin_draft() {
    drop_draft "$1"
    make_directory "${1%/*}"
    keep "$1"
    [ ! -f "$root$1" ] || cp -pL -- "$root$1" "$root$1.gpu-cluster-new" || fail "can't write $1.gpu-cluster-new"
}

# put_draft PATH: recorded before it is there, so that an undo knows it as ours.
put_draft() {
    digest "$root$1.gpu-cluster-new"
    record_written "$1"
    mv -f -- "$root$1.gpu-cluster-new" "$root$1" || fail "can't write $1"
    did "$1"
}

# record_written PATH: with $digest; the last line of a path counts.
record_written() {
    earlier=
    if [ -r "$state/written" ]; then
        while read -r its_sum its_path; do
            [ "$its_path" != "$1" ] || earlier=$its_sum
        done <"$state/written"
    fi
    [ "$earlier" = "$digest" ] || printf '%s\n' "$digest  $1" >>"$state/written" ||
        fail "can't write $state/written"
}

# restore PATH: as it was before our first change. What somebody else wrote there since is not
# lost: it goes to /var/lib/gpu-cluster/replaced.
restore() {
    drop_draft "$1"
    if [ -f "$root$1" ] && { kept "$1" || was_absent "$1"; } &&
        digest "$root$1" && ! file_has "$state/written" "$digest  $1" &&
        ! cmp -s -- "$root$1" "$state/kept$1"; then
        replaced=$root/var/lib/gpu-cluster/replaced
        (umask 077 && mkdir -p "$replaced${1%/*}") && cp -a -- "$root$1" "$replaced$1" ||
            fail "can't save the changed $1"
        note "$1 was changed by somebody else; that version is in /var/lib/gpu-cluster/replaced$1"
    fi
    if kept "$1"; then
        cmp -s -- "$root$1" "$state/kept$1" && [ ! -L "$state/kept$1" ] || undid "$1"
        cp -a -- "$state/kept$1" "$root$1.gpu-cluster-new" &&
            mv -f -- "$root$1.gpu-cluster-new" "$root$1" || fail "can't restore $1"
    elif was_absent "$1" && [ -e "$root$1" ]; then
        rm -f -- "$root$1" || fail "can't remove $1"
        undid "$1"
    fi
}

# forget PATH: no longer wanted, so as it was before, and no longer ours.
forget() {
    kept "$1" || was_absent "$1" || return 0
    restore "$1"
    release "$1"
}

# release PATH: it stays as it is, and is no longer ours.
release() {
    rm -f -- "$state/kept$1"
    for name in absent written; do
        [ -f "$state/$name" ] || continue
        awk -v path="$1" '{ line = $0; sub(/^[0-9a-f]+  /, "", line) } line != path' \
            "$state/$name" >"$state/draft" && mv -- "$state/draft" "$state/$name" ||
            fail "can't write $state/$name"
    done
}

close_state() {
    if [ -f "$state/directories" ]; then
        sort -r "$state/directories" >"$scratch/directories"
        while IFS= read -r directory; do
            rmdir -- "$root$directory" 2>/dev/null && undid "$directory"
        done <"$scratch/directories"
    fi
    rm -rf -- "$state"
}

main() {
    case ${1-} in
        apply)
            lock
            require_rollout
            apply
            keep_expectations
            keep_disruption
            keep_steps
            ;;
        fetch | upgrade)
            lock
            "$1"
            ;;
        undo)
            lock
            if [ -d "$state" ]; then
                undo
                close_state
            fi
            drop_steps
            ;;
        *) fail "found the argument '${1-}'; wanted apply, fetch, upgrade or undo" ;;
    esac
    printf 'changed=%s\n' "$changed"
}
