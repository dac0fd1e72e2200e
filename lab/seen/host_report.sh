#!/bin/sh
# Prints what this project would read on a GPU host, without names, addresses and serial numbers.
# Usage: ssh HOST sh -s < lab/seen/host_report.sh > report.txt
#        sh lab/seen/host_report.sh > report.txt
# It reads, and changes nothing: it writes no file, loads no module and starts no service. It needs
# no root; as root some sections say more. Each command has REPORT_SECONDS (10) seconds, and prints
# REPORT_LINES (120) lines of at most 300 characters. Read the report before you send it.
# REPORT_ROOT names a folder that has etc, proc and sys, if those of the host are not to be read.
# The programs that sections start expand what stands in single quotes.
# shellcheck disable=SC2016
set -u
LC_ALL=C
export LC_ALL
seconds=${REPORT_SECONDS:-10} lines=${REPORT_LINES:-120}
root=${REPORT_ROOT:-}
export root

# Print a heading, the output of a command and its exit status.
section() {
  title=$1
  shift
  printf '\n## %s\n' "$title"
  if ! command -v "$1" >/dev/null 2>&1; then
    echo "no $1 here"
    return
  fi
  { timeout -k 2 "$seconds" "$@" </dev/null 2>&1; echo "exit status $?"; } |
    awk -v most="$lines" 'NR <= most { print substr($0, 1, 300) } { last = $0 }
      END { if (NR > most) print "(" NR - most " more lines)\n" last }'
}

# Run a command with nvidia-smi, but only if the driver is loaded: nvidia-smi would load it and make
# its devices.
gpus() {
  title=$1
  shift
  if [ -r "$root/proc/driver/nvidia/version" ]; then
    section "$title" "$@"
  else
    printf '\n## %s\n%s\n' "$title" "the driver is not loaded"
  fi
}

# Print the lines of a file that a pattern selects.
part() {
  title=$1 pattern=$2
  shift 2
  section "$title" grep -hsE "$pattern" "$@"
}

report() {
  echo "gpu-cluster host report 1"
  section "machine" uname -srm
  part "system" '^(ID|VERSION_ID|PRETTY_NAME)=' "$root/etc/os-release"
  section "first process" ps -p 1 -o comm=
  part "control groups" ' cgroup2? ' "$root/proc/mounts"
  section "firmware" sh -c 'test -d "$root/sys/firmware/efi" && echo UEFI || echo BIOS; mokutil --sb-state'
  part "kernel command line" . "$root/proc/cmdline"
  section "GPUs on the bus" sh -c 'grep -il 0x10de "$root"/sys/bus/pci/devices/*/vendor | while read -r f; do
    d=${f%/vendor}; echo "$(cat "$d/class") $(cat "$d/device") $(cat "$d/current_link_width" 2>/dev/null)"; done'
  part "driver" . "$root/proc/driver/nvidia/version"
  part "modules" '^(nvidia|nouveau|ib_|mlx5_|gdrdrv)' "$root/proc/modules"
  gpus "GPUs" nvidia-smi -L
  gpus "facts of GPUs" nvidia-smi \
    --query-gpu=name,driver_version,memory.total,mig.mode.current,ecc.mode.current,compute_mode,persistence_mode,pcie.link.gen.current,pcie.link.width.current \
    --format=csv
  gpus "links" nvidia-smi topo -m
  # Driver 580 has this section in the whole report, and no `-d FABRIC` for it alone.
  gpus "fabric" sh -c 'nvidia-smi -q | awk "/^    [^ ]/ { on = /^    Fabric/ } on"'
  section "packages of NVIDIA (dpkg)" dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n' \
    '*nvidia*' 'cuda-drivers*' 'libnvidia*' 'datacenter-gpu-manager*'
  section "packages of NVIDIA (rpm)" rpm -qa --qf '%{NAME} %{VERSION}-%{RELEASE}\n' '*nvidia*' 'cuda-drivers*' 'kmod-nvidia*'
  part "module streams" '^(name|stream|state)=' "$root/etc/dnf/modules.d/nvidia-driver.module"
  section "dkms" dkms status
  section "sources of packages (apt)" sh -c 'grep -hsE "^(deb|URIs|Suites|Components)" "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* | grep -i nvidia'
  section "sources of packages (rpm)" sh -c 'grep -hsE "^(\[|baseurl|enabled|gpgcheck)" "$root"/etc/yum.repos.d/*nvidia* "$root"/etc/yum.repos.d/*cuda*'
  section "units" systemctl list-units --no-pager --plain --all containerd.service crio.service \
    docker.service kubelet.service k3s.service 'nvidia-*' 'nvidia-fabricmanager.service' 'dcgm*'
  section "unit of containerd" systemctl show containerd.service -p ExecStart -p Environment -p FragmentPath -p DropInPaths
  section "containerd" containerd --version
  section "configuration of containerd" sh -c 'containerd config dump | grep -nE "version =|imports|runtime|cdi|SystemdCgroup|snapshotter|BinaryName"'
  section "configuration of CRI-O" sh -c 'crio config 2>/dev/null | grep -nE "runtime|cdi|cgroup_manager"'
  section "Docker" docker version --format '{{.Server.Version}}'
  section "container toolkit" nvidia-ctk --version
  section "devices of CDI" nvidia-ctk cdi list
  section "kubelet" kubelet --version
  section "SELinux" getenforce
  section "memory locked to pages, huge pages" grep -E 'HugePages_Total|MemTotal' "$root/proc/meminfo"
  section "kernel messages of the driver" sh -c 'dmesg | grep -E "NVRM|Xid" | tail -n 20'
}

