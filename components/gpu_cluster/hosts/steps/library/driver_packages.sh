# The driver from packages: package names, repository streams, and removal of earlier drivers.
# Sources: NVIDIA Driver Installation Guide r610, Kernel Modules, tables 5 and 6 (nvidia-open,
# cuda-drivers), Recent Updates, table 4 (names without branch from 590 on, on Ubuntu).

# Names of drivers that others package. They don't replace NVIDIA's packages, and have files of the
# same paths: RPM Fusion (nvidia-kmod.spec, xorg-x11-drv-nvidia.spec), ELRepo (nvidia-x11-drv.spec),
# negativo17 (dkms-nvidia.spec), Ubuntu's server branches (nvidia-graphics-drivers-580-server, control).
others_drivers='^(akmod-nvidia|xorg-x11-drv-nvidia|nvidia-x11-drv|dkms-nvidia)|-server($|-)'

# Prints installed packages of NVIDIA's kernel or user mode driver, without companions such as
# Fabric Manager, IMEX, NSCQ, NVSDM, the Container Toolkit and pinning packages.
earlier_packages() {
    list_installed "$scratch/installed"
    awk '$1 ~ /^nvidia-(tesla-|legacy-)?([0-9]+-)?(open|driver|dkms|kernel|kmod|headless|utils|compute-utils|persistenced|modprobe|settings|firmware|smi|alternative|xconfig|libXNVCtrl)/ ||
        $1 ~ /^(libnvidia-(tesla-)?([0-9]+-)?(cfg|common|compute|cuda|decode|encode|extra|fbc|gl|gpucomp|ml|egl|ptxjit)|libcuda1|kmod-nvidia|cuda-drivers|firmware-nvidia|xserver-xorg-video-nvidia)/ ||
        $1 ~ /^(akmod-nvidia|xorg-x11-drv-nvidia|nvidia-x11-drv|dkms-nvidia)/ { print $1 }' \
        "$scratch/installed" | grep -v -e '^nvidia-driver-pinning' -e '^cuda-drivers-fabricmanager'
}

# Prints driver packages that somebody else installed and that the declared driver would replace or
# stand beside: those of other packagers, and NVIDIA's in another version. Packages that have a version of
# their own (nvidia-settings, firmware) say nothing.
foreign_packages() {
    earlier_packages >"$scratch/earlier"
    awk -v version="$GC_DRIVER_VERSION" -v others="$others_drivers" '
        FNR == NR { earlier[$1] = 1; next }
        !earlier[$1] { next }
        $1 ~ others { print $1; next }
        version != "" && !(index($2, version) == 1 && substr($2, length(version) + 1, 1) ~ /^([-+~_].*)?$/) &&
            $1 ~ /^(nvidia-(tesla-|legacy-)?([0-9]+-)?(open|driver|dkms|kernel-(source|open|dkms)|headless|compute-utils)|libnvidia-(tesla-)?([0-9]+-)?(compute|ml)|libcuda1|kmod-nvidia|cuda-drivers)/ { print $1 }' \
        "$scratch/earlier" "$scratch/installed"
}

# Prints the branch of the declared driver, such as 580; nothing if no version is declared.
driver_branch() {
    echo "${GC_DRIVER_VERSION%%.*}"
}

