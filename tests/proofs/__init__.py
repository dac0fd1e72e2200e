"""Proofs: tests of whole systems, each run by `make test-NAME`.

`python -m tests.proofs NAME` prints the test files of a proof. A proof also runs the unit tests of
its topic, because its summary line counts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from tests.proofs.documents.lines import files

ROOT = Path(__file__).parents[2]
PROOFS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # This proof selects from these files the tests with the pytest marker `advice`.
        "advice": (
            "tests/proofs/advice",
            "tests/proofs/logins/test_cures.py",
            "tests/proofs/logins/test_host_programs.py",
            "tests/proofs/world/causes",
            "tests/proofs/real/test_causes.py",
        ),
        # The file that runs longest comes first, so that the parallel test processes end at about
        # the same time.
        "attacks": ("tests/proofs/attacks/test_canaries.py", "tests/proofs/attacks"),
        "change": (
            "tests/proofs/e2e/test_claims.py",
            "tests/proofs/e2e/test_refused.py",
            "tests/proofs/e2e/test_exit_codes.py",
            "tests/proofs/e2e/test_cut_state.py",
            "tests/proofs/e2e/test_knowing.py",
            "tests/proofs/e2e/test_day_two.py",
            "tests/proofs/e2e/test_readings.py",
            "tests/proofs/simulator/test_field_edits.py",
            "tests/components/change",
            "tests/commands/forges",
            "tests/commands/test_annotations.py",
            "tests/components/inspection/test_losses.py",
            "tests/commands/report",
            "tests/commands/test_backend.py",
            "tests/commands/test_failure.py",
            "tests/commands/test_preview.py",
            "tests/commands/test_status.py",
            "tests/commands/test_support_bundle.py",
            "tests/commands/test_who.py",
        ),
        # This proof selects from these files the tests with the pytest marker `clusters`.
        "clusters": (
            "tests/proofs/e2e/test_adopt.py",
            "tests/proofs/real/test_adopt.py",
            "tests/proofs/real/test_adopt_operator.py",
            "tests/proofs/real/test_causes.py",
            "tests/proofs/validation/test_ways.py",
            "tests/proofs/platform/test_runtime_class.py",
            "tests/proofs/simulator/test_release_record.py",
            "tests/proofs/world/values",
            "tests/proofs/clusters",
            "tests/commands/adoption",
            "tests/components/charts/test_definitions.py",
            "tests/components/charts/test_overrides.py",
            "tests/components/inspection/test_overruled.py",
            "tests/components/loading/test_adopted_overrides.py",
            "tests/components/platforms/test_contradictions.py",
            "tests/components/platforms/test_pairs.py",
            "tests/components/release",
        ),
        "docs": ("tests/ci/test_docs.py", "tests/ci/test_error_texts.py"),
        # This proof selects tests with the pytest marker `documents`. The table of the documents'
        # lines names their files.
        "documents": (
            "tests/proofs/documents",
            "tests/components/loading/test_contradictions.py",
            "tests/proofs/real/test_hami.py",
            "tests/proofs/real/test_hami_node.py",
            *files(),
        ),
        "e2e": ("tests/proofs/e2e",),
        # This proof selects from these files the tests with the pytest marker `ha`.
        "ha": ("tests/proofs/ha",),
        "hosts": ("tests/proofs/hosts", "tests/proofs/world/hosts", "tests/components/hosts"),
        # This proof selects from these files the tests with the pytest marker `logins`.
        "logins": (
            "tests/proofs/e2e/test_adopt.py",
            "tests/proofs/logins",
            "tests/proofs/hosts/test_driver_packages.py",
            "tests/proofs/hosts/test_running_engine.py",
        ),
        "platform": (
            "tests/proofs/platform",
            "tests/proofs/world/values",
            "tests/components/charts",
            "tests/components/platforms",
        ),
        "reach": (
            "tests/proofs/reach/test_python.py",
            "tests/proofs/reach/test_yaml.py",
            "tests/proofs/reach",
            "tests/components/package",
            "tests/commands/test_validation_reports.py",
            "tests/commands/evidence",
            "tests/commands/test_evidence.py",
            "tests/lab/test_host_report.py",
            "tests/ci/test_never_seen.py",
        ),
        "real": ("tests/proofs/real",),
        "rollout": (
            "tests/proofs/rollout",
            "tests/components/rollout",
            "tests/proofs/hosts/test_init.py",
            "tests/proofs/hosts/test_upgrade.py",
            "tests/proofs/hosts/test_kubeadm_cluster.py",
            "tests/proofs/hosts/test_real_kubeadm.py",
            "tests/proofs/real/test_bare_cluster.py",
            "tests/proofs/real/test_cluster_upgrade.py",
        ),
        "install": ("tests/proofs/install", "tests/commands/test_init.py"),
        # What needs an API server comes first.
        "rules": (
            "tests/policies/admission",
            "tests/proofs/rules",
            "tests/policies/kube",
            "tests/policies/rules",
            "tests/policies/check",
            "tests/components/guardrails",
        ),
        "simulator": ("tests/proofs/simulator", "tests/lab/simulator"),
        "validation": (
            "tests/components/validation",
            "tests/components/nodes/test_maintenance.py",
            "tests/proofs/hosts/test_maintenance.py",
            "tests/proofs/hosts/test_xid.py",
            "tests/lab/simulator/test_allocation.py",
            "tests/proofs/simulator/test_validation.py",
            "tests/proofs/simulator/test_validation_tests.py",
            "tests/proofs/simulator/test_maintenance.py",
            "tests/proofs/validation",
        ),
        # This proof selects from all tests those with the pytest marker `versions`: tests of a
        # claimed version.
        "versions": ("tests",),
    }
)
"""Files and folders of each proof, in the order in which they run."""


def arguments(name: str) -> Iterator[str]:
    """Yield the files and folders of a proof as pytest needs them to keep their order.

    pytest runs a file together with a listed folder above it. So the files of such a folder are
    yielded one by one.
    """
    paths = [ROOT / path for path in PROOFS[name]]
    for path in paths:
        below = [other for other in paths if path in other.parents]
        files = sorted(found for found in path.rglob("test_*.py") if found not in below)
        yield from (str(found.relative_to(ROOT)) for found in (files if below else [path]))
