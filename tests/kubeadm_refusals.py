"""What kubeadm 1.34.4 says to versions that it can't upgrade a cluster of 1.34.4 to.

One table for the real kubeadm and the fake one, which must refuse what the real one refuses.
"""

REFUSALS = (
    ("v1.36.0", "is too high; kubeadm can upgrade only 1 minor version at a time"),
    ("v1.36.0", "is at least one minor release higher than the kubeadm minor release"),
    ("v1.34.9", 'is higher than the kubeadm version "v1.34.4". Upgrade kubeadm first using'),
    ("v1.33.13", "can only be used to upgrade to Kubernetes version 1.34"),
    ("v1.32.0", "only supports deploying clusters with the control plane version >= 1.33.0"),
)
"""Versions, and words of the answer."""
