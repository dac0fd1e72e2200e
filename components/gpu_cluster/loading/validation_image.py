"""Choose the default image of the validation by the declared drivers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.base.compatibility import cuda_of, runs, version
from gpu_cluster.base.image import SAMPLES


def defaults(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the section `validation` with the newest sample that each declared driver can run.

    If no sample fits, the section is left as it is, and the check of versions names the driver.

    Args:
        document: Content of the stack file before its validation, with the overrides of pools and
            hosts written out.
    """
    validation = document.get("validation", {})
    drivers = sorted(_declared_drivers(document), key=version)
    if not isinstance(validation, Mapping) or "image" in validation or not drivers:
        return {}
    fitting = (image for image in SAMPLES if runs(cuda_of(image), drivers[0]))
    image = next(fitting, SAMPLES[0])
    return {} if image == SAMPLES[0] else {"validation": {"image": image, **validation}}


def _declared_drivers(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the full driver versions that the stack, its pools and its hosts declare."""
    levels: list[Any] = [document]
    for key in ("pools", "hosts"):
        listed = document.get(key)
        levels += listed if isinstance(listed, list) else []
    for level in levels:
        section = level.get("driver") if isinstance(level, Mapping) else None
        text = section.get("version") if isinstance(section, Mapping) else None
        if isinstance(text, str) and len(version(text)) > 1:
            yield text