# Prints the PCI ID of a GPU that open modules can't drive: older than Turing, from 0x1340 (Maxwell)
# to below 0x1e00. Source: NVIDIA/nvidia-installer 590.48.01, misc.c, pci_devid_gsp_unlikely.
older_gpu() {
    for device in "$root"/sys/bus/pci/devices/*; do
        [ -r "$device/vendor" ] && [ -r "$device/class" ] && [ -r "$device/device" ] || continue
        case $(cat "$device/vendor")-$(cat "$device/class") in
            0x10de-0x0300* | 0x10de-0x0302*) ;;
            *) continue ;;
        esac
        id=$(cat "$device/device")
        [ $((id)) -lt $((0x1340)) ] || [ $((id)) -ge $((0x1e00)) ] || {
            echo "$id"
            return 0
        }
    done
}

# Prints open or proprietary: as declared, else by the GPUs. Open modules exist since 515.43.04.
module_kind() {
    branch=$(driver_branch)
    if [ "$GC_DRIVER_MODULES" != auto ]; then
        echo "$GC_DRIVER_MODULES"
    elif [ -n "$(older_gpu)" ] || { [ -n "$branch" ] && [ "$branch" -lt 515 ]; }; then
        echo proprietary
    else
        echo open
    fi
}

check_module_kind() {
    old=$(older_gpu)
    branch=$(driver_branch)
    [ -n "$old" ] || return 0
    if [ "$GC_DRIVER_MODULES" = open ]; then
        problem "a GPU before Turing (PCI id $old)" "GPUs that open kernel modules can drive" \
            "declare driver.kernelModuleType: auto or proprietary"
    fi
    # Branch 590 no longer supports these GPUs (NVIDIA/nvidia-installer 590.48.01, nvGpus.h,
    # LegacyList).
    if [ -n "$branch" ] && [ "$branch" -ge 590 ]; then
        problem "a GPU before Turing (PCI id $old) with driver $GC_DRIVER_VERSION" \
            "a driver of branch 580 or earlier" "declare driver.version: 580.…"
    fi
}

# Sets `words` to the packages to install, and `away` to the packages to remove for them.
driver_words() {
    kind=$(module_kind)
    meta=nvidia-open
    [ "$kind" = open ] || meta=cuda-drivers
    words="$meta${GC_DRIVER_VERSION:+=$GC_DRIVER_VERSION}"
    debian_words
    away='' erasing=''
    list_installed "$scratch/installed"
    [ "$GC_DRIVER_REMOVE_EARLIER" != true ] || replace_earlier
}

# Downloads the driver with a pin that only this transaction sees: a pin in /etc would let an
# upgrade of the system install the new driver before the node is drained.
fetch_driver_packages() {
    driver_words
    if [ "$manager" = dnf ] && has_module nvidia-driver &&
        [ "$(enabled_stream nvidia-driver)" != "$(stream_of "$kind")" ]; then
        note "the driver is of another module stream: it is fetched when this host is drained"
        return 0
    fi
    if [ "$manager" = apt ] && [ -n "$GC_DRIVER_VERSION" ]; then
        pins=$scratch/preferences
        rm -rf -- "$pins"
        cp -R -- "$root/etc/apt/preferences.d" "$pins" 2>/dev/null || mkdir "$pins" || fail_file "can't make $pins"
        driver_pin >"$pins/gpu-cluster-driver" || fail_file "can't write in $pins"
    fi
    # shellcheck disable=SC2086 # a list of words, split on purpose
    fetch_packages $words
    away='' erasing='' pins=
}

driver_packages() {
    pin_driver
    enable_stream nvidia-driver "$(stream_of "$(module_kind)")"
    driver_words
    # shellcheck disable=SC2086 # a list of words, split on purpose
    fetch_packages $words
    if have nvidia-uninstall && [ "$GC_DRIVER_REMOVE_EARLIER" = true ]; then
        runfile_uninstall "$(command -v nvidia-uninstall)"
    fi
    # dnf replaces packages whose names conflict, and fails if only their files do.
    if [ "$manager" = dnf ] && [ -n "$away" ]; then
        going=$(printf '%s\n' "$away" | tr ' ' '\n' | grep -E -e "$others_drivers" | paste -s -d ' ' -)
        # shellcheck disable=SC2086 # a list of words, split on purpose
        [ -z "$going" ] || remove_packages $going
    fi
    # shellcheck disable=SC2086 # a list of words, split on purpose
    install_packages $words
    list_installed "$scratch/installed"
    for word in $away; do
        [ -z "$(matching "$word" "" "$scratch/installed")" ] || remove_packages "$word"
    done
    away='' erasing=''
    have nvidia-modprobe || install_packages "nvidia-modprobe${GC_DRIVER_VERSION:+=$GC_DRIVER_VERSION}"
    # Debian's dkms recommends linux-headers-amd64, which is installed after the pinned kernel's
    # step.
    if [ "$manager" = apt ] && [ "${GC_KERNEL_HOLD-}" = true ]; then
        list_installed "$scratch/installed"
        # shellcheck disable=SC2046 # a list of words, split on purpose
        hold_packages $(newest_kernels)
    fi
}

# Holds all packages that must have the driver's version: the driver's packages, fabric manager,
# IMEX and libraries, also beside a driver of a runfile. With the metapackage alone held, dnf refuses
# each upgrade of the system from the next release on (best=True, dnf.conf(5)), or moves fabric manager
# away from the driver (--nobest).
hold_driver() {
    [ "$GC_DRIVER_HOLD" != false ] || return 0
    list_installed "$scratch/installed"
    release=$GC_DRIVER_VERSION
    [ "$GC_DRIVER_SOURCE" != package ] ||
        release=$(awk -v name="${meta%% *}" '$1 == name { sub(/-[^-]*$/, "", $2); print $2; exit }' "$scratch/installed")
    # shellcheck disable=SC2046,SC2086 # lists of words, split on purpose
    hold_packages ${meta-} $(awk -v meta=" ${meta-} " -v release="${release:-none}" '
        !index(meta, " " $1 " ") && $1 ~ /nvidia|^cuda-drivers|^libcuda1$|^libnvsdm/ && index($2, release) == 1 &&
            substr($2, length(release) + 1, 1) ~ /[-+~_]/ { print $1 }' "$scratch/installed")
}

# Replaces an earlier driver: `away` is removed in the transaction that installs the new driver.
# Companion packages are installed in the new version, under their new name, if available.
replace_earlier() {
    erasing=--allowerasing
    earlier_packages >"$scratch/earlier"
    away=$(grep -E -e "$others_drivers" "$scratch/earlier" | paste -s -d ' ' -)
    [ -n "$GC_DRIVER_VERSION" ] || return 0
    companions >"$scratch/companions"
    # shellcheck disable=SC2046 # lists of words, split on purpose
    list_available $(cat "$scratch/earlier") $(awk '{ print $2, $3 }' "$scratch/companions")
    cp -- "$scratch/plain" "$scratch/offered"
    while IFS= read -r old; do
        ! recorded package "$old" && case " $away " in *" $old "*) false ;; esac || continue
        [ -z "$(matching "$old" "$GC_DRIVER_VERSION" "$scratch/installed")" ] || continue
        [ -n "$(matching "$old" "$GC_DRIVER_VERSION" "$scratch/offered")" ] || away="$away $old"
    done <"$scratch/earlier"
    while read -r old plain suffixed; do
        for new in $plain $suffixed; do
            [ -n "$(matching "$new" "$GC_DRIVER_VERSION" "$scratch/offered")" ] || continue
            words="$words $new=$GC_DRIVER_VERSION"
            [ "$new" = "$old" ] || away="$away $old"
            break
        done
    done <"$scratch/companions"
}

# Prints installed packages that fit only one driver version and have another than the declared one,
# as `name plain-name name-with-branch`.
companions() {
    awk -v version="$GC_DRIVER_VERSION" -v branch="$(driver_branch)" '
        $1 ~ /^(nvidia-fabricmanager|nvidia-imex|libnvidia-nscq|libnvsdm)(-[0-9]+)?$/ && index($2, version) != 1 {
            plain = $1; sub(/-[0-9]+$/, "", plain); print $1, plain, plain "-" branch }' "$scratch/installed"
}

# Pins the driver's packages: apt installs the newest dependencies even if they don't fit; dnf finds
# those that fit. The pin does not affect the toolkit's packages, which have other versions.
pin_driver() {
    [ "$manager" = apt ] && [ -n "$GC_DRIVER_VERSION" ] || return 0
    step_file /etc/apt/preferences.d/gpu-cluster-driver "$(driver_pin)
"
}

driver_pin() {
    echo "# gpu-cluster
Package: nvidia-* libnvidia-* libnvsdm* cuda-drivers* xserver-xorg-video-nvidia*
Pin: version $GC_DRIVER_VERSION-*
Pin-Priority: 1001"
}

# Prints the stream of NVIDIA's dnf repository: of the driver's branch, or of the newest driver.
stream_of() {
    branch=$(driver_branch)
    if [ "$1" != open ]; then
        echo "${branch:-latest}-dkms"
    elif [ -n "$branch" ]; then
        echo "$branch-open"
    else
        echo open-dkms
    fi
}

# Prints each installed package with what it needs, one need in a line.
package_needs() {
    if [ "$manager" = apt ]; then
        dpkg-query -W -f '${Package} ${Depends}, ${Pre-Depends}\n' | awk '{
            name = $1; $1 = ""; gsub(/\([^)]*\)/, "")
            count = split($0, each, /[,|]/)
            for (n = 1; n <= count; n++) { gsub(/ |:.*/, "", each[n]); if (each[n] != "") print name, each[n] } }'
    else
        rpm -qa --queryformat '[%{=NAME} %{REQUIRENAME}\n]'
    fi
}

