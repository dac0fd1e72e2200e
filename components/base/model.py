"""The base of all models: frozen, unknown keys refused, camelCase in YAML."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

K = TypeVar("K")
V = TypeVar("V")


class Model(BaseModel):
    """Frozen and hashable, with pydantic's strict types: the string "8" isn't a number.

    YAML keys are the camelCase aliases; Python uses the field names.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        hide_input_in_errors=True,
    )


class FrozenDict(dict[K, V]):
    """A dict that can be hashed and not be changed; JSON writes it as any dict."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a configuration cannot be changed; load another one")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __copy__(self) -> FrozenDict[K, V]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenDict[K, V]:
        return self

    def __reduce__(self) -> tuple[type[FrozenDict[K, V]], tuple[dict[K, V]]]:
        return type(self), (dict(self),)


Freeze = AfterValidator(FrozenDict)
