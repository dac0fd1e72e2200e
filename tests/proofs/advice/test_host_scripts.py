"""Cures of the scripts on hosts are followed: the same function of the script then ends well.

Each row runs a function of the scripts on a root of its own (`GPU_CLUSTER_ROOT`), once with a fault
and once after the act that the cure names. The programs of other projects are fakes that print what
the real programs print, as far as the function reads it: kubeadm (kubernetes v1.34
cmd/kubeadm/app), etcdctl (etcd v3.6 etcdctl/ctlv3), apt-get(8), dnf(8), rpmkeys(8),
grub-mkconfig(8), modprobe(8), sysctl(8), docker and ctr.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.error_texts import ROOT
from tests.proofs.advice.following import named
from tests.proofs.advice.rows import Record, row_of

STEPS = ROOT / "components/gpu_cluster/hosts/steps"
BASE = ("library/base", "library/effects", "library/files", "library/expectations")
PREPARE = (*BASE, "library/package_manager", "library/transactions", "library/holds")
DRIVER = (
    *PREPARE,
    "library/versions",
    "library/repositories",
    "library/runfile",
    "driver",
    "library/driver_packages",
    "library/gpu_holders",
    "library/driver_runfile",
    "library/module_streams",
    "library/fabric",
)
MEMBER = (
    *BASE,
    "library/versions",
    "library/joined",
    "library/etcd",
    "library/kube_vip",
    "library/certificates",
    "library/init",
    "library/member",
)
HELPERS = Path(__file__).with_name("host_fakes.sh").read_text(encoding="utf-8")
SETTINGS = """
manager=apt
GC_PACKAGE_RUN_LIMIT=60 GC_PACKAGE_LOCK_LIMIT=0 GC_REMOVE_PACKAGES=true GC_NODE=gpu-1
"""


@dataclass(frozen=True)
class Row:
    """A fault of a script's function, and what its cure says.

    Attributes:
        file: Script that has the text.
        call: Function that fails.
        broken: Shell commands that make the fault.
        cure: Words of the cure.
        act: Shell commands that do what the cure says.
        files: Scripts that are loaded.
        settings: Shell settings of the declaration.
        program: Program of this machine that the functions run; empty: none.
    """

    file: str
    call: str
    broken: str
    cure: str
    act: str
    files: tuple[str, ...] = PREPARE
    settings: str = ""
    program: str = ""


CAN_PULL = (
    'case " $* " in *" images ls "*|*" image inspect "*) {missing} ;; *" pull "*) case " $* " in '
    "*registry.example.com/cuda*) exit 0 ;; esac; echo not found; exit 1 ;; esac"
)
RUNFILE = 'each_driver_location() { "$@" "$location"; }; location=/driver.run\n'
LOAD = """
fake modinfo 'echo 595.91.07'
fake modprobe '[ -e "$host/loads" ] || { echo "Key was rejected by service"; exit 1; }'
"""
ROWS = {
    "no program for an undo": Row(
        "base.sh", "need nvidia-tool", "", "install the package it is in", "fake nvidia-tool :"
    ),
    "part of an undo": Row(
        "base.sh",
        'removed() { [ ! -e "$root/etc/busy" ] || fail_file "can\'t remove /etc/busy"; }; '
        "attempt /etc/busy removed; refuse_left",
        ': >"$host/etc/busy"',
        "correct what the errors above name",
        'rm "$host/etc/busy"',
    ),
    "no flock": Row(
        "base.sh",
        "PATH=$root/few; root=; lock",
        "few mkdir chmod rm",
        "install the package util-linux",
        "few flock",
        settings="root=$host scratch=$host/run/x",
    ),
    "another run": Row(
        "base.sh",
        "lock",
        '(exec 8>"$host/run/gpu-cluster.lock"; flock 8; exec sleep 30) >/dev/null 2>&1 & '
        'echo $! >"$host/holder"; until ! flock -n "$host/run/gpu-cluster.lock" true; do :; done',
        "or end it",
        'kill "$(cat "$host/holder")"; flock "$host/run/gpu-cluster.lock" true',
        settings="GC_LOCK_LIMIT=1",
    ),
    "scripts of another run": Row(
        "base.sh",
        "require_steps",
        "",
        "run `pulumi up` again",
        'mkdir -p "$host/var/lib/gpu-cluster/steps"',
        settings="loaded=' driver'",
    ),
    "unknown action": Row(
        "base.sh",
        'undo() { :; }; main "$action"',
        "edit action=remove",
        "name one of apply, fetch, upgrade and undo",
        "edit action=undo",
    ),
    "full file system": Row(
        "base.sh",
        "keep_text settings x",
        'ln -s /dev/full "$host/var/lib/gpu-cluster/prepare/draft"',
        "free space there (df)",
        'rm "$host/var/lib/gpu-cluster/prepare/draft"',
    ),
    "unit that fails": Row(
        "base.sh",
        "unit_on nvidia-imex",
        'units; : >"$host/broken-unit"',
        "correct what `systemctl status`",
        'rm "$host/broken-unit"',
    ),
    "interrupted dpkg": Row(
        "base.sh",
        "install_packages nvidia-imex=595.91.07",
        'packages; offer nvidia-imex 595.91.07; : >"$host/broken"',
        "`dpkg --configure -a`",
        "dpkg --configure -a",
    ),
    "kubeadm that refuses": Row(
        "base.sh",
        "kubernetes_join",
        "cluster",
        "correct what kubeadm names",
        ': >"$host/joins"',
        files=MEMBER,
        settings="GC_JOIN='kind: JoinConfiguration' GC_JOIN_LIMIT=60 "
        "GC_JOIN_ENDPOINT=192.0.2.9:6443",
    ),
    "installer that fails": Row(
        "base.sh",
        "apply_cuda",
        'echo \'path=${5#*=}; [ -e "$host/space" ] || { echo "no space"; exit 1; }; '
        'mkdir -p "$path/bin"; : >"$path/bin/cuda-uninstaller"; '
        'chmod 755 "$path/bin/cuda-uninstaller"\' >"$host/cuda.run"; export host',
        "read the installer's log from its end",
        ': >"$host/space"',
        files=(*DRIVER, "cuda"),
        settings='each_cuda_location() { "$@" /cuda.run; }; GC_CUDA_SHA256=$(sums cuda.run); '
        "GC_CUDA_VERSION=13.0 GC_CUDA_SOURCE=runfile",
    ),
    "runfile of another CUDA": Row(
        "cuda.sh",
        "apply_cuda",
        'echo \'mkdir -p "$host/usr/local/cuda-13.1/bin"; '
        'cp /bin/sh "$host/usr/local/cuda-13.1/bin/cuda-uninstaller"\' >"$host/cuda.run"',
        "correct cuda.version",
        "edit GC_CUDA_VERSION=13.1",
        files=(*DRIVER, "cuda"),
        settings='each_cuda_location() { "$@" /cuda.run; }; GC_CUDA_SHA256=$(sums cuda.run); '
        "GC_CUDA_VERSION=13.0 GC_CUDA_SOURCE=runfile",
    ),
    "image for containerd": Row(
        "containerd.sh",
        'smi_in_container "$image"',
        "fake ctr '" + CAN_PULL.format(missing=":") + "'",
        "correct the image",
        "edit image=registry.example.com/cuda:13",
        files=(*BASE, "containerd"),
        settings="dump() { : >$2; }; engine_program=ctr socket= image=registry.example.com/cudo:13",
    ),
    "image for Docker": Row(
        "docker.sh",
        'smi_in_container "$image"',
        "fake docker '" + CAN_PULL.format(missing="exit 1") + "'",
        "correct the image",
        "edit image=registry.example.com/cuda:13",
        files=(*BASE, "docker"),
        settings="image=registry.example.com/cudo:13",
    ),
    "member without a group": Row(
        "docker.sh",
        "after_start",
        'fake id "echo users"; fake usermod \'[ -e "$host/group" ] || '
        '{ echo "usermod: group docker does not exist"; exit 6; }\'',
        "or create the user (useradd) and the group",
        ': >"$host/group"',
        files=(*BASE, "docker"),
        settings="GC_DOCKER_MEMBERS=ada GC_DOCKER_FORWARD=leave",
    ),
    "member that is removed": Row(
        "docker.sh",
        "after_start",
        'fake id "echo users"; fake usermod "exit 6"; fake gpasswd :',
        "remove the user from runtime.docker.members",
        "edit GC_DOCKER_MEMBERS=",
        files=(*BASE, "docker"),
        settings="GC_DOCKER_MEMBERS=ada GC_DOCKER_FORWARD=leave",
    ),
    "module that isn't signed": Row(
        "driver.sh",
        "driver_load",
        LOAD,
        "enrol the key that signed the module",
        ': >"$host/loads"',
        files=DRIVER,
        settings="GC_DRIVER_VERSION=595.91.07",
    ),
    "archive of another program": Row(
        "engine.sh",
        "place_adapter",
        'units; mkdir -p "$host/x/other"; tar -C "$host/x" -czf "$host/bad.tgz" other; '
        'mkdir -p "$host/x/cri-dockerd"; : >"$host/x/cri-dockerd/cri-dockerd"; '
        'tar -C "$host/x" -czf "$host/good.tgz" cri-dockerd',
        "declare the release's own .tgz",
        "edit 'archive=good.tgz GC_ADAPTER_SHA256=$(sums good.tgz)'",
        files=(*DRIVER, "engine"),
        settings="archive=bad.tgz GC_ADAPTER_SHA256=$(sums bad.tgz) "
        "adapter=/usr/local/bin/cri-dockerd; "
        'each_adapter_location() { "$@" "/$archive"; }',
    ),
    "release of no kernel": Row(
        "kernel.sh",
        "apply_kernel",
        "packages; offer linux-image-6.1.0-18 1; offer linux-headers-6.1.0-18 1; "
        "offer linux-image-6.1.0-18-amd64 1; offer linux-headers-6.1.0-18-amd64 1; "
        'mkdir -p "$host/boot/loader/entries" "$host/etc/default"; '
        ': >"$host/boot/vmlinuz-6.1.0-18-amd64"; '
        ': >"$host/boot/loader/entries/x-6.1.0-18-amd64.conf"; : >"$host/etc/default/grub"',
        "correct kernel.release",
        "edit GC_KERNEL_RELEASE=6.1.0-18-amd64",
        files=(*PREPARE, "library/repositories", "kernel"),
        settings="GC_KERNEL_RELEASE=6.1.0-18 GC_KERNEL_HOLD=false",
    ),
    "kernel without its modules": Row(
        "kernel.sh",
        "kernel_packages",
        "packages",
        "declare a repository that has the package",
        "offer linux-modules-extra-6.8.0-60-generic 1",
        files=(*PREPARE, "kernel"),
        settings="GC_KERNEL_RELEASE=6.8.0-60-generic",
    ),
    "no tool for the boot menu": Row(
        "kernel.sh",
        "write_boot_menu",
        "",
        "install GRUB's tools",
        'fake grub-mkconfig ":"; mkdir -p "$host/boot/grub"',
        files=(*PREPARE, "kernel"),
        settings='have() { [ -x "$host/bin/$1" ]; }',
    ),
    "wrong boot menu": Row(
        "kernel.sh",
        "write_boot_menu",
        'fake grub-mkconfig \'[ -e "$host/right" ] || { echo "Syntax errors"; : >"$2.new"; }\'; '
        'mkdir -p "$host/boot/grub"',
        "correct /etc/default/grub",
        ': >"$host/right"',
        files=(*PREPARE, "kernel"),
        settings='have() { [ -x "$host/bin/$1" ]; }',
    ),
    "cluster of another host": Row(
        "access.sh",
        "main",
        "cluster",
        "run `pulumi up` again",
        'mkdir -p "$host/var/lib/gpu-cluster/cluster" "$host/etc/kubernetes"; '
        ': >"$host/var/lib/gpu-cluster/cluster/complete"; : >"$host/etc/kubernetes/admin.conf"',
        files=(*MEMBER, "library/access"),
        settings="GC_TOKEN='token: @TOKEN@'",
    ),
    "output of kubeadm without hashes": Row(
        "access.sh",
        "main",
        'cluster; mkdir -p "$host/var/lib/gpu-cluster/cluster" "$host/etc/kubernetes"; '
        ': >"$host/var/lib/gpu-cluster/cluster/complete"; : >"$host/etc/kubernetes/admin.conf"; '
        ': >"$host/no-hash"',
        "run `kubeadm token create --print-join-command` on this host",
        'rm "$host/no-hash"',
        files=(*MEMBER, "library/access"),
        settings="GC_TOKEN='token: @TOKEN@'",
    ),
    "broken sources of apt": Row(
        "apt_entries.sh",
        'apt_addresses "$root/etc/apt/sources.list" "$scratch/addresses"',
        'fake apt-get \'grep -q "^deb http" "$host/etc/apt/sources.list" || '
        '{ echo "E: Malformed entry 1 in list file"; exit 100; }\'; mkdir -p "$host/etc/apt"; '
        'echo deb >"$host/etc/apt/sources.list"',
        "correct that file",
        'echo "deb http://deb.debian.org/debian stable main" >"$host/etc/apt/sources.list"',
        files=(*PREPARE, "library/repositories", "library/apt_entries"),
    ),
    "unverified entry": Row(
        "apt_entries.sh",
        'architecture=amd64; echo "$root/etc/apt/sources.list" >"$scratch/entries"; '
        "options_of_entries https://example.com/x stable; key=x text=y; "
        "use_entries x https://example.com/x",
        'packages; mkdir -p "$host/etc/apt"; '
        'echo "deb [trusted=yes] https://example.com/x stable main" >"$host/etc/apt/sources.list"',
        "remove the options trusted and allow-insecure",
        'echo "deb https://example.com/x stable main" >"$host/etc/apt/sources.list"',
        files=(*PREPARE, "library/repositories", "library/apt_entries"),
        settings="step=driver",
    ),
    "refused entry": Row(
        "apt_entries.sh",
        'echo "$root/etc/apt/sources.list" >"$scratch/entries"; : >"$scratch/unverified"; '
        'use_entries x "$url"',
        'packages; mkdir -p "$host/etc/apt"; echo "deb $url stable main" '
        '>"$host/etc/apt/sources.list"; '
        'fake apt-get \'for word in "$@"; do case $word in Dir::Etc::sourcelist=*check.sources) '
        'grep -q "right key" "${word#*=}" || { echo "E: NO_PUBKEY 3BF863CC"; '
        "exit 100; } ;; esac; done'",
        "correct the repository in the stack file",
        "edit \"text='right key'\"",
        files=(*PREPARE, "library/repositories", "library/apt_entries"),
        settings="step=driver key=x text=y url=https://example.com/x",
    ),
    "change without a rollout": Row(
        "disruption.sh",
        "require_rollout",
        'echo "driver 580.95.05" >"$host/var/lib/gpu-cluster/prepare/disrupts"',
        "run `pulumi up` with the inspection",
        "edit GC_ROLLOUT=1",
        files=(*BASE, "library/disruption"),
        settings="GC_DISRUPTS='driver 595.91.07'",
    ),
    "static pod with old certificates": Row(
        "certificates.sh",
        "restart_static_pod etcd",
        'cluster; mkdir -p "$host/etc/kubernetes/manifests"; : '
        '>"$host/etc/kubernetes/manifests/etcd.yaml"',
        "run `gpu-cluster up` again: it restarts all static pods again",
        ': >"$host/ready"',
        files=MEMBER,
    ),
    "Docker that runs on": Row(
        "docker_data.sh",
        "move_data /var/lib/docker /data/docker",
        'units; mkdir -p "$host/units" "$host/var/lib/docker"; : '
        '>"$host/units/docker"; : >"$host/busy"',
        "stop it (systemctl stop docker.socket docker)",
        'rm "$host/busy"; systemctl stop docker.socket docker',
        files=(*BASE, "library/docker_data"),
    ),
    "full disk for Docker": Row(
        "docker_data.sh",
        "move_data /var/lib/docker /data/docker",
        'units; mkdir -p "$host/var/lib/docker" "$host/data/docker/lost+found"; '
        'fake cp "echo No space left on device; exit 1"',
        "free space for",
        'rm "$host/bin/cp"',
        files=(*BASE, "library/docker_data"),
    ),
    "driver of an earlier runfile": Row(
        "driver_runfile.sh",
        "driver_runfile",
        "units; fake modinfo 'echo 580.95.05'; "
        'mkdir -p "$host/usr/bin"; echo \'rm -f "$0"\' >"$host/usr/bin/nvidia-uninstall"; '
        'chmod 755 "$host/usr/bin/nvidia-uninstall"; packages; echo : >"$host/driver.run"',
        "declare driver.removeEarlier: true",
        "edit GC_DRIVER_REMOVE_EARLIER=true",
        files=DRIVER,
        settings=RUNFILE + "GC_DRIVER_SHA256=$(sums driver.run); GC_DRIVER_VERSION=595.91.07 "
        "GC_DRIVER_REMOVE_EARLIER=false GC_DRIVER_MODULES=auto GC_DRIVER_DKMS=false step=driver",
    ),
    "member of etcd without a vote": Row(
        "etcd.sh",
        "require_etcd",
        'cluster; : >"$host/learner"; mkdir -p "$host/etc/kubernetes/manifests"; '
        ': >"$host/etc/kubernetes/manifests/etcd.yaml"',
        "when etcdctl endpoint health --cluster reports no error",
        'rm "$host/learner"',
        files=MEMBER,
    ),
    "little space for a snapshot": Row(
        "etcd.sh",
        "take_snapshot",
        'cluster; mkdir -p "$host/etc/kubernetes/manifests" "$host/var/lib/etcd"; '
        ': >"$host/etc/kubernetes/manifests/etcd.yaml"; '
        'fake df "echo head; echo disk 9 9 \\$(cat $host/free)"; echo 9 >"$host/free"',
        "when that space is free",
        'echo 99999999 >"$host/free"',
        files=MEMBER,
    ),
    "etcd that doesn't answer": Row(
        "etcd.sh",
        "take_snapshot",
        'cluster; mkdir -p "$host/etc/kubernetes/manifests" "$host/var/lib/etcd"; '
        ': >"$host/etc/kubernetes/manifests/etcd.yaml"; : >"$host/etcd-ends"',
        "when etcd answers on this host",
        'rm "$host/etcd-ends"',
        files=MEMBER,
    ),
    "no IMEX in the repositories": Row(
        "fabric.sh",
        "imex_on",
        "packages; units",
        "declare driver.repository or a mirror that has it",
        "offer nvidia-imex 595.91.07",
        files=DRIVER,
        settings="GC_DRIVER_IMEX_NODES=192.0.2.1 GC_DRIVER_VERSION=595.91.07 step=driver",
    ),
    "no fabric manager in the repositories": Row(
        "fabric.sh",
        "fabric_on",
        "packages; units",
        "declare driver.repository or a mirror that has it",
        "offer nvidia-fabricmanager 595.91.07",
        files=DRIVER,
        settings="GC_DRIVER_FABRIC_MANAGER=on GC_DRIVER_VERSION=595.91.07 step=driver",
    ),
    "old driver for NVSwitches": Row(
        "fabric.sh",
        "fabric_on",
        "packages; units; fake modprobe :; device=$host/sys/bus/pci/devices/0000:01:00.0; "
        'mkdir -p "$device"; echo SW_MNG >"$device/vpd"; for version in 550.163.01 595.91.07; do '
        "offer nvidia-fabricmanager $version; offer libnvsdm $version; done; offer nvlsm 1; "
        "offer infiniband-diags 1",
        "declare a driver.version of that branch",
        "edit GC_DRIVER_VERSION=595.91.07",
        files=DRIVER,
        settings="GC_DRIVER_FABRIC_MANAGER=on GC_DRIVER_VERSION=550.163.01 step=driver",
    ),
    "GPUs in use": Row(
        "gpu_holders.sh",
        'require_no_holders "before driver 595.91.07"',
        'mkdir -p "$host/proc/77/fd"; ln -s /dev/nvidia0 "$host/proc/77/fd/3"; '
        'echo 0::/user.slice >"$host/proc/77/cgroup"; echo python >"$host/proc/77/comm"',
        "end these programs",
        'rm -r "$host/proc/77"',
        files=DRIVER,
    ),
    "changed configuration of a cluster": Row(
        "init.sh",
        "initialize",
        'echo "podSubnet: 10.244.0.0/16" >"$host/var/lib/gpu-cluster/prepare/configuration"; '
        ': >"$host/var/lib/gpu-cluster/prepare/complete"',
        "undo the change of kubernetesPackages.init",
        "edit \"GC_INIT='podSubnet: 10.244.0.0/16'\"",
        files=MEMBER,
        settings="GC_INIT='podSubnet: 10.0.0.0/16' step=member",
    ),
    "configuration that kubeadm refuses": Row(
        "init.sh",
        "initialize",
        "cluster",
        "correct kubernetesPackages.init",
        "edit \"GC_INIT='kind: ClusterConfiguration'\"",
        files=MEMBER,
        settings="GC_INIT='unknownField: 1' step=member GC_MEMBER_LIMIT=60 "
        "GC_JOIN_ENDPOINT=192.0.2.9:6443",
    ),
    "no kubeadm for a control plane": Row(
        "init.sh",
        "undo_initialized",
        "",
        "install kubeadm",
        "fake kubeadm :",
        files=MEMBER,
    ),
    "no kubeadm for a worker": Row(
        "joined.sh",
        "undo_joined",
        'mkdir -p "$host/etc/kubernetes"; : >"$host/etc/kubernetes/kubelet.conf"',
        "install kubeadm",
        "fake kubeadm :",
        files=(*BASE, "library/joined"),
    ),
    "no kubeadm for a member": Row(
        "member.sh", "undo_member", "", "install kubeadm", "fake kubeadm :", files=MEMBER
    ),
    "kube-vip that isn't ready": Row(
        "kube_vip.sh",
        "run_kube_vip",
        "cluster",
        "when crictl logs shows no error of kube-vip",
        ': >"$host/ready"; rm "$host/etc/kubernetes/manifests/kube-vip.yaml"',
        files=MEMBER,
        settings="GC_KUBE_VIP='applied: @APPLIED@' GC_KUBE_VIP_ADDRESS=192.0.2.9",
    ),
    "kube-vip that runs on": Row(
        "kube_vip.sh",
        "undo_kube_vip 192.0.2.9",
        'fake pidof \'[ -e "$host/vip" ]\'; fake ip :; : >"$host/vip"',
        "when crictl ps shows no kube-vip",
        'rm "$host/vip"',
        files=MEMBER,
    ),
    "address that stays": Row(
        "kube_vip.sh",
        "drop_address 192.0.2.9",
        'fake ip \'case $2 in address) [ ! -e "$host/address" ] || '
        'echo "2: eth0    inet 192.0.2.9/32 scope global eth0" ;; *) '
        'echo "RTNETLINK answers: Operation not permitted"; exit 2 ;; esac\'; : >"$host/address"',
        "when ip address delete",
        'rm "$host/address"',
        files=MEMBER,
    ),
    "no cluster to lend": Row(
        "lend.sh",
        "main",
        "",
        "run `gpu-cluster up` again",
        ': >"$host/var/lib/gpu-cluster/prepare/complete"',
        files=(*MEMBER, "library/lend"),
    ),
    "no member of etcd that answers": Row(
        "lend.sh",
        "main",
        'cluster; : >"$host/etcd-ends"; : >"$host/var/lib/gpu-cluster/prepare/complete"',
        "when a control plane answers",
        'rm "$host/etcd-ends"',
        files=(*MEMBER, "library/lend"),
        settings="GC_JOINING=cp-2 GC_MEMBERS='cp-1 cp-2' GC_TOKEN='token: @TOKEN@'",
    ),
    "output of kubeadm without hashes, for a member": Row(
        "lend.sh",
        "main",
        'cluster; : >"$host/no-hash"; : >"$host/var/lib/gpu-cluster/prepare/complete"',
        "run `kubeadm token create --print-join-command` on this host",
        'rm "$host/no-hash"',
        files=(*MEMBER, "library/lend"),
        settings="GC_JOINING=cp-2 GC_MEMBERS='cp-1 cp-2' GC_TOKEN='token: @TOKEN@'",
    ),
    "join without a token": Row(
        "member.sh",
        "join_control_plane",
        'cluster; : >"$host/joins"',
        "run `gpu-cluster up` again",
        'mkdir -p "$host/run/gpu-cluster-lent"; : >"$host/run/gpu-cluster-lent/join.yaml"',
        files=MEMBER,
        settings="step=member GC_MEMBER_LIMIT=60 GC_JOIN_ENDPOINT=192.0.2.9:6443",
    ),
    "no stream of the driver": Row(
        "module_streams.sh",
        "enable_stream nvidia-driver 595-open",
        'fake dnf \'case " $* " in *" list "*) cat "$host/streams" ;; esac\'; '
        'echo "nvidia-driver 580-open default" >"$host/streams"',
        "declare a repository that has it",
        'echo "nvidia-driver 595-open default" >>"$host/streams"',
        files=DRIVER,
        settings="manager=dnf step=driver",
    ),
    "package manager at work": Row(
        "package_manager.sh",
        "await_package_manager",
        'mkdir -p "$host/var/lib/dpkg" "$host/proc"; : >"$host/var/lib/dpkg/lock"; '
        'echo "1: POSIX ADVISORY WRITE 77 08:01:$(stat -c %i "$host/var/lib/dpkg/lock") 0 EOF" '
        '>"$host/proc/locks"',
        "wait until it ends",
        ': >"$host/proc/locks"',
    ),
    "package of no repository": Row(
        "package_manager.sh",
        "install_packages nvidia-open-595",
        "packages",
        "declare a repository or mirror that has it",
        "offer nvidia-open-595 595.91.07",
        settings="step=driver",
    ),
    "no program for downloads": Row(
        "repositories.sh",
        'PATH=$host/few; download "file://$host/key" "$sum" "$host/copy"',
        'echo key >"$host/key"; few rm timeout mv sha256sum',
        "install curl",
        "few curl",
        files=DRIVER,
        settings="root=$host sum=$(sums key)",
        program="curl",
    ),
    "digest of a download": Row(
        "repositories.sh",
        'download "file://$host/key" "$sum" "$host/copy"',
        'echo key >"$host/key"',
        "correct the digest in the stack file",
        "edit 'sum=$(sums key)'",
        files=DRIVER,
        settings=f"sum={'1' * 64}",
        program="curl",
    ),
    "key of a repository": Row(
        "repositories.sh",
        'fetch_keys driver "file://$host/$name" "$(sums key)"',
        'echo key >"$host/key"',
        "correct the repository's key in the stack file",
        "edit name=key",
        files=DRIVER,
        settings="name=kay",
        program="curl",
    ),
    "repository that apt refuses": Row(
        "repositories.sh",
        'apt_repository driver "$url" stable main',
        'packages; units; mkdir -p "$host/etc/apt"; fake dpkg "echo amd64"; '
        'fake apt-get \'case " $* " in *print-uris*) exit 0 ;; esac; '
        'grep -rqs "packages.example.com" "$host/etc/apt/sources.list.d" || '
        '{ echo "E: The repository does not have a Release file"; exit 100; }\'',
        "correct the repository in the stack file",
        "edit url=https://packages.example.com/x",
        files=(*DRIVER, "library/apt_entries"),
        settings="step=driver key=x url=https://example.com/x",
    ),
    "repository that dnf refuses": Row(
        "repositories.sh",
        'dnf_repository driver "$url" both',
        "fake rpm :; fake rpmkeys :; fake dnf 'grep -qs packages.example.com "
        '"$host/etc/yum.repos.d/gpu-cluster-driver.repo" || '
        '{ echo "Error: Failed to download metadata"; exit 1; }\'',
        "correct the repository in the stack file",
        "edit url=https://packages.example.com/x",
        files=DRIVER,
        settings="step=driver key=x url=https://example.com/x manager=dnf",
    ),
    "key that rpm can't read": Row(
        "repositories.sh",
        'step_file "$file" "$key"; dnf_key "$file"',
        'fake rpm :; fake rpmkeys \'grep -q BEGIN "$2" || { echo "import read failed"; exit 1; }\'',
        "correct the repository's key in the stack file",
        "edit \"key='-----BEGIN PGP PUBLIC KEY BLOCK-----'\"",
        files=DRIVER,
        settings="step=driver key=x manager=dnf "
        "file=/etc/pki/rpm-gpg/RPM-GPG-KEY-gpu-cluster-driver",
    ),
    "runfile that is nowhere": Row(
        "library/runfile.sh",
        'have_runfile driver "$(sums driver.run)" each_driver_location',
        'echo : >"$host/driver.run"',
        "correct the locations of the runfile",
        "edit location=/driver.run",
        files=DRIVER,
        settings=RUNFILE + "location=/drivers.run",
    ),
    "digest of a runfile": Row(
        "library/runfile.sh",
        'have_runfile driver "$sum" each_driver_location',
        'echo : >"$host/driver.run"',
        "correct the digest or the file's address",
        "edit 'sum=$(sums driver.run)'",
        files=DRIVER,
        settings=RUNFILE + f"sum={'1' * 64}",
    ),
    "container without GPUs": Row(
        "runtime.sh",
        "check_gpus",
        'mkdir -p "$host/proc/driver/nvidia"; : >"$host/proc/driver/nvidia/version"; '
        'fake docker \'case $1 in run) [ -e "$host/configured" ] && echo "GPU 0: A100" || '
        'echo "unknown runtime nvidia" ;; esac\'',
        "check nvidia-smi on the host, and /etc/docker/daemon.json",
        ': >"$host/configured"',
        files=(*BASE, "library/runtime", "docker"),
        settings="GC_CHECK_IMAGE=registry.example.com/cuda:13",
    ),
    "packages that can't be downloaded": Row(
        "transactions.sh",
        "fetch_packages nvidia-open=595.91.07",
        'packages; offer nvidia-open 595.91.07; : >"$host/broken"',
        "declare a repository that has them",
        'rm "$host/broken"',
        settings="step=driver",
    ),
    "cluster of an earlier version": Row(
        "upgraded.sh",
        "require_upgraded_cluster",
        'cluster; echo 1.35.2 >"$host/cluster-version"',
        "run `gpu-cluster up` again when that host is ready",
        'echo 1.36.3 >"$host/cluster-version"',
        files=(*MEMBER, "library/upgraded"),
        settings="upgrade_version=1.36.3",
    ),
    "module that isn't there": Row(
        "modules.sh",
        "apply_modules",
        "fake modprobe '[ -e \"$host/module\" ]'",
        "install the kernel's module package",
        ': >"$host/module"',
        files=(*BASE, "modules"),
        settings="GC_MODULES=gpu_cluster_test",
    ),
    "parameter of a module": Row(
        "sysctl.sh",
        "sysctl_set net.example.x 1",
        'fake sysctl \'[ -e "$host/module" ] || exit 1; echo "net.example.x = 0"\'',
        "declare the kernel module that brings it in system.modules",
        ': >"$host/module"',
        files=(*BASE, "sysctl"),
        settings='found_sysctl() { value=$(sysctl -n "$1"); [ "$value" = "$2" ]; }',
    ),
    "value of a parameter": Row(
        "sysctl.sh",
        'sysctl_set vm.swappiness "$wanted"',
        "fake sysctl 'case $* in *=much) echo \"Invalid argument\"; exit 1 ;; esac; echo 60'",
        "correct system.sysctl in the stack file",
        "edit wanted=10",
        files=(*BASE, "sysctl"),
        settings='found_sysctl() { value=$(sysctl -n "$1"); [ "$value" = "$2" ]; }; wanted=much',
    ),
}


def run(host: Path, row: Row, commands: str, *, loads: bool = False) -> tuple[int, str]:
    """Run shell commands on a host's root; return the exit status and what stands on both streams.

    Args:
        host: The root.
        row: Scripts and settings.
        commands: What runs.
        loads: Whether the scripts are loaded before.
    """
    texts = [f"host={host}", "export host", "PATH=$host/bin:$PATH", HELPERS]
    if loads:
        state = "$host/var/lib/gpu-cluster/prepare"
        texts += [
            f"GPU_CLUSTER_ROOT={host}",
            "GC_PHASE=prepare",
            "GC_KUBERNETES_PACKAGES=kubelet=1",
        ]
        texts += [(STEPS / f"{name}.sh").read_text(encoding="utf-8") for name in row.files]
        texts += [SETTINGS, row.settings, f'. "{host}/settings"']
        texts += [
            f'rm -rf "$scratch"; mkdir -p "{state}" "$scratch"; : >"$scratch/log"; '
            ': >"$scratch/wanted"'
        ]
    done = subprocess.run(
        ["sh", "-s"],
        input="\n".join([*texts, commands]),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, f"{done.stdout}{done.stderr}"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Return the root of a host, on which no program pauses."""
    for folder in ("bin", "etc", "run", "var/lib/gpu-cluster/prepare"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "settings").touch()
    pause = tmp_path / "bin/sleep"
    pause.write_text("#!/bin/sh\n[ $1 -lt 30 ] 2>/dev/null || exec /bin/sleep $1\n")
    pause.chmod(0o755)
    return tmp_path


@pytest.mark.promise("A cure of a script on a host removes the fault and brings no new one.")
@pytest.mark.parametrize("row", named(ROWS))
def test_the_cure_of_a_script_is_followed(row: Row, host: Path, record_property: Record) -> None:
    if row.program and shutil.which(row.program) is None:
        pytest.skip(f"no {row.program}")
    prepared = run(host, row, f"{row.settings}\n{row.broken}")
    assert prepared[0] == 0, prepared
    status, printed = run(host, row, row.call, loads=True)
    errors = [line for line in printed.splitlines() if line.startswith("error: host ")]
    assert (status, bool(errors)) == (1, True), printed
    assert row.cure in errors[-1], printed
    anchor = row_of(errors[-1], row.file)
    acted = run(host, row, row.act)
    assert acted[0] == 0, acted
    status, printed = run(host, row, row.call, loads=True)
    assert (status, "error: " in printed) == (0, False), printed
    record_property("advice", ("cure", anchor, True))
