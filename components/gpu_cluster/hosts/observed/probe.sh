#!/bin/sh
# Prints facts about a host as key=value lines. The script changes nothing. Every path is prefixed by
# GPU_CLUSTER_ROOT, which is empty on real hosts. Some keys occur several times (drift, digest).
root=${GPU_CLUSTER_ROOT-}
# The same PATH as in base.sh.
PATH=$PATH:$root/usr/local/sbin:$root/usr/local/bin:$root/usr/sbin:$root/usr/bin:$root/sbin:$root/bin

# say KEY VALUE: adds a line to $told, which is printed at the end, because each write is sent as a
# separate network packet. The inspection waits for the slowest host, so the probe starts as few
# processes as possible.
told=
say() {
    key=$1
    set -f
    IFS='
'
    # shellcheck disable=SC2086 # split at line ends
    set -- $2
    IFS=' '
    told="$told$key=$*
"
    unset IFS
    set +f
}

unquoted() {
    value=${1#[\"\']}
    value=${value%[\"\']}
}

nvidia_devices() {
    count_nvidia_devices
    say nvidia_devices "$count"
    say nvswitches "$switches"
}

# first FILE: sets $line to the file's first line, or to "-" if the file can't be read.
first() {
    line=
    [ ! -r "$1" ] || read -r line 2>/dev/null <"$1" || :
    line=${line:--}
}

# Prints gpu=ADDRESS WIDTH WIDEST SPEED FASTEST NUMA IOMMU ACS for each GPU. Sources: Linux,
# Documentation/ABI/testing/sysfs-bus-pci and sysfs-kernel-iommu_groups (type).
gpus() {
    for device in "$root"/sys/bus/pci/devices/*; do
        first "$device/vendor"
        [ "$line" = 0x10de ] || continue
        first "$device/class"
        case $line in 0x0300* | 0x0302*) ;; *) continue ;; esac
        set --
        for name in current_link_width max_link_width current_link_speed max_link_speed \
            numa_node iommu_group/type; do
            first "$device/$name"
            set -- "$@" "${line%% *}"
        done
        [ ! -e "$root/sys/bus/pci/drivers/vfio-pci/${device##*/}" ] || say leftover "vfio-pci ${device##*/}"
        find_redirected "$device"
        say gpu "${device##*/} $* $redirected"
    done
}

# Prints uuid=UUID for each GPU that the driver found, also for those that it excludes
# (NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/nv-procfs.c, nv_procfs_read_gpu_info).
uuids() {
    for file in "$root"/proc/driver/nvidia/gpus/*/information; do
        [ -r "$file" ] || continue
        while read -r name kind value _; do
            [ "$name $kind" != "GPU UUID:" ] || say uuid "$value"
        done <"$file"
    done
}

# find_redirected DEVICE: sets $redirected to the number of bridges above a device that redirect
# peer-to-peer traffic to the root: bits 2 and 3 of ACS control, extended capability 0xd (Linux,
# include/uapi/linux/pci_regs.h). Only root can read the registers; "-" if one can't be read.
find_redirected() {
    redirected=-
    cd -P "$1" 2>/dev/null || return 0
    path=$PWD
    cd /
    set --
    while path=${path%/*} && [ -r "$path/config" ]; do
        set -- "$@" "$path/config"
    done
    [ $# -eq 0 ] || redirected=$(count_redirecting "$@")
}

count_redirecting() {
    for file; do
        od -An -v -t u1 -w4096 -N 4096 "$file"
    done | awk '
        NF < 4096 { short = 1; next }
        {
            at = 256
            for (hops = 0; at >= 256 && hops < 64; hops++) {
                if ($(at + 1) + 256 * $(at + 2) == 13) { if (int($(at + 7) / 4) % 4) count++; break }
                at = int($(at + 3) / 16) + 16 * $(at + 4)
            }
        }
        END { print short ? "-" : count + 0 }'
}

# Prints rdma=NAME STATE... for each InfiniBand and RoCE device with the state of each port. Devices
# in front of NVSwitches (steps/library/fabric.sh) are skipped, because they carry no pod's traffic.
rdma() {
    for device in "$root"/sys/class/infiniband/*; do
        [ -d "$device/ports" ] || continue
        ! is_switch_manager "$device/device" || continue
        set --
        for port in "$device"/ports/*; do
            first "$port/state"
            set -- "$@" "${line##* }"
        done
        say rdma "${device##*/} $*"
    done
    for module in nvidia_peermem nv_peer_mem; do
        [ ! -d "$root/sys/module/$module" ] || say peermem yes
    done
    ! has_open_modules || say open_modules yes
}

# Prints memory=BUS_ID,ECC and rows=BUS_ID,PENDING,FAILURE for each GPU, from nvidia-smi
# (--help-query-gpu, --help-query-remapped-rows), or nvidia_smi=STATUS TEXT if it fails. Also prints
# installed=VERSION, the version of the module that the next boot loads. These programs may take
# seconds, so they run in the background.
memory() {
    [ -r "$root/proc/driver/nvidia/version" ] && command -v nvidia-smi >/dev/null 2>&1 || return 0
    csv=--format=csv,noheader
    {
        its_answer=$(ask 5 nvidia-smi --query-gpu=pci.bus_id,ecc.mode.current $csv 2>&1)
        its_status=$?
        printf '%s\n' "$its_answer" | pass memory
        [ $its_status = 0 ] ||
            printf 'nvidia_smi=%s %.300s\n' $its_status "$(printf '%s\n' "$its_answer" | tr -s '[:space:]' ' ')"
    } &
    its_module=$(driver_installed) && printf 'installed=%.40s\n' "$its_module" &
    ask 5 nvidia-smi --query-remapped-rows=gpu_bus_id,remapped_rows.pending,remapped_rows.failure $csv \
        2>/dev/null | pass rows &
}

# pass KEY: prints KEY=LINE for each line of standard input that begins with a bus ID.
pass() {
    while IFS= read -r line; do
        case $line in [0-9A-Fa-f]*:*,*) printf '%s=%.200s\n' "$1" "$line" ;; esac
    done
}

# Prints unreached=HOST:PORT for each registry and licence server in GC_PLACES that can't be reached,
# all in parallel. A server that doesn't speak TLS is reached: curl ends with 35, 52 or 56. It prints
# nothing without curl and bash, or on simulated hosts, which have no network.
places() {
    [ ! -e "$root/run/gpu-cluster-simulated" ] || return 0
    for place in ${GC_PLACES-}; do
        if command -v curl >/dev/null 2>&1; then
            {
                curl -s -o /dev/null --connect-timeout 2 -m 3 "https://$place/v2/"
                case $? in 0 | 35 | 52 | 56) ;; *) echo "unreached=$place" ;; esac
            } &
        elif command -v bash >/dev/null 2>&1; then
            # shellcheck disable=SC2016 # for the other shell
            timeout 2 bash -c ': <"/dev/tcp/$0/$1"' "${place%:*}" "${place##*:}" 2>/dev/null ||
                echo "unreached=$place" &
        fi
    done
}

