"""Rule GPU066: a PersistentVolume of a node is a folder for data."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...facts.host_folders import VOLUMES
from ..each import each_object
from ..example import Example
from ..host_paths import driver_paths, driver_paths_cel, plain_path, plain_path_cel
from ..rule import Finding, Rule, Subject
from ..twin import Scope, Twin
from ..unknown import at, text
from .paths import (
    gives_gpus,
    gives_gpus_cel,
    is_allowed,
    is_allowed_cel,
    is_for_volumes,
    is_for_volumes_cel,
)

_SOURCES = ("hostPath", "local")


def _for_data(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.group_version != "v1":
        return
    spec = at(subject.manifest, "spec")
    for source in _SOURCES:
        written = text(at(spec, source, "path"))
        path = plain_path(written)
        allowed = is_allowed(path, context) or is_for_volumes(path)
        if written and (gives_gpus(path) or not allowed):
            yield _volume_finding(f"spec.{source}.path", path)
    for place, path in driver_paths(spec):
        if gives_gpus(path):
            yield _volume_finding(f"spec.{place}", path)


def _volume_finding(place: str, path: str) -> Finding:
    return Finding(
        path=place,
        found=path[:80],
        wanted="a folder for data",
        cure="Use another folder, or add it to allowedHostPaths: pods with this volume could get "
        "GPUs without a request for them."
        if not gives_gpus(path)
        else "Use another folder: pods with this volume would get GPUs without a request for them.",
        is_opinion=not gives_gpus(path),
    )


RULE = Rule(
    id="GPU066",
    title="No PersistentVolume gives access to GPUs",
    severity=Severity.MANDATORY,
    check=each_object(_for_data, "PersistentVolume"),
    opinions="paths that give no access to GPUs and that are not known as folders for data",
    why="A pod that uses the volume mounts a folder of the node without a host path in its own "
    "manifest, so neither GPU036 nor Pod Security detects it. So the folder must be one for data: "
    "one that allowedHostPaths lists, or a folder below "
    + ", ".join(sorted(VOLUMES)[:-1])
    + f" or {max(VOLUMES)}.",
    source="k8s.io/api v0.34.4 core/v1/types.go PersistentVolumeSource; k8s.io/pod-security-"
    "admission v0.34.4 policy (volumes of pods alone)",
)

TWIN = Twin(
    '[object.spec.?hostPath.?path.orValue(""), object.spec.?local.?path.orValue("")]'
    f'.filter(p, p != "").map(p, {plain_path_cel("p")})'
    f".filter(h, {gives_gpus_cel('h')} || !({is_allowed_cel('h')} || {is_for_volumes_cel('h')}))"
    '.map(h, "found path " + h) + '
    f"{driver_paths_cel('object.spec')}.filter(h, {gives_gpus_cel('h')})"
    '.map(h, "found path " + h)',
    scopes=frozenset({Scope.VOLUMES}),
)

EXAMPLE = Example.edited(
    """\
apiVersion: v1
kind: PersistentVolume
metadata: {name: data}
spec:
  capacity: {storage: 1Ti}
  accessModes: [ReadWriteOnce]
  hostPath: {path: /mnt/disks/a}
""",
    ("path: /mnt/disks/a", "path: /dev"),
)