# Replace each secret or name by its kind and a number: the same text gets the same number.
redact() {
  awk -v host="$(uname -n)" -v user="$(id -un)" '
    function mask(kind, pattern,    out, rest, text) {
      out = ""; rest = $0
      while (match(rest, pattern)) {
        text = substr(rest, RSTART, RLENGTH)
        if (!((kind, text) in number)) number[kind, text] = ++count[kind]
        out = out substr(rest, 1, RSTART - 1) "<" kind "-" number[kind, text] ">"
        rest = substr(rest, RSTART + RLENGTH)
      }
      $0 = out rest
    }
    function literal(kind, word,    out, rest, at, around) {
      out = ""; rest = $0
      while (word != "" && (at = index(rest, word)) > 0) {
        # A name of one or two letters is replaced only where it is a word.
        around = at > 1 ? substr(rest, at - 1, 1) : substr(out, length(out), 1)
        around = around substr(rest, at + length(word), 1)
        out = out substr(rest, 1, at - 1)
        out = out (length(word) < 3 && around ~ /[[:alnum:]]/ ? word : "<" kind ">")
        rest = substr(rest, at + length(word))
      }
      $0 = out rest
    }
    BEGIN {
      h = "[0-9a-fA-F]"; x4 = h h h h; x8 = x4 x4
      uuid = x8 "-" x4 "-" x4 "-" x4 "-" x8 x4
      short = host; sub(/[.].*/, "", short)
    }
    {
      gsub(/\033\[[0-9;]*[A-Za-z]/, "") # Colours and underlines, as of `nvidia-smi topo`.
      gsub(/[^[:print:]\t]/, "?")
      mask("gpu", "(GPU|MIG)-" uuid)
      mask("uuid", uuid)
      mask("mac", h h ":" h h ":" h h ":" h h ":" h h ":" h h)
      mask("login", "://[^/@ ]*@")
      mask("address", "[0-9]+[.][0-9]+[.][0-9]+[.][0-9]+(/[0-9]+|:[0-9]+)?")
      mask("address6", "(" h h "?" h "?" h "?:)+:(" h h "?" h "?" h "?:?)*")
      mask("home", "/(home|Users)/[^/ ]+")
      literal("host", host)
      literal("host", short)
      if (user != "root") literal("user", user)
      if ($0 ~ /([Ss]erial|[Tt]oken|[Pp]assword|PRIVATE KEY|[Ss]ecret)/) $0 = "<line left out>"
      print
    }'
}

report | redact
