"""Inventories and running clusters of which stack files are drafted, and what they must become."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster.commands.adoption.draft import (
    HostKeys,
)
from gpu_cluster.commands.adoption.machines import Found, find, places_of
from gpu_cluster.commands.adoption.observed import ObservedCluster
from gpu_cluster.commands.ansible.read import read
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_cluster.settings.cluster import Cluster
from tests.fixtures.documents import KEYS
from tests.fixtures.running_clusters import by_helm, by_manifest, cluster, machine


@dataclass(frozen=True, kw_only=True)
class Case:
    """A real Ansible inventory with changed names and addresses, and the expected stack file.

    Attributes:
        files: Contents of files by path; the first file is the inventory.
        pools: Nodes and GPUs of each pool, by the pool's name.
        hosts: Node, address and user of each host.
        comments: Texts that the comments of the stack file must contain.
        platform: GPU platform of the stack file.
        engine: Container engine of the stack file.
    """

    files: dict[str, str]
    pools: dict[str, tuple[tuple[str, ...], int]]
    hosts: tuple[tuple[str, str, str], ...]
    comments: tuple[str, ...] = ()
    platform: str = "device-plugin"
    engine: str = "containerd"


ASSUMED = "Assumed: the number of GPUs"
BY_NAME = "their names show it"
BY_GROUP = "in a group with such a name"
PASSWORD = "Ansible logs in with a password"
CASES = {
    # NVIDIA/deepops, virtual/virtual_inventory_full: the control plane runs pods, too.
    "deepops": Case(
        files={
            "inventory": """
[all]
mgmt01 ansible_host=192.0.2.2 ip=192.0.2.2
gpu01 ansible_host=192.0.2.11 ip=192.0.2.11
gpu02 ansible_host=192.0.2.12 ip=192.0.2.12

[kube-master]
mgmt01

[etcd]
mgmt01

[kube-node]
mgmt01
gpu01
gpu02

[k8s-cluster:children]
kube-master \t
kube-node \t

[slurm-node]
gpu01

[all:vars]
ansible_user=ops
ansible_password=not-to-be-repeated
"""
        },
        pools={"gpu": (("gpu01", "gpu02"), 8)},
        hosts=(("gpu01", "192.0.2.11", "ops"), ("gpu02", "192.0.2.12", "ops")),
        comments=(BY_NAME, ASSUMED, PASSWORD, "1 other machine"),
    ),
    # NVIDIA/deepops, config.example/inventory and config.example/group_vars/k8s_cluster.yml.
    "deepops with the operator": Case(
        files={
            "inventory": """
[kube-master]
mgmt01 ansible_host=192.0.2.1
[kube-node]
dgx01 ansible_host=192.0.2.21
dgx02 ansible_host=192.0.2.22
[k8s_cluster:children]
kube-master
kube-node
[all:vars]
ansible_user=ubuntu
ansible_ssh_common_args='-o ProxyCommand="ssh -W %h:%p -q ubuntu@198.51.100.1"'
""",
            "group_vars/k8s_cluster.yml": """
ansible_become: true
container_manager: containerd
deepops_gpu_operator_enabled: true
artifacts_dir: "{{ inventory_dir }}/artifacts"
""",
        },
        pools={"gpu": (("dgx01", "dgx02"), 8)},
        hosts=(("dgx01", "192.0.2.21", "ubuntu"), ("dgx02", "192.0.2.22", "ubuntu")),
        platform="gpu-operator",
    ),
    # kubernetes-sigs/kubespray, inventory/akash-provider-sample/hosts.yaml, and the variables of
    # roles/container_engine_accelerator/nvidia_gpu.
    "kubespray with nvidia_gpu_nodes": Case(
        files={
            "hosts.yaml": """
all:
  hosts:
    node1: {ansible_host: 192.0.2.1, ip: 192.0.2.1, access_ip: 192.0.2.1}
    node2: {ansible_host: 192.0.2.2, ip: 192.0.2.2, access_ip: 192.0.2.2}
    node3: {ansible_host: 192.0.2.3, ip: 192.0.2.3, access_ip: 192.0.2.3}
  children:
    kube_control_plane: {hosts: {node1: }}
    kube_node: {hosts: {node1: , node2: , node3: }}
    etcd: {hosts: {node1: }}
    k8s_cluster: {children: {kube_control_plane: , kube_node: }}
    calico_rr: {hosts: {}}
