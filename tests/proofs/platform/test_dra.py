"""The API server accepts the ResourceClaimTemplates that the DRA platform creates."""

from __future__ import annotations

from typing import Any

from gpu_cluster.platforms.dra import values as chart
from tests.proofs.e2e.project import Project
from tests.proofs.platform.ways import served

Json = dict[str, Any]


def test_claims_are_accepted_by_the_api_server(project: Project) -> None:
    served(project, "dra")
    selector = 'device.attributes["gpu.nvidia.com"].productName.matches("A100")'
    made = chart.claim_template("a100-gpu", "default", 2, selector)
    answer = project.request(
        "POST",
        "namespaces/default/resourceclaimtemplates",
        base="/apis/resource.k8s.io",
        body=made,
        params={"dryRun": "All"},
    )
    (request,) = answer["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["count"] == 2
    assert request["exactly"]["deviceClassName"] == "gpu.nvidia.com"
