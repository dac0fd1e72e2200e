"""Package graphs of simulated repositories: each package and dependency exists and has a source."""

from __future__ import annotations

import itertools

import pytest
import yaml

from gpu_cluster_lab.simulator.hosts import package_graph
from gpu_cluster_lab.simulator.hosts.model import HostError
from gpu_cluster_lab.simulator.hosts.package_graph import UNVERIFIED, Graph

GRAPHS = tuple(sorted(path.stem for path in package_graph.FOLDER.glob("*.yaml")))


def every(graph: Graph) -> list[package_graph.Package]:
    repositories = {row.repository for row in graph.rows}
    return [package for name in sorted(repositories) for package in graph.packages(name)]


@pytest.mark.parametrize("name", GRAPHS)
def test_what_a_package_needs_is_in_its_graph(name: str) -> None:
    packages = every(package_graph.load(name))
    known = {package.name for package in packages}
    known |= {word for package in packages for text in package.provides for word in names(text)}
    for package in packages:
        for relation in package.depends:
            assert set(names(relation)) & known, (package.name, relation)


def names(relation: str) -> list[str]:
    return package_graph.names(relation)


@pytest.mark.parametrize("name", GRAPHS)
def test_each_row_names_sources_that_are_listed_and_used(name: str) -> None:
    graph = package_graph.load(name)
    used = set(itertools.chain.from_iterable(row.source for row in graph.rows))
    assert used - {UNVERIFIED} | {"versions"} >= graph.sources.keys()


def test_a_row_without_a_source_is_refused() -> None:
    document = yaml.safe_load((package_graph.FOLDER / "debian12.yaml").read_text())
    entry = {**document["packages"][0], "source": "hearsay"}
    with pytest.raises(HostError, match="hearsay"):
        package_graph._read_row("debian12", entry, document["sources"])


def test_what_nobody_has_shown_is_never_built() -> None:
    graph = package_graph.load("debian12")
    unverified = [row.name for row in graph.rows if UNVERIFIED in row.source]
    assert unverified == ["nvidia-fabricmanager-{branch}"]
    assert "nvidia-fabricmanager-570" not in {package.name for package in graph.packages("cuda")}


@pytest.mark.parametrize(
    ("driver", "has", "lacks"),
    [
        ("535.216.01", {"nvidia-fabricmanager-535"}, {"nvidia-open", "nvidia-imex-535"}),
        ("570.195.03", {"nvidia-fabricmanager-570", "nvidia-imex-570"}, {"nvidia-fabricmanager"}),
        ("580.65.06", {"nvidia-fabricmanager", "nvidia-open-580"}, {"nvidia-fabricmanager-580"}),
        ("590.48.01", {"nvidia-dkms-open", "nvidia-imex"}, {"nvidia-dkms-590-open"}),
    ],
)
def test_ubuntus_names_carry_the_branch_as_far_as_upstreams_do(
    driver: str, has: set[str], lacks: set[str]
) -> None:
    names = {
        package.name for package in package_graph.load("ubuntu24.04").packages("cuda", [driver])
    }
    assert has <= names
    assert not lacks & names


def test_open_modules_are_in_open_streams_only() -> None:
    text = package_graph.load("rhel").modules(["580.65.06"])
    documents = list(yaml.safe_load_all(text))
    streams = {
        document["data"]["stream"]: " ".join(document["data"]["artifacts"]["rpms"])
        for document in documents
        if document["document"] == "modulemd"
    }
    opened = {name for name, rpms in streams.items() if "kmod-nvidia-open-dkms" in rpms}
    assert opened == {"open-dkms", "580-open"}
    assert documents[-1]["data"]["stream"] == "latest-dkms"
