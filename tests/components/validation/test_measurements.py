"""Numbers in the output of validation tests: found by the words around them, and checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_cluster.commands.up import measured
from gpu_cluster.commands.validate import chosen_tests
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.platforms.needed import images
from gpu_cluster.settings.log_pattern import figure
from gpu_cluster.validation import measurement
from gpu_cluster.validation.measurement import Outcome
from gpu_rules.declared import judge
from gpu_rules.faults import ConfigError, FaultError
from tests.fixtures.clusters import cluster
from tests.fixtures.platforms import deployed

NCCL = """
#       size         count      type   redop    root     time   algbw   busbw #wrong
  8589934592    2147483648     float     sum      -1    43980  195.31  386.56      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 373.187
#
"""
ONE = {"image": "example.com/nccl:1", "command": ["all_reduce_perf"], "gpus": 8}
AVERAGE = "# Avg bus bandwidth : {figure}"


@pytest.mark.parametrize(
    ("pattern", "log", "wanted"),
    [
        (AVERAGE, NCCL, 373.187),
        ("8589934592 * float sum -1 * * {figure}", NCCL, 386.56),
        ("SUM host_to_device_memcpy_ce {figure}", "SUM host_to_device_memcpy_ce 389.15", 389.15),
        ("speed={figure}GB/s", "a speed=12.5GB/s b\nspeed=3e1GB/s", 12.5),
        ("{figure}", "nan inf -inf", None),
        ("x {figure}", "x\n7", None),
        ("a{figure}a", "a", None),
    ],
)
def test_a_figure_is_read_by_the_words_around_it(
    pattern: str, log: str, wanted: float | None
) -> None:
    assert figure(pattern, log) == wanted


@given(st.text(max_size=200), st.text(max_size=2000))
def test_no_pattern_and_no_log_raises(pattern: str, log: str) -> None:
    figure(f"{pattern}{{figure}}", log)


def test_settings_say_what_can_be_judged() -> None:
    with pytest.raises(ConfigError) as caught:
        cluster(
            validation={
                "tests": {
                    "a": {**ONE, "minimum": 3},
                    "b": {**ONE, "pattern": "no number"},
                    "c": {**ONE, "gpus": 0},
                    "D": ONE,
                }
            }
        )
    text = str(caught.value)
    for words in ("minimum 3 without pattern", '"no number"', "tests.c.gpus", '"D"'):
        assert words in text
    with pytest.raises(ConfigError, match="found 16, and no pool has so many GPUs on a node"):
        cluster(validation={"tests": {"a": {**ONE, "gpus": 16}}})


def test_a_test_is_asked_for_by_its_name() -> None:
    made = cluster(validation={"tests": {"a": ONE, "b": ONE}})
    assert chosen_tests(" b, a", made.validation.tests) == "b,a"
    with pytest.raises(FaultError, match="--tests: found x; wanted: of a, b; cure"):
        chosen_tests("x", made.validation.tests)
    assert ONE["image"] in [each.upstream for each in images(*deployed(made))]


def test_only_whole_gpus_of_one_container_are_measured() -> None:
    def whole(**changes: Any) -> bool:
        made = cluster(validation={"tests": {"a": ONE}}, **changes)
        (pool,) = resolve(made, "test").validation.measuring.pools
        return pool.is_whole

    replicas = {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}}
    assert whole()
    assert whole(platform="gpu-manager", hosts=[])
    assert not whole(devicePlugin={"config": {"sharing": replicas}})


def test_a_pod_of_a_test_disturbs_nobody_and_holds_its_gpus_alone() -> None:
    made = cluster(validation={"tests": {"a": ONE}, "podAnnotations": {"x": "y"}})
    document = resolve(made, "test").validation.measuring
    pod = measurement.pod(document.tests[0], document.pools[0], "gpu-1")
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"] == {"memory": "16Gi", "nvidia.com/gpu": "8"}
    assert pod["spec"]["priorityClassName"] == "gpu-validation"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 0
    assert pod["metadata"]["annotations"]["x"] == "y"
    # The validation of pool a100 finds its own pods by this label, so a test needs another value.
    assert pod["metadata"]["labels"][measurement.POOL] == "a100.test"


def test_a_pod_of_a_test_keeps_every_rule_advice_included() -> None:
    for platform in ("device-plugin", "gpu-operator", "gpu-manager", "hami", "dra"):
        made = cluster(platform=platform, hosts=[], validation={"tests": {"a": ONE}})
        document = resolve(made, "test").validation.measuring
        pod = measurement.pod(document.tests[0], document.pools[0], "gpu-1")
        pod["metadata"]["namespace"] = document.namespace
        assert judge("kubernetes:core/v1:Pod", pod, resolve(made, "dev").rules) == []


def test_what_was_measured_has_a_line_for_each_test() -> None:
    outcomes = [Outcome("a", f"gpu-{n}", "p", figure=n) for n in range(7)]
    outcomes += [Outcome("b", "gpu-1", "p", skipped="busy", simulated=True)]
    assert measured(measurement.plain(outcomes)) == [
        "test a: ran on 7 of 7 nodes: gpu-0 0, gpu-1 1, gpu-2 2, gpu-3 3, gpu-4 4 and 2 more",
        "test b: ran on 0 of 1 nodes: gpu-1 busy",
    ]


def test_a_log_is_shown_with_its_control_characters_escaped() -> None:
    made = cluster(validation={"tests": {"a": ONE}})
    test = replace(resolve(made, "test").validation.measuring.tests[0], minimum=None, pattern=None)
    found = measurement.evaluate(test, "p", "gpu-1", 1, "\x1b[2J", "now")
    assert "\x1b" not in found.problem
