"""Platforms are independent of each other and of the cluster's name in the program."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, get_type_hints

import pulumi
import pytest

from gpu_cluster.cluster import GpuCluster, GpuClusterArgs
from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.discovery import every, named
from gpu_cluster.platforms.site import Site
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.platform import NAMES
from gpu_rules.faults import ConfigError
from tests.fixtures.clusters import INSTALLERS
from tests.fixtures.documents import stack_document
from tests.mocks import declare
from tests.resolved import platform_of

pytestmark = pytest.mark.usefixtures("no_hooks")

ROOT = Path(__file__).resolve().parents[3]


def cluster(platform: str, **sections: Any) -> Cluster:
    return load(stack_document(context="test", platform=platform) | sections)


def names(*roots: tuple[str, str]) -> list[tuple[str, str]]:
    """Return the tokens and names of the resources that these clusters declare."""

    def program() -> None:
        for root, platform in roots:
            key = pulumi.Output.secret("key")
            GpuCluster(root, GpuClusterArgs(settings=cluster(platform), private_key=key))

    made = declare(program, preview=False).resources
    return [(resource.token, resource.name) for resource in made]


def test_each_folder_is_a_platform() -> None:
    assert NAMES == ("device-plugin", "dra", "gpu-manager", "gpu-operator", "hami")
    assert len({platform.chart for platform in every()}) == len(NAMES)
    assert len({platform.servers for platform in every()}) == len(NAMES)


def test_nobody_outside_a_platform_asks_for_its_kind() -> None:
    """Code outside a platform must not compare the platform's name, but call the platform."""
    asking = re.compile(r"""platform\)? *(is|==|!=|in|not in) *[("'{\[]|match .*\.platform\b""")
    questions = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for folder in ("components", "policies/gpu_rules/facts")
        for path in (ROOT / folder).rglob("*.py")
        for line in path.read_text().splitlines()
        if asking.search(line)
    ]
    assert questions == []


@pytest.mark.parametrize("name", NAMES)
def test_a_platform_answers_from_its_own_settings_and_its_site(name: str) -> None:
    declared = platform_of(
        cluster(name, pools=[{"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": 8}])
    )
    pools = declared.site.pools
    settings = get_type_hints(named(name))["settings"]()
    alone = named(name)(settings, Site(context="test", platform=name, pools=pools))
    assert alone == declared
    assert alone.values() == declared.values()
    assert alone.offers(pools[0]) == declared.offers(declared.site.pools[0])


def test_what_all_platforms_share_knows_none_of_them() -> None:
    for path in ("base.py", "site.py", "tolerations.py"):
        text = (ROOT / "components" / "gpu_cluster" / "platforms" / path).read_text()
        folders = [name.replace("-", "_") for name in NAMES]
        assert not [name for name in folders if f"gpu_cluster.platforms.{name}" in text]


@pytest.mark.parametrize("platform", NAMES)
def test_a_release_has_one_address_whatever_the_platform(platform: str) -> None:
    (release,) = (name for token, name in names(("blue", platform)) if token.endswith(":Release"))
    assert release == "blue-gpu-platform-release"


def test_two_clusters_in_one_program_share_no_name() -> None:
    made = names(("blue", "device-plugin"), ("green", "gpu-manager"))
    twice = [line for line, count in Counter(made).items() if count > 1]
    assert twice == []
    assert {name.split("-")[0] for _, name in made} == {"blue", "green"}


@pytest.mark.parametrize("one", NAMES)
def test_parts_of_different_platforms_share_no_address_but_the_release(one: str) -> None:
    """If two platforms shared a resource name, Pulumi would update the resource in place."""

    def keys(name: str) -> set[str]:
        platform = platform_of(cluster(name))
        return {part.key for part in (*platform.extra_objects(), *platform.programs())}

    for other in NAMES:
        assert one == other or not keys(one) & keys(other)


@pytest.mark.parametrize(
    ("sections", "path"),
    [
        ({"validation": {"namespace": "default"}}, "validation.namespace"),
        ({"validation": {"namespace": "kube-system"}}, "validation.namespace"),
        ({"monitoring": {"namespace": "kube-public"}}, "monitoring.namespace"),
        (
            {
                "driver": {"source": "daemonset", "version": "595.91.07"},
                "driverInstaller": {"namespace": "kube-system", "images": INSTALLERS},
            },
            "driverInstaller.namespace",
        ),
        ({"monitoring": {"namespace": "gpu-validation"}}, "monitoring.namespace"),
        ({"devicePlugin": {"namespace": "gpu-validation"}}, "devicePlugin.namespace"),
    ],
)
def test_a_namespace_that_is_somebody_elses_is_refused(sections: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as raised:
        cluster("device-plugin", **sections)
    assert [problem.place for problem in raised.value.faults] == [path]


def test_a_toolkit_is_wanted_only_where_the_nvidia_runtime_hands_gpus_over() -> None:
    wants = {name: platform_of(cluster(name)).delivery.value for name in NAMES}
    assert wants == {
        "device-plugin": "runtime",
        "dra": "cdi",
        "gpu-manager": "plugin",
        "gpu-operator": "runtime",
        "hami": "runtime",
    }
