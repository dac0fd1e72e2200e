# Installs a pinned kernel and makes it the default boot entry. Sources: GRUB manual, "Simple
# configuration handling" (GRUB_DEFAULT accepts an entry's ID, with `>` between submenu and entry);
# Boot Loader Specification as in Fedora and RHEL 8+ (an entry is /boot/loader/entries/<id>.conf,
# named <machine id>-<release>); elrepo.org (kernel-lt, kernel-ml).

grub_file=/etc/default/grub

check_kernel() {
    require_manager
    [ -f "$root$grub_file" ] ||
        problem "no $grub_file" "GRUB, whose default entry can be set" \
            "boot by GRUB, or take kernel.release out and choose the kernel by other means"
    # Debian's grub-mkconfig reads these files after /etc/default/grub (grub-common 2.06-13+deb12u2,
    # grub-mkconfig).
    later=$(grep -l '^[[:space:]]*GRUB_DEFAULT=' "$root$grub_file.d"/*.cfg 2>/dev/null | tail -n 1)
    [ -z "$later" ] || have grub2-mkconfig ||
        problem "${later#"$root"}, which is read after $grub_file and sets GRUB_DEFAULT too" \
            "$grub_file as the last word on the kernel that boots" "take GRUB_DEFAULT out of it"
    boot_menu_tool >/dev/null ||
        problem "no update-grub, grub2-mkconfig or grub-mkconfig" "one of them" "install GRUB's tools"
    case $(efi_text LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f) in
        *systemd-boot*)
            problem "systemd-boot, which started this host and does not read $grub_file" "GRUB" \
                "take kernel.release out and choose the kernel by bootctl set-default"
            ;;
    esac
    [ ! -d "$root/sys/firmware/efi" ] || ! have grub2-mkconfig || [ -d "$root$esp" ] ||
        problem "no $esp on a host that its UEFI firmware starts" "the EFI system partition, whose grub.cfg may be the boot menu" \
            "mount it on /boot/efi"
}

fetch_kernel() {
    each_repository step_repository
    kernel_packages
    # shellcheck disable=SC2086 # a list of words, split on purpose
    fetch_packages $kernel_words
}

apply_kernel() {
    each_repository step_repository
    kernel_packages
    # shellcheck disable=SC2086 # a list of words, split on purpose
    install_packages $kernel_words
    # shellcheck disable=SC2086 # a list of words, split on purpose
    [ "$GC_KERNEL_HOLD" = false ] || hold_packages $kernel_held
    [ -e "$root/boot/vmlinuz-$GC_KERNEL_RELEASE" ] ||
        fail "found no /boot/vmlinuz-$GC_KERNEL_RELEASE after the installation of $kernel_words; wanted that kernel; correct kernel.release, which must be as uname -r prints it"
    boot_entry
    running=$(uname -r)
    if [ "$running" != "$GC_KERNEL_RELEASE" ]; then
        request_reboot "kernel $running runs, $GC_KERNEL_RELEASE is wanted"
    fi
}

# kernel_packages: sets `kernel_words` to the pinned kernel's packages, and `kernel_held` to the
# packages whose upgrade would install another kernel.
kernel_packages() {
    if [ "$manager" = apt ]; then
        kernel_words="linux-image-$GC_KERNEL_RELEASE linux-headers-$GC_KERNEL_RELEASE"
        list_installed "$scratch/installed"
        extra_modules
        kernel_held="$kernel_words $(newest_kernels)"
    else
        version=${GC_KERNEL_RELEASE%.*}
        kernel_words="$GC_KERNEL_FLAVOR=$version $GC_KERNEL_FLAVOR-devel=$version"
        # Each package that needs one kernel: dnf refuses all updates if it may update such a package
        # and not the kernel (kernel.spec of RHEL: kernel-modules-extra requires kernel-uname-r).
        kernel_held=$GC_KERNEL_FLAVOR
        for part in core modules modules-core modules-extra devel devel-matched; do
            kernel_held="$kernel_held $GC_KERNEL_FLAVOR-$part"
        done
        list_installed "$scratch/installed"
        kernel_held="$kernel_held $(awk -v name="$GC_KERNEL_FLAVOR-" -v held=" $kernel_held " '
            index($1, name) == 1 && substr($1, length(name) + 1) ~ /^(modules|uki|devel)-/ && !index(held, " " $1 " ") {
                print $1 }' "$scratch/installed" | sort -u | paste -s -d ' ' -)"
    fi
}

# Prints the distributions' packages for "the newest kernel"; upgrading them installs a new kernel.
# These are the metapackages of known flavors, and packages without a kernel's version in their name
# that depend on an image or headers, whatever the flavor is called.
newest_kernels() {
    {
        awk '$1 ~ /^linux-(image|headers)-([a-z]+-)?(amd64|arm64)$/ ||
            $1 ~ /^linux-(image-|headers-|modules-extra-)?(generic|virtual|lowlatency|oem|nvidia|aws|azure|gcp|gke|oracle|ibm|kvm)(-[a-z0-9.-]+)?$/ {
                print $1 }' "$scratch/installed"
        # shellcheck disable=SC2016 # dpkg-query's own variables
        dpkg-query -W -f '${db:Status-Status} ${Package} ${Depends}\n' 'linux-*' 'proxmox-*' 2>/dev/null |
            awk '$1 == "installed" && $2 !~ /-[0-9]+\.[0-9]+\.[0-9]+/ && / (linux|proxmox)-(image|headers|kernel)-/ { print $2 }'
    } | sort -u | paste -s -d ' ' -
}

# Ubuntu has many drivers of network cards and disks in a separate package. A host that boots a
# kernel without it may become unreachable (packages.ubuntu.com, linux-modules-extra-*-generic).
extra_modules() {
    extra=linux-modules-extra-$GC_KERNEL_RELEASE
    list_available "$extra"
    if [ -n "$(matching "$extra" "" "$scratch/installed")$(matching "$extra" "" "$scratch/plain")" ]; then
        kernel_words="$kernel_words $extra"
        return 0
    fi
    case $GC_KERNEL_RELEASE in
        *-generic | *-generic-64k | *-lowlatency)
            fail "kernel.release $GC_KERNEL_RELEASE: found no package $extra in the repositories; wanted this package, without which the kernel may not reach network and disks; declare a repository that has the package" ;;
    esac
}

# Prints the ID of the entry that boots GC_KERNEL_RELEASE, with the ID of its submenu.
entry_id() {
    for file in "$root/boot/loader/entries/"*"-$GC_KERNEL_RELEASE.conf"; do
        [ -f "$file" ] || continue
        file=${file##*/}
        echo "${file%.conf}"
        return 0
    done
    tool=$(boot_menu_tool)
    awk -v release="$GC_KERNEL_RELEASE" '
        function id(line) { match(line, /\$menuentry_id_option .[^ ]*/); line = substr(line, RSTART, RLENGTH)
            sub(/^.menuentry_id_option ./, "", line); sub(/.$/, "", line); return line }
        $1 == "submenu" { submenu = id($0) ">" }
        /^}/ { submenu = "" }
        $1 == "menuentry" { entry = submenu id($0); recovery = ($0 ~ /recovery/) }
        ($1 == "linux" || $1 == "linuxefi") && !recovery && !found {
            name = $2; sub(/.*\/vmlinuz-/, "", name)
            if (name == release && (best == "" || entry ~ />/)) best = entry }
        END { print best }' "$root${tool#* }" 2>/dev/null
}

