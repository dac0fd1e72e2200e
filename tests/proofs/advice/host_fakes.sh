# Programs of other projects on a test's host, for the rows of test_host_scripts.py. The variable `host` is the
# host's root.
# shellcheck shell=sh
# shellcheck disable=SC2016,SC2154 # the programs expand the texts; the test sets `host`

# fake NAME [TEXT]: puts a program on PATH; without TEXT, its text is on standard input.
fake() {
    {
        printf '#!/bin/sh\nhost=%s\n' "$host"
        if [ $# -gt 1 ]; then printf '%s\n' "$2"; else cat; fi
    } >"$host/bin/$1"
    chmod 755 "$host/bin/$1"
}

# edit TEXT: changes a setting of the stack file.
edit() {
    printf '%s\n' "$1" >>"$host/settings"
}

# offer NAME VERSION: puts a package into the repositories.
offer() {
    printf '%s %s\n' "$1" "$2" >>"$host/offered"
}

# few NAME...: puts these programs into a folder that a row uses as PATH.
few() {
    mkdir -p "$host/few"
    for name in sh uname "$@"; do
        ln -sf "$(command -v "$name")" "$host/few/$name"
    done
}

sums() {
    sha256sum "$host/$1" | cut -d ' ' -f 1
}

# packages: apt and dpkg, with the files `offered` and `installed`. While the file `broken` exists, nothing can be
# downloaded or installed.
packages() {
    : >>"$host/offered" && : >>"$host/installed"
    fake dpkg-query 'sed "s/^/installed /" "$host/installed"'
    fake apt-mark :
    fake dpkg '[ "$1" != --configure ] || rm -f "$host/broken"'
    fake apt-cache <<'EOF'
while [ "$1" != -- ]; do shift; done
shift
for name in "$@"; do
    awk -v name="$name" '$1 == name { print " " $1 " | " $2 " | repository" }' "$host/offered"
done
EOF
    fake apt-get <<'EOF'
case " $* " in
    *" update "*) exit 0 ;;
    *" --download-only "*)
        [ ! -e "$host/broken" ] || { echo "E: Failed to fetch"; exit 100; }
        ;;
    *" install "*)
        [ ! -e "$host/broken" ] || { echo "E: dpkg was interrupted"; exit 100; }
        while [ "$1" != -- ]; do shift; done
        shift
        for word in "$@"; do
            case $word in
                *=*) echo "${word%%=*} ${word#*=}" >>"$host/installed" ;;
            esac
        done
        ;;
esac
EOF
}

# units: systemd. While the file `broken-unit` exists, no unit starts; while `busy` exists, none stops.
units() {
    fake systemctl <<'EOF'
for word in "$@"; do
    case $word in
        -*) ;;
        is-active | is-enabled | start | stop | enable | restart) verb=$word ;;
        *) unit=$word ;;
    esac
done
case $verb in
    is-active | is-enabled) [ -e "$host/units/$unit" ] ;;
    start | enable | restart)
        [ ! -e "$host/broken-unit" ] || { echo "Job for $unit failed"; exit 1; }
        mkdir -p "$host/units"
        : >"$host/units/$unit"
        ;;
    stop) [ -e "$host/busy" ] || rm -f "$host/units/$unit" ;;
esac
EOF
}

# cluster: kubectl and kubeadm. Pods are ready while the file `ready` exists; etcd doesn't answer while `etcd-ends`
# exists, and its member has no vote while `learner` exists.
cluster() {
    mkdir -p "$host/etc/kubernetes/manifests" "$host/var/lib/etcd"
    fake kubectl <<'EOF'
is() { if [ -e "$host/$1" ]; then echo "$2"; else echo "$3"; fi; }
case " $* " in
    *" annotate "*)
        for word in "$@"; do last=$word; done
        echo "${last#*=}" >"$host/renewed"
        echo "kind: Pod"
        ;;
    *"get pods"*)
        [ ! -e "$host/etcd-ends" ] || exit 1
        echo "cp-1 etcd-cp-1"
        ;;
    *"member list"*)
        [ ! -e "$host/etcd-ends" ] || exit 1
        url=https://192.0.2.9
        echo "1a, started, cp-1, $url:2380, $url:2379, $(is learner true false)"
        ;;
    *"endpoint health"*) echo healthy ;;
    *"snapshot save"*)
        [ ! -e "$host/etcd-ends" ] || { echo "context deadline exceeded"; exit 1; }
        : >"$host/var/lib/etcd/gpu-cluster.snapshot"
        ;;
    *"get configmap"*) echo "kubernetesVersion: v$(cat "$host/cluster-version")" ;;
    *certificates-renewed*) echo "$(cat "$host/renewed") $(is ready True False)" ;;
    *gpu-cluster/applied*)
        applied=$(sed -n "s/^applied: //p" "$host/etc/kubernetes/manifests/kube-vip.yaml")
        echo "$applied $(is ready True False)"
        ;;
esac
EOF
    fake kubeadm <<'EOF'
case " $* " in
    *" validate "*)
        ! grep -q unknownField "$host/run/gpu-cluster-prepare/init.yaml" || { echo "error: unknown field"; exit 1; }
        ;;
    *" join "*)
        [ -e "$host/joins" ] || { echo "[ERROR FileAvailable]: /etc/kubernetes/pki/ca.crt exists"; exit 1; }
        ;;
    *" token create "*)
        [ -e "$host/no-hash" ] || echo "kubeadm join --discovery-token-ca-cert-hash sha256:$(printf %064d 1)"
        ;;
esac
EOF
}
