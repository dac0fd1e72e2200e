"""Read Helm's record of a release within size limits.

The record is a Secret, and everybody who may write Secrets in the release's namespace can create
one. Therefore its content is validated. The record tells which objects are missing, but an object
is created again only if a digest in the Pulumi state matches the record (program `presence`).
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import yaml

from gpu_cluster.base.nesting import LOADER, bound_depth
from gpu_cluster.base.yaml_file import NODE_LIMIT
from gpu_cluster.kubernetes import grammar
from gpu_cluster.kubernetes.api import Client, Json
from gpu_cluster.kubernetes.grammar import IllFormed
from gpu_cluster.platforms.requests import Expected, HelmRelease, RecordedRelease
from gpu_rules.faults import Fault, PartError
from gpu_rules.printable import printable

# Maximum bytes of an unpacked record. A Secret has at most 1 MiB (k8s.io/api v0.34 core/v1,
# MaxSecretSize); the record of gpu-operator with all of its CRDs unpacks to about 4 MiB.
UNPACKED: Final = 32 * 1024 * 1024
# Type of the Secrets with Helm's records, and Helm's status of a successfully installed release
# (helm.sh/helm/v3 pkg/storage/driver/secrets.go, pkg/storage/storage.go makeKey).
TYPE: Final = "helm.sh/release.v1"
DEPLOYED: Final = "deployed"
# Statuses with which Helm upgrades a release (pkg/action/upgrade.go, prepareUpgrade). Helm rejects
# an upgrade with any other status, and an interrupted run can leave such a status.
FAILED: Final = "failed"
SETTLED: Final = frozenset({DEPLOYED, FAILED, "superseded"})
MERGE: Final = "application/merge-patch+json"
_VERSION = re.compile(r"v?[0-9][0-9A-Za-z.+-]{0,60}", re.ASCII)
_STATUS = re.compile(r"[a-z-]{1,30}", re.ASCII)
_KEY = re.compile(r"sh\.helm\.release\.v1\.(?P<name>.+)\.v(?P<revision>[0-9]{1,9})", re.ASCII)


NOTED = "gpu-cluster/applied"
"""Annotation of the record's Secret: the declared chart version, then one object per line."""
MOST_VALUES = 2000
"""Maximum number of a release's values that are read."""
DEEPEST = 12
"""Maximum number of dots in the path of a value that is read."""
LONGEST = 32 * 1024
"""Maximum number of characters that are read of the annotation with the declaration."""


@dataclass(frozen=True, kw_only=True)
class Noted:
    """Declaration of a platform at the last run that found all of its objects.

    Attributes:
        objects: Extra objects of the platform, as text.
    """

    version: str
    objects: frozenset[str]


@dataclass(frozen=True)
class ReleaseRecord:
    """Helm's record of one revision of a release.

    Attributes:
        revision: Revision number.
        manifest: YAML of all objects of the release.
        status: Helm's status such as `deployed` or `pending-upgrade` (pkg/release/status.go);
            `unknown` if the record has none.
        noted: Declared platform at the last run that found all objects of this revision; None if
            there was no such run.
        chart: Version of the chart; empty if the record has none.
        values: Paths of the values that the release sets.
        config: Values that the release sets. None: it sets none.
    """

    revision: int
    manifest: str
    status: str = DEPLOYED
    noted: Noted | None = None
    chart: str = ""
    values: tuple[str, ...] = ()
    config: Any = None

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the manifest."""
        return hashlib.sha256(self.manifest.encode(errors="surrogatepass")).hexdigest()

    def of(self, release: HelmRelease) -> RecordedRelease:
        """Return the revision and digest, which the Pulumi state keeps for the next run."""
        return RecordedRelease(
            name=release.name,
            namespace=release.namespace,
            revision=self.revision,
            digest=self.digest,
        )

    def objects(self) -> list[Expected]:
        """Return the objects in the release's manifest."""
        return expected(self.manifest)


def same_values(recorded: Any, desired: Any) -> bool:
    """Return True if two sets of Helm values are equal; absent, null and empty values are equal."""
    if not recorded and not desired:
        return True
    if isinstance(recorded, dict) and isinstance(desired, dict):
        return all(
            same_values(recorded.get(key), desired.get(key)) for key in recorded.keys() | desired
        )
    if isinstance(recorded, list) and isinstance(desired, list):
        return len(recorded) == len(desired) and all(map(same_values, recorded, desired))
    return bool(recorded == desired)


