"""The example of a rule: a manifest that passes, and a manifest that breaks only this rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import indent
from typing import Any


@dataclass(frozen=True, slots=True)
class Example:
    """A passing and a failing manifest as YAML text, and the policy pack's settings for both."""

    passing: str
    failing: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def edited(
        cls, passing: str, *edits: tuple[str, str], settings: Mapping[str, Any] | None = None
    ) -> Example:
        """Return an example whose failing manifest is the passing manifest after `edits`.

        Args:
            passing: The passing manifest.
            edits: Replacements, each as a text of the passing manifest and its new text.
            settings: The policy pack's settings.
        """
        return cls(passing, edited(passing, *edits), settings or {})


def edited(manifest: str, *edits: tuple[str, str]) -> str:
    """Return a manifest after replacements, each given as an old text and a new text.

    Raises:
        ValueError: An old text is not in the manifest exactly once.
    """
    for old, new in edits:
        if manifest.count(old) != 1:
            raise ValueError(
                f"found {manifest.count(old)} times {old!r} in an example; wanted 1; "
                "cure: give more of the text around it"
            )
        manifest = manifest.replace(old, new)
    return manifest


def pod(*fields: str, of_container: str = "", limits: str = "nvidia.com/gpu: 1") -> str:
    """Return a pod for GPUs that violates no rule if it requests one GPU and nothing is added.

    Args:
        fields: More fields of the pod's spec.
        of_container: One more field of the container.
        limits: Limits of the container, besides its memory.
    """
    spec = "".join(f"{field}\n  " for field in fields)
    container = f"{of_container}\n      " if of_container else ""
    memory = f"memory: 32Gi, {limits}" if limits else "memory: 32Gi"
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: train}}
spec:
  tolerations: [{{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}}]
  {spec}containers:
    - name: cuda
      image: registry.example.com/cuda:13.0
      {container}resources:
        requests: {{cpu: 4, memory: 32Gi}}
        limits: {{{memory}}}
"""


def pod_without_gpus(*edits: tuple[str, str], of_container: str = "") -> str:
    """Return a pod that requests no GPUs and tolerates no taint, after replacements."""
    tolerations = "  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]\n"
    return edited(pod(of_container=of_container, limits=""), (tolerations, ""), *edits)


def pod_of_several_gpus(limits: str) -> str:
    """Return a pod for several GPUs, which also needs shared memory (GPU049)."""
    mount = "volumeMounts: [{name: shm, mountPath: /dev/shm}]"
    memory = "volumes: [{name: shm, emptyDir: {medium: Memory}}]"
    return pod(memory, of_container=mount, limits=limits)


def pod_with_claim(template: str) -> str:
    """Return a pod whose container uses a claim that a ResourceClaimTemplate makes."""
    return edited(
        pod(f"resourceClaims: [{{name: gpu, resourceClaimTemplateName: {template}}}]", limits=""),
        ("limits: {memory: 32Gi}", "limits: {memory: 32Gi}\n        claims: [{name: gpu}]"),
    )


def deployment(*fields: str, name: str = "serve", namespace: str = "") -> str:
    """Return a Deployment of pods with one GPU, with more fields of its spec."""
    spec = "".join(f"{field}\n  " for field in fields)
    template = indent(pod().partition("spec:\n")[2], "    ")
    metadata = f"name: {name}" + (f", namespace: {namespace}" if namespace else "")
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{{metadata}}}
spec:
  {spec}selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
{template}"""


def operator_release(*values: str, version: str = "v26.7.0") -> str:
    """Return a release of the GPU Operator that violates no rule, with lines of its values."""
    section = "\n  ".join(("values:", *values)) + "\n" if values else ""
    return f"""\
apiVersion: helm.sh/v3
kind: Release
name: gpu-operator
chart: gpu-operator
version: {version}
repositoryOpts: {{repo: https://helm.ngc.nvidia.com/nvidia}}
{section}"""


def manifest_list(*manifests: str) -> str:
    """Return a List of manifests."""
    items = "".join(f"  - {indent(manifest, '    ')[4:]}" for manifest in manifests)
    return f"apiVersion: v1\nkind: List\nitems:\n{items}"


POD = pod()
"""A pod that requests one GPU and violates no rule."""

HOST_COMMAND = """\
apiVersion: command/remote
kind: Command
connection:
  host: 192.0.2.11
  hostKey: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEfxFSAF45h/u4FWcTpIO9dleHVOhDTjHvn4WRhQJDYQ
  privateKey: {fn::secret: the key}
create: sh -s -- apply
delete: sh -s -- undo
"""
"""A command on a host that violates no rule."""