# UEFI, GetVariable: four bytes of attributes, then one byte, which is 1 if Secure Boot is on.
secure_boot() {
    enabled=
    for variable in "$root"/sys/firmware/efi/efivars/SecureBoot-*; do
        [ -r "$variable" ] || continue
        case $(od -An -t u1 -j 4 -N 1 "$variable" 2>/dev/null) in
            *1) enabled=yes ;;
            *0) enabled=no ;;
        esac
    done
    say secure_boot "$enabled"
}

# As in base.sh: a Go program with a short task starts faster with one thread and without garbage
# collection.
ask() {
    GOGC=off GOMAXPROCS=1 timeout "$@"
}

# Reads the NVIDIA container runtime's configuration: its mode, and three settings of
# nvidia-container-cli (NVIDIA/nvidia-container-toolkit, internal/config/cli.go): the folder below
# which it looks for the driver, its program ldconfig, and whether it leaves out the devices' cgroups.
runtime_config() {
    runtime_mode='' driver_root='' cli_ldconfig='' no_cgroups=''
    [ -r "$root/etc/nvidia-container-runtime/config.toml" ] || return 0
    table=
    while IFS='= ' read -r name value _; do
        unquoted "${value%"$return"}"
        case $table-$name in
            *-'['*) table=${name%"$return"} ;;
            '[nvidia-container-runtime]-mode') runtime_mode=$value ;;
            '[nvidia-container-cli]-root') driver_root=$value ;;
            '[nvidia-container-cli]-ldconfig') cli_ldconfig=${value#@} ;;
            '[nvidia-container-cli]-no-cgroups') [ "$value" != true ] || no_cgroups=yes ;;
        esac
    done <"$root/etc/nvidia-container-runtime/config.toml"
}
return=$(printf '\r')