boot_entry() {
    # The marker file is written before the menu, so that the next run completes a run that was killed.
    entry=$(entry_id)
    if [ -z "$entry" ]; then
        write_boot_menu
        entry=$(entry_id)
    fi
    [ -n "$entry" ] || fail_act "found no boot entry for kernel $GC_KERNEL_RELEASE in $(boot_menu_tool); wanted a boot entry for this kernel; check /boot"
    effect boot_menu default
    effect file "$grub_file"
    awk -v entry="$entry" '
        /^[ \t]*GRUB_DEFAULT=/ { if (!done) print "GRUB_DEFAULT=\"" entry "\""; done = 1; next }
        { print }
        END { if (!done) print "GRUB_DEFAULT=\"" entry "\"" }' "$root$grub_file" >"$scratch/grub" ||
        fail_file "can't read $grub_file"
    cmp -s -- "$scratch/grub" "$root$grub_file" || : >"$state/boot-menu-pending"
    place "$grub_file" "$scratch/grub"
}

boot_menu_tool() {
    if have grub2-mkconfig; then
        echo "grub2-mkconfig $(boot_menu)"
    elif have grub-mkconfig; then
        echo "grub-mkconfig /boot/grub/grub.cfg"
    else
        return 1
    fi
}

esp=/boot/efi/EFI

