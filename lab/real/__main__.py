"""Check that simulated nodes behave like nodes with real components (`make test-real`)."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass, field

from gpu_cluster_lab.simulator import marks
from gpu_cluster_lab.simulator.control_plane import SimulatorError
from gpu_cluster_lab.simulator.hosts.model import HostError
from lab.real import (
    dra,
    facts,
    judge,
    mps_facts,
    nfd_facts,
    objects,
    stack,
    stack_cases,
    toolkit_facts,
    validating,
)
from lab.real.build import BuildError, build
from lab.real.lab import GPUS, REAL, Lab, running
from lab.real.node import RealError
from lab.real.operator import compare, upgrade
from lab.real.operator import prove as operator
from lab.real.parts import versions


def main() -> int:
    """Run all checks of `make test-real` and print a line for each; return 1 if a check fails."""
    try:
        build()
        report = Report()
        report.say(f"real parts: {versions()}")
        prove_operator(report)
        with running() as lab:
            return prove(lab, report)
    except (BuildError, HostError, RealError, SimulatorError) as error:
        print(error, file=sys.stderr)
        return 1


def prove_operator(report: Report) -> None:
    """Compare the real GPU Operator with the simulated GPU Operator under the same ClusterPolicies.

    Also check that the real operator upgrades a driver as expected.
    """
    shown_names: set[str] = set()
    for verdict in operator.verdicts():
        if isinstance(verdict, upgrade.Fact):
            report.fact(verdict.name, verdict.problem)
            continue
        report.operands += verdict.agrees or bool(verdict.problems)
        report.operands_agreed += verdict.agrees
        shown_names |= verdict.listed
        word = "agrees" if verdict.agrees else "WRONG" if verdict.problems else "differs as listed"
        report.say(f"operator: {verdict.setting}: {verdict.operand}: {word}")
        report.problems += verdict.problems
    report.operators_differ += len(shown_names)
    report.problems += compare.unshown(shown_names)


def prove(lab: Lab, report: Report) -> int:
    """Run all cases and facts, count the allocated GPUs, and return the exit status.

    A case compares a real with a simulated node. A fact checks only the real nodes.
    """
    lab.request("POST", "/api/v1/namespaces/default/configmaps", objects.configurations())
    validating.prepare(lab)
    dra.prepare(lab)
    for verdict in judge.verdicts(lab):
        report.judged(verdict)
    prove_stack(lab, report)
    judge.use(lab, "default")
    for name in REAL:
        lab.wait_offered(name, marks.GPU, (GPUS, GPUS))
    report.allocated = facts.allocate(lab)
    key = "default"
    for fact in (*facts.FACTS, *toolkit_facts.FACTS, *mps_facts.FACTS, *nfd_facts.FACTS):
        if fact.key != key:
            judge.use(lab, key := fact.key)
        try:
            fact.check(lab)
            report.fact(fact.name)
        except (RealError, LookupError, ValueError) as error:
            report.fact(fact.name, str(error))
        judge.clear(lab)
    return report.end()


def prove_stack(lab: Lab, report: Report) -> None:
    """Run this project's Pulumi program on real and simulated nodes: commands and their checks.

    Each step changes the stack file, runs a command and compares both kinds of nodes.
    """
    judge.use(lab, "")
    with stack.project(lab) as project:
        for step in stack_cases.STEPS:
            step.change(project.document)
            project.write()
            output = project.command(step.command)
            report.say(f"stack: {step.name}: {output.strip().splitlines()[-1]}")
            for verdict in judge.judge(lab, step.cases):
                report.judged(verdict)
            if step is stack_cases.STEPS[0]:
                again = project.command("up")
                expected_end = ", 0 resources changed"
                problem = (
                    ""
                    if expected_end in again
                    else f"second up: found {again[-300:]}; {expected_end}"
                )
                report.say("stack: a second run changes nothing", problem)


@dataclass
class Report:
    """Results of a run of `make test-real`: counts, and the problems found so far."""

    judged_cases: int = 0
    agreed: int = 0
    differ: int = 0
    held: int = 0
    operands: int = 0
    operands_agreed: int = 0
    operators_differ: int = 0
    allocated: int = 0
    problems: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def judged(self, verdict: judge.Verdict) -> None:
        """Count and print the result of a case, which compares a real with a simulated node."""
        differs = not verdict.agrees and not verdict.problem
        self.judged_cases += 1
        self.agreed += verdict.agrees
        self.differ += differs
        word = "agrees" if verdict.agrees else "differs as listed" if differs else "WRONG"
        self.say(f"case: {verdict.case.name}: {word}", verdict.problem)

    def fact(self, name: str, problem: str = "") -> None:
        """Count and print the result of a fact, which is a check on the real nodes only."""
        self.held += not problem
        wrong = f"{name}: {problem}" if problem else ""
        self.say(f"fact: {name}{': WRONG' if problem else ''}", wrong)

    def say(self, line: str, problem: str = "") -> None:
        """Print a line with the elapsed seconds, and record `problem` if it is not empty."""
        print(f"{time.monotonic() - self.started:6.1f} s  {line}", flush=True)
        if problem:
            self.problems.append(problem)

    def end(self) -> int:
        """Print all problems and the summary; return the exit status."""
        all_gpus = len(REAL) * GPUS
        if self.allocated != all_gpus:
            self.problems.append(
                f"found {self.allocated} GPUs allocated by UUID; wanted: {all_gpus}"
            )
        for line in self.problems:
            print(line, file=sys.stderr)
        cases = self.judged_cases - self.differ
        print(
            f"real: {len(REAL)} nodes, {self.allocated} of {all_gpus} GPUs allocated by UUID, "
            f"{self.agreed} of {cases} cases agree with the simulator, "
            f"operator {self.operands_agreed} of {self.operands} operands agree, "
            f"{self.held} facts hold on real parts alone, "
            f"{self.differ + self.operators_differ} differences listed",
            flush=True,
        )
        return 1 if self.problems else 0


def _exit_on_signal(number: int, frame: object) -> None:
    # Exit by an exception, so that all processes and mounts of the nodes are cleaned up.
    raise SystemExit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _exit_on_signal)
    sys.exit(main())