# Prints default_runtime=NAME of the running containerd, CRI-O or Docker, on hosts with NVIDIA's
# runtime. The engine is asked, in the background, because drop-ins and flags override its file.
default_runtime() {
    [ -e "$root/usr/local/nvidia/toolkit/nvidia-container-runtime" ] ||
        command -v nvidia-container-runtime >/dev/null 2>&1 || return 0
    {
        its_runtime=
        for its_socket in "$root"/run/containerd/containerd.sock "$root"/run/k3s/containerd/containerd.sock; do
            [ -S "$its_socket" ] && [ -z "$its_runtime" ] || continue
            its_runtime=$(cri_config "$its_socket" 2>/dev/null |
                sed -n 's/^containerd\.defaultRuntimeName "\(.*\)"$/\1/p')
        done
        [ -n "$its_runtime" ] || [ ! -S "$root/run/crio/crio.sock" ] ||
            its_runtime=$(crio_config "$root/run/crio/crio.sock" 2>/dev/null | crio_text runtime.default_runtime)
        [ -n "$its_runtime" ] || ! command -v docker >/dev/null 2>&1 ||
            its_runtime=$(timeout 5 docker info --format '{{.DefaultRuntime}}' 2>/dev/null)
        case $its_runtime in
            '' | *[!0-9A-Za-z._-]*) ;;
            *) printf 'default_runtime=%.64s\n' "$its_runtime" ;;
        esac
    } &
}

# Prints fabric=STATE VERSION of the fabric manager, on hosts with NVSwitches: its unit's state, or
# `absent` without the program. It must have the driver's version (Fabric Manager User Guide, 2.3).
fabric() {
    [ "$switches" -gt 0 ] || return 0
    program_version=
    if command -v nv-fabricmanager >/dev/null 2>&1; then
        its_state=$(timeout 5 systemctl is-active nvidia-fabricmanager 2>/dev/null)
        find_version 5 nv-fabricmanager nv-fabricmanager
    else
        its_state=absent
    fi
    say fabric "${its_state:-unknown} $program_version"
}

# Prints imex=STATE of the host's own IMEX daemon, if its program is there.
imex() {
    ! command -v nvidia-imex >/dev/null 2>&1 || say imex "$(timeout 5 systemctl is-active nvidia-imex 2>/dev/null)"
}

# Prints leftover=KIND DETAIL for files that other installers of the driver have left. If a driver is
# installed from both a runfile and packages, each replaces the other's libraries (NVIDIA Driver
# Installation Guide, "Removing the driver").
leftovers() {
    [ -z "$no_cgroups" ] || say leftover no-cgroups
    [ -z "$driver_root" ] || [ "$driver_root" = / ] || say leftover "root $driver_root"
    # A driver container's own ldconfig is gone with it. A path without @ is inside the container.
    case $cli_ldconfig in
        /run/nvidia/driver/*) say leftover "ldconfig $cli_ldconfig" ;;
    esac
    [ ! -e "$root/usr/local/nvidia/toolkit/nvidia-container-runtime" ] || say leftover operator-toolkit
    ! command -v nvidia-uninstall >/dev/null 2>&1 || say leftover "runfile $(driver_package)"
}

# Prints leftover=kept-out WHERE for a setting that keeps nvidia or nvidia_uvm from loading at all,
# and leftover=not-at-boot WHERE for one that keeps a boot from loading the module. Sources:
# modprobe.d(5) (a file hides those of the same name in later folders; blacklist only concerns
# loading by alias, which udev does; systemd-modules-load leaves such modules out, too); Linux,
# Documentation/admin-guide/kernel-parameters.txt (module_blacklist).
module_files() {
    set --
    names=' '
    for folder in /etc/modprobe.d /usr/local/lib/modprobe.d /usr/lib/modprobe.d /lib/modprobe.d; do
        for file in "$root$folder"/*.conf; do
            [ -e "$file" ] || continue
            case $names in *" ${file##*/} "*) continue ;; esac
            names="$names${file##*/} "
            [ ! -f "$file" ] || [ ! -r "$file" ] || set -- "$@" "$file"
        done
    done
    told_lines=$(awk -v under="$root" '
        function name(text) { gsub(/-/, "_", text); return text ~ /^nvidia(_uvm)?$/ }
        function tell(kind) {
            place = FILENAME == "-" ? "module_blacklist" : substr(FILENAME, length(under) + 1)
            gsub(/[^!-~]/, "?", place)
            if (!seen[kind place]++) print kind, place
        }
        FILENAME == "-" {
            for (n = 1; n <= NF; n++) {
                if ($n !~ /^(module_blacklist|modprobe\.blacklist)=/) continue
                kind = $n ~ /^module_/ ? "kept-out" : "not-at-boot"
                count = split(substr($n, index($n, "=") + 1), list, ",")
                for (i = 1; i <= count; i++) if (name(list[i])) tell(kind)
            }
            next
        }
        {
            line = line $0
            if (sub(/\\$/, " ", line)) next
            $0 = line
            line = ""
        }
        $1 == "blacklist" && name($2) { tell("not-at-boot") }
        $1 == "alias" && name($2) && $3 == "off" { tell("kept-out") }
        $1 == "install" && name($2) && $3 ~ /^([^ ]*\/)?(true|false|:)$/ { tell("kept-out") }
        ' "$@" - <"$root/proc/cmdline" 2>/dev/null)
    [ -z "$told_lines" ] || while IFS= read -r line; do
        say leftover "$line"
    done <<END
$told_lines
END
}

