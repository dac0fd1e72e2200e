# The files of functions that phases were applied with: kept for their undo, gone with the last one.

uploaded=.gpu-cluster-steps

# Before the first change, for the undo of what it begins: from where they were read, which root alone
# can write.
take_steps() {
    [ ! -d "$state/draft" ] || rm -rf -- "$state/draft" # of a run that was killed
    # shellcheck disable=SC2154 # the loader sets it
    [ -n "${loaded-}" ] && [ "$from" != "${state%/*}/steps" ] || return 0
    (umask 077 && mkdir -p "${state%/*}/steps" && cp -R -- "$from" "$state/draft") ||
        fail "can't keep the steps in ${state%/*}/steps"
    set --
    for each in $loaded; do
        set -- "$@" "$state/draft/$each.sh"
    done
    mv -f -- "$@" "${state%/*}/steps" || fail "can't keep the steps in ${state%/*}/steps"
    rm -rf -- "$state/draft"
}

keep_steps() {
    [ -n "${loaded-}" ] || return 0
    keep_text steps "${loaded#?}"
    clear_steps
}

# What no phase needs any more.
clear_steps() {
    for file in "${state%/*}/steps"/*; do
        [ -f "$file" ] || continue
        name=${file##*/}
        for steps in "${state%/*}"/*/steps; do
            ! file_has "$steps" "${name%.sh}" || continue 2
        done
        rm -f -- "$file"
    done
}

drop_steps() {
    clear_steps
    rmdir -- "${state%/*}/steps" 2>/dev/null
    rmdir -- "${state%/*}" 2>/dev/null
    for file in "${state%/*}"/*/steps; do
        [ ! -f "$file" ] || return 0
    done
    rm -rf -- "./$uploaded"
}