""",
            "group_vars/k8s_cluster/k8s-cluster.yml": """
nvidia_accelerator_enabled: true
nvidia_gpu_nodes:
  - node2
  - node3
  - node9
nvidia_driver_version: "384.111"
""",
        },
        pools={"gpu": (("node2", "node3"), 8)},
        hosts=(("node2", "192.0.2.2", "root"), ("node3", "192.0.2.3", "root")),
        comments=("nvidia_gpu_nodes names them", "names node9", "384.111", "Nothing names a user"),
    ),
    # A playbook for offline sites, with ports, passwords and a quoted user.
    "kubespray that says nothing of GPUs": Case(
        files={
            "inventory.ini": """
[all]
master1 ansible_host=192.0.2.11 ansible_port=22 ansible_user="root" ansible_ssh_pass="x@1#y"
node4 ansible_host=192.0.2.14 ansible_port=2222 ansible_user="root" ansible_ssh_pass="x@1#y"
[kube_control_plane]
master1
[etcd]
master1
[kube_node]
node4
[k8s_cluster:children]
kube_control_plane
kube_node
"""
        },
        pools={"gpu": (("node4",), 8)},
        hosts=(("node4", "192.0.2.14", "root"),),
        comments=("no variable, group or name shows which nodes have GPUs", PASSWORD),
    ),
    # A home cluster of kubespray: a host has a node label.
    "kubespray with node_labels": Case(
        files={
            "hosts.yml": """
all:
  hosts:
    k8s-controller1: {ansible_host: 192.0.2.224, ip: 192.0.2.224}
    k8s-worker1:
      ansible_host: 192.0.2.253
      node_labels:
        gpu: "true"
        rack: 7
    k8s-worker2: {ansible_host: 192.0.2.210}
  children:
    kube_control_plane: {hosts: {k8s-controller1: {}}}
    kube_node: {hosts: {k8s-worker1: {}, k8s-worker2: {}}}
  vars: {ansible_user: admin, ansible_become: yes, ansible_become_password: not-to-be-repeated}
"""
        },
        pools={"gpu": (("k8s-worker1",), 8)},
        hosts=(("k8s-worker1", "192.0.2.253", "admin"),),
        comments=("a variable of the host shows it", "sudo requires a password"),
    ),
    # kubernetes-sigs/kubespray, docs/advanced: groups of dedicated nodes with node_taints.
    "kubespray with a dedicated group": Case(
        files={
            "inventory.ini": """
[kube_node]
worker[1:2]
h100-[01:03]

[h100_nodes]
h100-[01:03]

[h100_nodes:vars]
gpus_per_node=8
node_taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}, "team=ml:NoExecute"]
node_labels={"example.com/pool": "h100"}
"""
        },
        pools={"h100": (("h100-01", "h100-02", "h100-03"), 8)},
        hosts=tuple((f"h100-0{n}", f"h100-0{n}", "root") for n in (1, 2, 3)),
        comments=(BY_GROUP, "2 other machines"),
    ),
    # k3s-io/k3s-ansible, inventory-sample.yml: machines by address.
    "k3s": Case(
        files={
            "inventory.yml": """
---
k3s_cluster:
  children:
    server:
      hosts:
        192.0.2.11:
    agent:
      hosts:
        192.0.2.12:
        192.0.2.13:
  vars:
    ansible_port: 22
    ansible_user: debian
    k3s_version: v1.31.12+k3s1
    api_endpoint: "{{ hostvars[groups['server'][0]]['ansible_host'] | default('x') }}"
"""
        },
        pools={"gpu": (("192.0.2.12", "192.0.2.13"), 8)},
        hosts=(
            ("192.0.2.12", "192.0.2.12", "debian"),
            ("192.0.2.13", "192.0.2.13", "debian"),
        ),
        comments=("is an address, and nodes have names",),
        engine="k3s",
    ),
    # mul-cps/cps-gpu-cluster, bootstrap-cluster/terraform/templates/inventory.tpl.
    "k3s with gpu_workers": Case(
        files={
            "inventory.ini": """
