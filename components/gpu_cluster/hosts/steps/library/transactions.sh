# Installs and removes packages in one transaction of the package manager. Sources: apt-get(8),
# dnf(8).

# fetch_packages NAME[=VERSION]...: resolves and downloads packages with their dependencies, so that
# the packages they replace are only removed if the new ones are available.
fetch_packages() {
    list_installed "$scratch/installed"
    set_missing "$@"
    [ -n "$missing" ] || return 0
    # shellcheck disable=SC2086 # a list of words, split on purpose
    set_exact $missing
    # shellcheck disable=SC2086 # a list of words, split on purpose
    transaction download $exact ||
        fail "packages can't be downloaded ($exact), so nothing was removed: $(log_end); declare a repository that has them$(grep -q 'provides dkms' "$scratch/log" && epel_cure dkms)$(pin_cure "$@")"
}

install_exact() {
    list_held
    cp -- "$scratch/held" "$scratch/held-before"
    own_holds
    # shellcheck disable=SC2086 # a list of words, split on purpose
    [ -z "$own" ] || bounded 60 apt-mark unhold $own || fail_packages "the holds of $own can't be removed: $(log_end)"
    transaction install "$@" || {
        why="$(log_end)$(pin_cure "$@")"
        hold_again
        fail_packages "packages can't be installed ($*): $why"
    }
    hold_again
}