# Prints the CUDA packages of NVIDIA's repository, by the list in "Removing CUDA Toolkit" of the CUDA
# Installation Guide; cuda-keyring is left out, because it is the repository's key. If a CUDA version
# is declared, packages with that version in their names stay, and all that they need: names such as
# nsight-compute-2020.1.2 don't say to which CUDA they belong.
cuda_packages() {
    package_needs >"$scratch/needs"
    awk -v stays="${GC_DRIVER_KEEP_CUDA-}" '
        function keep(name, each, count, n) {
            if (name in kept) return
            kept[name] = 1
            count = split(needs[name], each, " ")
            for (n = 1; n <= count; n++) keep(each[n])
        }
        BEGIN { gsub(/\./, "-", stays) }
        FILENAME != ARGV[2] { needs[$1] = needs[$1] " " $2; next }
        stays != "" && index($1 "-", "-" stays "-") { versioned[$1] = 1 }
        $1 == "cuda-keyring" { next }
        $1 ~ /^cuda($|-)/ || $1 ~ /^(nsight-|gds-tools)/ ||
        $1 ~ /^(lib)?(cublas|cufft|cufile|curand|cusolver|cusparse|npp|nvfatbin|nvjitlink|nvjpeg|nvvm)[a-z0-9]*(-|$)/ {
            listed[$1] = 1 }
        END {
            for (name in versioned) keep(name)
            for (name in listed) if (!(name in kept)) print name }' "$scratch/needs" "$scratch/installed"
}

