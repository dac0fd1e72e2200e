"""Policy pack that writes the inputs of each declared resource to a file, as JSON lines."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError


def plain(container: Any, key: Any) -> Any:
    """Return an item of a container as plain data.

    For a value that is not known yet, return the engine's own marker of unknown values.
    """
    try:
        value = container[key]
    except UnknownValueError as error:
        return error.unknown_type_sentinel
    if isinstance(value, Mapping):
        return {name: plain(value, name) for name in value}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(value, index) for index in range(len(value))]
    return value


def record(args: ResourceValidationArgs, _report: ReportViolation) -> None:
    """Append one resource's URN and inputs to the file that RECORDED_INPUTS names."""
    line = {"urn": args.urn, "inputs": plain({"inputs": args.props}, "inputs")}
    text = json.dumps(line, default=lambda _: None) + "\n"
    file = os.open(os.environ["RECORDED_INPUTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(file, "w") as target:
        target.write(text)


PolicyPack(
    "recorder",
    [
        ResourceValidationPolicy(
            name="record",
            description="Writes the inputs of each resource.",
            validate=record,
            enforcement_level=EnforcementLevel.ADVISORY,
        )
    ],
)
