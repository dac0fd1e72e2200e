# Common part of the scripts for hosts: lock, state, undo.
#
# Every path is prefixed by GPU_CLUSTER_ROOT, which is empty on real hosts. The state of a phase is
# in /var/lib/gpu-cluster/<phase>/:
#   kept/<path>   the file as it was before the first change (cp -a)
#   absent        paths that did not exist before
#   directories   directories that these scripts created
#   written       SHA-256 and path of every file that these scripts placed
#   expected      values other than files that the probe must find
#   disrupts      applied settings that disrupt pods (disruption.sh)
#   settings      applied settings, as lines `<name> <words>` (script.py)
#   unfinished    exists while other settings are being applied
#   steps         script files that this phase was applied with, as <name>-<sha256>: they stay in
#                 /var/lib/gpu-cluster/steps (upload.py), because an undo reads them
# A setting that a declaration omits gets its default in the library, by `: "${GC_…:=…}"`. Draft
# files next to their target end in .gpu-cluster-new; the next run under the lock replaces or
# removes drafts of a killed run.
#
# Starting a process takes about 1 ms on a host, so work for every file and every line is done by
# the shell itself if the code stays as readable.

root=${GPU_CLUSTER_ROOT-}
: "${GC_LOCK_LIMIT:=300}" # seconds to wait for another script on the same host
# sudo's secure_path on RHEL lacks the folder in which K3s and others install programs (k3s#10175).
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

# fail_act TEXT: a failure whose cure, at the text's end, is an act on this host.
fail_act() {
    fail "$*"
}

# fail_file TEXT: a failure to read or write a file.
fail_file() {
    fail "$*; free space there (df), mount the file system for writing (mount -o remount,rw) or remove the file's attribute i (lsattr, chattr -i), then run \`gpu-cluster up\` again"
}

# fail_unit TEXT: a failure of systemd with a unit that the text names.
fail_unit() {
    fail "$*; correct what \`systemctl status\` and \`journalctl -u\` of that unit report, then run \`gpu-cluster up\` again"
}

# fail_packages TEXT: a failure of the package manager, whose own words are in the text.
fail_packages() {
    fail "$*; repair the packages (\`dpkg --configure -a\` and \`apt-get -f install\`, or \`dnf check\`), then run \`gpu-cluster up\` again"
}

# fail_kubeadm TEXT: a failure of kubeadm, whose own words are in the text.
fail_kubeadm() {
    fail "$*; correct what kubeadm names, or what \`journalctl -u kubelet\` and \`crictl ps -a\` show, then run \`gpu-cluster up\` again"
}

# fail_installer TEXT: a failure of an installer of NVIDIA, whose own log the text names.
fail_installer() {
    fail "$*; read the installer's log from its end, correct the first error there, then run \`gpu-cluster up\` again"
}

# fail_toolkit TEXT: a failure of nvidia-ctk, which reads and writes the engine's configuration.
fail_toolkit() {
    fail "$*; correct the engine's configuration file that it names, or update nvidia-container-toolkit, then run \`gpu-cluster up\` again"
}

# problem FOUND WANTED CURE: collects a problem, so that all problems are reported together.
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

# attempt WORDS COMMAND...: runs one part of an undo, so that the undo goes on if the part fails. WORDS
# name what then stays on the host; refuse_left reports it.
attempt() {
    part=$1
    shift
    (
        "$@"
        printf '%s\n' "$changed" >"$scratch/ended"
    )
    if [ -f "$scratch/ended" ]; then
        read -r changed <"$scratch/ended"
        rm -f -- "$scratch/ended"
        return 0
    fi
    printf '%s\n' "$part" >>"$scratch/left"
    return 1
}

# need PROGRAM: fails if a part of an undo lacks its program: what was recorded stays for a later undo.
need() {
    have "$1" || fail "found no command $1 on PATH; wanted $1, which the undo needs; install the package it is in, then run \`gpu-cluster destroy\` (or \`gpu-cluster up\`) again"
}

