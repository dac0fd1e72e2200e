"""Tests of recovery with a newer Kubernetes plugin, which refuses to create existing objects.

`lab.next_provider` imitates that plugin. After a lost state or a killed run, objects exist that are
not in the state. The next run must adopt them.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gpu_cluster_lab import toolchain
from lab.benchmarks.api_server import ApiServer, running
from lab.next_provider import EXISTS, RELEASE, NextProvider, serving
from tests.guard import own_name
from tests.proofs.e2e.kills import MARK, engines
from tests.proofs.e2e.project import Project, figures, started
from tests.toolchain.plugins import rig

PLUGIN = "pulumi-resource-kubernetes"
NAMED = os.environ.get("GPU_CLUSTER_NEXT_PLUGIN", "")
"""Path of a Kubernetes plugin, 4.29.0 or later, with which the recovery is tested too."""
PROGRAM = """
import os
import pulumi
import pulumi_kubernetes as k8s
from gpu_cluster.provider import kubernetes_provider

context = os.environ["TEST_CONTEXT"]
if os.environ["TEST_PROVIDER"] == "ours":
    provider = kubernetes_provider("kubernetes", context, context)
else:
    provider = k8s.Provider("kubernetes", kubeconfig="", context=context)
for name in os.environ["TEST_NAMES"].split():
    k8s.core.v1.ConfigMap(
        name,
        metadata={"name": name, "annotations": {"pulumi.com/patchForce": "true"}},
        data={"made": "by the stack"},
        opts=pulumi.ResourceOptions(provider=provider),
    )
"""
"""Declares ConfigMaps, with the SDK's provider or with the program's."""
SPACE = """
import os
import pulumi
from gpu_cluster.manifest import Manifest, token
from gpu_cluster.provider import kubernetes_provider

context = os.environ["TEST_CONTEXT"]
provider = kubernetes_provider("kubernetes", context, context)
space = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "older", "labels": {"edit": os.environ["TEST_LABEL"]}},
}
opts = pulumi.ResourceOptions(provider=provider)
if os.environ["TEST_AGE"] == "older":
    pulumi.CustomResource(token("v1", "Namespace"), "space", space, opts)
else:
    Manifest("space", space, opts)