[control_plane]
k3s-cp1 ansible_host=192.0.2.1 ansible_user=vm
[gpu_workers]
k3s-wk-gpu1 ansible_host=192.0.2.2 ansible_user=vm
k3s-wk-gpu2 ansible_host=192.0.2.3 ansible_user=vm
[storage]
k3s-storage ansible_host=192.0.2.4 ansible_user=vm
[k3s_cluster:children]
control_plane
gpu_workers
[k3s_cluster:vars]
ansible_python_interpreter=/usr/bin/python3
ansible_ssh_common_args='-o StrictHostKeyChecking=no'
"""
        },
        pools={"gpu": (("k3s-wk-gpu1", "k3s-wk-gpu2"), 8)},
        hosts=(("k3s-wk-gpu1", "192.0.2.2", "vm"), ("k3s-wk-gpu2", "192.0.2.3", "vm")),
        comments=(BY_GROUP,),
        engine="k3s",
    ),
    # A monitoring stack of an HPC site: ranges of full host names, and no group for Kubernetes.
    "ranges of whole names": Case(
        files={
            "inventory": """
[hpc1_compute_nodes]
compute[01:20].example.com    # CPUs

[hpc1_gpu_nodes]
gpu[01:03].example.com        # GPUs

[hpc1_head_nodes]
head01.example.com
"""
        },
        pools={"gpu": (tuple(f"gpu0{n}.example.com" for n in (1, 2, 3)), 8)},
        hosts=tuple((f"gpu0{n}.example.com", f"gpu0{n}.example.com", "root") for n in (1, 2, 3)),
        comments=(BY_GROUP, "21 other machines"),
    ),
    # A tutorial on Ansible for GPU sites: a group is a range of hosts, and sets their SSH user.
    "a range and a user": Case(
        files={
            "hosts": "[compute]\ngpu[01:16]\n[login]\nlogin01\n[compute:vars]\nansible_user=r2\n"
        },
        pools={"gpu": (tuple(f"gpu{n:02d}" for n in range(1, 17)), 8)},
        hosts=tuple((f"gpu{n:02d}", f"gpu{n:02d}", "r2") for n in range(1, 17)),
        comments=(BY_NAME,),
    ),
    # Inventories that Terraform writes: hosts are addresses, each with a number of GPUs.
    "addresses with a number": Case(
        files={
            "hosts.ini": """
[master]
192.0.2.1
[cpu_workers]
192.0.2.2
[gpu_workers]
192.0.2.3 gpu_count=1
192.0.2.4 gpu_count=1
[cluster:children]
master
cpu_workers
gpu_workers
"""
        },
        pools={"gpu": (("192.0.2.3", "192.0.2.4"), 1)},
        hosts=(("192.0.2.3", "192.0.2.3", "root"), ("192.0.2.4", "192.0.2.4", "root")),
    ),
    # An inference site: variables in files of hosts, models as names.
    "host_vars": Case(
        files={
            "hosts.yml": """
all:
  children:
    gpu_nodes:
      hosts:
        h100: {ansible_host: h100-node.example.internal, ansible_user: gpuuser}
        h200: {ansible_host: h200-node.example.internal, ansible_user: gpuuser}
""",
            "host_vars/h100.yml": "gpu_count: 1\n",
            "host_vars/h200.yml": "gpu_count: 4\ntoken: !vault |\n  $ANSIBLE_VAULT;1.1\n  6\n",
            "host_vars/h300.yml": "not: [read\n",
            "group_vars/gpu_nodes.yml": "gpu_count: 2\n",
            "group_vars/all/vault.yml": "$ANSIBLE_VAULT;1.1;AES256\n3938\n",
        },
        pools={"h100": (("h100",), 1), "h200": (("h200",), 4)},
        hosts=(
            ("h100", "h100-node.example.internal", "gpuuser"),
            ("h200", "h200-node.example.internal", "gpuuser"),
        ),
    ),
    # A site with RKE2: labels as a list, groups inside groups.
    "rke2": Case(
        files={
            "hosts.yml": """
