# Configures the default runtime in K3s and RKE2, with the functions that runtime.sh calls. Both
# generate containerd's configuration at each start and find nvidia-container-runtime by themselves
# (k3s pkg/agent/containerd/nvidia.go), so only the default runtime must be set. A template would
# replace the generated configuration and break the node at its next upgrade
# (NVIDIA/gpu-operator#992, #473), so none is written. Sources: K3s docs, "Advanced options" (NVIDIA
# container runtime, config.yaml.d, containerd templates).

case $GC_ENGINE in
    k3s) units="k3s k3s-agent" ;;
    *) units="rke2-server rke2-agent" ;;
esac
etc=/etc/rancher/$GC_ENGINE/config.yaml
files=$etc.d/99-nvidia.yaml
unit=

require_engine() {
    have "$GC_ENGINE" || problem "no $GC_ENGINE" "$GC_ENGINE 1.28 or later" "install $GC_ENGINE"
    find_unit
    [ -n "$unit" ] || {
        unit=${units%% *}
        problem "none of the units $units" "$GC_ENGINE set up as server or agent" "join the host to its cluster first"
    }
    find_engine
    other=$(flag container-runtime-endpoint || setting container-runtime-endpoint)
    [ -z "$other" ] || problem "$GC_ENGINE with the container engine at $other" \
        "its own containerd" "declare runtime.engine: containerd, or docker, for that engine"
    for template in "$data"/agent/etc/containerd/*.tmpl; do
        [ -f "$root$template" ] || continue
        # shellcheck disable=SC2016 # a Go template's own text
        grep -q '{{ *template "base"' "$root$template" || grep -q 'nvidia' "$root$template" ||
            problem "$template, which hides the runtimes that $GC_ENGINE finds" \
                'no template, or one that begins with {{ template "base" . }}' "remove or mend it"
    done
    later=$(grep -l '^default-runtime:' "$root$etc.d"/*.yaml 2>/dev/null | sort | tail -n 1)
    case ${later##*/} in
        '' | 99-nvidia.yaml) ;;
        *) ! after "${later##*/}" 99-nvidia.yaml || problem "${later#"$root"}, which is read after ours" \
            "99-nvidia.yaml as the last word on default-runtime" "rename it" ;;
    esac
}

# Sets `unit` to the K3s or RKE2 unit of the host that is enabled or runs.
find_unit() {
    for unit in $units; do
        ! systemctl is-enabled --quiet "$unit" 2>/dev/null || return 0
        ! systemctl is-active --quiet "$unit" 2>/dev/null || return 0
    done
    unit=
}

# Sets `etc` to the configuration file and `data` to the data folder of the unit. The words come from
# the unit, because K3s replaces those of its process, which may hold a token (k3s
# pkg/cli/server/server.go, SetProcTitle). A flag counts before the file, and the file before a
# variable.
find_engine() {
    find_running "$unit" "$GC_ENGINE"
    words_of_unit "$unit" >"$scratch/words"
    case $GC_ENGINE in k3s) prefix=K3S ;; *) prefix=RKE2 ;; esac
    etc=$(flag config c || variable "${prefix}_CONFIG_FILE")
    etc=${etc:-/etc/rancher/$GC_ENGINE/config.yaml}
    files=$etc.d/99-nvidia.yaml
    data=$(flag data-dir d || setting data-dir)
    data=${data:-$(variable "${prefix}_DATA_DIR")}
    data=${data:-/var/lib/rancher/$GC_ENGINE}
}

# setting NAME: prints a setting of the configuration file and its drop-ins; the last one counts.
setting() {
    cat "$root$etc" "$root$etc.d"/*.yaml 2>/dev/null |
        sed -n "s/\r\$//; s/^[\"']\{0,1\}$1[\"']\{0,1\}:[[:space:]]*//p" |
        sed "s/^\"\([^\"]*\)\".*/\1/; t; s/^'\([^']*\)'.*/\1/; t; s/[[:space:]]*\(#.*\)\{0,1\}\$//" | tail -n 1
}

make_wanted() {
    [ "$GC_DEFAULT_RUNTIME" = nvidia ] || return 0
    make_folder "$files"
    printf '# gpu-cluster\ndefault-runtime: nvidia\n' >"$scratch/drafts$files"
}

# K3s and RKE2 find the NVIDIA Container Toolkit only when they start, so a toolkit that was
# installed later needs a restart.
check_wanted() {
    judge_running || action=restart
}

needed_action() {
    action=restart
}

# Checks over CRI the containerd that the service has started; the socket is in the arguments of
# containerd.
judge_running() {
    socket=$(child_words "$unit" containerd && flag address a)
    socket=${socket:-/run/k3s/containerd/containerd.sock}
    cri_answers "$socket" "$GC_DEFAULT_RUNTIME" 2>/dev/null && {
        [ "$GC_DEFAULT_RUNTIME" = nvidia ] ||
            ! grep -Fqx 'containerd.defaultRuntimeName "nvidia"' "$scratch/cri"
    }
}

judge_applied() {
    # The service starts its containerd some time after its own start.
    again 60 0.5 judge_running || {
        printf 'the containerd of %s at %s has the runtimes %s, not nvidia as wanted\n' "$unit" "$socket" \
            "$(runtimes_of "$scratch/cri")" >"$scratch/judgement"
        return 1
    }
    expect runtime "$socket" "$GC_DEFAULT_RUNTIME"
    answer="CRI at $socket: the containerd of $unit has the runtimes $(runtimes_of "$scratch/cri")"
}

engine_view() {
    [ -n "$unit" ] || find_unit
    find_engine
    cat -- "$root$files" >"$1" 2>/dev/null || : >"$1"
}

# The settings reject checkImage for K3s and RKE2, because they run no container without a pod.
smi_in_container() {
    printf 'no container without a pod\n' >"$scratch/smi"
    return 1
}