# refuse_left: fails if parts of an undo failed, and names them last.
refuse_left() {
    [ -s "$scratch/left" ] || return 0
    left=$(awk '!seen[$0]++ { list = list (list == "" ? "" : ", ") $0 } END { print list }' "$scratch/left")
    fail "the undo could not remove: $left (all else is undone); correct what the errors above name, then run \`gpu-cluster destroy\` (or \`gpu-cluster up\`) again"
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# ask SECONDS PROGRAM...: runs a program with a short task. Without garbage collection and with one
# thread a Go program needs two thirds of the time to start (containerd 1.6.20: 12 ms of processor
# time instead of 18).
ask() {
    GOGC=off GOMAXPROCS=1 timeout "$@"
}

# Allows one run at a time on a host, whatever its phase. The kernel releases the lock when the last
# process that holds it exits, so the lock is never stale.
lock() {
    have flock || fail "found no flock; wanted flock, which locks this host for one run; install the package util-linux"
    # Set the umask whatever the login user's umask is, because files in /etc must be readable for
    # all.
    umask 022
    [ -d "$root/run" ] || mkdir -p "$root/run"
    # Anyone who can open the file could hold the lock, so only its owner can.
    (umask 077 && : >>"$root/run/gpu-cluster.lock") && chmod 600 "$root/run/gpu-cluster.lock" ||
        fail_file "can't write /run/gpu-cluster.lock"
    exec 9>"$root/run/gpu-cluster.lock"
    flock -w "$GC_LOCK_LIMIT" 9 ||
        fail "another run held /run/gpu-cluster.lock for $GC_LOCK_LIMIT s; wait for it, or end it (fuser -v /run/gpu-cluster.lock names it)"
    [ ! -e "$scratch" ] || rm -rf -- "$scratch"
    (umask 077 && mkdir "$scratch") || fail_file "can't make $scratch"
    trap '[ $? != 1 ] || ! have roll_back || roll_back; rm -rf -- "$scratch"; drop_steps' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

open_state() {
    [ -d "$state" ] || (umask 077 && mkdir -p "$state") || fail_file "can't make $state"
}

# file_has FILE LINE: returns true if the file exists and has that line.
file_has() {
    [ -r "$1" ] || return 1
    while IFS= read -r its_line; do
        [ "$its_line" != "$2" ] || return 0
    done <"$1"
    return 1
}

# record NAME TEXT: adds a line to a file of the state, unless the file has it.
record() {
    file_has "$state/$1" "$2" || printf '%s\n' "$2" >>"$state/$1" || fail_file "can't write $state/$1"
}

# keep_text NAME TEXT: writes a file of the state atomically, only if its text differs.
keep_text() {
    keeps_text "$1" "$2" ||
        { printf '%s' "$2" >"$state/draft" && mv -- "$state/draft" "$state/$1"; } || fail_file "can't write $state/$1"
}

keeps_text() {
    same_text "${state#"$root"}/$1" "$2"
}

# digest FILE: sets $digest to the SHA-256 of the file.
digest() {
    digest=$(sha256sum <"$1") || fail_file "can't read $1"
    digest=${digest%% *}
}

has_digest() {
    digest "$1"
    [ "$digest" = "$2" ]
}

# request_reboot REASON: requests a reboot of the host; each reason is printed once. /run is empty
# after a boot. What a step of this phase needs a reboot for, its undo does not (drop_reboots).
request_reboot() {
    file=$root/run/gpu-cluster/reboot-required
    [ -z "${step-}" ] || [ -n "${undoing-}" ] || record reboots "$step $1"
    ! file_has "$file" "$1" || return 0
    mkdir -p "$root/run/gpu-cluster" && printf '%s\n' "$1" >>"$file" || fail_file "can't write $file"
    note "reboot needed: $1"
}

# drop_reboots STEP: takes back the reasons for a reboot that the step has requested.
drop_reboots() {
    [ -f "$state/reboots" ] || return 0
    sed -n "s/^$1 //p" "$state/reboots" >"$scratch/reasons"
    [ -s "$scratch/reasons" ] || return 0
    file=$root/run/gpu-cluster/reboot-required
    if [ -f "$file" ]; then
        grep -Fvx -f "$scratch/reasons" "$file" >"$scratch/still"
        if [ -s "$scratch/still" ]; then
            cat -- "$scratch/still" >"$file"
        else
            rm -f -- "$file"
        fi || fail_file "can't write $file"
    fi
    grep -v -e "^$1 " "$state/reboots" >"$scratch/reboots"
    cat -- "$scratch/reboots" >"$state/reboots" || fail_file "can't write $state/reboots"
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

# Records the script files for an undo. After a rollout, which may fail, the Pulumi state still has
# the previous declaration, whose undo reads the previous files; so a rollout only adds files. A
# script with inlined functions has no files.
# shellcheck disable=SC2154 # the loader sets it
keep_steps() {
    if [ -z "${GC_ROLLOUT-}" ]; then
        keep_text steps "${loaded+${loaded#?}}"
        return 0
    fi
    : >>"$state/steps"
    for each in ${loaded-}; do
        record steps "$each"
    done
}

# Marks that other settings are being applied. Meanwhile a difference on the host may be caused by
# this run; at any other time it is drift.
begin_settings() {
    find_settings
    [ -f "$state/settings" ] && ! keeps_text settings "$declaration" || return 0
    : >"$state/unfinished" || fail_file "can't write $state/unfinished"
}

keep_settings() {
    keep_text settings "$declaration"
    [ ! -e "$state/unfinished" ] || rm -f -- "$state/unfinished"
}

# Sets $declaration to the settings that the host records: GC_PLAIN names settings, GC_WORDED has
# lines for the other settings.
find_settings() {
    declaration=
    for name in ${GC_PLAIN-}; do
        words=
        eval "words=\$GC_$name" # The names come from the declaration, which also has the values.
        declaration="$declaration$name $words
"
    done
    declaration=$declaration${GC_WORDED-}
}

# The files were read before the lock, and another run that held the lock may have deleted them.
require_steps() {
    [ -z "${loaded-}" ] || [ -d "${state%/*}/steps" ] ||
        fail "found this program's scripts removed by another run that ended on this host; wanted the scripts, for the undo; run \`pulumi up\` again"
}

# Deletes the script files after the last phase is undone, or if the first phase was refused. A
# rollout keeps them, because it retries with the uploaded files.
drop_steps() {
    [ -z "${GC_ROLLOUT-}" ] || return 0
    for each in "${state%/*}"/*/; do
        case ${each%/} in
            */steps | */replaced | *'/*') ;;
            *) return 0 ;;
        esac
    done
    rm -rf -- "${state%/*}/steps"
    rmdir -- "${state%/*}" 2>/dev/null
}

main() {
    case ${1-} in
        apply)
            lock
            require_steps
            require_rollout
            begin_settings
            apply
            keep_expectations
            keep_disruption
            keep_settings
            keep_steps
            ;;
        fetch | upgrade)
            lock
            require_steps
            "$1"
            ;;
        undo)
            lock
            if [ -d "$state" ]; then
                undo
                close_state
            fi
            ;;
        *) fail "found the argument '${1-}'; wanted an action; name one of apply, fetch, upgrade and undo" ;;
    esac
    printf 'changed=%s\n' "$changed"
}