# Prints the first package that contains the driver's libraries; nothing if there is no such package.
driver_package() {
    its_packages=$(installed_packages 5 'libnvidia-compute*' libcuda1 'nvidia-driver*libs' nvidia-driver-cuda 'xorg-x11-drv-nvidia*libs')
    echo "${its_packages%% *}"
}

# version KEY PROGRAM: reports the version of a program on PATH; "unknown" (gpu_cluster.host_facts,
# UNREAD) if its text has none.
version() {
    command -v "$2" >/dev/null 2>&1 || return 0
    find_version 5 "$2" "$2"
    say "$1" "${program_version:-unknown}"
}

# Prints tegra=MODEL on a machine with Tegra, such as a Jetson, whose GPU is on no PCI bus. Source:
# NVIDIA/go-nvlib, pkg/nvlib/info/property-extractor.go (HasTegraFiles).
tegra() {
    first "$root/sys/devices/soc0/family"
    case $line in
        [Tt]egra*) ;;
        *) [ -e "$root/etc/nv_tegra_release" ] || return 0 ;;
    esac
    its_model=
    # The device tree ends its texts with a zero byte.
    [ ! -r "$root/proc/device-tree/model" ] || its_model=$(tr -d '\000' <"$root/proc/device-tree/model")
    say tegra "${its_model:-Tegra}"
}

driver() {
    [ -r "$root/proc/driver/nvidia/version" ] || return 0
    say driver "$(driver_loaded)"
    # A driver container mounts its root here (NVIDIA/gpu-driver-container, _mount_rootfs).
    [ ! -d "$root/run/nvidia/driver/usr" ] || say driver_container yes
}

# disk PATH: df prints "Filesystem 1024-blocks Used Available Capacity Mounted on", then numbers.
disk() {
    blocks=$(df -Pk "$1" | { read -r _ && read -r _ _ _ free _ && echo "$free"; })
    say disk_free_mib "$((blocks / 1024))"
}

memory
places
default_runtime
read_os_release
say os "$os"
say os_version "$os_version"
say os_name "$os_name"
find_image
say image "$image"
tegra
# shellcheck disable=SC2046 # two words
set -- $(uname -m -r)
kernel=$1
say arch "$2"
say kernel "$kernel"
nvidia_devices
gpus
uuids
rdma
first "$root/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
say governor "$line"
first "$root/sys/devices/system/node/online"
say numa "$line"
for module in nouveau nova_core; do
    [ -d "$root/sys/module/$module" ] && say loaded "$module"
done
driver
version containerd containerd
version runc runc
version docker dockerd
version crio crio
for program in k3s rke2; do
    ! command -v "$program" >/dev/null 2>&1 || say distribution "$program"
done
if [ -d "$root/lib/modules/$kernel/build" ]; then say headers yes; else say headers no; fi
secure_boot
version toolkit nvidia-ctk
runtime_config
say runtime_mode "$runtime_mode"
fabric
imex
leftovers
module_files
find_swaps
say swap "$swap"
if [ -e "$root/sys/fs/cgroup/cgroup.controllers" ]; then
    say cgroup 2
else
    say cgroup 1
    ! takes_cgroup_v1 || say kubelet_cgroup_v1 yes
