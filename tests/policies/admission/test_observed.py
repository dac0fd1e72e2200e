"""The checker names no mandatory violation in pods that admission accepted and that run."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from gpu_rules.admission import Enforcement
from gpu_rules.check.document import Source, is_server_list, judge
from gpu_rules.check.stream import StreamPart
from gpu_rules.rules import TWINS as RULE_TWINS
from gpu_rules.rules import Severity
from gpu_rules.rules.twin import Twin
from lab.benchmarks.api_server import await_true, running
from tests.policies.admission.cluster import (
    CONTEXTS,
    RUNTIME_CLASSES,
    WARN,
    answer,
    apply,
    create,
    install,
    maker,
    only,
)
from tests.policies.admission.cluster import LABEL as GUARDED
from tests.policies.admission.generate import pods

ENFORCE = Enforcement({Severity.MANDATORY: ["Deny"], Severity.ADVISORY: ["Warn"]})
AT_ADMISSION = {id_ for id_, twin in RULE_TWINS.items() if isinstance(twin, Twin) or twin.enforced}
PODS = 200
"""Number of generated pods that are sent to the API server."""


@pytest.mark.slow
def test_pods_that_admission_accepted_break_no_mandatory_rule_while_they_run() -> None:
    names: Counter[str] = Counter()
    with running("observed") as server:
        client = server.client
        for name in RUNTIME_CLASSES:
            manifest = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": name}
            apply(client, {**manifest, "metadata": {"name": name}})
        for namespace, context in CONTEXTS.items():
            install(client, namespace, context, WARN)
            for policy in only(namespace, context, ENFORCE, {GUARDED: namespace}):
                apply(client, policy)
            privileged = {"name": "a", "image": "a", "securityContext": {"privileged": True}}
            probe = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "probe", "namespace": namespace},
                "spec": {
                    "containers": [
                        {**privileged, "resources": {"limits": {"nvidia.com/gpu": 1}}},
                    ]
                },
            }
            await_true(
                f"policies deny in {namespace}",
                lambda probe=probe: create(client, probe).status == 403,  # type: ignore[misc]
            )

        @seed(1)
        @given(pods())
        @settings(
            max_examples=PODS,
            deadline=None,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        def send(manifest: Any) -> None:
            names["sent"] += 1
            name = f"pod-{names['sent']}"
            pod = {**manifest, "metadata": {**manifest["metadata"], "name": name}}
            if not create(client, pod, dry=False, user=maker(pod)).taken:
                return
            target = {"apiVersion": "v1", "kind": "Node", "name": "gpu-1"}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}}
            url = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}/binding"
            bound = answer(client.post(url, json={**binding, "target": target}))
            names["bound"] += bound.taken

        send()
        for namespace, context in CONTEXTS.items():
            stored = client.get(f"/api/v1/namespaces/{namespace}/pods").json()["items"]
            # kubectl prints the kind of each item, which the API server leaves out.
            items = [{"apiVersion": "v1", "kind": "Pod", **item} for item in stored]
            names["checked"] += len(items)
            printed = {"apiVersion": "v1", "kind": "List", "items": items}
            source = Source("-", StreamPart(1, 1, json.dumps(printed)))
            assert is_server_list([source]) == bool(items)
            (judged,) = judge(source, replace(context, observed=True))
            mandatory = (f for f in judged.found if f.severity is Severity.MANDATORY)
            # Misspelled resources (GPU014) are admitted, and such pods stay Pending.
            broken = [f for f in mandatory if f.rule in AT_ADMISSION]
            assert broken == []
            # Without what the system wrote: the same pods as manifests break GPU016.
            (written,) = judge(source, context)
            names["GPU016"] += sum(found.rule == "GPU016" for found in written.found)
    assert names["bound"] > 20, names
    assert names["GPU016"] > 5, names
