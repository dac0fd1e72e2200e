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
etc=/etc/rancher/$GC_ENGINE
files=$etc/config.yaml.d/99-nvidia.yaml
unit=

require_engine() {
    have "$GC_ENGINE" || problem "no $GC_ENGINE" "$GC_ENGINE 1.28 or later" "install $GC_ENGINE"
    for unit in $units; do
        ! systemctl is-enabled --quiet "$unit" 2>/dev/null || break
        ! systemctl is-active --quiet "$unit" 2>/dev/null || break
        unit=
    done
    [ -n "$unit" ] || {
        unit=${units%% *}
        problem "none of the units $units" "$GC_ENGINE set up as server or agent" "join the host to its cluster first"
    }
    data=$(cat "$root$etc/config.yaml" "$root$etc/config.yaml.d"/*.yaml 2>/dev/null |
        sed -n 's/^data-dir:[[:space:]]*//p' | tr -d \"\' | tail -n 1)
    generated=${data:-/var/lib/rancher/$GC_ENGINE}/agent/etc/containerd/config.toml
    for template in "${generated%/*}"/*.tmpl; do
        [ -f "$root$template" ] || continue
        # shellcheck disable=SC2016 # a Go template's own text
        grep -q '{{ *template "base"' "$root$template" || grep -q 'nvidia' "$root$template" ||
            problem "$template, which hides the runtimes that $GC_ENGINE finds" \
                'no template, or one that begins with {{ template "base" . }}' "remove or mend it"
    done
    later=$(grep -l '^default-runtime:' "$root$etc/config.yaml.d"/*.yaml 2>/dev/null | sort | tail -n 1)
    case ${later##*/} in
        '' | 99-nvidia.yaml) ;;
        *) ! after "${later##*/}" 99-nvidia.yaml || problem "${later#"$root"}, which is read after ours" \
            "99-nvidia.yaml as the last word on default-runtime" "rename it" ;;
    esac
}

make_wanted() {
    [ "$GC_DEFAULT_RUNTIME" = nvidia ] || return 0
    make_folder "$files"
    printf '# gpu-cluster\ndefault-runtime: nvidia\n' >"$scratch/drafts$files"
}

# A toolkit that was installed after the daemon's start is only found at the daemon's next start.
check_wanted() {
    judge_generated || action=restart
}

needed_action() {
    action=restart
}

judge_generated() {
    [ -f "$root$generated" ] && grep -q 'containerd\.runtimes\.["'\'']\{0,1\}nvidia["'\'']\{0,1\}\]' "$root$generated" &&
        { [ "$GC_DEFAULT_RUNTIME" != nvidia ] ||
            grep -q '^[[:space:]]*default_runtime_name *= *"nvidia"' "$root$generated"; }
}

judge_applied() {
    # The daemon writes the file some time after its start.
    again 60 0.5 judge_generated || {
        printf '%s has no nvidia runtime as wanted\n' "$generated" >"$scratch/judgement"
        return 1
    }
}

engine_view() {
    cat -- "$root$files" >"$1" 2>/dev/null || : >"$1"
}

# The settings reject checkImage for K3s and RKE2, because they run no container without a pod.
smi_in_container() {
    printf 'no container without a pod\n' >"$scratch/smi"
    return 1
}
