"""Attack: shell commands in an object's name or in a path on a host.

Anyone who can write a Secret in the platform's namespace, name a Kubernetes object, or control a
host's output controls a part of the findings. That text must never be executed on the engineer's
machine.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest

from gpu_cluster.cluster import GpuCluster, GpuClusterArgs
from gpu_cluster.desired.pool import Members
from gpu_cluster.findings import Aspect, Finding, Kind, Subject
from gpu_cluster.hosts.difference import HostDifference
from gpu_cluster.inspection.difference import Difference
from gpu_cluster.kubernetes.grammar import IllFormed
from gpu_cluster.nodes.difference import SchedulingDifference
from gpu_cluster.nodes.inspect import pool_members
from gpu_cluster.release.difference import PlatformDifference
from gpu_cluster.release.helm_record import expected
from tests.mocks import Recorded, declare, inspected
from tests.proofs.attacks.samples import cluster
from tests.toolchain.plugins.rig import LIMIT, Failed, Plugin

pytestmark = pytest.mark.usefixtures("no_hooks")

MARK = "owned"
# Texts that end a shell comment, a word or a quotation in different ways and then create the file
# `MARK`.
HOSTILE = (
    f"missing: ConfigMap x\ntouch {MARK}\n# (12:00)",
    f"missing: ConfigMap x\rtouch {MARK}\r",
    f"label a is '$(touch {MARK})'; `touch {MARK}`",
    f"label a is ''; touch {MARK}; ''",
    f'label a is ""; touch {MARK} & ""',
    f"label\x00a\ntouch {MARK}",
    f"label \ud800\u202e\u2028touch {MARK}",
    "x" * 200_000 + f"\ntouch {MARK}\n",
)


def drifted(text: str) -> Finding:
    """Return a drift finding in which `text` is the value of every field."""
    return Finding(
        kind=Kind.DRIFT,
        subject=Subject.NODE,
        name=text,
        aspect=Aspect.VALUE,
        key=text,
        was=text,
        now=text,
    )


def commands(finding: str | None) -> list[Recorded]:
    """Return the Command resources of a stack in which every inspection reports `finding`."""

    def program() -> None:
        GpuCluster(
            "gpu-cluster",
            GpuClusterArgs(
                settings=cluster(),
                private_key=pulumi.Output.secret("key"),
            ),
        )

    found = () if finding is None else (drifted(finding),)
    findings = {"gpu-1": found} if found else {}
    difference = Difference(
        hosts=HostDifference(prepare=findings, reboot=findings, runtime=findings),
        scheduling=SchedulingDifference(pools={"a100": found} if found else {}),
        platform=PlatformDifference(missing=found),
    )
    with inspected(difference):
        recorder = declare(program, preview=False)
    return recorder.of("command:local:Command") + recorder.of("command:remote:Command")


@pytest.fixture
def plugin() -> Iterator[Plugin]:
    started = Plugin()
    yield started
    started.close()


def texts(recorded: Recorded) -> list[str]:
    """Return those parts of a Command resource that a local shell executes."""
    return [
        recorded.inputs[key] for key in ("create", "update", "delete") if key in recorded.inputs
    ]


@pytest.mark.parametrize("finding", HOSTILE, ids=range(len(HOSTILE)))
def test_no_finding_becomes_command_text(finding: str) -> None:
    calm = {command.name: texts(command) for command in commands(None)}
    for command in commands(finding):
        assert MARK not in "".join(texts(command)), command.name
        for text, before in zip(texts(command), calm[command.name], strict=True):
            assert text.startswith(before), command.name
            assert text.isascii(), command.name
            assert text.isprintable(), command.name
            assert len(text) < len(before) + 100, command.name


@pytest.mark.parametrize("finding", HOSTILE, ids=range(len(HOSTILE)))
def test_a_shell_runs_nothing_of_a_finding(finding: str, tmp_path: Path) -> None:
    for command in commands(finding):
        for text in texts(command):
            subprocess.run(
                ["/bin/sh", "-c", text],
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=LIMIT,
                check=False,
            )
    assert list(tmp_path.iterdir()) == []


def test_the_command_plugin_runs_nothing_of_a_finding(plugin: Plugin, tmp_path: Path) -> None:
    taken = {"environment", "stdin", "addPreviousOutputInEnv", "create", "update", "delete"}
    for finding in HOSTILE:
        for command in commands(finding):
            if command.token != "command:local:Command":
                continue
            inputs: dict[str, Any] = {k: v for k, v in command.inputs.items() if k in taken}
            # gpu-cluster-program isn't in this folder. So only a shell command inside a
            # finding could create a file.
            with contextlib.suppress(Failed):
                plugin.update(command.token, inputs, **inputs, dir=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: good, namespace: gpu}
---
apiVersion: %s
kind: %s
metadata: {name: %s, namespace: %s}
"""
GOOD = {"version": "v1", "kind": "ConfigMap", "name": "other", "namespace": "gpu"}


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("name", f'"x\\ntouch {MARK}"'),
        ("name", '"x\\u001b[2J"'),
        ("name", "../../secrets/x"),
        ("name", "a%2fb"),
        ("name", "x?dryRun=All"),
        ("name", "{a: b}"),
        ("name", "7"),
        ("name", "x" * 254),
        ("namespace", "kube-system/secrets"),
        ("namespace", "[a]"),
        ("kind", '"ConfigMap; x"'),
        ("kind", "[ConfigMap]"),
        ("version", "../v1"),
        ("version", "1"),
    ],
)
def test_a_release_record_with_an_ill_formed_name_is_refused(part: str, value: str) -> None:
    fields = GOOD | {part: value}
    text = MANIFEST % (fields["version"], fields["kind"], fields["name"], fields["namespace"])
    with pytest.raises(IllFormed, match=r"found .*; wanted: .*; cure: ") as error:
        expected(text)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 300


def test_names_that_kubernetes_takes_are_read() -> None:
    names = ("good", "system:gpu:Viewer", "nvidia.com", "x" * 253)
    for name in names:
        text = MANIFEST % ("rbac.authorization.k8s.io/v1", "ClusterRole", name, '""')
        assert [item.name for item in expected(text)] == ["good", name]


def test_a_node_with_an_ill_formed_name_is_refused() -> None:
    nodes = [{"metadata": {"name": f"x\ntouch {MARK}", "labels": {"gpu": "1"}}}]
    with pytest.raises(IllFormed, match="name of a node") as error:
        pool_members(nodes, Members(context="c", pool="a", selector={"gpu": "1"}, count=1))
    assert str(error.value).isprintable()
