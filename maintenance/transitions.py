"""Write the table of transitions: supported upgrades, and changes in each chart release.

Releases come from git directories of the makers' public repositories: the tags' dates, and the
chart at each tag. Nothing of a repository is executed.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictStr, TypeAdapter

from gpu_cluster.base import yaml_file
from gpu_cluster.base.model import Model
from gpu_cluster.charts.contents import ChartContents, of_folder
from gpu_cluster.charts.extra_values import plain
from gpu_rules.facts.transitions import TABLE, parse

RULES = Path(__file__).with_name("transitions.yaml")
SOURCE = (
    "maintenance/transitions.yaml and the makers' repositories; written by "
    "`make facts REPOSITORIES=<folder>`"
)
_TAG = re.compile(r"v[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}")
_IMAGE_PARTS = ("version", "tag")


class Rules(Model):
    """What the publisher of a software documents about changes of its version."""

    title: StrictStr
    order: tuple[StrictStr, ...] = ()
    forward: Literal["next", "any", "listed"]
    back: Literal["any", "no", "unknown"]
    no_way_back_to: StrictStr = ""
    steps: tuple[tuple[StrictStr, StrictStr], ...] = ()
    source: Annotated[StrictStr, Field(max_length=400)]
    read: date
    repository: StrictStr = ""
    chart: StrictStr = ""
    kubernetes: dict[StrictStr, tuple[StrictStr, StrictStr]] = Field(default_factory=dict)
    later: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    notes: dict[StrictStr, tuple[StrictStr, ...]] = Field(default_factory=dict)


def rules() -> Mapping[str, Rules]:
    """Return the rules in transitions.yaml, by software."""
    adapter = TypeAdapter(dict[StrictStr, Rules])
    return adapter.validate_python(yaml_file.read(RULES).value)


def table(repositories: Path | None) -> str:
    """Return the table as JSON text.

    Args:
        repositories: Folder with a git directory of each repository, as `OWNER+NAME/repo`. None:
            the releases of the present table stay.

    Raises:
        OSError: A repository can't be read.
        ValueError: A chart can't be read.
    """
    present: dict[str, Any] = {}
    if TABLE.is_file():
        present = json.loads(TABLE.read_text(encoding="utf-8"))["software"]
    software = {}
    for name, rule in rules().items():
        releases = present.get(name, {}).get("releases", {})
        if not rule.repository:
            releases = {version: {"source": source} for version, source in rule.later.items()}
        elif repositories is not None:
            folder = repositories / rule.repository.replace("/", "+") / "repo"
            releases = dict(_releases(folder, rule))
        entry = rule.model_dump(mode="json", exclude={"repository", "chart", "later"})
        software[name] = entry | {"releases": releases}
    return json.dumps({"source": SOURCE, "software": software}, indent=1) + "\n"


@dataclass(frozen=True)
class _Known:
    """Values that a chart has: paths of its values.yaml, and paths that its templates read."""

    paths: frozenset[str]
    read: frozenset[str]

    def has(self, path: str) -> bool:
        """Return whether the chart has the value, a part of it, or a mapping that takes any key."""
        steps = path.split(".")
        prefixes = {".".join(steps[:length]) for length in range(1, len(steps) + 1)}
        # A template may read a mapping with any key in it, such as feature gates.
        return bool(prefixes & (self.paths | self.read)) or self._leads_on(path)

    def without(self, other: _Known) -> Iterator[str]:
        """Yield the values of this chart that another chart does not have."""
        for path in self.paths | {path for path in self.read if not self._leads_on(path)}:
            if not other.has(path):
                yield path

    def _leads_on(self, path: str) -> bool:
        start = f"{path}."
        return any(known.startswith(start) for known in (*self.paths, *self.read))


def _releases(git: Path, rule: Rules) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each release of the series in the order, with what its chart has."""
    before: _Known | None = None
    for tag, published in _tags(git, rule):
        release: dict[str, Any] = {"published": published}
        if (chart := _chart_at(git, tag, rule)) is not None:
            optional = set(_switched_off(chart))
            release["parts"] = dict(_parts(chart))
            release["optional"] = sorted(optional & {*release["parts"], *chart.subcharts})
            release["definitions"] = dict(_definitions(chart))
            chart_values = _Known(frozenset(_paths(plain(chart.values))), chart.read)
            if before is not None:
                release["values"] = sorted(chart_values.without(before))
                release["dropped"] = sorted(before.without(chart_values))
            before = chart_values
        yield tag, {key: value for key, value in release.items() if value}
    for version, source in rule.later.items():
        yield version, {"source": source}


