# Installs a container engine on a host that has none, as the kubelet needs it: containerd with CRI,
# or Docker with cri-dockerd. An engine that was on the host before is left unchanged. Sources:
# - Docker's containerd.io disables CRI in its configuration (docker/containerd-packaging
#   common/containerd.toml), and Debian's containerd looks for CNI plugins only in /usr/lib/cni,
#   where neither Kubernetes' packages nor network add-ons install them (Debian 12, containerd
#   1.6.20 /etc/containerd/config.toml). So the root file is replaced as a whole, and CNI keeps its
#   default folder.
# - The built-in runc of containerd 1.7 has sandbox_mode, which an explicit section would lose
#   (containerd_config.sh).
# - cri-dockerd: the archive contains cri-dockerd/cri-dockerd (Mirantis/cri-dockerd
#   packaging/static/Makefile); its socket is the one that kubeadm knows (kubernetes v1.34
#   cmd/kubeadm/app/constants/constants_unix.go).
# - Only the engine sets the sandbox image: the kubelet's flag was removed (kubernetes
#   CHANGELOG-1.35). containerd 2.0 has moved the setting (containerd v2.3.1 docs/cri/config.md,
#   pinned_images); cri-dockerd has a flag (its config/options.go).

adapter=/usr/local/bin/cri-dockerd
adapter_unit=/etc/systemd/system/cri-docker.service
adapter_socket=/run/cri-dockerd.sock

# each_adapter_location COMMAND: calls COMMAND for each location; a declaration with locations
# redefines it.
each_adapter_location() { :; }

check_engine() {
    require_manager
    require_unmasked "$GC_ENGINE"
    [ "$GC_ENGINE" != docker ] || require_unmasked cri-docker
    engine_was_there || return 0
    [ "$GC_ENGINE" = containerd ] && cri_is_off || return 0
    problem "a containerd that was on this host before, with CRI disabled" "CRI, which kubelet speaks" \
        "take cri off disabled_plugins in /etc/containerd/config.toml, or remove that containerd"
}

# Also called for a host that joins a cluster with an engine that these scripts did not install
# (kubernetes.sh).
cri_is_off() {
    find_running containerd containerd
    root_file=$(flag config c) || root_file=/etc/containerd/config.toml
    [ -f "$root$root_file" ] &&
        ask 90 "${running_program:-containerd}" --config "$root$root_file" config dump 2>/dev/null |
        grep -Eq '^disabled_plugins = .*["'\''](cri|io\.containerd\.grpc\.v1\.cri)["'\'']'
}

fetch_engine() {
    engine_was_there || {
        each_repository step_repository
        # shellcheck disable=SC2086 # a list of words, split on purpose
        fetch_packages $GC_ENGINE_PACKAGES
    }
    [ -z "$GC_ADAPTER_SHA256" ] || [ "$(cat "$state/adapter" 2>/dev/null)" = "$GC_ADAPTER_SHA256" ] ||
        have_runfile cri-dockerd "$GC_ADAPTER_SHA256" each_adapter_location
}

apply_engine() {
    if engine_was_there; then
        note "$GC_ENGINE was on this host before and stays as it is"
    else
        each_repository step_repository
        # shellcheck disable=SC2086 # a list of words, split on purpose
        install_packages $GC_ENGINE_PACKAGES
        # shellcheck disable=SC2086 # a list of words, split on purpose
        [ "$GC_ENGINE_HOLD" = false ] || hold_packages $GC_ENGINE_HELD
        [ "$GC_ENGINE" != containerd ] || configure_containerd
        unit_on "$GC_ENGINE"
        restart_if_pending "$GC_ENGINE"
    fi
    [ "$GC_ENGINE" != docker ] || adapter_on
}

# Returns true if the engine was not installed by these scripts, not even by a run that was killed.
engine_was_there() {
    case $GC_ENGINE in docker) daemon=dockerd ;; *) daemon=$GC_ENGINE ;; esac
    have "$daemon" && ! grep -q '^engine package ' "$state/effects" 2>/dev/null &&
        [ ! -f "$state/before-engine" ]
}

