"""User names and ports of SSH connections."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, StrictInt, StrictStr

from gpu_rules.faults import refuse, show

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")


def _validate_user_name(text: str) -> str:
    if _USER.fullmatch(text) is None:
        raise refuse(
            show(text),
            "a user name: at most 32 of A-Z, a-z, 0-9, '_', '-' and '.', first a letter or '_'",
            "write the name of an account on the host, such as root",
        )
    return text


Port = Annotated[
    StrictInt,
    Field(ge=1, le=65535, description="a port, a whole number from 1 to 65535", examples=[22]),
]
User = Annotated[
    StrictStr,
    AfterValidator(_validate_user_name),
    Field(description="the name of an account on the host", examples=["root"]),
]