all:
  children:
    kubernetes:
      children:
        rke2_servers:
          hosts:
            k8s-master-0: {ansible_host: 192.0.2.200, rke2_role: server}
        rke2_agents:
          hosts:
            k8s-worker-0: {ansible_host: 192.0.2.203}
            k8s-worker-1:
              ansible_host: 192.0.2.204
              node_labels: ["example.com/gpu=a40", "node.kubernetes.io/worker=true"]
"""
        },
        pools={"gpu": (("k8s-worker-1",), 8)},
        hosts=(("k8s-worker-1", "192.0.2.204", "root"),),
        engine="rke2",
    ),
    # thedatasnok/idata2502-project, infrastructure/definition/hosts.tpl: a jump host as ProxyJump.
    "a jump host": Case(
        files={
            "hosts.yml": """
bastion: {hosts: {198.51.100.7: }}
controlplane: {hosts: {192.0.2.1: }}
worker: {hosts: {gpu-a100-1: {ansible_host: 192.0.2.2}}}
cluster:
  children: {controlplane: , worker: }
  vars: {ansible_ssh_common_args: '-o ProxyJump="root@198.51.100.7:2200"'}
"""
        },
        pools={"a100": (("gpu-a100-1",), 8)},
        hosts=(("gpu-a100-1", "192.0.2.2", "root"),),
    ),
    # kubernetes-sigs/kubespray, inventory/sample: the group bastion.
    "kubespray with a bastion": Case(
        files={
            "inventory.ini": """
[bastion]
bastion ansible_host=198.51.100.9 ansible_user=jump

[kube_control_plane]
node1 ansible_host=192.0.2.1 # ip=10.3.0.1 etcd_member_name=etcd1
[kube_node]
node1
[kube_node:vars]
nvidia_gpu_nodes=['node1']
gpus=4
container_manager=docker
"""
        },
        pools={"gpu": (("node1",), 4)},
        hosts=(("node1", "192.0.2.1", "root"),),
        engine="docker",
    ),
    # A school's cluster: a reference to another variable, and a machine that runs Ansible itself.
    "references": Case(
        files={
            "inventory": """
[k8s_master]
gpu-cp1 ansible_connection=local

[k8s_workers]
GPU_w1 ansible_host="{{ w1_ip }}"
gpu-w2 ansible_host="{{ lookup('env', 'W2') }}"

[k8s_cluster:children]
k8s_master
k8s_workers
""",
            "group_vars/all.yml": """
w1_ip: "192.0.2.11"
cluster_user: "alex"
ansible_user: "{{ cluster_user }}"
""",
        },
        pools={"gpu": (("gpu-cp1", "gpu-w1", "gpu-w2"), 8)},
        hosts=(("gpu-w1", "192.0.2.11", "alex"),),
        comments=(
            "Ansible runs on this host itself",
            "only Ansible can read it",
            "the inventory names it GPU_w1",
        ),
    ),
    # kubernetes-sigs/kubespray, inventory/cluster1/vagrant_ansible_inventory: ports of loopback.
    "vagrant": Case(
        files={
            "vagrant_ansible_inventory": """
k8s-1 ansible_host=127.0.0.1 ansible_port=2222 ansible_user='vagrant'
k8s-2 ansible_host=127.0.0.1 ansible_port=2200 ansible_user='vagrant'

[kube_control_plane]
k8s-[1:2]

[kube_node]
k8s-[1:2]

[k8s_cluster:children]
kube_control_plane
kube_node
"""
        },
        pools={"gpu": (("k8s-1", "k8s-2"), 8)},
        hosts=(("k8s-1", "127.0.0.1", "vagrant"), ("k8s-2", "127.0.0.1", "vagrant")),
    ),
    # Names of groups: ska-telescope/ansible-playbooks, hosts_k8s. The variable `gpu_enabled`, true
    # for all hosts and false for some: chutesai/chutes-miner.
    "long names of groups": Case(
        files={
            "hosts": """
