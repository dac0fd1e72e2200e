"""The proof that each declared GPU runs a kernel."""

from __future__ import annotations

from pydantic import Field

from config.image import VECTORADD, Image
from config.model import Model, Whole
from config.names import OwnNamespace


class Validation(Model):
    """A pod per node asks for all its GPUs and must print `Test PASSED`."""

    image: Image = Field(
        default=VECTORADD,
        description="an image reference with a tag or a digest",
        examples=[VECTORADD],
    )
    namespace: OwnNamespace = Field(
        default="gpu-validation", description="a namespace", examples=["gpu-validation"]
    )
    timeout_seconds: Whole = Field(
        default=600,
        ge=1,
        le=86400,
        description="a whole number from 1 to 86400, seconds",
        examples=[600],
    )