# Removes the host's driver, because a driver container can't load its kernel module while the
# host's module is loaded.
driver_away() {
    earlier_packages >"$scratch/earlier"
    cuda_packages >>"$scratch/earlier"
    old=$(sort -u "$scratch/earlier" | paste -s -d ' ' -)
    uninstaller=$(command -v nvidia-uninstall)
    # The marker file is written first, so that a run that is killed after the removal still requests the
    # reboot later.
    [ -z "$old$uninstaller" ] || : >"$state/driver-away"
    [ -z "$uninstaller" ] || runfile_uninstall "$uninstaller"
    # shellcheck disable=SC2086 # a list of words, split on purpose
    [ -z "$old" ] || remove_packages $old
    [ -f "$state/driver-away" ] || return 0
    [ -z "$(driver_loaded)" ] || request_reboot "driver $(driver_loaded), which was removed, is still loaded"
    rm -f -- "$state/driver-away"
}

# Removes all earlier driver packages before a runfile is installed.
remove_earlier_packages() {
    earlier_packages >"$scratch/earlier"
    old=
    while IFS= read -r name; do
        recorded package "$name" || old="$old $name"
    done <"$scratch/earlier"
    # shellcheck disable=SC2086 # a list of words, split on purpose
    [ -z "$old" ] || remove_packages $old
}
