"""The resource of a DeviceClass is a quantity that the API server checks, as other amounts are.

kubernetes v1.36.3 rejected each of the pods here that break a rule.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_rules.rules import Context
from tests.policies.rules.cases import container, pod
from tests.policies.rules.messages import judge

NAME = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
COUNTED = {"GPU001", "GPU002", "GPU003", "GPU008", "GPU009"}


@pytest.mark.parametrize(
    ("limit", "request_", "rules"),
    [
        (4, 9, {"GPU002"}),
        (-1, None, {"GPU008"}),
        ("", None, {"GPU009"}),
        (4, 4, set()),
        (4, 2, set()),
        (4, None, set()),
    ],
)
def test_the_amount_of_a_class_is_judged(limit: Any, request_: Any, rules: set[str]) -> None:
    requests = None if request_ is None else {NAME: request_}
    broken = {v.rule.id for v in judge(pod(container({NAME: limit}, requests)), Context())}
    assert broken & COUNTED == rules