[kubernetes_master_nodes]
test-master-0 ansible_host=192.0.2.85 node_role=master
[kubernetes_worker_nodes]
test-worker-0 ansible_host=192.0.2.91 data_vol=""
test-worker-1 ansible_host=192.0.2.92 gpu_enabled=False
[cluster_nodes:children]
kubernetes_master_nodes
kubernetes_worker_nodes
[kubernetes_worker_nodes:vars]
gpu_enabled=true
"""
        },
        pools={"gpu": (("test-worker-0",), 8)},
        hosts=(("test-worker-0", "192.0.2.91", "root"),),
    ),
    # A guide to RKE2 and a home cluster: labels as one text, models as a variable.
    "models of cards": Case(
        files={
            "hosts.yaml": """
all:
  children:
    control_plane: {hosts: {cp-1: {ansible_host: 192.0.2.10}}}
    cpu_workers: {hosts: {cpu-1: {ansible_host: 192.0.2.20}}}
    gpu_workers:
      hosts:
        worker-5090: {ansible_host: w5090.example.net, gpu: rtx_5090, vram: 48gb}
        worker-3090: {ansible_host: w3090.example.net, gpu: NVIDIA RTX_3090_Ti}
      vars: {rke2_type: agent, node_labels: "workload=gpu,nvidia.com/gpu=true"}
  vars: {ansible_user: ec2-user, rke2_version: v1.28.4+rke2r1}
"""
        },
        pools={"rtx-5090": (("worker-5090",), 8), "rtx-3090-ti": (("worker-3090",), 8)},
        hosts=(
            ("worker-5090", "w5090.example.net", "ec2-user"),
            ("worker-3090", "w3090.example.net", "ec2-user"),
        ),
        engine="rke2",
    ),
    # The output of `ansible-inventory --list`.
    "the output of ansible-inventory": Case(
        files={
            "inventory.json": """
{"_meta": {"hostvars": {"n1": {"ansible_host": "192.0.2.1", "ansible_user": "core"},
                        "n2": {"ansible_host": "192.0.2.2", "ansible_user": "core"}}},
 "all": {"children": ["ungrouped", "kube_node", "dgx_a100"]},
 "kube_node": {"hosts": ["n1", "n2"]}, "dgx_a100": {"hosts": ["n2"]}}
"""
        },
        pools={"a100": (("n2",), 8)},
        hosts=(("n2", "192.0.2.2", "core"),),
    ),
}


def found_in(case: Case, folder: Path) -> Found:
    for name, text in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return find(read(folder / next(iter(case.files))))


def every_key(found: Found) -> HostKeys:
    return HostKeys(trusted=dict.fromkeys(places_of(found.machines), KEYS[0]))


def loaded(text: str, folder: Path) -> Cluster:
    path = folder / "Pulumi.new.yaml"
    path.write_text(text, encoding="utf-8")
    return load_stack_file(path)


SPOT = [{"key": "spot", "effect": "NoSchedule"}]
T4 = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "4"}
SHARED = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED"}
KIND = {"node.kubernetes.io/instance-type": "p4d.24xlarge"}
CLUSTERS: dict[str, Callable[[], ObservedCluster]] = {
    "the plugin by Helm": by_helm,
    "the plugin by manifest": by_manifest,
    "no software": lambda: cluster(machine("gpu-1"), machine("cp-1", 0)),
    "two kinds of nodes": lambda: by_manifest(
        machine("gpu-1"), machine("gpu-2", taints=SPOT), machine("gpu-3", 4, labels=T4)
    ),
    "shared GPUs": lambda: by_manifest(machine("gpu-1", labels=SHARED, offered=32)),
    "a node that is not ready": lambda: by_manifest(
        machine("gpu-1"), machine("gpu-2", ready=False)
    ),
    "nodes of a cloud": lambda: by_manifest(
        *(machine(f"ip-{n}", labels=KIND, provider=f"aws:///eu/i-{n}") for n in (1, 7))
    ),
    "an old engine": lambda: by_manifest(machine("gpu-1", engine="containerd://1.6.33")),
}
