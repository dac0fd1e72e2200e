"""Clears what a killed run left and a new create would stumble over: ``release`` and ``job``.

Input: ``context`` and ``inputs``, the inputs of the resource about to be created.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import time
from typing import Any

from facts.api import Client, ClusterError, Json, Refused, connect

from ._program import main

#: Seconds to wait until a removed Job is gone.
GONE = 60


def decode_release(secret: Json) -> Json:
    """The release that Helm keeps in a Secret: gzipped JSON, base64 inside the Secret's own base64.

    Source: helm.sh/helm/v3 pkg/storage/driver/util.go, ``decodeRelease``.
    """
    data = base64.b64decode(base64.b64decode(secret["data"]["release"]))
    release: Json = json.loads(gzip.decompress(data))
    return release


def same_values(recorded: Any, wanted: Any) -> bool:
    """Whether two sets of Helm values say the same: absent, null and empty are one."""
    if not recorded and not wanted:
        return True
    if isinstance(recorded, dict) and isinstance(wanted, dict):
        return all(
            same_values(recorded.get(key), wanted.get(key)) for key in recorded.keys() | wanted
        )
    if isinstance(recorded, list) and isinstance(wanted, list):
        return len(recorded) == len(wanted) and all(map(same_values, recorded, wanted))
    return bool(recorded == wanted)


async def release(document: Json) -> Json:
    """Removes Helm's record of an unfinished or unknown release with our chart and values.

    The objects stay: they carry Helm's ownership marks of the same release, so the install that
    follows takes them over.

    Raises:
        ClusterError: a release of that name that is not ours.
    """
    inputs = document["inputs"]
    name, namespace = inputs["name"], inputs["namespace"]
    async with connect(document["context"]) as client:
        records = await client.list(
            f"namespaces/{namespace}/secrets", labelSelector=f"owner=helm,name={name}"
        )
        if not records:
            return {"removed": []}
        newest = max(records, key=lambda record: int(record["metadata"]["labels"]["version"]))
        found = decode_release(newest)
        if not same_values(found.get("config"), inputs.get("values")):
            raise ClusterError(
                f"release {namespace}/{name}: found one that this stack did not make "
                f"(chart {found['chart']['metadata']['name']}, other values); wanted: the name "
                f"free; cure: `helm uninstall -n {namespace} {name}`, or another namespace"
            )
        for record in records:
            await _delete(client, f"namespaces/{namespace}/secrets/{record['metadata']['name']}")
    return {"removed": [f"record of release {namespace}/{name}"]}


async def job(document: Json) -> Json:
    """Removes a validation Job that the state does not know.

    Raises:
        ClusterError: a Job of that name that is not ours.
    """
    metadata = document["inputs"]["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    url = f"namespaces/{namespace}/jobs/{name}"
    async with connect(document["context"]) as client:
        found = await _get(client, url)
        if found is None:
            return {"removed": []}
        if found["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") != "gpu-cluster":
            raise ClusterError(
                f"job {namespace}/{name}: found one that this program did not make; wanted: the "
                f"name free; cure: `kubectl delete job -n {namespace} {name}`"
            )
        await _delete(client, url, base="/apis/batch")
        deadline = time.monotonic() + GONE
        while await _get(client, url) is not None:
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"job {namespace}/{name}: still there {GONE} s after its removal; "
                    "wanted: gone; cure: look at its finalizers (`kubectl get job -o yaml`)"
                )
            await asyncio.sleep(0.2)
    return {"removed": [f"job {namespace}/{name}"]}


async def _get(client: Client, url: str) -> Json | None:
    try:
        found: Json = await client.request("GET", url, base="/apis/batch")
    except Refused as error:
        if error.code == 404:
            return None
        raise
    return found


async def _delete(client: Client, url: str, base: str = "") -> None:
    try:
        await client.request("DELETE", url, base=base, body={"propagationPolicy": "Foreground"})
    except Refused as error:
        if error.code != 404:
            raise


if __name__ == "__main__":
    main({"release": release, "job": job})
