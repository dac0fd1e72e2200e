"""Base class of all settings models: immutable, without unknown keys, camelCase in YAML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

K = TypeVar("K")
V = TypeVar("V")


class Model(BaseModel):
    """An immutable, hashable model with strict types: the string "8" is not a number.

    YAML keys are the camelCase aliases; Python code uses the field names.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        hide_input_in_errors=True,
    )

    UNPROVEN: ClassVar[frozenset[str]] = frozenset()
    """Names of fields whose change makes no validation due, in the section of a platform."""


@dataclass(frozen=True)
class OwnCure:
    """Metadata of a field: the cure of a missing or wrong value, if an example would not help."""

    text: str


class FrozenDict(dict[K, V]):
    """A dict that is hashable and immutable; JSON encodes it like a normal dict."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a configuration cannot be changed; load another one")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        """Return a hash of the items."""
        return hash(frozenset(self.items()))

    def __copy__(self) -> FrozenDict[K, V]:
        """Return the same object, because it is immutable."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenDict[K, V]:
        """Return the same object, because it is immutable."""
        return self

    def __reduce__(self) -> tuple[type[FrozenDict[K, V]], tuple[dict[K, V]]]:
        """Return the arguments with which pickle rebuilds the object."""
        return type(self), (dict(self),)


Freeze = AfterValidator(FrozenDict)
