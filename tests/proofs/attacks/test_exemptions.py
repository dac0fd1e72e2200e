"""Attack: a tenant gets an exemption by an image or a label, and changes that later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any

import httpx
import pytest

from gpu_rules.admission import Enforcement
from gpu_rules.context import ExemptionFacts
from gpu_rules.rules import Context, Severity, evaluate
from lab.benchmarks.api_server import await_true
from tests.policies.admission.cluster import EVERYTHING, create, delete, edit, install

SPACE = "exempting"
GOOD, EVIL = "trusted.example/tool:1", "evil.example/miner:1"
LABELS = {"app": "profiler"}
_GIVEN = {"rules": frozenset({"GPU036"}), "until": date(2030, 12, 31), "reason": "for tests"}
CONTEXT = Context(
    pools=EVERYTHING.pools[:1],
    platform="device-plugin",
    exemptions=(
        ExemptionFacts(**_GIVEN, images=("trusted.example/*",)),
        ExemptionFacts(**_GIVEN, labels=LABELS),
        ExemptionFacts(**{**_GIVEN, "rules": frozenset({"GPU017"})}, images=("trusted.example/*",)),
    ),
)
DENY = Enforcement({Severity.MANDATORY: ["Deny", "Audit"], Severity.ADVISORY: ["Warn", "Audit"]})
Json = dict[str, Any]


@pytest.fixture(scope="module")
def exempting(api: httpx.Client) -> httpx.Client:
    """Install policies that deny violations, with exemptions by image and by label."""
    install(api, SPACE, CONTEXT, DENY)
    return api


def pod(image: str, **metadata: Any) -> Json:
    container = {
        "name": "a",
        "image": image,
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
        "volumeMounts": [{"name": "gpu", "mountPath": "/gpu"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tool", "namespace": SPACE, **metadata},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "gpu", "hostPath": {"path": "/dev/nvidia0"}}],
        },
    }


@pytest.fixture
def tool(exempting: httpx.Client) -> Iterator[Json]:
    """Yield a pod that runs by the exemptions for its image."""
    made = pod(GOOD)
    assert create(exempting, pod(EVIL)).rules == {"GPU017", "GPU036"}
    assert create(exempting, made, dry=False).taken
    yield made
    delete(exempting, made)


def set_image(image: str) -> Any:
    def change(live: Json) -> None:
        live["spec"]["containers"][0]["image"] = image

    return change


def debug_with(image: str) -> Any:
    def change(live: Json) -> None:
        mounts = [{"name": "gpu", "mountPath": "/gpu"}]
        container = {"name": image.partition(".")[0], "image": image, "volumeMounts": mounts}
        live["spec"].setdefault("ephemeralContainers", []).append(container)

    return change


def test_an_exemption_by_image_ends_with_the_image(exempting: httpx.Client, tool: Json) -> None:
    # Two updates within a second: the API server writes no new time, and no exemption holds.
    newer = set_image("trusted.example/tool:2")
    await_true("a newer image", lambda: edit(exempting, tool, newer).taken)
    assert edit(exempting, tool, set_image(EVIL)).rules == {"GPU017", "GPU036"}


def test_an_exemption_by_image_counts_ephemeral_containers(
    exempting: httpx.Client, tool: Json
) -> None:
    add = "/ephemeralcontainers"
    assert edit(exempting, tool, debug_with(GOOD), subresource=add).taken
    said = edit(exempting, tool, debug_with(EVIL), subresource=add)
    assert said.rules == {"GPU017", "GPU036"}


def test_an_exemption_holds_for_other_updates(exempting: httpx.Client, tool: Json) -> None:
    def label(live: Json) -> None:
        live["metadata"]["labels"] = {"edited": "true"}

    assert edit(exempting, tool, label).taken


def without_labels(live: Json) -> None:
    live["metadata"]["labels"] = {}


@pytest.mark.parametrize("subresource", ["", "/status"])
def test_an_exemption_by_label_ends_with_the_label_of_a_pod(
    exempting: httpx.Client, subresource: str
) -> None:
    made = pod(EVIL, labels=LABELS)
    made["spec"]["containers"][0]["env"] = []
    assert create(exempting, made, dry=False).taken
    try:
        said = edit(exempting, made, without_labels, subresource=subresource)
        assert said.rules == {"GPU036"}
    finally:
        delete(exempting, made)


def test_an_exemption_by_label_ends_with_the_label_of_a_deployment(
    exempting: httpx.Client,
) -> None:
    plain = pod(EVIL)["spec"]
    plain["containers"][0]["env"] = []
    labels = {"pod": "a"}
    made: Json = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "tool", "namespace": SPACE, "labels": LABELS},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": plain},
        },
    }
    assert create(exempting, made, dry=False).taken
    try:
        assert edit(exempting, made, without_labels).rules == {"GPU036"}
    finally:
        delete(exempting, made)


def test_the_checker_counts_ephemeral_containers_too() -> None:
    def severities(manifest: Json) -> set[Severity]:
        known = replace(CONTEXT, today=date(2030, 1, 1))
        return {each.severity for each in evaluate(manifest, known) if each.rule.id == "GPU036"}

    made = pod(GOOD)
    assert severities(made) == {Severity.ADVISORY}
    debug_with(EVIL)(made)
    assert severities(made) == {Severity.MANDATORY}
