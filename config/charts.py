"""Where Helm charts come from."""

from __future__ import annotations

from pydantic import Field

from config.model import Model, Text


class Charts(Model):
    """`directory` holds the charts, each a folder or archive; None: their own repositories."""

    directory: Text | None = Field(
        default=None,
        min_length=1,
        description="the path of a directory that holds the charts",
        examples=["charts"],
    )
