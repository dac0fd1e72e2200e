"""Edits of stack files whose comments readers were given, and what the readers answered.

A reader who does not know the edit answers from the comment alone. Answers stand in
`readings.yaml`, and count only while today's comment has the digest of the comment that was read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from tests.proofs.e2e.edits import SHARED, both, no, no_host, pool, section
from tests.proofs.e2e.project import Json

ANSWERS = Path(__file__).with_name("readings.yaml")
READERS = 3
"""Number of readers of each comment; all must be right."""
QUESTIONS = (
    "What was edited in the stack file?",
    "How many GPUs are declared before and after, and which are unavailable meanwhile or later?",
    "Which pods are affected, and what happens to each?",
    "Will the run succeed?",
    "Would you approve, and what decides it?",
)
DIGEST = "digest of the comment"
"""Property of a test that has rendered a comment."""
STACK = "prod"
"""Name of the stack in the comments that are read, which does not vary between runs."""


def cuda_test(document: Json) -> None:
    test = {"image": f"registry.example.com/test@sha256:{64 * 'a'}"}
    document["validation"]["tests"] = {"bandwidth": test}


def two_pools(document: Json) -> None:
    document["pools"] = [
        {"name": "a100", "nodes": ["gpu-[1-2]"], "gpusPerNode": 8},
        {"name": "late", "nodes": ["gpu-[3-4]"], "gpusPerNode": 8},
    ]


_POD = re.compile(r"-[0-9a-f]{8,10}-[a-z0-9]{5}\b")
"""End of the name of a Deployment's pod, which differs between runs."""
_PORT = re.compile(r"\bport: \d+")
"""Port of a simulated host, which differs between runs."""
DRIVER = {"source": "package", "version": "595.91.07"}
WARN, ENFORCE = {"mode": "warn"}, {"mode": "enforce"}
QUOTA = {"namespace": "claims", "resources": {"nvidia.com/gpu": 16}}
EDITS: Mapping[str, Callable[[Json], None]] = MappingProxyType(
    {
        "half of the GPUs": pool(gpusPerNode=4),
        "a node out": pool(nodes=["gpu-[1-3]"]),
        "a driver with reboots": section(driver=DRIVER, reboot={"when": "required"}),
        "shared GPUs": section(devicePlugin=SHARED),
        "another platform": section(platform="gpu-operator"),
        "a version that does not exist": section(devicePlugin={"version": "0.0.1"}),
        "a taint that evicts": pool(taints=["example.com/repair=:NoExecute"]),
        "guardrails that refuse": section(guardrails=ENFORCE),
        "the runtime": section(runtime={"devicesByEnvironment": True}),
        "a sick GPU": pool(unhealthyDevices={"gpu-3": {"index": [2]}}),
        "hosts out": no("hosts"),
        "a sysctl": section(system={"sysctl": {"vm.max_map_count": "262145"}}),
        "one host out": no_host("gpu-2"),
        "two pools of one": two_pools,
        "a node that is not there": pool(nodes=["gpu-[1-5]"]),
        "maintenance": section(maintenance=["gpu-3"]),
        "a longer validation": section(validation={"timeoutSeconds": 121}),
        "a test of one's own": cuda_test,
        "priority classes": section(
            scheduling={"priorityClasses": [{"name": "train", "value": 1000}]}
        ),
        "a label": pool(labels={"nvidia.com/gpu": "true", "example.com/rack": "r3"}),
        "guardrails that warn, with a quota": section(guardrails={**WARN, "quotas": [QUOTA]}),
        "monitoring": section(monitoring={}),
        "another namespace": section(devicePlugin={"namespace": "gpu-plugin"}),
        "half of the GPUs and a taint": both(
            pool(gpusPerNode=4), pool(taints=["example.com/repair=:NoSchedule"])
        ),
    }
)
"""Edits of a deployed stack file with four nodes, by name."""


def digest_of(comment: str) -> str:
    """Return the digest of a comment, without what differs between two equal runs."""
    return hashlib.sha256(comment.encode()).hexdigest()[:16]


def settled_text(comment: str, stack: str) -> str:
    """Return a comment with the same names of stack and pods, and the same ports, in each run."""
    without_pods = _POD.sub("-5d9f7c6b8-abcde", comment.replace(stack, STACK))
    return _PORT.sub("port: 22", without_pods)


def recorded() -> Mapping[str, Any]:
    """Return the recorded answers: for each edit the digest, and whether each reader was right."""
    content = yaml.safe_load(ANSWERS.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}


def understood(digests: Mapping[str, str], answers: Mapping[str, Any]) -> list[str]:
    """Return the edits that all readers of today's comment understood.

    Args:
        digests: Digest of today's comment, by edit.
        answers: The recorded answers.
    """
    found = []
    for name, digest in digests.items():
        answer = answers.get(name) or {}
        readers = answer.get("readers") or []
        is_right = [all(reader.get(each) is True for each in QUESTIONS) for reader in readers]
        if answer.get("comment") == digest and len(readers) >= READERS and all(is_right):
            found.append(name)
    return found
