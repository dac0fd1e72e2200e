# Docker's data: choice of a storage driver that the file system supports, and move to another
# folder.

# Sets data_from to the folder of the daemon's data, and data_to to the desired folder.
data_root_now() {
    data_from=$(value_of data-root "$scratch/current.json")
    data_from=${data_from:-${flag_data:-/var/lib/docker}}
    data_to=${flag_data:-$GC_DOCKER_DATA_ROOT}
    [ -n "$data_to" ] || data_to=$(value_of data-root "$scratch/original.json")
    data_to=${data_to:-/var/lib/docker}
}

existing_part() {
    path=$1
    while [ ! -d "$root$path/" ]; do path=${path%/*}; done
    printf '%s' "${path:-/}"
}

# Chooses overlay2 if the data root's file system supports it and no images of another driver would
# be hidden.
choose_storage() {
    storage=
    [ "$GC_DOCKER_STORAGE" = overlay2 ] || return 0
    case $flag_storage in
        '') ;;
        overlay2) return 0 ;;
        *) note "Docker's storage driver stays $flag_storage: a flag in the unit docker says so" && return 0 ;;
    esac
    current=$(docker_says '{{.Driver}}')
    below=$(stat -f -c %T "$root$(existing_part "$data_to")" 2>/dev/null)
    if [ -n "$current" ] && [ "$current" != overlay2 ] && [ -n "$(timeout 60 docker images -q 2>/dev/null | head -n 1)" ]; then
        note "Docker's storage driver stays $current: with overlay2 the images that it has would be hidden"
    elif ! grep -qw overlay "$root/proc/filesystems"; then
        note "Docker's storage driver stays ${current:-its own choice}: this kernel has no overlay file system"
    elif [ "$below" = xfs ] && have xfs_info && xfs_info "$root$(existing_part "$data_to")" 2>/dev/null | grep -q 'ftype=0'; then
        note "Docker's storage driver stays ${current:-its own choice}: xfs of $data_to was made with ftype=0"
    else
        case $below in
            ext2/ext3 | xfs | btrfs | tmpfs | f2fs) storage=overlay2 ;;
            *)
                if [ "$current" = overlay2 ]; then
                    problem "$below below $data_to" "a file system that overlay2, which Docker's data are in, works on" \
                        "choose another data root, on ext4 or xfs"
                else
                    note "Docker's storage driver stays ${current:-its own choice}: overlay2 does not work on $below ($data_to)"
                fi
                ;;
        esac
    fi
}

same_device() {
    [ "$(stat -c %d "$root$1")" = "$(stat -c %d "$root$(existing_part "${2%/*}")")" ]
}

before_files() {
    if [ -f "$state/moving" ]; then
        read -r data_from data_to <"$state/moving"
    elif [ "$data_from" = "$data_to" ] || [ ! -d "$root$data_from" ]; then
        return 0
    fi
    [ -f "$state/data-root" ] || printf '%s\n' "$data_from" >"$state/data-root"
    move_data "$data_from" "$data_to"
    action=restart
    mark_pending
    did "Docker's data: $data_from -> $data_to"
}

# move_data FROM TO: renames the folder on the same file system, else copies it and keeps the old
# data until the daemon runs with the new data. A killed move is continued by the next run.
move_data() {
    printf '%s %s\n' "$1" "$2" >"$state/draft" && mv -- "$state/draft" "$state/moving" ||
        fail_file "can't write $state/moving"
    timeout 300 systemctl stop docker.socket docker >/dev/null 2>&1
    systemctl is-active --quiet docker && fail "Docker can't be stopped, so its data were not moved from $1; stop it (systemctl stop docker.socket docker), then run \`gpu-cluster up\` again"
    [ -d "$root$1" ] && [ ! -f "$state/moved" ] || return 0
    rmdir -- "$root$2" 2>/dev/null
    make_directory "${2%/*}"
    if [ -d "$root$2" ]; then # The target is a mount point.
        cp -a -- "$root$1/." "$root$2/"
    elif same_device "$1" "$2" && mv -T -- "$root$1" "$root$2" 2>/dev/null; then
        return 0
    else
        rm -rf -- "$root$2.gpu-cluster-new"
        cp -a -- "$root$1" "$root$2.gpu-cluster-new" && mv -T -- "$root$2.gpu-cluster-new" "$root$2"
    fi && : >"$state/moved" || {
        remove_data "$2.gpu-cluster-new"
        remove_data "$2"
        rm -f -- "$state/moving"
        systemctl start docker >/dev/null 2>&1 9>&-
        fail "Docker's data can't be copied to $2, so they were not moved from $1; free space for $2 (df), then run \`gpu-cluster up\` again"
    }
}

# remove_data PATH: deletes a folder, but never /, whatever the files of the state contain. A mount
# point is only emptied.
remove_data() {
    case $1 in
        /?*) rm -rf -- "$root$1" 2>/dev/null ;;
    esac
    [ -z "$(ls -A "$root$1" 2>/dev/null)" ] || note "$1 can't be removed"
}

files_back() {
    [ -f "$state/moving" ] || return 0
    read -r data_from data_to <"$state/moving"
    timeout 300 systemctl stop docker.socket docker >/dev/null 2>&1
    if [ ! -d "$root$data_from" ]; then
        mv -T -- "$root$data_to" "$root$data_from" || fail_act "Docker's data can't be moved back from $data_to to $data_from; free space for $data_from, stop what uses $data_to (fuser -vm $data_to), then run \`gpu-cluster up\` again"
    else
        remove_data "$data_to"
    fi
    rm -f -- "$state/moving" "$state/moved"
}

# Deletes the old data once the daemon runs with the new data.
settled() {
    [ -f "$state/moving" ] || return 0
    read -r data_from data_to <"$state/moving"
    [ ! -d "$root$data_from" ] || remove_data "$data_from"
    rm -f -- "$state/moving" "$state/moved"
}
