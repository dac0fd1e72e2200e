"""The two files that the Kubernetes plugin embeds, made as its own ``generate.go`` makes them.

They are laid over names in ``toolchain/go/cluster/pulumi-resource-kubernetes`` by ``go build
-overlay``, so nothing generated (8 MB) lies in the repository and no file of a clone is written.
"""

from __future__ import annotations

import json
from pathlib import Path

from .modules import Module
from .pins import KUBERNETES_PLUGIN

_FOLDER = "pulumi-resource-kubernetes"
_SOURCE = Path("cmd") / _FOLDER


def write_overlay(module: Module, plugin_source: Path, folder: Path) -> Path:
    """Write schema, mapping and the overlay file that names them to ``folder``.

    ``plugin_source``: the plugin's module in Go's module cache. Returns the overlay file.
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
