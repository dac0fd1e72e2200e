"""Each setting that a row of troubleshooting advises is taken on each platform for which it stands.

A setting stands for the platform that its clause names (`platform `P``), otherwise for all
platforms that its row does not name. A setting without a value is not tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.loading.loader import load
from gpu_cluster.settings.platform import NAMES
from gpu_rules.faults import ConfigError
from tests.fixtures.clusters import HOST_KEY, INSTALLERS

pytestmark = pytest.mark.documents("cure")

Json = dict[str, Any]
PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/troubleshooting.md"
GUIDES = "## What guides do and this program doesn't"
SECTIONS = frozenset(
    {
        *("runtime", "driver", "packages", "kernel", "maintenance", "reboot", "cuda", "system"),
        *("devicePlugin", "gpuOperator", "gpuManager", "hami", "dra", "validation", "registry"),
        *("taints", "toolkit"),
    }
)
"""Keys with which a setting of the stack file begins in the page."""
SHORT = {"toolkit": "runtime"}
"""Sections that the page names without the section above them."""
SETTING = re.compile(r"`(([A-Za-z]+)(?:\.[A-Za-z]+)*: [^`]+)`")
PLATFORM = re.compile(r"platform `([a-z-]+)`")
DRIVERS = {"gpu-manager": "470.256.02"}
"""Driver of a platform that doesn't take the newest one."""
OTHERS = {"device-plugin": "daemonset", "gpu-operator": "operator"}
"""Source of a driver that is not the host's own, by platform; on others it is a package."""


@dataclass(frozen=True)
class Cure:
    """A setting that a row advises, and a platform for which it stands."""

    message: str
    setting: str
    platform: str


def cures() -> Iterator[Cure]:
    text, _, _ = PAGE.read_text(encoding="utf-8").partition(GUIDES)
    for row in (line for line in text.splitlines() if line.startswith("| ")):
        message, _, advice = row.strip("| ").partition(" | ")
        named = set(PLATFORM.findall(advice))
        for clause in re.split(r"[;.] ", advice):
            own = PLATFORM.findall(clause)
            for setting, section in SETTING.findall(clause):
                if section in SECTIONS:
                    platforms = own or [name for name in NAMES if name not in named]
                    yield from (Cure(message, setting, platform) for platform in platforms)


CURES = list(cures())


def stack(platform: str) -> Json:
    """Return a stack file with two hosts."""
    manager = {"gpuManager": {"extenderAddress": "10.96.0.200"}}
    hosts = [
        {"name": f"gpu-{number}", "address": f"192.0.2.{number}", "hostKey": HOST_KEY}
        for number in (1, 2)
    ]
    return {
        "version": "v1",
        "kubernetes": {"context": "c"},
        "platform": platform,
        "pools": [{"name": "a100", "nodes": ["gpu-[1-9]"], "gpusPerNode": 8}],
        "hosts": hosts,
        **(manager if platform == "gpu-manager" else {}),
    }


def source(name: str, platform: str) -> Json:
    """Return sections with a driver of a source, and what this source needs."""
    made: Json = {"driver": {"source": name}}
    if name == "package":
        made["driver"]["version"] = DRIVERS.get(platform, "595.91.07")
    if name == "daemonset":
        made["driver"]["version"] = "595.91.07"
        made["driverInstaller"] = {"images": INSTALLERS}
    return made


def merged(one: Json, other: Json) -> Json:
    both = dict(one)
    for key, value in other.items():
        inner = isinstance(value, dict) and isinstance(both.get(key), dict)
        both[key] = merged(both[key], value) if inner else value
    return both


def with_cure(cure: Cure) -> Json:
    """Return the stack file of a cure's platform with its setting, and what the setting needs."""
    path, _, value = cure.setting.partition(": ")
    keys = path.split(".")
    edit: Any = yaml.safe_load(value)
    for key in reversed([SHORT[keys[0]], *keys] if keys[0] in SHORT else keys):
        edit = {key: edit}
    document = stack(cure.platform)
    if keys == ["driver", "removeEarlier"]:
        document = merged(document, source(OTHERS.get(cure.platform, "package"), cure.platform))
    if keys == ["driver", "source"]:
        edit = source(edit["driver"]["source"], cure.platform)
    if keys == ["taints"]:
        document["pools"][0] |= edit
        return document
    return merged(document, edit)


@pytest.mark.promise(
    "Each setting that the page on troubleshooting advises is taken on each platform for which it "
    "stands."
)
@pytest.mark.parametrize(
    "cure", [pytest.param(cure, id=f"{cure.setting} {cure.platform}") for cure in CURES]
)
def test_a_setting_that_a_row_advises_is_taken(cure: Cure) -> None:
    try:
        load(with_cure(cure))
    except ConfigError as error:
        pytest.fail(f"{cure.message}: {error}")


def test_a_row_that_stands_for_one_platform_is_tried_there_alone() -> None:
    assert len(CURES) > 70
    tried = {cure.platform for cure in CURES if cure.setting == "driver.source: operator"}
    assert tried == {"gpu-operator"}
    toolkit = "runtime: {toolkit: {source: package}}"
    assert {cure.platform for cure in CURES if cure.setting == toolkit} == {
        name for name in NAMES if name != "gpu-manager"
    }
