# Reads the version in what other projects' programs print. Each program has one reader, which the
# steps and, because of the line below, the probe use. The texts that packagers' programs print are in
# tests/components/hosts/steps/versions.yaml, with their sources.

# is_before VERSION OTHER: returns true if VERSION is older than OTHER.
is_before() {
    [ "$(printf '%s\n' "$2" "$1" | sort -V | head -n 1)" != "$2" ]
}

# require_version PROGRAM PATH NAME OLDEST [REASON]: sets $program_version; adds a problem if the
# program at PATH is older than OLDEST, or if its text has no version.
require_version() {
    find_version 90 "$1" "$2"
    if [ -z "$program_version" ]; then
        problem "$3 without a version (\`$2 --version\` prints: $(printf '%.200s' "$program_text" | tr -cs '[:print:]' ' '))" \
            "$4 or later" "upgrade $3, or install its package"
    elif is_before "$program_version" "$4"; then
        problem "$3 $program_version" "$4 or later${5:+, $5}" "upgrade $3"
    fi
}

# take_version: sets $engine_version, $major and $minor to those of the engine whose version was found.
# shellcheck disable=SC2034 # callers read these variables
take_version() {
    engine_version=$program_version
    major=${engine_version%%.*}
    minor=${engine_version#*.}
    minor=${minor%%[!0-9]*}
}

# --- found later: the probe has this part too ---

# find_version SECONDS PROGRAM PATH: asks the program at PATH, and sets $program_text to its answer.
find_version() {
    program_text=$(ask "$1" "$3" --version 2>/dev/null)
    read_version "$2" "$program_text"
}

# Prints the version of the NVIDIA module that is loaded, or nothing.
driver_loaded() {
    [ -r "$root/proc/driver/nvidia/version" ] || return 0
    read_version nvrm "$(cat "$root/proc/driver/nvidia/version")"
    printf '%s' "$program_version"
}

# Returns true if the loaded NVIDIA module is one of the open modules.
has_open_modules() {
    grep -q 'Open Kernel Module' "$root/proc/driver/nvidia/version" 2>/dev/null
}

# Prints the name under which modules are built and found: /etc/modprobe.d maps `nvidia` to the name
# of the chosen alternative, such as nvidia-current (`install nvidia modprobe -i nvidia-current`).
module_name() {
    name=$(cat "$root"/etc/modprobe.d/*.conf 2>/dev/null |
        sed -n 's/^install nvidia modprobe -i \([^ ]*\).*/\1/p' | tail -n 1)
    echo "${name:-nvidia}"
}

# Prints the version of the driver installed for the running kernel, or nothing.
driver_installed() {
    ask 10 modinfo -F version "$(module_name)" 2>/dev/null | head -n 1
}

# read_version PROGRAM TEXT: sets $program_version to the version in TEXT, which PROGRAM has printed,
# maybe after warnings; empty if TEXT has none.
read_version() {
    case $1 in
        # The second word is the Go module, or what a packager sets (containerd 2.1,
        # cmd/containerd/command/main.go; docker/containerd-packaging: containerd.io).
        containerd) set -- "$2" 'containerd * ' ;;
        dockerd) set -- "$2" 'Docker version ' ;;
        # CRI-O 1.18 prints the version in its second line only (cri-o/cri-o#3845).
        crio) case $2 in *'crio version '[0-9]*) set -- "$2" 'crio version ' ;; *) set -- "$2" 'Version: ' ;; esac ;;
        # opencontainers/runc main.go: the version, then lines with commit, spec and Go.
        runc) set -- "$2" 'runc version ' ;;
        nvidia-ctk) set -- "$2" 'NVIDIA Container Toolkit CLI version ' ;;
        # NVIDIA's module, in /proc/driver/nvidia/version: "... Kernel Module  595.91.07  <date>", and
        # for the open modules "... Open Kernel Module for x86_64  595.91.07  Release Build".
        nvrm) case $2 in *'Kernel Module for '*) set -- "$2" 'Kernel Module for * ' ;; *) set -- "$2" 'Kernel Module ' ;; esac ;;
        kubelet) set -- "$2" 'Kubernetes ' ;;
        nv-fabricmanager) set -- "$2" 'Fabric Manager version is : ' ;;
    esac
    # shellcheck disable=SC2295 # the marks are patterns
    program_version=${1#*$2}
    [ "$program_version" != "$1" ] || program_version=
    program_version=${program_version#"${program_version%%[! ]*}"}
    program_version=${program_version#v}
    program_version=${program_version%%[!0-9A-Za-z.~+-]*}
    case $program_version in [0-9]*.[0-9]*) ;; *) program_version= ;; esac
}
