"""Rule GPU066: a PersistentVolume must not have a host path that gives access to GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from .. import cel
from ..context import Context, Severity
from ..each import each_object
from ..example import Example
from ..host_paths import plain_path
from ..rule import Finding, Rule, Subject
from ..twin import Scope, Twin
from ..unknown import at, text
from .paths import PARENTS, gives_gpus, gives_gpus_cel

_SOURCES = ("hostPath", "local")


def _no_devices(subject: Subject, _: Context) -> Iterator[Finding]:
    for source in _SOURCES if subject.group_version == "v1" else ():
        written = text(at(subject.manifest, "spec", source, "path"))
        path = plain_path(written)
        if written and (gives_gpus(path) or path in PARENTS):
            yield Finding(
                path=f"spec.{source}.path",
                found=path[:80],
                wanted="a folder for data",
                cure="Use another folder: pods with this volume would get GPUs without a request "
                "for them.",
            )


RULE = Rule(
    id="GPU066",
    title="No PersistentVolume gives access to GPUs",
    severity=Severity.MANDATORY,
    check=each_object(_no_devices, "PersistentVolume"),
    why="A pod that uses the volume mounts a folder of the node without a host path in its own "
    "manifest, so neither GPU036 nor Pod Security detects it.",
    source="k8s.io/api v0.34.4 core/v1/types.go PersistentVolumeSource; k8s.io/pod-security-"
    "admission v0.34.4 policy (volumes of pods alone)",
)

_PLAIN = '"/" + p.split("/").filter(s, s != "" && s != ".").join("/")'

TWIN = Twin(
    '[object.spec.?hostPath.?path.orValue(""), object.spec.?local.?path.orValue("")]'
    f'.filter(p, p != "").map(p, {_PLAIN})'
    f".filter(h, {gives_gpus_cel('h')} || h in {cel.texts(PARENTS)})"
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