# pin_cure NAME[=VERSION]...: prints which preferences of apt name these packages, or others that apt
# misses for them; these decide which versions apt takes (apt_preferences(5)).
pin_cure() {
    [ "$manager" = apt ] || return 0
    set -- "$(printf '%s\n' "$@" | sed 's/=.*//')" "$(sed -n 's/.*Depends: \([^ ]*\).*/\1/p' "$scratch/log")"
    printf '%s\n' "$@" >"$scratch/names"
    set --
    for file in "$root/etc/apt/preferences" "$root"/etc/apt/preferences.d/*; do
        case $file in */gpu-cluster-*) continue ;; esac # the step's own pin
        [ ! -f "$file" ] || set -- "$@" "$file"
    done
    [ $# -gt 0 ] || return 0
    deciding=$(awk -v under="$root" '
        function matches(name, pattern) {
            if (pattern ~ /^\/.*\/$/) return name ~ substr(pattern, 2, length(pattern) - 2)
            sub(/:[a-z0-9]+$/, "", pattern)
            gsub(/[.+]/, "\\\\&", pattern)
            gsub(/\*/, ".*", pattern)
            gsub(/\?/, ".", pattern)
            return name ~ "^" pattern "$"
        }
        FILENAME == ARGV[1] { if ($0 != "") names[$0]; next }
        FNR == 1 || /^[[:space:]]*$/ { count = 0 }
        tolower($1) == "package:" { count = NF; for (i = 2; i <= NF; i++) word[i] = $i }
        tolower($1) == "pin-priority:" {
            for (name in names) for (i = 2; i <= count; i++) if (word[i] != "*" && matches(name, word[i])) {
                line = substr(FILENAME, length(under) + 1) " (Pin-Priority " $2 ")"
                if (!seen[line]++ && ++shown <= 3) print line
                next
            }
        }' "$scratch/names" "$@" | paste -s -d ' ' -)
    [ -z "$deciding" ] ||
        echo "; preferences of apt name these packages: $deciding; remove them there, or declare a version that they allow"
}

# own_holds: sets `own` to the packages that this step has held with apt, which must not keep them
# during the step's own transaction: apt neither upgrades nor removes a held package that the
# transaction needs but does not name (apt.conf(5), APT::Ignore-Hold).
own_holds() {
    own=
    [ "$manager" = apt ] || return 0
    list_held
    own=$(sed -n "s/^$step hold //p" "$state/effects" 2>/dev/null | grep -Fx -f "$scratch/held" | paste -s -d ' ' -)
}

# write_status: sets `dpkg_status` to a copy of dpkg's status without this step's holds, for a download
# that must leave the holds on the host unchanged; empty if the step has none.
write_status() {
    dpkg_status=
    own_holds
    [ -n "$own" ] || return 0
    dpkg_status=$scratch/dpkg-status
    awk -v own=" $own " '
        /^Package: / { mine = index(own, " " $2 " ") }
        mine && /^Status: hold / { sub(/hold/, "install") }
        { print }' "$root/var/lib/dpkg/status" >"$dpkg_status" || fail_file "can't write $dpkg_status"
}

# Holds packages again: apt removes the hold from a package that it installs in another version
# (apt-get(8), --allow-change-held-packages).
hold_again() {
    [ "$manager" = apt ] && [ -s "$scratch/held-before" ] || return 0
    list_held
    list_installed "$scratch/installed-now"
    lost=$(grep -Fvx -f "$scratch/held" "$scratch/held-before" |
        awk 'FNR == NR { there[$1] = 1; next } there[$1]' "$scratch/installed-now" - | paste -s -d ' ' -)
    # shellcheck disable=SC2086 # a list of words, split on purpose
    [ -z "$lost" ] || bounded 60 apt-mark hold $lost || fail_packages "$lost can't be held again: $(log_end)"
}

# `pins`: a folder with apt preferences that replaces the host's folder.
pins=

# transaction install|download NAME=VERSION...: runs one transaction, which also removes the
# packages in `away`; dnf finds these itself.
transaction() {
    await_package_manager
    only='' dpkg_status=''
    if [ "$manager" = apt ]; then
        if [ "$1" = download ]; then
            only=--download-only
            write_status
        fi
        shift
        for word in ${away-}; do
            set -- "$@" "$word-"
        done
        DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 bounded "$GC_PACKAGE_RUN_LIMIT" apt-get -q -y $only \
            ${dpkg_status:+-o "Dir::State::status=$dpkg_status"} ${pins:+-o "Dir::Etc::PreferencesParts=$pins"} -o "DPkg::Lock::Timeout=$GC_PACKAGE_LOCK_LIMIT" -o Dpkg::Options::=--force-confdef \
            -o Dpkg::Options::=--force-confold -o Acquire::Retries=2 -o Acquire::http::Timeout=30 \
            --allow-downgrades --allow-change-held-packages install -- "$@"
    else
        [ "$1" = install ] || only=--downloadonly
        shift
        for word in "$@"; do
            shift
            set -- "$@" "${word%%=*}-${word#*=}"
        done
        bounded "$GC_PACKAGE_RUN_LIMIT" dnf -y ${unlocked:+"$unlocked"} "$unhidden" --setopt=retries=2 \
            --setopt=timeout=30 install $only ${erasing:+"$erasing"} "$@"
    fi
}

# Only records the package: packages that need each other must be removed in one transaction, or apt
# fails ("pkgProblemResolver::Resolve generated breaks", apt-pkg/algorithms.cc).
undo_package() {
    printf '%s\n' "$1" >>"$scratch/unwanted"
}

remove_unwanted() {
    [ -s "$scratch/unwanted" ] || return 0
    mv -- "$scratch/unwanted" "$scratch/going"
    [ "$GC_REMOVE_PACKAGES" = true ] || return 0
    end_interrupted
    list_installed "$scratch/installed"
    running_kernel >"$scratch/running"
    ! grep -Fqx -f "$scratch/running" "$scratch/going" ||
        note "kernel $(uname -r) runs: its packages stay; boot another one to remove them"
    going=$(grep -Fvx -f "$scratch/running" "$scratch/going" |
        awk 'FNR == NR { there[$1] = 1; next } there[$1] && !seen[$1]++ { print $1 }' "$scratch/installed" - | paste -s -d ' ' -)
    keep_needed
    # shellcheck disable=SC2086 # a list of words, split on purpose
    [ -z "$going" ] || remove_packages $going
}

# Keeps packages that a remaining package needs: apt would remove the remaining package too, or fail
# if it is held. If another step owns the remaining package, that step takes the needed package over
# and removes it later; otherwise the needed package stays on the host.
keep_needed() {
    while [ -n "$going" ]; do
        # shellcheck disable=SC2086 # a list of words, split on purpose
        list_needed $going >"$scratch/needed"
        [ -s "$scratch/needed" ] || return 0
        while read -r name needer; do
            keeper=$(awk -v needer="$needer" '$2 == "package" && $3 == needer { print $1; exit }' "$state/effects")
            note "package $name stays: $needer needs it"
            [ -n "$keeper" ] || continue
            record effects "$keeper package $name"
            grep -Fvx -e "$keeper package $name" "$scratch/stale" >"$scratch/draft"
            mv -- "$scratch/draft" "$scratch/stale"
        done <"$scratch/needed"
        going=$(printf '%s\n' "$going" | tr ' ' '\n' | awk 'FNR == NR { stays[$1] = 1; next } !stays[$1]' "$scratch/needed" - | paste -s -d ' ' -)
    done
}

# list_needed NAME...: prints `<name> <remaining package that needs it>`, once for each name.
list_needed() {
    if [ "$manager" = apt ]; then
        # Parse dpkg's error message (dpkg 1.21.22, src/main/remove.c, deferred_remove).
        LC_ALL=C dpkg --no-act --abort-after=100000 --force-hold --remove -- "$@" 2>&1 | awk '
            { gsub(/:[a-z0-9-]+/, ":") }
            /^dpkg: dependency problems prevent removal of / { name = $NF; sub(/:+$/, "", name); next }
            /^dpkg: error|^$/ { name = "" }
            name != "" && $2 == "depends" { needer = $1; sub(/:$/, "", needer); print name, needer; name = "" }'
    else
        # Parse rpm's error message (rpm 00a9f51, lib/rpmprob.c, rpmProblemString).
        LC_ALL=C rpm -e --test -- "$@" 2>&1 | sed -n 's/^[[:space:]]*\([^ ]*\) .*is needed by (installed) \([^ ]*\)$/\1 \2/p' |
            while read -r capability needer; do
                needer=$(rpm -q --qf '%{NAME}\n' -- "$needer" | head -n 1)
                for name in $(rpm -q --qf '%{NAME}\n' --whatprovides "$capability" 2>/dev/null); do
                    echo "$name $needer"
                done
            done | awk 'BEGIN { for (n = 1; n < ARGC; n++) going[ARGV[n]] = 1; ARGC = 1 } going[$1] && !seen[$1]++' "$@"
    fi
}

# Prints the packages of the running kernel. apt removes them without a question (linux-base
# 4.12.1~deb12u1, linux-check-removal, if DEBIAN_FRONTEND is noninteractive), and may leave nothing
# to boot; dnf refuses (dnf.conf(5), protect_running_kernel).
running_kernel() {
    if [ "$manager" = apt ]; then
        awk -v end="-$(uname -r)" '$1 ~ /^linux-(image|modules)/ &&
            substr($1, length($1) - length(end) + 1) == end { print $1 }' "$scratch/installed"
    else
        running=$(uname -r)
        installed_packages 60 'kernel*' | awk -v release="${running%.*}" '$2 == release && $1 !~ /-(devel|headers)$/ { print $1 }'
    fi
}

# remove_packages NAME...: removes these packages and those that depend on them, but no dependency
# that is still needed.
remove_packages() {
    await_package_manager
    if [ "$manager" = apt ]; then
        DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 bounded "$GC_PACKAGE_RUN_LIMIT" apt-get -q -y \
            -o "DPkg::Lock::Timeout=$GC_PACKAGE_LOCK_LIMIT" --allow-change-held-packages remove --purge -- "$@"
    else
        bounded "$GC_PACKAGE_RUN_LIMIT" dnf -y "$unhidden" --setopt=clean_requirements_on_remove=0 \
            remove "$@"
    fi || fail_packages "packages can't be removed ($*): $(log_end)"
    for name in "$@"; do
        undid "package $name"
    done
}

# --- found later: the probe has this part too ---

# Called by the probe: lists installed packages.
list_package() {
    listed=$(installed_packages 5 "$@")
}

# found_package NAME [VERSION]: returns true if the package is installed, in that version if one is
# declared.
found_package() {
    if [ -n "${2-}" ]; then
        has_line "$listed" "$1 $2"
        return
    fi
    case "
$listed" in
        *"
$1 "*) return 0 ;;
    esac
    return 1
}

# has_line LINES LINE: returns true if a text has the line, without starting a process, because the
# probe calls it often.
has_line() {
    case "
$1
" in
        *"
$2
"*) return 0 ;;
    esac
    return 1
}
