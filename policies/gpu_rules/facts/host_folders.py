"""Folders of nodes that public manifests of GPU workloads mount, each with who mounts it.

A path that ends with `/*` stands for the folders directly below its folder. No path of the list
lies below another: who can write a folder can replace what is below it by a symbolic link to any
other folder of the node, and a mount follows the link.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

DEFAULT: Final = "default"
"""Word that stands for `FOLDERS` in a list of allowed host paths."""

HOST_PATH: Final = r"^(default|/|(/[.]?[A-Za-z0-9_@:+=%~-][A-Za-z0-9._@:+=%~-]*)+(/[*])?)$"
"""Form of an allowed host path: a cleaned path, with `/*` at most at its end, or `default`."""

FOLDERS: Final = {
    "/data": "substratusai/kubeai 2f32ef4 test/e2e/s3-model; minikube, docs persistent_volumes",
    "/data01/*": "vllm-project/aibrix e3e10f9 samples/disaggregation, python/aibrix_kvcache",
    "/dev/infiniband": "oracle-quickstart/oci-hpc-oke 61d210a manifests/nccl-tests: RDMA",
    "/dev/shm": "aws-samples/awsome-distributed-training 7217859 pytorch/FSDP",  # noqa: S108
    "/etc/localtime": "vllm-project/aibrix e3e10f9 samples/vllm-ascend/job.yaml",
    "/local-storage": "aws-samples/gen-ai-on-eks df6d26c vllm-deployment.yaml",
    "/mnt/data": "intelligent-machine-learning/dlrover 7c3e964 mysql-pv.yaml",
    "/mnt/disks/*": "kubernetes-sigs/sig-storage-local-static-provisioner getting-started.md",
    "/mnt/k8s-disks/*": "awslabs/data-on-eks a546a19: instance storage of EKS' setup-local-disks",
    "/mnt/models": "kubernetes/examples 279e8e4 AI/model-serving-tensorflow",
    "/mnt/nvme0/*": "vllm-project/aibrix e3e10f9 samples/deepseek-r1",
    "/models": "SeldonIO/seldon-core 7b77f8b samples/examples/k8s-pvc",
    "/raid/*": "NVIDIA/nim-deploy 3c6bcbd: the data volume of DGX OS",
    "/root/.cache/huggingface": "vllm-project/aibrix e3e10f9 development/tutorials/distributed",
    "/root/models": "vllm-project/aibrix e3e10f9 benchmarks, samples",
    "/var/cache/aibrix/huggingface": "vllm-project/aibrix e3e10f9 samples/modelclaim",
    "/var/lib/kubelet/pod-resources": "NVIDIA/gpu-operator a22dbf6 dcgm-exporter: which pod has "
    "which device, read-only by its protocol",
    "/var/log/sagemaker_checkpointing": "aws-samples/awsome-distributed-training 7217859 verl",
    "/var/run/vineyard-kubernetes/default/*": "vllm-project/aibrix e3e10f9 samples/kvcache",
}
"""Allowed host paths if nobody declares others, with the manifest that needs each."""

VOLUMES: Final = {
    "/data": "minikube and vllm-project/production-stack a6c01db tutorials/assets/pv-03.yaml",
    "/mnt": "sig-storage-local-static-provisioner, kubernetes/examples 279e8e4, kubeflow/examples",
    "/models": "SeldonIO/seldon-core 7b77f8b samples/examples/k8s-pvc",
    "/opt/local-path-provisioner": "rancher/local-path-provisioner deploy/local-path-storage.yaml",
    "/raid": "NVIDIA/nim-deploy 3c6bcbd: the data volume of DGX OS",
    "/root/models": "vllm-project/aibrix e3e10f9 brixbench",
    "/tmp": "minikube's provisioner; substratusai/kubeai 2f32ef4 test/e2e",  # noqa: S108
    "/var/hpvolumes": "kubevirt/hostpath-provisioner deploy/kubevirt-hostpath-provisioner.yaml",
    "/var/lib/flyte/storage": "flyteorg/flyte 6fadb90 docker/devbox-bundled",
    "/var/lib/k8s-pvs": "Docker Desktop's provisioner",
    "/var/lib/rancher/k3s/storage": "K3s' local-path provisioner",
    "/var/local-path-provisioner": "kind's local-path provisioner",
    "/var/openebs/local": "openebs/dynamic-localpv-provisioner deploy/helm/charts/values.yaml",
    "/var/snap/microk8s/common/default-storage": "canonical/microk8s-core-addons hostpath-storage",
}
"""Folders below which a PersistentVolume may always be: folders for data and of provisioners.

A provisioner chooses the paths of its volumes, and only administrators create others.
"""


def expand(paths: Iterable[str]) -> frozenset[str]:
    """Return declared host paths with `FOLDERS` in place of the word `default`."""
    declared = frozenset(paths)
    return declared - {DEFAULT} | (FOLDERS.keys() if DEFAULT in declared else frozenset())
