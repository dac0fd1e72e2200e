"""A Helm release that the stack's state lacks is refused before anything is changed."""

from __future__ import annotations

import pytest

from gpu_cluster.inspection.judgement import Seen, judged
from gpu_cluster.inspection.observed_cluster import ClusterSeen
from gpu_cluster.release.difference import PlatformDifference
from gpu_cluster.release.recorded import RELEASE, has_release
from tests.components.change.world import base, desired_of

FOUND = "found a release with other values, which this stack did not create"


@pytest.mark.parametrize(
    ("lacks", "is_upgraded", "refused"),
    [(True, True, True), (True, False, False), (False, True, False)],
    ids=["of somebody else", "with the same values", "of this stack"],
)
def test_a_release_of_somebody_else_stops_the_run_before_anything_is_changed(
    lacks: bool, is_upgraded: bool, refused: bool
) -> None:
    platform = PlatformDifference(is_upgraded=is_upgraded)
    seen = Seen(cluster=ClusterSeen(platform=platform), lacks_release=lacks)
    problems = judged(desired_of(base()), seen).problems
    assert any(FOUND in problem for problem in problems) is refused


def test_a_release_that_is_taken_over_is_not_refused() -> None:
    release = {"name": "nvdp", "namespace": "nvidia", "version": "0.20.1"}
    desired = desired_of({**base(), "hosts": [], "adopted": {"release": release}})
    platform = PlatformDifference(is_upgraded=True)
    seen = Seen(cluster=ClusterSeen(platform=platform), lacks_release=True)
    assert not any(FOUND in problem for problem in judged(desired, seen).problems)


def test_the_release_of_a_cluster_is_found_in_the_state_by_its_name() -> None:
    assert has_release("gpu-cluster", {f"{RELEASE}::gpu-cluster-gpu-platform-release"})
    assert not has_release("gpu-cluster", {f"{RELEASE}::other-gpu-platform-release"})
