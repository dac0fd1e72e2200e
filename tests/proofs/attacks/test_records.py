"""Attack: a forged Helm release record is restored with the engineer's rights."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from gpu_cluster.kubernetes.api import Client, ClusterError
from gpu_cluster.kubernetes.grammar import IllFormed
from gpu_cluster.platforms.requests import HelmRelease, PresenceRequest, PresenceResult
from gpu_cluster.release import presence
from gpu_cluster.release.helm_record import TYPE, UNPACKED, decode_release, expected
from gpu_cluster.requests import PREVIOUS, previous, write
from tests.fixtures.api import client

Json = dict[str, Any]
SPACE = NAME = "nvidia-device-plugin"
GOOD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"
TAKEOVER = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: helpful}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: User, name: mallory, apiGroup: rbac.authorization.k8s.io}]
"""
WANTED = PresenceRequest(
    context="test",
    platform="device-plugin",
    release=HelmRelease(name=NAME, namespace=SPACE),
    version="0.20.0",
    objects=(),
    revision=1,
)
SERVED = {
    "/api/v1": {"kind": "ConfigMap", "name": "configmaps", "namespaced": True},
    "/apis/rbac.authorization.k8s.io/v1": {
        "kind": "ClusterRoleBinding",
        "name": "clusterrolebindings",
        "namespaced": False,
    },
}


def secret(content: bytes, revision: int = 1, kind: str = TYPE) -> Json:
    data = base64.b64encode(base64.b64encode(content)).decode()
    return {
        "metadata": {
            "name": f"sh.helm.release.v1.{NAME}.v{revision}",
            "namespace": SPACE,
            "labels": {"owner": "helm", "name": NAME, "version": str(revision)},
        },
        "type": kind,
        "data": {"release": data},
    }


def record(manifest: Any, revision: int = 1, kind: str = TYPE) -> Json:
    release = {"manifest": manifest, "info": {"status": "deployed"}}
    packed = gzip.compress(json.dumps(release).encode())
    return secret(packed, revision, kind)


class Cluster:
    """Fake API server for the program's real API client."""

    def __init__(self, *secrets: Json) -> None:
        self.secrets = list(secrets)
        self.objects: dict[str, Json] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        group = next(group for group in SERVED if path.startswith(f"{group}/"))
        url = path.removeprefix(f"{group}/")
        answer: Json
        if not url:
            answer = {"resources": [SERVED[group]]}
        elif url.endswith("/secrets"):
            answer = {"items": self.secrets, "metadata": {}}
        elif request.method == "POST":
            answer = json.loads(request.content)
            self.objects[f"{url}/{answer['metadata']['name']}"] = answer
        elif request.method == "PATCH":
            # The program marks the release record with an annotation.
            answer = json.loads(request.content)
        elif url in self.objects:
            answer = self.objects[url]
        else:
            return httpx.Response(404, json={"message": "gone"})
        return httpx.Response(200, json=answer)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster(record(GOOD))

    @contextlib.asynccontextmanager
    async def connect(context: str) -> AsyncIterator[Client]:
        yield client(made)

    monkeypatch.setattr(presence, "connect", connect)
    monkeypatch.delenv(PREVIOUS, raising=False)
    return made


def installed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the program once after Helm has created the objects.

    Its output is then in the Pulumi state, for the next run.
    """
    cluster.objects[f"namespaces/{SPACE}/configmaps/settings"] = {}
    said = asyncio.run(presence.check(WANTED))
    monkeypatch.setenv(PREVIOUS, write(said))
    cluster.objects.clear()


def test_what_the_state_vouches_for_is_made_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(cluster, monkeypatch)
    assert asyncio.run(presence.restore(WANTED)).restored == ("ConfigMap settings",)
    assert list(cluster.objects) == [f"namespaces/{SPACE}/configmaps/settings"]


@pytest.mark.parametrize(
    "planted",
    [record(GOOD + "---\n" + TAKEOVER), record(TAKEOVER, revision=2), record(TAKEOVER, 999999999)],
    ids=["changed", "another revision", "a revision far ahead"],
)
def test_a_record_that_the_engine_did_not_make_is_never_restored(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, planted: Json
) -> None:
    installed(cluster, monkeypatch)
    cluster.secrets = [item for item in cluster.secrets if item["metadata"] != planted["metadata"]]
    cluster.secrets.append(planted)
    with pytest.raises(ClusterError, match=r"Helm record .* that this stack did not create"):
        asyncio.run(presence.restore(WANTED))
    assert cluster.objects == {}


def test_a_secret_that_is_none_of_helm_s_is_no_record(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(cluster, monkeypatch)
    cluster.secrets.append(record(TAKEOVER, revision=2, kind="Opaque"))
    cluster.secrets.append(
        {**record(TAKEOVER), "metadata": {**cluster.secrets[0]["metadata"], "name": "x"}}
    )
    assert asyncio.run(presence.restore(WANTED)).restored == ("ConfigMap settings",)


def test_the_record_of_a_release_that_took_another_ones_place_is_not_compared_with_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(cluster, monkeypatch)
    said = previous(PresenceResult)
    assert said.record is not None
    other = replace(said.record, name="gpu-operator", namespace="gpu-operator", digest="another")
    monkeypatch.setenv(PREVIOUS, write(replace(said, record=other)))
    cluster.objects[f"namespaces/{SPACE}/configmaps/settings"] = {}
    assert asyncio.run(presence.restore(WANTED)).restored == ()


def test_nothing_is_restored_before_a_run_has_vouched(cluster: Cluster) -> None:
    cluster.secrets = [record(TAKEOVER)]
    with pytest.raises(ClusterError, match="found no ClusterRoleBinding helpful"):
        asyncio.run(presence.restore(WANTED))
    assert cluster.objects == {}


ALIASES = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    "manifest",
    [ALIASES, "[" * 100_000, "a: {" * 5_000, "a: !!python/object/apply:os.system [id]", "a: \x00"],
    ids=["aliases", "nested lists", "nested mappings", "a tag", "a control character"],
)
def test_a_manifest_that_grows_without_bound_is_refused(manifest: str) -> None:
    with pytest.raises(IllFormed) as error:
        expected(manifest)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    "content",
    [
        b"no gzip",
        gzip.compress(b"no json"),
        gzip.compress(b"[]"),
        gzip.compress(b"[" * 100_000),
        gzip.compress(b" " * (UNPACKED + 1)),
        gzip.compress(b"{}")[:-4],
        b"",
    ],
    ids=["no gzip", "no JSON", "a list", "nested", "too long", "cut off", "empty"],
)
def test_a_record_that_is_none_is_refused_within_bounds(content: bytes) -> None:
    with pytest.raises(IllFormed, match=f"Secret {SPACE}/sh.helm.release"):
        decode_release(secret(content))


@pytest.mark.parametrize("name", ["../../secrets", "a%2fb", "a?b", "a#b", "..", "a b", "a\n"])
def test_no_name_leads_a_request_elsewhere(name: str) -> None:
    with pytest.raises(ClusterError, match="an object with an invalid name"):
        asyncio.run(client(Cluster()).request("GET", f"nodes/{name}"))
