# The NVIDIA Container Toolkit: found on the host, or installed from a signed repository by the
# host's package manager (library/package_manager.sh). Source: NVIDIA Container Toolkit 1.20 installation guide.

toolkit_config=/etc/nvidia-container-runtime/config.toml

check_toolkit() {
    find_manager
    if [ "$GC_TOOLKIT_SOURCE" = package ]; then
        require_manager
        each_repository check_key_folder
    else
        require_toolkit
    fi
}

require_toolkit() {
    for name in nvidia-ctk nvidia-container-runtime; do
        have "$name" || problem "no $name on PATH" "the NVIDIA container toolkit, $GC_TOOLKIT_FLOOR or later" \
            "install the package nvidia-container-toolkit, or declare runtime.toolkit.source: package"
    done
    ! have nvidia-ctk || require_version nvidia-ctk nvidia-ctk nvidia-ctk "$GC_TOOLKIT_FLOOR" \
        "which fixes what NVIDIA's security bulletins report"
}

toolkit_on() {
    step=toolkit
    if [ "$GC_TOOLKIT_SOURCE" = package ]; then
        open_state
        each_repository toolkit_repository
        toolkit_words
        # shellcheck disable=SC2086 # a list of words, split on purpose
        install_packages $words
        moving=
        # A declared version stays through upgrades of the system; without one, all packages move.
        case $GC_TOOLKIT_PACKAGES in
            *=*)
                # shellcheck disable=SC2046 # a list of words, split on purpose
                hold_packages $(printf '%s\n' "$GC_TOOLKIT_PACKAGES" | sed 's/=[^ ]*//g')
                ;;
        esac
        settle
        require_toolkit
    else
        toolkit_off
    fi
}

# Sets which containers get GPUs from the toolkit. By default every container with
# NVIDIA_VISIBLE_DEVICES does, which its user or its image can set, so it bypasses the device plugin
# and quotas. Without that default, devices from a plugin come as mounts, and the variable only
# counts in containers with SYS_ADMIN, such as the plugin's own. Sources: NVIDIA Container Toolkit
# 1.20.0, internal/config/image/cuda_image.go (VisibleDevices), privileged.go;
# api/config/v1/toml.go.
toolkit_rights() {
    step=rights
    : >"$scratch/wanted"
    settings=$root$toolkit_config
    [ -f "$settings" ] || settings=/dev/null
    text=$(awk -v by_environment="$GC_DEVICES_BY_ENVIRONMENT" '
        function missing(   key) {
            for (key in wanted) print key " = " wanted[key]
            split("", wanted)
            tables = 1
        }
        BEGIN {
            wanted["accept-nvidia-visible-devices-envvar-when-unprivileged"] = by_environment
            wanted["accept-nvidia-visible-devices-as-volume-mounts"] = "true"
            for (key in wanted) ours[key] = 1
        }
        /^[[:space:]]*\[/ && !tables { missing() }
        !tables {
            key = $0
            gsub(/^[[:space:]]*#?[[:space:]]*|[[:space:]]*=.*$|["\047]/, "", key)
            if (key in ours) {
                if (key in wanted) print key " = " wanted[key]
                delete wanted[key]
                next
            }
        }
        { print }
        END { if (!tables) missing() }' "$settings") || fail_file "can't read $toolkit_config"
    step_file "$toolkit_config" "$text
"
    settle
}

toolkit_off() {
    [ -f "$state/effects" ] || return 0
    find_manager
    record_killed
    take_back_step toolkit
}

# toolkit_words: sets `words` to the toolkit's packages. Without a declared version a first installation
# names the newest one for all of them: they need each other at one version, and a preference of apt,
# such as that of NVIDIA's CUDA repository (cuda-repository-pin-600), would choose another for those that
# nobody names (NVIDIA/nvidia-docker#1731, NVIDIA/nvidia-container-toolkit#81). A package that the
# repository doesn't have in that version is left out: nothing there needs it.
toolkit_words() {
    words=$GC_TOOLKIT_PACKAGES
    case $words in *=*) return 0 ;; esac
    first=${words%% *}
    list_installed "$scratch/installed"
    if [ -n "$(matching "$first" "" "$scratch/installed")" ]; then
        words=$first
        return 0
    fi
    # shellcheck disable=SC2086 # a list of words, split on purpose
    list_available $words
    newest=$(matching "$first" "" "$scratch/plain")
    moving=" $words " named=
    for name in $words; do
        [ -z "$newest" ] || [ -z "$(matching "$name" "$newest" "$scratch/plain")" ] ||
            named="$named $name=$newest"
    done
    words=${named:-$first}
    words=${words# }
}

# toolkit_repository MANAGER NAME URL ...: configures a repository, unless it is for the other
# package manager.
toolkit_repository() {
    [ "$1" = "$manager" ] || return 0
    name=$2
    name_host
    url=$(printf '%s' "$3" | sed "s|{distribution}|$distribution|g; s|{architecture}|$architecture|g")
    shift 3
    repository toolkit "$name" "$url" "$@"
}

# Sets names for NVIDIA's repositories by distribution, which have no folder for each rebuild of
# RHEL: Rocky 9 uses rhel9.0 (libnvidia-container's repository layout).
name_host() {
    read_os_release
    case $os in
        rhel | rocky | almalinux | centos | ol) distribution=rhel${os_version%%.*}.0 ;;
        *) distribution=$os$os_version ;;
    esac
    if [ "$manager" = apt ]; then architecture=$(dpkg --print-architecture); else architecture=$(uname -m); fi
}
