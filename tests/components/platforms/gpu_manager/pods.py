"""A pod that requests shares of a GPU."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def pod(name: str, resources: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "with-extender",
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "sample", "resources": {"limits": resources}}],
        },
    }
