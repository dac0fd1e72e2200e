"""Comparison of the facts in `forges.OPERATIONS` with a forge's own OpenAPI 3 description."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.commands.forges.forges import Operation

Json = dict[str, Any]


@dataclass(frozen=True)
class Description:
    """An OpenAPI 3 document of a forge.

    Attributes:
        document: The parsed document.
        prefix: Beginning of the document's paths that the forge's address already contains.
    """

    document: Json
    prefix: str = ""

    def differences(self, operation: Operation) -> Iterator[str]:
        """Yield how the facts about an operation differ from the description."""
        path = f"{self.prefix}{operation.path}"
        where = f"{operation.method} {path}"
        described = self.document["paths"].get(path, {}).get(operation.method.lower())
        if (described is not None) != operation.described:
            yield f"{where}: {'' if described else 'not '}described"
        if described is None:
            return
        listed = {int(status) for status in described["responses"] if status.isdigit()}
        if listed != set(operation.answers):
            yield f"{where}: the answers are {sorted(listed)}"
        found = [self.resolved(each) for each in described.get("parameters", [])]
        schemas = {(each["in"], each["name"]): self.resolved(each["schema"]) for each in found}
        numbers = {name for (place, name), one in schemas.items()
                   if place == "path" and one.get("type") == "integer"}  # fmt: skip
        if numbers != set(operation.numbers):
            yield f"{where}: the numbers in the path are {sorted(numbers)}"
        for name, schema in operation.query.items():
            if not self._fits(schema, schemas.get(("query", name))):
                yield f"{where}: query parameter {name} is {schemas.get(('query', name))}"
        needed = {each["name"] for each in found if each.get("required") and each["in"] == "query"}
        if missing := needed - set(operation.query):
            yield f"{where}: needs {sorted(missing)}"
        yield from (f"{where}: {text}" for text in self._body(operation, described))

    def _body(self, operation: Operation, described: Json) -> Iterator[str]:
        body = self.resolved(described.get("requestBody") or {})
        schema = body.get("content", {}).get("application/json", {}).get("schema")
        if operation.body is None:
            if schema is not None and body.get("required"):
                yield "needs a body"
            return
        if schema is None:
            yield "takes no JSON body"
            return
        wanted = next(one for one in self._alternatives(schema) if one.get("type") == "object")
        for name, own in operation.body["properties"].items():
            if not self._fits(own, wanted["properties"].get(name)):
                yield f"property {name} is {wanted['properties'].get(name)}"
        if lacking := set(wanted.get("required", ())) - set(operation.body.get("required", ())):
            yield f"needs {sorted(lacking)}"

    def resolved(self, part: Json) -> Json:
        """Return a part of the document; a reference is replaced by what it names."""
        while "$ref" in part:
            found: Any = self.document
            for key in part["$ref"].removeprefix("#/").split("/"):
                found = found[key]
            part = found
        return part

    def _alternatives(self, schema: Json) -> Iterator[Json]:
        whole = self.resolved(schema)
        for each in whole.get("oneOf") or whole.get("anyOf") or [whole]:
            yield self.resolved(each)

    def _fits(self, own: Json, described: Json | None) -> bool:
        """Return whether what our schema accepts is accepted by the description, too."""
        return described is not None and any(
            self._accepts(own, each) for each in self._alternatives(described)
        )

    def _accepts(self, own: Json, described: Json) -> bool:
        if "enum" in own:
            return not described.get("enum") or set(own["enum"]) <= set(described["enum"])
        if own["type"] != described.get("type"):
            return False
        if own["type"] == "array":
            least = described.get("minItems", 0) <= own.get("minItems", 0)
            return least and self._fits(own["items"], described["items"])
        return "enum" not in described
