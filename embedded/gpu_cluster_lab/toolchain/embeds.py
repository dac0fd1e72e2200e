"""Generate the two JSON files that Pulumi's Kubernetes plugin embeds, as its ``generate.go`` does.

``go build -overlay`` substitutes them for two files in
``go/cluster/pulumi-resource-kubernetes``. So the generated files (8 MB) are not stored in the
repository, and the build writes no file into the clone.
"""

from __future__ import annotations

import json
from pathlib import Path

from .modules import Module
from .pins import KUBERNETES_PLUGIN

_FOLDER = "pulumi-resource-kubernetes"
_SOURCE = Path("cmd") / _FOLDER


def write_overlay(module: Module, plugin_source: Path, folder: Path) -> Path:
    """Write the plugin's schema, its Terraform mapping and a Go overlay file to a folder.

    Args:
        module: The Go module that contains the Kubernetes plugin.
        plugin_source: Folder of the plugin's module in Go's module cache.
        folder: The target folder.

    Returns:
        Path of the overlay file for ``go build -overlay``.
    """
    schema = json.loads((plugin_source / _SOURCE / "schema.json").read_text(encoding="utf-8"))
    schema["version"] = KUBERNETES_PLUGIN
    mapping = json.loads(
        (plugin_source / _SOURCE / "terraform-mapping.json").read_text(encoding="utf-8")
    )
    replaced = {}
    for name, value in (("schema.json", schema), ("terraform-mapping.json", mapping)):
        file = folder / name
        file.write_text(json.dumps(value, separators=(",", ":")), encoding="utf-8")
        replaced[str(module.folder / _FOLDER / name)] = str(file)
    overlay = folder / "overlay.json"
    overlay.write_text(json.dumps({"Replace": replaced}), encoding="utf-8")
    return overlay