configure_containerd() {
    find_version 90 containerd containerd
    take_version
    format=3 cri=io.containerd.cri.v1.runtime builtin=
    case $major.$minor in
        1.7) format=2 cri=io.containerd.grpc.v1.cri builtin='sandbox_mode = "podsandbox"
' ;;
        1.*) format=2 cri=io.containerd.grpc.v1.cri ;;
    esac
    case $format in
        2) sandbox="[plugins.\"$cri\"]
sandbox_image" ;;
        *) sandbox='[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox' ;;
    esac
    runc="[plugins.\"$cri\".containerd.runtimes.runc"
    pending_file /etc/containerd/config.toml "version = $format
imports = [\"/etc/containerd/conf.d/*.toml\"]
${GC_SANDBOX_IMAGE:+
$sandbox = \"$GC_SANDBOX_IMAGE\"
}
$runc]
runtime_type = \"io.containerd.runc.v2\"
$builtin
$runc.options]
SystemdCgroup = $GC_SYSTEMD_CGROUP
"
}

# pending_file PATH TEXT: like step_file, and marks that a running daemon must be restarted, even
# after a kill.
pending_file() {
    same_text "$1" "$2" || : >"$state/engine-pending"
    step_file "$1" "$2"
    systemctl is-active --quiet "$GC_ENGINE" || rm -f -- "$state/engine-pending"
}

restart_if_pending() {
    [ -f "$state/engine-pending" ] || return 0
    bounded 300 systemctl restart "$1" || fail_act "$1 does not start: $(log_end); check journalctl -u $1"
    rm -f -- "$state/engine-pending"
    did "unit $1 restarted"
}

adapter_on() {
    if have cri-dockerd && ! recorded file "$adapter"; then
        note "cri-dockerd was on this host before and stays as it is"
        return 0
    fi
    place_adapter
    step_file "$adapter_unit" "# gpu-cluster
[Unit]
Description=CRI for Docker
After=network-online.target docker.service
Wants=network-online.target

[Service]
ExecStart=$adapter --container-runtime-endpoint unix://$adapter_socket${GC_SANDBOX_IMAGE:+ --pod-infra-container-image=$GC_SANDBOX_IMAGE}
Restart=always
RestartSec=2
KillMode=process
Delegate=yes

[Install]
WantedBy=multi-user.target
"
    unit_on cri-docker
    restart_if_pending cri-docker
    again 60 0.5 [ -S "$root$adapter_socket" ] ||
        fail_act "found no socket $adapter_socket 30 s after cri-docker was started; wanted the socket of cri-dockerd; check journalctl -u cri-docker"
}

# The checksum of the archive is recorded, because the program does not show which archive it came
# from.
place_adapter() {
    effect file "$adapter"
    if [ "$(cat "$state/adapter" 2>/dev/null)" = "$GC_ADAPTER_SHA256" ] && [ -x "$root$adapter" ] &&
        digest "$root$adapter" && file_has "$state/written" "$digest  $adapter"; then
        return 0
    fi
    have_runfile cri-dockerd "$GC_ADAPTER_SHA256" each_adapter_location
    bounded 120 tar -xzf "$runfile" -C "$scratch" cri-dockerd/cri-dockerd ||
        fail "the archive of cri-dockerd contains no file cri-dockerd/cri-dockerd: $(log_end); declare the release's own .tgz"
    chmod 755 "$scratch/cri-dockerd/cri-dockerd"
    ! systemctl is-active --quiet cri-docker || : >"$state/engine-pending"
    place "$adapter" "$scratch/cri-dockerd/cri-dockerd"
    chmod 755 "$root$adapter" && printf '%s\n' "$GC_ADAPTER_SHA256" >"$state/draft" &&
        mv -- "$state/draft" "$state/adapter" || fail_file "can't write $adapter"
    rm -f -- "$runfile"
}
