# Installs packages with the host's own package manager, apt or dnf. An undo keeps the packages,
# unless GC_REMOVE_PACKAGES is true; then it removes those that were not installed before. Sources:
# apt-get(8), dnf(8).

manager=
# Option for dnf to install the declared version even if somebody else has locked the package, as
# apt does with --allow-change-held-packages. The plugin's locks also apply with --disableexcludes
# (rpm-software-management/dnf-plugins-core 3677200, plugins/versionlock.py, sack).
unlocked=
# Option for dnf to see packages that somebody has excluded. dnf 5 has no --disableexcludes, takes
# the options of a command only behind its name, and ends no line of --qf by itself (dnf 5.4.6,
# dnf5-changes-from-dnf4(7)).
unhidden=--setopt=disable_excludes=main

require_manager() {
    [ -n "$manager" ] || problem "neither apt-get nor dnf" "one of them" "use a supported system"
}

package_lock_holder() {
    [ -r "$root/proc/locks" ] || return 0
    for file in /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/apt/lists/lock \
        /var/cache/apt/archives/lock /var/lib/rpm/.rpm.lock; do
        [ -e "$root$file" ] || continue
        awk -v inode=":$(stat -c %i "$root$file")" -v file="$file" '$2 != "->" &&
            substr($6, length($6) - length(inode) + 1) == inode { print file " held by process " $5; exit }' \
            "$root/proc/locks"
    done | head -n 1
}

await_package_manager() {
    waited=0
    while holder=$(package_lock_holder) && [ -n "$holder" ]; do
        [ "$waited" -lt "$GC_PACKAGE_LOCK_LIMIT" ] ||
            fail "$holder for $waited s; wanted no package manager at work; wait until it ends (unattended upgrades take minutes), then run again"
        sleep 1
        waited=$((waited + 1))
    done
}

# list_installed FILE: writes every installed package as `name version`, without the epoch.
list_installed() {
    installed_packages 60 | sort >"$1"
}

# matching NAME VERSION FILE: prints the first version in FILE that equals VERSION, with any
# release.
matching() {
    awk -v name="$1" -v want="$2" '$1 == name && (want == "" || $2 == want ||
        (index($2, want) == 1 && substr($2, length(want) + 1, 1) ~ /[-+~_]/)) { print $2; exit }' "$3"
}

# list_available NAME...: writes the versions in the repositories, newest first, as `name version`,
# to one file with and one without the epoch.
list_available() {
    if [ "$manager" = apt ]; then
        apt-cache madison -- "$@" 2>/dev/null | awk -F ' *[|] *' '{ sub(/^ +/, "", $1); print $1, $2 }'
    else
        timeout -k 10 "$GC_PACKAGE_RUN_LIMIT" dnf -q ${unlocked:+"$unlocked"} "$unhidden" repoquery --latest-limit=100 \
            --qf '%{name} %{epoch}:%{version}-%{release}\n' "$@" 2>/dev/null 9>&- | awk NF | sort -V -r
    fi >"$scratch/available"
    awk '{ sub(/^[0-9]+:/, "", $2); print $1, $2 }' "$scratch/available" >"$scratch/plain"
}

refresh_all() {
    await_package_manager
    if [ "$manager" = apt ]; then
        bounded "$GC_PACKAGE_RUN_LIMIT" apt-get update -q -o Acquire::Retries=2 -o Acquire::http::Timeout=30
    else
        bounded "$GC_PACKAGE_RUN_LIMIT" dnf -y --setopt=timeout=30 makecache --refresh
    fi || note "not every repository of this host could be read: $(log_end)"
}

# Completes an installation in which dpkg was killed, because apt refuses all work until then
# (apt-get(8): "dpkg was interrupted" as long as there is a journal).
end_interrupted() {
    [ "$manager" = apt ] && [ -n "$(ls -A "$root/var/lib/dpkg/updates" 2>/dev/null)" ] || return 0
    await_package_manager
    DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 bounded "$GC_PACKAGE_RUN_LIMIT" dpkg \
        --force-confdef --force-confold --configure -a || note "dpkg can't end what was interrupted: $(log_end)"
    did "dpkg: ended what was interrupted"
}

# Reinstalls the packages of a killed dnf, because rpm lists a package as installed before the
# package's script has run.
install_interrupted_again() {
    [ "$manager" = dnf ] || return 0
    list_new
    [ -s "$scratch/new" ] || return 0
    await_package_manager
    # shellcheck disable=SC2046 # a list of words, split on purpose
    bounded "$GC_PACKAGE_RUN_LIMIT" dnf -y ${unlocked:+"$unlocked"} "$unhidden" reinstall $(cat "$scratch/new") ||
        note "dnf can't install again what was interrupted: $(log_end)"
    did "dnf: installed again what was interrupted"
}

# Lists packages that were not installed before this step's installation, also if that was killed.
list_new() {
    [ -f "$state/before-$step" ] || {
        : >"$scratch/new"
        return 0
    }
    awk 'FNR == NR { before[$1] = 1; next } !before[$1] { print $1 }' \
        "$state/before-$step" "$scratch/installed" >"$scratch/new"
}

record_new() {
    list_new
    while IFS= read -r new; do
        effect package "$new"
    done <"$scratch/new"
}

