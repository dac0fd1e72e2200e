"""Error messages of kubeadm for versions to which it can't upgrade a cluster.

Tests compare both the real kubeadm and the fake kubeadm with this table: the fake must reject what
the real kubeadm rejects.
"""

from gpu_cluster_lab.toolchain.versions import numbers


def refusals(version: str) -> tuple[tuple[str, str], ...]:
    """Return versions that a kubeadm rejects, each with a part of the error message."""
    _, minor, patch = numbers(version)
    return (
        (f"v1.{minor + 2}.0", "is too high; kubeadm can upgrade only 1 minor version at a time"),
        (f"v1.{minor + 2}.0", "is at least one minor release higher than the kubeadm minor"),
        (
            f"v1.{minor}.{patch + 5}",
            f'is higher than the kubeadm version "v{version}". Upgrade kubeadm first using',
        ),
        (f"v1.{minor - 1}.13", f"can only be used to upgrade to Kubernetes version 1.{minor}"),
        (
            f"v1.{minor - 2}.0",
            f"only supports deploying clusters with the control plane version >= 1.{minor - 1}.0",
        ),
    )
