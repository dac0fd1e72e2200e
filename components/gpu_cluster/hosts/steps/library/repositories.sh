# Signed package repositories, and downloads that are verified before use. Sources: apt-secure(8),
# sources.list(5); dnf.conf(5), rpmkeys(8).

# each_repository COMMAND: calls COMMAND for each repository; a declaration with repositories
# redefines it.
each_repository() { :; }

# download URL SHA256 FILE: creates FILE only with that checksum. Each system has one of the three
# programs. A download by https never continues by http; apt-helper refuses such redirects itself
# (apt methods/basehttp.cc).
download() {
    url=$1 sum=$2 file=$3
    set -- -fsSL --retry 3 --connect-timeout 15
    case $url in https:*) set -- "$@" --proto =https --proto-redir =https ;; esac
    rm -f -- "$file.part"
    if have curl; then
        set -- bounded "$GC_PACKAGE_RUN_LIMIT" curl "$@" -o "$file.part" -- "$url"
    elif have wget; then
        set -- fetch_by_wget "$url" "$file.part"
    elif [ -x "$root/usr/lib/apt/apt-helper" ]; then
        set -- bounded "$GC_PACKAGE_RUN_LIMIT" "$root/usr/lib/apt/apt-helper" -o Acquire::Retries=3 \
            download-file "$url" "$file.part"
    else
        fail "found no curl, wget or apt-helper; wanted a program to download $url; install curl"
    fi
    "$@" || {
        printf '! %s\n' "$url can't be downloaded: $(log_end)"
        rm -f -- "$file.part"
        return 1
    }
    if ! has_digest "$file.part" "$sum"; then
        rm -f -- "$file.part"
        fail "$url: found sha256 $digest; wanted $sum, so the file was not run; correct the digest in the stack file, or find out who changed the file"
    fi
    mv -f -- "$file.part" "$file"
}

