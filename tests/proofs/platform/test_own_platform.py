"""A user-defined platform: a folder with one file, which the program finds automatically."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator

import pytest

from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import Project, figures, started
from tests.proofs.platform import ways

ALL = ways.NODES * ways.GPUS

# The file of a user-defined platform with as few settings as possible.
PLATFORM = '''
    """GPUs by a chart of our own."""

    from gpu_cluster.kubernetes.resources import GPU
    from gpu_cluster.platforms.base import Offer, Platform, Servers


    class Own(Platform):
        chart = "own-plugin"
        repository = "./own-chart"
        servers = Servers("own=plugin", "own-plugin")
        version = "1.2.3"
        namespace = "own-plugin"

        def values(self):
            return {"tolerations": self.site.tolerations}

        def offers(self, pool):
            return (Offer(GPU, pool.gpus_per_node, pool.gpus_per_node),)

        def images(self):
            yield "registry.example.com/own-plugin:1.2.3"

        def labels(self, pool):
            return {"own/gpu": "true"}


    PLATFORM = Own
'''
CHART = {
    "Chart.yaml": "apiVersion: v2\nname: own-plugin\nversion: 1.2.3\n",
    "templates/plugin.yaml": """
        apiVersion: apps/v1
        kind: DaemonSet
        metadata: {name: own-plugin, namespace: {{ .Release.Namespace }}}
        spec:
          selector: {matchLabels: {own: plugin}}
          template:
            metadata: {labels: {own: plugin, app.kubernetes.io/name: nvidia-device-plugin}}
            spec:
              nodeSelector: {own/gpu: "true"}
              tolerations: {{ toJson .Values.tolerations }}
              containers:
                - name: nvidia-device-plugin-ctr
                  image: registry.example.com/own-plugin:1.2.3
    """,
}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a project with the folder of a user-defined platform."""
    stack = f"own-{os.getpid()}"
    project = Project.make(tmp_path_factory.mktemp("own"), stack)
    folder = project.root / "components" / "gpu_cluster" / "platforms" / "own_platform"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "platform.py").write_text(textwrap.dedent(PLATFORM))
    for name, text in CHART.items():
        path = project.root / "own-chart" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    program = project.root / "__main__.py"
    text = program.read_text()
    assert text.count('"gpu-cluster",') == 1
    program.write_text(text.replace('"gpu-cluster",', '"blue",'))
    # This process doesn't know the platform, so the machines are those of a stack with another one.
    project.write(declared(project, "device-plugin"))
    project.write(declared(project, "own-platform"), hardware=False)
    with started(project):
        yield project


def declared(project: Project, platform: str) -> ways.Json:
    return {**ways.declared(project.stack, "device-plugin"), "platform": platform}


@pytest.mark.full
def test_a_platform_of_ones_own_comes_up_gives_way_and_goes(own: Project) -> None:
    before = snapshot.cluster(own)
    assert figures(own.up())[:2] == (ALL, ALL)
    assert figures(own.up()) == (ALL, ALL, 0)
    state = own.checkpoint()
    assert "::blue-gpu-platform-release" in state
    own.write(declared(own, "device-plugin"))
    assert figures(own.up())[:2] == (ALL, ALL)
    assert own.request("GET", "daemonsets", base="/apis/apps")["items"]
    done = own.command("destroy")
    assert done.returncode == 0, done.stdout
    assert snapshot.cluster(own) == before
