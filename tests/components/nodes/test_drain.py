"""Unit tests: which pods a drain evicts, and which evictions `rollout.evict` must allow."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.nodes.drain import losses, to_evict
from gpu_cluster.settings.rollout import Consent
from gpu_rules.faults import ConfigError
from tests.fixtures.clusters import cluster

Json = dict[str, Any]


def pod(name: str, owner: str = "", **more: Any) -> Json:
    made: Json = {
        "metadata": {"name": name, "namespace": "team", **more.pop("metadata", {})},
        "spec": more.pop("spec", {}),
        **more,
    }
    if owner:
        made["metadata"]["ownerReferences"] = [{"kind": owner, "name": "o", "controller": True}]
    return made


LOCAL = {"volumes": [{"name": "scratch", "emptyDir": {}}]}


def test_daemons_mirror_pods_and_finished_pods_stay() -> None:
    mirror = pod("m", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}})
    stay = [
        pod("d", "DaemonSet"),
        mirror,
        *(pod(phase, "Job", status={"phase": phase}) for phase in ("Succeeded", "Failed")),
    ]
    going = [pod("a", "ReplicaSet"), pod("b"), pod("c", "Job", status={"phase": "Running"})]
    assert to_evict([*stay, *going]) == going


@pytest.mark.parametrize(
    ("consent", "lost"),
    [
        ([], "pods that no controller creates again: team/alone; "
             "pods that lose their emptyDir volumes: team/alone, team/local"),
        ([Consent.UNMANAGED], "pods that lose their emptyDir volumes: team/alone, team/local"),
        ([Consent.EMPTY_DIR], "pods that no controller creates again: team/alone"),
        ([Consent.EMPTY_DIR, Consent.UNMANAGED], ""),
    ],
)  # fmt: skip
def test_each_loss_needs_a_consent_of_its_own(consent: list[Consent], lost: str) -> None:
    pods = [pod("alone", spec=LOCAL), pod("local", "ReplicaSet", spec=LOCAL), pod("a", "Job")]
    assert losses(pods, consent) == lost


def test_consent_is_declared_by_name_only() -> None:
    assert cluster().rollout.evict == ()
    declared = cluster(rollout={"evict": ["empty-dir", "unmanaged"]})
    assert set(declared.rollout.evict) == set(Consent)
    with pytest.raises(ConfigError, match=r"rollout\.evict\[0\].*empty-dir"):
        cluster(rollout={"evict": ["everything"]})