# fetch_by_wget URL FILE: downloads a file. wget has no option against redirects from https to http
# (its --https-only is about links), so this function follows the redirects.
fetch_by_wget() {
    location=$1 redirects=20
    until bounded "$GC_PACKAGE_RUN_LIMIT" wget -nv -S --max-redirect=0 --tries=3 --timeout=60 \
        -O "$2" -- "$location"; do
        target=$(sed -n 's/^ *[Ll]ocation: *\([^[:space:]]*\).*/\1/p' "$scratch/log" | tail -n 1)
        redirects=$((redirects - 1))
        [ -n "$target" ] && [ "$redirects" -gt 0 ] || return 1
        site=${location#*://}
        site=${location%%://*}://${site%%/*}
        case $target in
            *://*) ;;
            //*) target=${location%%://*}:$target ;;
            /*) target=$site$target ;;
            *)
                folder=${location#"$site"}
                folder=${folder%%[?#]*}
                target=$site${folder%/*}/$target
                ;;
        esac
        case $location,$target in
            https:*,https:* | http:*,http:* | http:*,https:*) location=$target ;;
            *)
                printf '%s\n' "a redirect to $target" >"$scratch/log"
                return 1
                ;;
        esac
    done
}

# --- repositories ------------------------------------------------------------------------------

# step_repository MANAGER STEP NAME ...: configures a repository, unless it is for the other package
# manager.
step_repository() {
    [ "$1" = "$manager" ] || return 0
    shift
    repository "$@"
}

# repository STEP NAME URL SUITE COMPONENTS KEY KEY_URLS KEY_SUMS SIGNED: configures a repository of
# the step. KEY is the armored text; if it is empty, KEY_URLS and KEY_SUMS, with equally many words,
# have the addresses and checksums of the keys. SIGNED (dnf): metadata, packages or both. apt
# verifies the metadata, which contain the packages' checksums.
repository() {
    [ "$1" = "$step" ] || return 0
    key="$6
"
    [ -n "$6" ] || fetch_keys "$2" "$7" "$8"
    if [ "$manager" = apt ]; then
        apt_repository "$2" "$3" "$4" "$5"
    else
        dnf_repository "$2" "$3" "$9"
    fi
}

# fetch_keys NAME URLS SUMS: sets `key` to all keys, concatenated.
fetch_keys() {
    key='' sums=$3
    mkdir -p "$state/keys"
    for address in $2; do
        sum=${sums%% *} sums=${sums#* }
        cached=$state/keys/$sum
        [ -f "$cached" ] || download "$address" "$sum" "$cached" || fail "the key of repository $1 can't be downloaded; correct the repository's key in the stack file"
        key="$key$(cat "$cached")
"
    done
}

# check_key_folder MANAGER STEP NAME URL SUITE COMPONENTS ...: reports a folder of keys in which apt's
# own user, who verifies the index (apt.conf(5), APT::Sandbox::User), can't open the key. An entry of
# somebody else keeps its own key. Public reports: kubermatic/kubeone#3940, docker/docker-install#276.
check_key_folder() {
    [ "$1" = "$manager" ] && [ "$manager" = apt ] && [ -d "$root/etc/apt/keyrings" ] || return 0
    case $(ls -ld "$root/etc/apt/keyrings") in ?????????[xt]*) return 0 ;; esac
    find_entries "$4" "$5" "$6" "/etc/apt/sources.list.d/gpu-cluster-$3.sources"
    [ -s "$scratch/entries" ] || problem "/etc/apt/keyrings, which apt's user _apt can't search" \
        "a folder in which apt can read the key of repository $3" "\`chmod 755 /etc/apt/keyrings\`"
}

apt_repository() {
    key_file=/etc/apt/keyrings/gpu-cluster-$1.asc
    source_file=/etc/apt/sources.list.d/gpu-cluster-$1.sources
    signed_by=" $key_file"
    source_text "$2" "$3" "$4"
    find_entries "$2" "$3" "$4" "$source_file"
    if [ -s "$scratch/entries" ]; then
        use_entries "$1" "$2"
        if ! lacks_components "$4"; then
            ! { kept "$source_file" || was_absent "$source_file"; } || forget "$source_file"
            return 0
        fi
        signed_by=$(cat "$scratch/signed-by")
        source_text "$2" "$3" "$lacking"
    fi
    pending=$state/repository-$1-pending
    same_text "$source_file" "$text" || : >"$pending"
    effect lists "$2"
    if [ ! -s "$scratch/entries" ]; then
        same_text "$key_file" "$key" || : >"$pending"
        step_file "$key_file" "$key"
    fi
    step_file "$source_file" "$text"
    [ -f "$pending" ] || return 0
    await_package_manager
    { apt_lists "$root$source_file" && bounded 60 apt-get indextargets; } || {
        why=$(log_end)
        forget "$source_file" # A source that fails would stop apt for every user of the host.
        fail "repository $1 ($2) is refused: $why; correct the repository in the stack file"
    }
    rm -f -- "$pending"
}

# apt_lists FILE OPTION...: updates the package index and fails on a wrong signature, because apt
# only prints a warning and keeps the old index.
apt_lists() {
    list=$1
    shift
    bounded "$GC_PACKAGE_RUN_LIMIT" apt-get update -q \
        -o "Dir::Etc::sourcelist=$list" -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0 \
        -o APT::Update::Error-Mode=any -o Acquire::Retries=2 -o Acquire::http::Timeout=30 "$@" &&
        ! grep -Eq '^(W|E|Err).*(GPG error|NO_PUBKEY|BADSIG|not signed|signature)' "$scratch/log"
}

undo_lists() {
    # apt names an index after its address without the scheme, with underscores for slashes.
    prefix=$(printf '%s' "${1#*://}" | sed 's|/*$||; s|_|%5f|g; s|/|_|g')
    rm -f -- "$root/var/lib/apt/lists/$prefix"_*
}

dnf_repository() {
    key_file=/etc/pki/rpm-gpg/RPM-GPG-KEY-gpu-cluster-$1
    source_file=/etc/yum.repos.d/gpu-cluster-$1.repo
    metadata=1 packages=1
    [ "$3" = packages ] && metadata=0
    [ "$3" = metadata ] && packages=0
    text="# gpu-cluster
[gpu-cluster-$1]
name=gpu-cluster $1
baseurl=$2
enabled=1
repo_gpgcheck=$metadata
gpgcheck=$packages
gpgkey=file://$key_file
sslverify=1
"
    pending=$state/repository-$1-pending
    same_text "$key_file" "$key" && same_text "$source_file" "$text" || : >"$pending"
    step_file "$key_file" "$key"
    step_file "$source_file" "$text"
    dnf_key "$key_file"
    [ -f "$pending" ] || return 0
    await_package_manager
    bounded "$GC_PACKAGE_RUN_LIMIT" dnf -y --disablerepo='*' --enablerepo="gpu-cluster-$1" \
        --setopt=skip_if_unavailable=0 --setopt=retries=2 --setopt=timeout=30 makecache --refresh || {
        why=$(log_end)
        forget "$source_file"
        fail "repository $1 ($2) is refused: $why; correct the repository in the stack file"
    }
    rm -f -- "$pending"
}

# The key that verifies packages is stored in rpm's database.
dnf_key() {
    known=$(sed -n "s|^$step key \([^ ]*\) $1\$|\1|p" "$state/effects" 2>/dev/null | tail -n 1)
    if [ -n "$known" ] && rpm -q "$known" >/dev/null 2>&1; then
        effect key "$known $1"
        return 0
    fi
    rpm -qa 'gpg-pubkey*' | sort >"$scratch/keys"
    bounded 60 rpmkeys --import "$root$1" || fail "$1 isn't a key that rpm can read: $(log_end); correct the repository's key in the stack file"
    for new in $(rpm -qa 'gpg-pubkey*' | sort | grep -Fvx -f "$scratch/keys"); do
        effect key "$new $1"
        did "rpm key $new"
    done
}

undo_key() {
    rpm -q "${1% *}" >/dev/null 2>&1 || return 0
    bounded 60 rpm -e "${1% *}" || fail_packages "rpm key ${1% *} can't be removed: $(log_end)"
    undid "rpm key ${1% *}"
}