# For an undo: records packages of an installation that was killed before it could record them.
record_killed() {
    for file in "$state"/before-*; do
        [ -f "$file" ] || continue
        step=${file##*/before-}
        end_interrupted
        list_installed "$scratch/installed"
        record_new
        rm -f -- "$file"
    done
}

# set_missing NAME[=VERSION]...: sets `missing` to the packages that are not installed at that
# version.
set_missing() {
    missing=
    for word in "$@"; do
        name=${word%%=*} version=${word#"$name"}
        [ -n "$(matching "$name" "${version#=}" "$scratch/installed")" ] || missing="$missing $word"
    done
}

# install_packages NAME[=VERSION]...: installs packages at these versions, with their dependencies.
install_packages() {
    end_interrupted
    list_installed "$scratch/installed"
    install_interrupted_again
    set_missing "$@"
    if [ -n "$missing" ]; then
        # shellcheck disable=SC2086 # a list of words, split on purpose
        set_exact $missing
        if [ ! -f "$state/before-$step" ]; then
            cp -- "$scratch/installed" "$state/draft" && mv -- "$state/draft" "$state/before-$step" ||
                fail_file "can't write $state/before-$step"
        fi
        # shellcheck disable=SC2086 # a list of words, split on purpose
        install_exact $exact
        cp -- "$scratch/installed" "$scratch/installed-before"
        list_installed "$scratch/installed"
        for line in $(grep -Fvx -f "$scratch/installed-before" "$scratch/installed" | tr ' ' '='); do
            did "package ${line%%=*} ${line#*=}"
        done
    fi
    # Also records packages of an earlier run that was killed after the installation.
    record_new
    grep -e "^$step package " "$state/effects" >>"$scratch/wanted" 2>/dev/null
    rm -f -- "$state/before-$step"
    for word in "$@"; do
        name=${word%%=*} version=${word#"$name"}
        found=$(matching "$name" "${version#=}" "$scratch/installed")
        [ -n "$found" ] || fail_packages "package $word is not installed after its installation"
        # Without a declared version, upgrades of the system may move the package; so they may move
        # the packages in `moving`.
        case ${moving-} in *" $name "*) version= ;; esac
        expect package "$name" "${version:+$found}"
    done
}

# set_exact NAME[=VERSION]...: sets `exact` to these packages with the repositories' full versions.
# The package manager needs the epoch, but versions are compared without it.
set_exact() {
    names=
    for word in "$@"; do
        names="$names ${word%%=*}"
    done
    # shellcheck disable=SC2086 # a list of words, split on purpose
    list_available $names
    all_available "$@" || {
        refresh_all
        # shellcheck disable=SC2086 # a list of words, split on purpose
        list_available $names
    }
    exact=
    for word in "$@"; do
        name=${word%%=*} version=${word#"$name"}
        version=${version#=}
        found=$(matching "$name" "$version" "$scratch/plain")
        [ -n "$found" ] || {
            offered=$(awk -v name="$name" '$1 == name { print $2 }' "$scratch/plain" | head -n 5 | paste -s -d ' ' -)
            fail "package $name${version:+ $version}: found ${offered:-none} in the repositories; wanted the package; declare a repository or mirror that has it, or another version$(epel_cure "$name")"
        }
        full=$(awk -v name="$name" -v found="$found" '{ plain = $2; sub(/^[0-9]+:/, "", plain) }
            $1 == name && plain == found { print $2; exit }' "$scratch/available")
        exact="$exact $name=$full"
    done
}

# RHEL and its rebuilds have no DKMS package (NVIDIA/yum-packaging-precompiled-kmod, README).
epel_cure() {
    [ "$1-$manager" != dkms-dnf ] || echo "; EPEL has it: install epel-release, or declare packages.repository"
}

all_available() {
    for word in "$@"; do
        version=${word#"${word%%=*}"}
        [ -n "$(matching "${word%%=*}" "${version#=}" "$scratch/plain")" ] || return 1
    done
}

# --- found later: the probe has this part too ---

# Sets $manager to the package manager that has installed this host's packages. RHEL-like systems may
# have dpkg, too, without packages of it (EPEL).
# shellcheck disable=SC2034 # callers read these variables
find_manager() {
    if command -v apt-get >/dev/null 2>&1 && command -v dpkg-query >/dev/null 2>&1; then
        manager=apt
    elif command -v dnf >/dev/null 2>&1 && command -v rpm >/dev/null 2>&1; then
        manager=dnf
        # dnf 5 has its locks in another file, and no option that lifts them.
        [ ! -s "$root/etc/dnf/plugins/versionlock.list" ] || unlocked=--disableplugin=versionlock
    fi
}

# installed_packages SECONDS [PATTERN...]: prints the installed packages whose names match a pattern,
# or all, as `name version`, without the epoch.
installed_packages() {
    its_limit=$1
    shift
    [ -n "${manager-}" ] || find_manager
    # shellcheck disable=SC2016 # dpkg-query's own variables
    if [ "${manager-}" = apt ]; then
        timeout "$its_limit" dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' "$@" 2>/dev/null |
            awk '$1 == "installed" { sub(/^[0-9]+:/, "", $3); print $2, $3 }'
    elif [ "${manager-}" = dnf ]; then
        timeout "$its_limit" rpm -qa --qf '%{NAME} %{VERSION}-%{RELEASE}\n' "$@" 2>/dev/null
    fi
}