def decode_release(secret: Json) -> Json:
    """Return the release that Helm keeps in a Secret.

    The format is gzipped JSON in base64, inside the Secret's own base64. Source: helm.sh/helm/v3
    pkg/storage/driver/util.go, `decodeRelease`.

    Raises:
        IllFormed: The Secret contains no such record, or the record has more than `UNPACKED` bytes.
    """
    try:
        packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
        unpacker = zlib.decompressobj(wbits=31)
        text = unpacker.decompress(packed, UNPACKED)
        if not unpacker.eof:
            raise _ill_formed_record(secret, f"more than {UNPACKED} bytes, or a part of a record")
        release = json.loads(text)
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error, RecursionError) as error:
        raise _ill_formed_record(secret, f"no record ({type(error).__name__})") from None
    if not isinstance(release, dict):
        raise _ill_formed_record(secret, "no record")
    return release


def encode_release(release: Json) -> str:
    """Return a release in the format in which Helm keeps it in a Secret; reverses `decode_release`.

    Source: helm.sh/helm/v3 pkg/storage/driver/util.go, `encodeRelease`.
    """
    packed = gzip.compress(json.dumps(release, separators=(",", ":")).encode())
    return base64.b64encode(base64.b64encode(packed)).decode()


def status_of(release: Json) -> str:
    """Return the status of a release as Helm recorded it, or `unknown` for an invalid status."""
    info = release.get("info")
    status = info.get("status") if isinstance(info, dict) else None
    return status if isinstance(status, str) and _STATUS.fullmatch(status) else "unknown"


def _ill_formed_record(secret: Json, found: str) -> IllFormed:
    metadata = secret["metadata"]
    place = f"Secret {metadata['namespace']}/{metadata['name']}"
    cure = "find out which program wrote this object, and delete the object"
    return IllFormed(Fault(place, found, "what Helm records of a release", cure))


def expected(manifest: str) -> list[Expected]:
    """Return the objects in a release's manifest.

    Raises:
        IllFormed: The manifest is not YAML, has more than `NODE_LIMIT` values, or contains an
            object with a name that Kubernetes does not allow.
    """
    try:
        bound_depth(manifest)
        return _load_objects(manifest)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        found = printable(str(error), grammar.SHOWN)
        wanted = f"YAML of at most {NODE_LIMIT} values, aliases written out"
        raise IllFormed(
            Fault("manifest of a release", found, wanted, "find out who wrote the record")
        ) from None


def _load_objects(manifest: str) -> list[Expected]:
    loader, objects, room = LOADER(manifest), [], NODE_LIMIT
    try:
        while loader.check_node():
            node = loader.get_node()
            room = _count_values(node, room)
            body = loader.construct_document(node)
            if isinstance(body, dict) and "kind" in body:
                objects.append(_expected_object(body))
    finally:
        loader.dispose()
    return objects


def _count_values(node: yaml.Node, room: int) -> int:
    """Return `room` minus the number of values in a YAML node.

    An alias counts as many values as the node that it refers to.

    Raises:
        ValueError: The node has more than `room` values.
    """
    room -= 1
    if room < 0:
        raise PartError("too many values")
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            room = _count_values(value, _count_values(key, room))
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            room = _count_values(value, room)
    return room


def _expected_object(body: Json) -> Expected:
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return Expected(
        grammar.api_version(body.get("apiVersion")),
        grammar.kind(body["kind"]),
        grammar.namespace(metadata.get("namespace") or ""),
        grammar.name(metadata.get("name")),
        json.dumps(body, default=str),
    )


def _record_revision(secret: Json, name: str) -> int | None:
    """Return the revision in the name of a release's Secret; None if it isn't Helm's Secret."""
    match = _KEY.fullmatch(secret["metadata"]["name"])
    if secret.get("type") != TYPE or match is None or match["name"] != name:
        return None
    return int(match["revision"])


