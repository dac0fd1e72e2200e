"""Rule GPU042: time-slicing should set failRequestsGreaterThanOne to reject several shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...context import Context, Severity
from ..embedded import embedded
from ..example import Example
from ..helm import releases
from ..rule import Finding, Rule, Subject
from ..twin import NoTwin
from ..unknown import UNKNOWN, at, mapping, sequence


def plugin_files(subject: Subject) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the device plugin's configuration files in an object, with their paths.

    The files are in a ConfigMap, or in the Helm values `config.map` of the plugin's chart (NVIDIA
    k8s-device-plugin v0.20.0 api/config/v1) or `devicePlugin.config.data` of gpu-operator v26.7.0.
    """
    places: dict[str, object] = {}
    if subject.kind == "ConfigMap" and subject.group_version == "v1":
        places["data"] = at(subject.manifest, "data")
    for chart in releases(subject):
        for steps in (("config", "map"), ("devicePlugin", "config", "data")):
            places[chart.place(".".join(("values", *steps)))] = at(chart.values, *steps)
    for path, files in places.items():
        for name, content in mapping(files).items():
            document = embedded(content)
            if document.get("version") == "v1":
                yield f"{path}[{name}]", document


def _refuses_more(subject: Subject, _: Context) -> Iterator[Finding]:
    for path, document in plugin_files(subject):
        slicing = at(document, "sharing", "timeSlicing")
        refuses = at(slicing, "failRequestsGreaterThanOne")
        if sequence(at(slicing, "resources")) and refuses is not True and refuses is not UNKNOWN:
            yield Finding(
                path=f"{path}.sharing.timeSlicing.failRequestsGreaterThanOne",
                found="false" if refuses is False else "no value, which means false",
                wanted="true",
                cure="Set it: without it, a pod that requests two shares occupies two shares of "
                "one GPU.",
            )


RULE = Rule(
    id="GPU042",
    title="Time-slicing rejects requests for several shares",
    severity=Severity.ADVISORY,
    check=_refuses_more,
    why="With failRequestsGreaterThanOne, a pod that requests several shares is rejected; "
    "without it, the pod occupies all these shares and has no use of them. The default is "
    "false for time-slicing and true for MPS.",
    source="NVIDIA k8s-device-plugin v0.20.0 api/config/v1/config.go, replicas.go",
)

TWIN = NoTwin("It reads a YAML file inside a ConfigMap, which CEL cannot parse.")

EXAMPLE = Example.edited(
    """\
apiVersion: v1
kind: ConfigMap
metadata: {name: nvidia-plugin-configs, namespace: nvidia-device-plugin}
data:
  config: |
    version: v1
    sharing:
      timeSlicing:
        failRequestsGreaterThanOne: true
        resources: [{name: nvidia.com/gpu, replicas: 4}]
""",
    ("\n        failRequestsGreaterThanOne: true", ""),
)
