"""The steps of `make test-gpu`: what they declare, they also run."""

from __future__ import annotations

from dataclasses import asdict

from gpu_cluster.commands.up import measured
from gpu_cluster.validation.measurement import Outcome
from lab.real.gpu.__main__ import NODE, STEPS, gpu_stack


def test_each_declared_test_is_run_by_a_step_that_wants_its_result() -> None:
    declared = set(gpu_stack("some-context", 1)["validation"]["tests"])
    chosen = {
        option.removeprefix("--tests="): step
        for step in STEPS
        for option in step.options
        if option.startswith("--tests=")
    }
    assert chosen.keys() == declared
    for name, step in chosen.items():
        ran = Outcome(name, NODE, "gpus", figure=4265.3)
        assert step.wanted in measured([asdict(ran)])[0]
        skipped = Outcome(name, NODE, "gpus", skipped="its GPUs are in use")
        assert step.wanted not in measured([asdict(skipped)])[0]