async def secrets_of(client: Client, name: str, namespace: str) -> list[Json]:
    """Return the Secrets in which Helm records a release, oldest first."""
    secrets = await client.list(
        f"namespaces/{namespace}/secrets", labelSelector=f"owner=helm,name={name}"
    )
    records = [
        (revision, secret)
        for secret in secrets
        if (revision := _record_revision(secret, name)) is not None
    ]
    return [secret for _, secret in sorted(records, key=lambda pair: pair[0])]


async def newest(client: Client, release: HelmRelease) -> ReleaseRecord | None:
    """Return the newest record of a release, or None if there is no record.

    Raises:
        IllFormed: The record can't be read.
    """
    secrets = await secrets_of(client, release.name, release.namespace)
    if not secrets:
        return None
    recorded = decode_release(secrets[-1])
    manifest = recorded.get("manifest")
    if not isinstance(manifest, str):
        raise _ill_formed_record(secrets[-1], "a record without a manifest")
    return ReleaseRecord(
        _record_revision(secrets[-1], release.name) or 0,
        manifest,
        status_of(recorded),
        _read_note(secrets[-1]),
        _chart_version(recorded),
        tuple(islice(_value_paths(recorded.get("config"), ""), MOST_VALUES)),
        recorded.get("config"),
    )


def _chart_version(recorded: Json) -> str:
    """Return the version of a recorded chart (pkg/chart/metadata.go); empty if it has none."""
    chart = recorded.get("chart")
    metadata = chart.get("metadata") if isinstance(chart, dict) else None
    version = metadata.get("version") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) and _VERSION.fullmatch(version) else ""


def _value_paths(values: Any, prefix: str) -> Iterator[str]:
    """Yield the paths of a release's values, such as `driver.version`."""
    if isinstance(values, dict) and values and prefix.count(".") < DEEPEST:
        for key, value in values.items():
            yield from _value_paths(value, f"{prefix}.{key}" if prefix else str(key))
    elif prefix:
        yield prefix


def _read_note(secret: Json) -> Noted | None:
    text = (secret["metadata"].get("annotations") or {}).get(NOTED)
    if not text or len(text) > LONGEST:
        return None
    version, *objects = text.split("\n")
    return Noted(version=version, objects=frozenset(objects))


async def note(client: Client, release: HelmRelease, noted: Noted) -> None:
    """Write the declared chart version and extra objects into the newest record of a release.

    An upgrade creates a new record without this annotation, and an uninstallation deletes it.

    Raises:
        Refused: The API server rejected the change.
    """
    secrets = await secrets_of(client, release.name, release.namespace)
    if secrets and _read_note(secrets[-1]) != noted:
        text = "\n".join((noted.version, *sorted(noted.objects)))
        body = {"metadata": {"annotations": {NOTED: text}}}
        url = f"namespaces/{release.namespace}/secrets/{secrets[-1]['metadata']['name']}"
        await client.request("PATCH", url, body=body, content_type=MERGE)


async def settle(client: Client, name: str, namespace: str) -> str:
    """Mark the newest record of a release as failed if an interrupted run left it unfinished.

    Helm rejects the upgrade of a release with a pending record, because another Helm process may be
    running. Here the lock of the Pulumi stack excludes other runs. The record is not deleted,
    because a record with status `failed` still shows that the revision was not fully installed.

    Returns:
        The status that the record had, or an empty text if nothing had to be changed.

    Raises:
        IllFormed: The record can't be read.
        Refused: Somebody else changed the record in the meantime.
    """
    secrets = await secrets_of(client, name, namespace)
    release = decode_release(secrets[-1]) if secrets else {}
    status = status_of(release)
    if not secrets or status in SETTLED:
        return ""
    info = release.get("info")
    release["info"] = {
        **(info if isinstance(info, dict) else {}),
        "status": FAILED,
        "description": f"Was {status} when its run was killed",
    }
    metadata = secrets[-1]["metadata"]
    body = {
        "metadata": {
            "resourceVersion": metadata["resourceVersion"],
            "labels": {"status": FAILED},
        },
        "data": {"release": encode_release(release)},
    }
    url = f"namespaces/{namespace}/secrets/{metadata['name']}"
    await client.request("PATCH", url, body=body, content_type=MERGE)
    return status
