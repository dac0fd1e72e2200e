# Renews the certificates of a control plane before they end. Sources: Kubernetes docs, "Certificate
# Management with kubeadm" (kubeadm makes them for a year, `kubeadm certs renew all`, then each static
# pod is restarted); kubernetes v1.36 cmd/kubeadm/app/phases/certs/renewal.
#
# State: renewing (kubeadm was started, and a static pod has old certificates).

renew_certificates() {
    certificate=${GC_CERTIFICATES:-/etc/kubernetes/pki}/apiserver.crt
    [ -f "$root$certificate" ] || return 0
    expect certificate "$certificate"
    [ ! -f "$state/renewing" ] && found_certificate "$certificate" && return 0
    : >"$state/renewing" || fail_file "can't write $state/renewing"
    kubeadm_within 120 certs renew all || fail_kubeadm "kubeadm certs renew failed: $(kubeadm_said)"
    # kube-vip uses the administrator's certificate.
    for name in etcd kube-apiserver kube-controller-manager kube-scheduler kube-vip; do
        restart_static_pod "$name"
    done
    rm -f -- "$state/renewing"
    did "renewed the certificates of the control plane"
}

# The kubelet replaces a static pod if its manifest changes: an annotation says when.
restart_static_pod() {
    manifest=/etc/kubernetes/manifests/$1.yaml
    [ -f "$root$manifest" ] || return 0
    renewed=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    timeout 20 kubectl annotate --local --overwrite -o yaml -f "$root$manifest" \
        "gpu-cluster/certificates-renewed=$renewed" >"$scratch/manifest" 2>"$scratch/log" 9>&- &&
        grep -q '^kind: Pod$' "$scratch/manifest" || fail_kubeadm "$manifest can't be changed: $(log_end)"
    put_static_pod "$1"
    again 60 5 is_restarted "$1" ||
        fail "found no $1 that is ready with new certificates five minutes after its manifest changed ($(log_end)); wanted that pod; run \`gpu-cluster up\` again: it restarts all static pods again"
}

# put_static_pod NAME: puts $scratch/manifest in the folder of static pods. A draft would be read there,
# too: the kubelet reads each file.
put_static_pod() {
    cp -- "$scratch/manifest" "$root/etc/kubernetes/$1.yaml" && chmod 600 "$root/etc/kubernetes/$1.yaml" &&
        mv -- "$root/etc/kubernetes/$1.yaml" "$root/etc/kubernetes/manifests/$1.yaml" ||
        fail_file "can't write /etc/kubernetes/manifests/$1.yaml"
}

is_restarted() {
    kubectl_within 20 -n kube-system get pod "$1-$GC_NODE" \
        -o 'jsonpath={.metadata.annotations.gpu-cluster/certificates-renewed} {.status.conditions[?(@.type=="Ready")].status}' &&
        grep -qFx "$renewed True" "$scratch/log"
}

# --- found later: the probe has this part too ---

# Returns true if at least 90 days of a certificate are left, or a quarter of its life if that is
# shorter. Older versions of kubeadm renew a certificate with the first day of its authority. A
# certificate has its two times as UTCTime, YYMMDDhhmmssZ (RFC 5280, 4.1.2.5). Without a readable
# certificate nothing is known.
found_certificate() {
    its_times=$(sed '/-----/d' "$root$1" 2>/dev/null | base64 -d 2>/dev/null | LC_ALL=C grep -a -o '[0-9]\{12\}Z' | head -n 2)
    its_end=${its_times#*Z?}
    its_end=$(certificate_second "${its_end%Z}") && its_begin=$(certificate_second "${its_times%%Z*}") || return 0
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted="certificate until $(date -u -d "@$its_end" +%Y-%m-%d)"
    its_left=$((its_end - $(date -u +%s)))
    [ $its_left -ge $((90 * 86400)) ] || [ $((its_left * 4)) -ge $((its_end - its_begin)) ]
}

# certificate_second YYMMDDhhmmss: prints a time in seconds.
certificate_second() {
    its_day=${1%??????}
    its_hour=${1#??????}
    its_minute=${its_hour#??}
    date -u -d "20$its_day ${its_hour%????}:${its_minute%??}:${its_minute#??}" +%s 2>/dev/null
}