# Prints the menu that GRUB reads at a boot. UEFI firmware starts GRUB from a folder of the EFI
# system partition. On RHEL 8 and its rebuilds the grub.cfg there is the menu; from RHEL 9 on it only
# reads /boot/grub2/grub.cfg, and grub2-mkconfig refuses to replace it (rhboot/grub2,
# util/grub-mkconfig.in, "GRUB wrapper"; rhinstaller/anaconda#3151, oamg/convert2rhel#1444).
boot_menu() {
    menu=/boot/grub2/grub.cfg
    if [ -d "$root/sys/firmware/efi" ]; then
        file=$esp/$(efi_folder)/grub.cfg
        ! grep -Eqs '^[[:space:]]*(blscfg|menuentry|submenu|insmod blscfg)' "$root$file" || menu=$file
    fi
    echo "$menu"
}

# Prints the folder of the boot loader that the firmware started; if the firmware's variables don't
# name the folder, prints the folder that GRUB's package links to.
efi_folder() {
    number=$(od -An -t x1 -j 4 -N 2 "$root$efivars/BootCurrent-$global_variables" 2>/dev/null |
        tr -d '\n' | awk '{ print toupper($2 $1) }')
    folder=$(efi_text "Boot$number-$global_variables" | sed -n 's/.*\\[Ee][Ff][Ii]\\\([A-Za-z0-9_.-]*\)\\.*/\1/p' | head -n 1)
    for place in "$root$esp"/*/; do
        place=${place%/}
        [ "$(echo "${place##*/}" | tr '[:upper:]' '[:lower:]')" != "$(echo "$folder" | tr '[:upper:]' '[:lower:]')" ] ||
            [ ! -f "$place/grub.cfg" ] || {
            echo "${place##*/}"
            return 0
        }
    done
    readlink "$root/etc/grub2-efi.cfg" 2>/dev/null | sed -n 's|.*/EFI/\([^/]*\)/grub.cfg$|\1|p'
}

# UEFI 2.10, "Globally Defined Variables". A variable's file begins with four bytes of attributes,
# and texts are in UTF-16.
efivars=/sys/firmware/efi/efivars
global_variables=8be4df61-93ca-11d2-aa0d-00e098032b8c

efi_text() {
    [ ! -r "$root$efivars/$1" ] || tr -d '\000' <"$root$efivars/$1" | tr -c '[:print:]' '\n'
}

write_boot_menu() {
    tool=$(boot_menu_tool) || fail "found neither grub-mkconfig nor grub2-mkconfig; wanted one of the two; install GRUB's tools"
    rm -f -- "$root${tool#* }.new"
    bounded 300 "${tool%% *}" -o "$root${tool#* }" ||
        fail_act "the boot menu can't be written by ${tool%% *}: $(log_end); correct the file below /etc/default/grub or /etc/grub.d that it names, then run \`gpu-cluster up\` again"
    # grub-mkconfig leaves a menu with an error as a draft file, and some versions still exit with 0
    # (rhboot/grub2 05a8c872, util/grub-mkconfig.in).
    [ ! -e "$root${tool#* }.new" ] ||
        fail "found errors in the boot menu that ${tool%% *} makes ($(log_end)); wanted a boot menu without errors; correct $grub_file and /etc/grub.d"
    require_default "${tool#* }"
}

# require_default MENU: checks the menu itself, because other files may set the default after
# $grub_file, or write their own menu.
require_default() {
    [ -n "${entry-}" ] || return 0
    default=$(sed -n 's/^[[:space:]]*set default="\(.*\)"[[:space:]]*$/\1/p' "$root$1" |
        grep -v '^[$]{next_entry}$' | tail -n 1)
    [ "$default" = "$entry" ] ||
        fail_act "found the default '$default' in the boot menu $1; wanted '$entry', which boots $GC_KERNEL_RELEASE; check what sets GRUB_DEFAULT in $grub_file.d and in /etc/grub.d"
}

# Effects are undone in reverse order. The effect boot_menu is recorded before GRUB's settings file,
# so it is undone after that file.
undo_boot_menu() {
    : >"$state/boot-menu-pending"
}