def _tags(git: Path, rule: Rules) -> list[tuple[str, str]]:
    listed = git_output(
        git, "for-each-ref", "--format=%(refname:short) %(creatordate:short)", "refs/tags"
    )
    tags = [line.split(" ", 1) for line in listed.decode().splitlines()]

    def series(tag: str) -> str:
        return ".".join(map(str, parse(tag)[:2]))

    tagged = [(tag, day) for tag, day in tags if _TAG.fullmatch(tag) and series(tag) in rule.order]
    return sorted(tagged, key=lambda pair: (rule.order.index(series(pair[0])), parse(pair[0])))


def _chart_at(git: Path, tag: str, rule: Rules) -> ChartContents | None:
    """Return the chart at a tag; None if the tag has none at a known place."""
    places = (rule.chart, rule.chart.replace("dra-driver-nvidia-gpu", "nvidia-dra-driver-gpu"),
              rule.chart.replace("dra-driver-nvidia-gpu", "k8s-dra-driver-gpu"))  # fmt: skip
    for place in dict.fromkeys(places):
        if not git_output(git, "ls-tree", tag, f"{place}/Chart.yaml"):
            continue
        packed = git_output(git, "archive", "--format=tar", tag, place)
        with (
            tempfile.TemporaryDirectory() as folder,
            tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as archive,
        ):
            archive.extractall(folder, filter="data")
            return of_folder(Path(folder) / place)
    return None


def git_output(git: Path, *arguments: str) -> bytes:
    """Return what git prints about a git directory.

    Raises:
        OSError: git failed.
    """
    command = ["git", f"--git-dir={git}", *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise OSError(f"{git}: {done.stderr.decode(errors='replace').strip()[:300]}")
    return done.stdout


def _definitions(chart: ChartContents, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and a digest of each definition; those of subcharts as `subchart/name`."""
    for name, item in sorted(chart.definitions.items()):
        text = json.dumps(plain(item), sort_keys=True, default=str)
        yield f"{prefix}{name}", hashlib.sha256(text.encode()).hexdigest()[:12]
    for key, subchart in chart.subcharts.items():
        yield from _definitions(subchart, f"{key}/")


def _switched_off(chart: ChartContents) -> Iterator[str]:
    """Yield the sections of a chart's values, and its subcharts, that are off by default."""

    def is_on(name: str) -> bool:
        section = chart.values.get(name)
        return isinstance(section, Mapping) and section.get("enabled") is True

    for name, section in chart.values.items():
        if isinstance(section, Mapping) and section.get("enabled") is False:
            yield name
    # The condition of Node Feature Discovery is nfd.enabled in NVIDIA's charts.
    yield from (name for name in chart.subcharts if not is_on(name) and not is_on("nfd"))


def _paths(values: Any, prefix: str = "") -> Iterator[str]:
    """Yield the paths of a chart's values; a list or an empty mapping has one path."""
    if isinstance(values, Mapping) and values:
        for key, value in values.items():
            yield from _paths(value, f"{prefix}.{key}" if prefix else str(key))
    elif prefix:
        yield prefix


def _parts(chart: ChartContents) -> Iterator[tuple[str, str]]:
    """Yield the sections of a chart's values that name an image's version, and the version."""

    def walk(values: Any, prefix: str) -> Iterator[tuple[str, str]]:
        if not isinstance(values, Mapping):
            return
        image = next((values[key] for key in _IMAGE_PARTS if values.get(key)), None)
        if prefix and image and {"image", "repository"} & set(values):
            yield prefix, str(image)
        for key, value in values.items():
            yield from walk(value, f"{prefix}.{key}" if prefix else str(key))

    yield from walk(plain(chart.values), "")
    for name, subchart in chart.subcharts.items():
        yield name, subchart.version
