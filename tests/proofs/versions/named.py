"""Lists of the tests that must run in a process with a given Kubernetes version."""

from __future__ import annotations

KUBELETS = ("tests/proofs/real/test_kubelet.py", "tests/proofs/real/test_bare_cluster.py")
UPGRADE = ("tests/proofs/real/test_cluster_upgrade.py",)
BEHAVIOURS = (
    "tests/policies/admission/test_kubernetes_versions.py",
    "tests/proofs/attacks/test_subresources.py::test_a_tenant_gives_his_claim_no_devices",
)
"""Tests of what the API servers of the versions do differently; the rest is in `KUBELETS`."""