"""
"""Declares a namespace as earlier versions of the program did, or as it does now."""
MAPS = "/api/v1/namespaces/default/configmaps"
TEAM = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
GPUS = 16


@dataclass
class Site:
    """Project whose Pulumi engine connects to a plugin process that the test started.

    Attributes:
        plugin: `pinned` for the toolchain's plugin, `next` for the imitated newer plugin, or
            `named` for the plugin that the environment names (`NAMED`).
        project: The project, with two nodes, guardrails and a quota.
        provider: The plugin process.
    """

    plugin: str
    project: Project
    provider: NextProvider

    def up(self) -> None:
        """Run `gpu-cluster up` twice: first after the kill, then again, which changes nothing."""
        assert figures(self.project.up())[:2] == (GPUS, GPUS)
        assert figures(self.project.up()) == (GPUS, GPUS, 0)

    def killed(self, name: str) -> None:
        """Kill the engine of an `up` after it created an object and before the state records it."""
        if any(self.project.state.rglob(f"{self.project.stack}.json")):
            assert self.project.command("destroy").returncode == 0
        mark = os.urandom(8).hex()
        seen: list[str] = []

        def kill(urn: str) -> None:
            if not seen and name in urn.rsplit("::", 1)[-1]:
                seen.append(urn)
                for pid in engines(mark):
                    os.kill(pid, signal.SIGKILL)

        self.provider.created = kill
        try:
            done = self.project.command("up", **{MARK: mark})
        finally:
            self.provider.created = lambda _: None
        assert done.returncode != 0
        assert seen, done.stdout
        (urn,) = seen
        assert urn not in self.project.checkpoint().split('"pending_operations"')[0]


def lost_state(site: Site) -> None:
    (path,) = (site.project.state / ".pulumi" / "stacks").rglob(f"{site.project.stack}.json")
    for file in path.parent.glob(f"{site.project.stack}.json*"):
        file.unlink()
    site.up()


def lost_release(site: Site) -> None:
    state = json.loads(site.project.checkpoint())["checkpoint"]["latest"]["resources"]
    urns = [one["urn"] for one in state if one["type"] == RELEASE]
    assert len(urns) == 1
    done = site.project.pulumi("state", "delete", "--yes", "--target-dependents", *urns)
    assert done.returncode == 0, done.stdout
    site.up()


def killed_at_a_namespace(site: Site) -> None:
    site.killed("platform-namespace")
    site.up()


def killed_at_the_guardrails(site: Site) -> None:
    site.killed("guardrails")
    site.up()


HEALS: tuple[Callable[[Site], None], ...] = (
    # killed_at_the_guardrails must run first, because it needs an empty cluster.
    killed_at_the_guardrails,
    lost_state,
    lost_release,
    killed_at_a_namespace,
)


@pytest.fixture(
    params=[
        pytest.param("pinned", marks=pytest.mark.full),
        pytest.param("next", marks=pytest.mark.versions("next plugin")),
        pytest.param(
            "named",
            marks=[
                pytest.mark.full,
                pytest.mark.skipif(not NAMED, reason="no plugin in GPU_CLUSTER_NEXT_PLUGIN"),
            ],
        ),
    ]
)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """Start a project with the pinned plugin, the imitated newer one, or the one in `NAMED`."""
    made = Project.make(tmp_path, own_name("next"))
    declared = made.declared() | {
        "hosts": [],
        "pools": [{"name": "a100", "nodes": ["gpu-[1-2]"], "gpusPerNode": 8}],
        "guardrails": {
            "mode": "warn",
            "quotas": [{"namespace": "team", "resources": {"nvidia.com/gpu": 4}}],
        },
    }
    made.write(declared)
    named = request.param == "named"
    executable = Path(NAMED) if named else toolchain.ensure(PLUGIN)[PLUGIN].path
    with started(made):
        made.request("POST", "namespaces", body=TEAM)
        environment = made.shell_environment()
        refuses = request.param == "next"
        with serving(executable, made.root, environment, refuses=refuses) as (provider, variables):
            made.environment.update(variables)
            yield Site(request.param, made, provider)


@pytest.mark.slow
@pytest.mark.promise(
    "A lost state and a killed `up` heal under a Kubernetes plugin that refuses what exists."
)
def test_what_is_left_is_taken_over(
    site: Site, capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    faults = {}
    for heal in HEALS:
        try:
            heal(site)
        except AssertionError as error:
            faults[heal.__name__] = str(error)
            site.project.command("destroy")
            site.project.command("up")
        if site.plugin == "next":
            record_property("versions", ("heal", heal.__name__, heal.__name__ not in faults))
        with capsys.disabled():
            print(f"\n{heal.__name__}: {'not ' * (heal.__name__ in faults)}healed", end="")
    healed = len(HEALS) - len(faults)
    with capsys.disabled():
        print(f"\nheals: {healed} of {len(HEALS)} under the {site.plugin} provider")
    assert not faults, "\n\n".join(f"{name}: {text}" for name, text in faults.items())
    assert site.provider.refused == []


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with running("next") as started:
        yield started


@pytest.fixture
def attached(server: ApiServer, project: rig.Project) -> Iterator[tuple[rig.Project, NextProvider]]:
    """Return a project whose engine connects to the imitated newer plugin."""
    executable = toolchain.ensure(PLUGIN)[PLUGIN].path
    context = yaml.safe_load(server.kubeconfig.read_text())["current-context"]
    environment = project.environment
    environment |= {"KUBECONFIG": str(server.kubeconfig), "PYTHONPATH": str(rig.ROOT)}
    environment |= {"TEST_CONTEXT": context}
    with serving(executable, project.folder, environment, refuses=True) as (provider, variables):
        environment |= variables
        yield project, provider


def managers(server: ApiServer, path: str) -> set[tuple[str, str]]:
    """Return the field managers of an object with their operations, from its managedFields."""
    fields = server.client.get(path).json()["metadata"]["managedFields"]
    return {(entry["manager"], entry["operation"]) for entry in fields}


@pytest.mark.slow
def test_the_next_plugin_refuses_what_exists_and_the_program_takes_it_over(
    server: ApiServer, attached: tuple[rig.Project, NextProvider]
) -> None:
    project, provider = attached
    environment = project.environment
    environment |= {"TEST_PROVIDER": "the SDK's", "TEST_NAMES": "left new"}
    project.write(PROGRAM)
    left = {"metadata": {"name": "left"}, "data": {"made": "by hand"}}
    assert server.client.post(MAPS, json=left).status_code == 201
    # A preview shows a creation, because it doesn't notice that the object exists.
    project.run("preview")
    refused = project.up(succeeds=False)
    assert 'configmaps "left" already exists' in refused
    assert all(line.strip() in refused for line in EXISTS.splitlines())
    assert [urn.rsplit("::", 1)[-1] for urn in provider.refused] == ["left"]
    assert managers(server, f"{MAPS}/new") == {("pulumi-kubernetes", "Update")}

    environment |= {"TEST_PROVIDER": "ours"}
    project.up()
    assert server.client.get(f"{MAPS}/left").json()["data"] == {"made": "by the stack"}
    assert "unchanged" in project.up()


@pytest.mark.slow
def test_an_object_of_an_older_state_keeps_its_field_manager(
    server: ApiServer, attached: tuple[rig.Project, NextProvider]
) -> None:
    project, _ = attached
    environment = project.environment
    environment |= {"TEST_AGE": "older", "TEST_LABEL": "a"}
    project.write(SPACE)
    path = "/api/v1/namespaces/older"
    project.up()
    before = managers(server, path)
    assert any(name.startswith("pulumi-kubernetes-") for name, _ in before)

    environment |= {"TEST_AGE": "newer"}
    project.up("--expect-no-changes")
    environment |= {"TEST_LABEL": "b"}
    project.up()
    assert server.client.get(path).json()["metadata"]["labels"]["edit"] == "b"
    assert managers(server, path) == before