fi
find_foreign
say foreign "$foreign"
disk "$root/var/lib"
find_package_lock
say package_lock "$locked"
boot_id=
[ ! -r "$root/proc/sys/kernel/random/boot_id" ] || read -r boot_id <"$root/proc/sys/kernel/random/boot_id"
say boot_id "$boot_id"
if [ -r "$root/run/gpu-cluster/reboot-required" ]; then
    while IFS= read -r reason; do
        say reboot "$reason"
    done <"$root/run/gpu-cluster/reboot-required"
fi
if [ -e "$root/run/reboot-required" ]; then say reboot_required yes; fi
if [ -e "$root/run/gpu-cluster-simulated" ]; then say simulated yes; fi

# expected FILE PHASE: checks values other than files that a phase has recorded. The step that
# records a kind of value has a function to check it (found_<kind>) and may have one that reads all
# values of the kind with one process (list_<kind>). Unknown kinds are skipped.
expected() {
    [ -r "$1" ] || return 0
    kinds=" "
    while read -r kind _; do
        case $kinds in *" $kind "*) ;; *) kinds="$kinds$kind " ;; esac
    done <"$1"
    for kind in $kinds; do
        command -v "list_$kind" >/dev/null || continue
        names=
        while read -r other name _; do
            [ "$other" != "$kind" ] || names="$names $name"
        done <"$1"
        # shellcheck disable=SC2086 # a list of names
        "list_$kind" $names
    done
    while read -r kind name value; do
        command -v "found_$kind" >/dev/null || continue
        drifted="$kind $name"
        "found_$kind" "$name" "$value" </dev/null || say drift "$2 $drifted"
    done <"$1"
}

# Compute the checksums of all files that the scripts wrote and of all step files, with one process.
# Unreadable files are missing in the output.
kept=$root/var/lib/gpu-cluster
end='
'
set --
for list in "$kept"/*/written "$kept"/*/steps; do
    [ -f "$list" ] && [ -r "$list" ] || continue
    while IFS= read -r line; do
        case $list in
            */written) set -- "$@" "$root${line#*  }" ;;
            *) set -- "$@" "$kept/steps/$line.sh" ;;
        esac
    done <"$list"
done
sums=
[ $# -eq 0 ] || sums=$end$(sha256sum -- "$@" 2>/dev/null)$end

# find_sum FILE: sets $sum to the checksum of a file, or to "missing".
find_sum() {
    sum=missing
    case $sums in
        *"  $1$end"*)
            sum=${sums%%"  $1$end"*}
            sum=${sum##*"$end"}
            ;;
    esac
}

# written FILE PHASE: reports the files of a phase that have changed; the last line of a path
# counts.
written() {
    lines=
    while IFS= read -r line; do
        lines=$lines$line$end
    done <"$1"
    while [ -n "$lines" ]; do
        line=${lines%%"$end"*}
        lines=${lines#*"$end"}
        path=${line#*  }
        case $lines in *"  $path$end"*) continue ;; esac
        find_sum "$root$path"
        say digest "$2 $sum $path"
        [ "$sum" = "${line%%  *}" ] || say drift "$2 $path"
    done
}

for folder in "$kept"/*/; do
    [ -r "$folder/written" ] || continue
    phase=${folder%/}
    phase=${phase##*/}
    say applied "$phase"
    written "$folder/written" "$phase"
    if [ -r "$folder/disrupts" ]; then
        while IFS= read -r line; do
            say disrupts "$phase $line"
        done <"$folder/disrupts"
    fi
    # A run was interrupted while it applied the phase, for the first time or with new settings.
    [ -r "$folder/settings" ] && [ ! -e "$folder/unfinished" ] || say unfinished "$phase"
    if [ -r "$folder/settings" ]; then
        say setting "$phase" # The settings may have no line.
        while IFS= read -r line; do
            say setting "$phase $line"
        done <"$folder/settings"
    fi
    expected "$folder/expected" "$phase"
    # The file `steps` or a step file that it lists was deleted or changed. An undo reads only the
    # files that `steps` lists.
    [ -r "$folder/steps" ] || { say drift "$phase the list of its steps" && continue; }
    while IFS= read -r step; do
        say step "$phase $step"
        find_sum "$kept/steps/$step.sh"
        [ "$sum" = "${step##*-}" ] || say drift "$phase the step ${step%-*}"
    done <"$folder/steps"
done
wait
now=$(date -u '+%Y-%m-%dT%H:%M:%SZ %s')
say now "${now% *}"
say clock "${now#* }"
say end ok
printf '%s' "$told"
