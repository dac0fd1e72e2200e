"""A patch of the checker removes what breaks a rule, and changes nothing else."""

from __future__ import annotations

import difflib
import random
from pathlib import Path

import pytest
import yaml

from gpu_rules.check.formats.patch import NO_NEWLINE, REMOVED, hunks
from gpu_rules.reference import context_for, violations
from gpu_rules.rules import EXAMPLES, Severity
from tests.fixtures.programs import run_program
from tests.policies.check.running import check

POD = """\
# A pod
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  hostPID: true  # to see more
  # The runtime
  containers:
    - name: a
      image: a:1
      env:
        - name: NVIDIA_VISIBLE_DEVICES
          value: all
        - {name: A, value: "1"}
      resources:
        limits: {nvidia.com/gpu: 1, cpu: 1, memory: 1Gi}
"""
POOLS = {
    "pools": [
        {"name": "a100", "gpusPerNode": 8, "taints": ["nvidia.com/gpu=present:NoSchedule"]},
    ]
}
ONE = POD.replace('        - {name: A, value: "1"}\n', "")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def patched(content: str, *arguments: str) -> str:
    """Return the content of a file after its patch was applied."""
    file = Path("a.yaml")
    file.write_bytes(content.encode())
    if diff := check("a.yaml", "--format", "patch", *arguments, rules=()).output:
        done = run_program(["git", "apply", "-"], input=diff, timeout=60)
        assert done.returncode == 0, done.stderr
    return file.read_bytes().decode()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("content", [POD, POD.removesuffix("\n"), f"a: 1\n---\n{POD}---\nb: 1\n"])
def test_a_patch_removes_the_lines_of_the_field_alone(content: str, end: str) -> None:
    wanted = content.replace("  hostPID: true  # to see more\n", "").replace(
        "        - name: NVIDIA_VISIBLE_DEVICES\n          value: all\n", ""
    )
    assert patched(content.replace("\n", end)) == wanted.replace("\n", end)


def test_what_holds_nothing_else_goes_with_it() -> None:
    assert "env" not in patched(ONE)


@pytest.mark.parametrize(
    "content",
    [
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {hostPID: true, "
        "containers: [{name: a, image: 'a:1', resources: {limits: {nvidia.com/gpu: 1}}}]}}\n",
        POD.replace("hostPID: true", "hostPID: false").replace("value: all", "value: none"),
        POD.replace("hostPID: true", "hostPID: true\n  hostname: >\n    ::add-mask::a"),
    ],
    ids=["on one line", "allowed", "beside a command for a CI"],
)
def test_what_is_not_safe_to_remove_by_line_or_to_show_has_no_patch(content: str) -> None:
    assert patched(content) == content


@pytest.mark.parametrize("rule", sorted(REMOVED))
def test_the_patch_of_an_example_is_its_cure(rule: str) -> None:
    example = EXAMPLES[rule]
    block = yaml.safe_dump(yaml.safe_load(example.failing), sort_keys=False)
    Path(".gpu-rules.yaml").write_text(yaml.safe_dump({**POOLS, **example.settings}))
    context = context_for(example)

    def broken(content: str, *severities: Severity) -> set[str]:
        return {
            each.rule.id
            for each in violations(yaml.safe_load(content), context)
            if not severities or each.severity in severities
        }

    assert rule in broken(block)
    cured = patched(block, "--rule", f"{rule}=mandatory")
    assert rule not in broken(cured)
    assert broken(cured, Severity.MANDATORY) <= broken(block, Severity.MANDATORY)


@pytest.mark.parametrize("seed", range(200))
def test_a_patch_has_the_hunks_of_a_diff(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311  makes no secret
    lines = [f"line {number}\n" for number in range(draw.randint(1, 40))]
    lines[-1] = lines[-1].rstrip() if draw.random() < 0.3 else lines[-1]
    count = len(lines) if draw.random() < 0.1 else draw.randint(1, min(len(lines), 6))
    removed = sorted(draw.sample(range(1, len(lines) + 1), count))
    kept = [line for number, line in enumerate(lines, 1) if number not in removed]
    diff = list(difflib.unified_diff(lines, kept))[2:]
    wanted = [line if line.endswith("\n") else f"{line}{NO_NEWLINE}" for line in diff]
    assert list(hunks(lines, removed)) == wanted
