"""Find the fields of a release's objects that were changed without the release. Pure.

The API server notes for each field of an object which client wrote it, and when
(`metadata.managedFields`; Kubernetes documentation, "Server-Side Apply"). A field that the release
wrote and still owns is as the release rendered it: the API server only brought its value into
another form, such as a quantity. A client that changes the field takes it over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_cluster.kubernetes.api import Json
from gpu_cluster.kubernetes.managers import HELM_RELEASE

Step = str | int
"""Key of a mapping, or index of a list in the cluster's object."""

HANDS = ("kubectl",)
"""First words of the field managers of programs that people run; an operator is none of them."""
CONTROLLERS = ("kube-", "kubelet")
"""First words of the field managers of Kubernetes' own controllers."""
PARTS = frozenset({"labels", "annotations"})
"""Parts of an object's metadata that a release renders and people edit."""
RESTARTED = "kubectl.kubernetes.io/restartedAt"
"""Annotation by which `kubectl rollout restart` starts pods again; it changes no setting."""
MOST = 200
"""Maximum number of edits of an object that are returned."""
OWNERS = 100
"""Maximum number of entries of `metadata.managedFields` that are read.

Each entry is compared at each field. The API server keeps any number of entries of applies, and at
most 10 of updates (k8s.io/apimachinery, pkg/util/managedfields, `DefaultMaxUpdateManagers`).
"""

Identity = tuple[tuple[str, str], ...]
"""Keys and values by which the API server tells an element of a list from other elements."""


@dataclass(frozen=True, kw_only=True)
class FieldEdit:
    """A field of an object that differs from the rendered manifest, because of an edit.

    Attributes:
        path: Keys and indexes in the cluster's object.
        field: The path as text, with list elements by their keys.
        was: Rendered value. None: the manifest has no such field.
        now: Value in the cluster. None: the object has no such field.
        manager: Field manager that wrote the value. Empty: the field was removed.
        time: When the manager wrote it, as the API server noted it. Empty: unknown.
    """

    path: tuple[Step, ...]
    field: str
    was: Any
    now: Any
    manager: str = ""
    time: str = ""


@dataclass(frozen=True, kw_only=True)
class _Owner:
    """An entry of `metadata.managedFields`, at one place of the object.

    Attributes:
        fields: The owned fields below this place, as FieldsV1. None: the place itself is not owned.
    """

    manager: str
    time: str
    is_release: bool
    is_controller: bool
    fields: Any

    def below(self, name: str) -> _Owner:
        """Return the entry one step below; an atomic value owns all that is in it."""
        fields = self.fields
        if isinstance(fields, Mapping) and fields:
            fields = fields.get(name)
        return _Owner(
            manager=self.manager,
            time=self.time,
            is_release=self.is_release,
            is_controller=self.is_controller,
            fields=fields,
        )

    @property
    def is_hand(self) -> bool:
        """Return whether a person ran the program that wrote the fields."""
        return self.manager.startswith(HANDS)


def field_edits(rendered: Json, live: Json) -> tuple[FieldEdit, ...]:
    """Return the fields of an object that were changed without the release.

    Values that the API server adds or writes in another form, and what controllers write, are no
    edits. The result is empty if the object does not show which client is the release.

    Args:
        rendered: The manifest in the release's record.
        live: The object in the cluster, with its managed fields.
    """
    owners = _read_owners(live)
    if not any(owner.is_release for owner in owners):
        return ()
    edits: list[FieldEdit] = []
    for key in dict.fromkeys((*rendered, *live)):
        if key in ("apiVersion", "kind", "status"):
            continue
        inner = [owner.below(f"f:{key}") for owner in owners]
        if key == "metadata":
            for section in sorted(PARTS):
                deeper = [owner.below(f"f:{section}") for owner in inner]
                was, now = (
                    (manifest.get(key) or {}).get(section, _ABSENT) for manifest in (rendered, live)
                )
                edits += _compare_fields(was, now, (key, section), f"{key}.{section}", deeper)
        else:
            was, now = rendered.get(key, _ABSENT), live.get(key, _ABSENT)
            edits += _compare_fields(was, now, (key,), key, inner)
    return tuple(edits[:MOST])


def release_manager(live: Json) -> str:
    """Return the field manager of an object's release; empty if the object does not show it."""
    return next((owner.manager for owner in _read_owners(live) if owner.is_release), "")


def repaired(live: Json, edits: Iterable[FieldEdit]) -> Json:
    """Return an object with the rendered values in place of the edited values."""
    repaired_object: Json = json.loads(json.dumps(live))
    all_edits = list(edits)
    for edit in (
        field_edit
        for field_edit in all_edits
        if field_edit.was is not None and not _is_inserted(repaired_object, field_edit)
    ):
        _holder_of_step(repaired_object, edit.path)[edit.path[-1]] = edit.was
    # Remove from the end, so that the indexes of the other elements stay valid.
    for edit in sorted(
        (field_edit for field_edit in all_edits if field_edit.was is None),
        key=_edit_order,
        reverse=True,
    ):
        del _holder_of_step(repaired_object, edit.path)[edit.path[-1]]
    for edit in (
        field_edit for field_edit in all_edits if _is_inserted(repaired_object, field_edit)
    ):
        _holder_of_step(repaired_object, edit.path).insert(edit.path[-1], edit.was)
    return repaired_object


def merge_patch(live: Json, desired: Json) -> Json:
    """Return the JSON merge patch (RFC 7386) that makes one object of the other.

    The API server refuses the patch if the object has changed since it was read.
    """
    patch = _merge_patch(live, desired)
    patch.setdefault("metadata", {})["resourceVersion"] = live["metadata"]["resourceVersion"]
    return patch


def _merge_patch(live: Mapping[str, Any], desired: Mapping[str, Any]) -> Json:
    patch: Json = {key: None for key in live if key not in desired}
    for key, value in desired.items():
        was = live.get(key)
        if isinstance(value, Mapping) and isinstance(was, Mapping):
            if inner := _merge_patch(was, value):
                patch[key] = inner
        elif key not in live or value != was:
            patch[key] = value
    return patch


def _is_inserted(item: Json, edit: FieldEdit) -> bool:
    """Return whether an edit removed an element of a list, so that a repair inserts it again."""
    is_gone = edit.was is not None and edit.now is None
    return is_gone and isinstance(_holder_of_step(item, edit.path), list)


def _edit_order(edit: FieldEdit) -> list[tuple[bool, int, str]]:
    """Return a key by which edits are sorted by their paths, indexes as numbers."""
    return [
        (isinstance(step, int), step if isinstance(step, int) else 0, str(step))
        for step in edit.path
    ]


def _holder_of_step(item: Any, path: Sequence[Step]) -> Any:
    """Return the mapping or list that holds the last step of a path; create missing mappings."""
    for step in path[:-1]:
        item = item.setdefault(step, {}) if isinstance(item, dict) else item[step]
    return item


class _Absent:
    """Marks a missing value, in contrast to null."""


_ABSENT = _Absent()


def _read_owners(live: Json) -> list[_Owner]:
    owners = []
    for entry in (live.get("metadata") or {}).get("managedFields") or ():
        fields = entry.get("fieldsV1") or {}
        annotations = (fields.get("f:metadata") or {}).get("f:annotations") or {}
        manager = str(entry.get("manager", ""))
        owners.append(
            _Owner(
                manager=manager,
                time=str(entry.get("time", "")),
                is_release=f"f:{HELM_RELEASE}" in annotations,
                is_controller=bool(entry.get("subresource")) or manager.startswith(CONTROLLERS),
                fields=fields,
            )
        )
    return sorted(owners, key=lambda owner: not owner.is_release)[:OWNERS]


def _compare_fields(
    rendered: Any, live: Any, path: tuple[Step, ...], field: str, owners: Sequence[_Owner]
) -> Iterator[FieldEdit]:
    """Yield the edits at a place and below it."""
    if rendered is _ABSENT or rendered is None:
        if live is not _ABSENT and live is not None:
            yield from _added_fields(live, path, field, owners)
    elif live is _ABSENT:
        if not _is_zero(rendered) and not _has_release(owners):
            yield FieldEdit(path=path, field=field, was=rendered, now=None)
    elif isinstance(rendered, Mapping) and isinstance(live, Mapping):
        for key in dict.fromkeys((*rendered, *live)):
            inner = [owner.below(f"f:{key}") for owner in owners]
            was, now = rendered.get(key, _ABSENT), live.get(key, _ABSENT)
            yield from _compare_fields(was, now, (*path, key), _join_field(field, key), inner)
    elif isinstance(rendered, list) and isinstance(live, list) and (keys := _merge_keys(owners)):
        yield from _compare_elements(rendered, live, path, field, owners, keys)
    elif not _is_same(rendered, live):
        yield from _changed_fields(rendered, live, path, field, owners)


def _changed_fields(
    rendered: Any, live: Any, path: tuple[Step, ...], field: str, owners: Sequence[_Owner]
) -> Iterator[FieldEdit]:
    writers = [owner for owner in owners if owner.fields is not None]
    other_writers = [owner for owner in writers if not owner.is_release]
    if (
        not other_writers
        or _has_release(owners)
        or any(owner.is_controller for owner in other_writers)
    ):
        return
    last = max(other_writers, key=lambda owner: owner.time)
    yield FieldEdit(
        path=path, field=field, was=rendered, now=live, manager=last.manager, time=last.time
    )


def _added_fields(
    live: Any, path: tuple[Step, ...], field: str, owners: Sequence[_Owner]
) -> Iterator[FieldEdit]:
    """Yield what people added; a part is one edit if they wrote the whole of it."""
    hands = [owner for owner in owners if owner.fields is not None and owner.is_hand]
    if not hands or path[-1] == RESTARTED:
        return
    last = max(hands, key=lambda owner: owner.time)
    is_whole = not last.fields or "." in last.fields or not isinstance(live, Mapping)
    if is_whole and not _has_release(owners):
        yield FieldEdit(
            path=path, field=field, was=None, now=live, manager=last.manager, time=last.time
        )
    elif isinstance(live, Mapping):
        for key, value in live.items():
            inner = [owner.below(f"f:{key}") for owner in owners]
            yield from _added_fields(value, (*path, key), _join_field(field, key), inner)


def _compare_elements(
    rendered: Sequence[Any],
    live: Sequence[Any],
    path: tuple[Step, ...],
    field: str,
    owners: Sequence[_Owner],
    keys: Sequence[str],
) -> Iterator[FieldEdit]:
    """Yield the edits of a list whose elements the API server tells apart by some of their keys."""
    places = {_element_identity(element, keys): index for index, element in enumerate(live)}
    elements = [_owned_elements(owner, keys) for owner in owners]
    by_part: dict[tuple[str, ...], dict[Identity, Identity]] = {}
    rendered_identities = set()
    for number, element in enumerate(rendered):
        # The API server adds defaults, such as a port's protocol, to the keys of an element.
        part = _element_identity(element, keys)
        part_keys = tuple(key for key, _ in part)
        if part_keys not in by_part:
            by_part[part_keys] = _identities_by_part(places, part_keys)
        identity = by_part[part_keys].get(part) if part else None
        if identity is None:
            identity_text = _identity_text(part)
            yield FieldEdit(
                path=(*path, number), field=f"{field}[{identity_text}]", was=element, now=None
            )
            continue
        rendered_identities.add(identity)
        index = places[identity]
        inner = [
            _of_element(owner, names, identity)
            for owner, names in zip(owners, elements, strict=True)
        ]
        yield from _compare_fields(
            element, live[index], (*path, index), f"{field}[{_identity_text(identity)}]", inner
        )
    for identity, index in places.items():
        if identity not in rendered_identities:
            inner = [
                _of_element(owner, names, identity)
                for owner, names in zip(owners, elements, strict=True)
            ]
            yield from _added_fields(
                live[index], (*path, index), f"{field}[{_identity_text(identity)}]", inner
            )


def _element_identity(element: Any, keys: Sequence[str]) -> Identity:
    values = element if isinstance(element, Mapping) else {}
    return tuple((key, str(values[key])) for key in keys if key in values)


def _identities_by_part(
    identities: Iterable[Identity], keys: Sequence[str]
) -> dict[Identity, Identity]:
    """Return the first identity with each combination of values of some of its keys."""
    by_part: dict[Identity, Identity] = {}
    for identity in identities:
        by_part.setdefault(tuple(pair for pair in identity if pair[0] in keys), identity)
    return by_part


def _identity_text(identity: Identity) -> str:
    return "/".join(value for _, value in identity)


def _owned_elements(owner: _Owner, keys: Sequence[str]) -> dict[Identity, str]:
    """Return the names of a list's elements in the fields of an entry, by the elements' keys."""
    names = owner.fields if isinstance(owner.fields, Mapping) else ()
    return {
        _element_identity(json.loads(name[2:]), keys): name
        for name in names
        if name.startswith("k:")
    }


def _of_element(owner: _Owner, names: Mapping[Identity, str], identity: Identity) -> _Owner:
    """Return an entry at one element of a list.

    Args:
        names: Elements that the entry owns, from `_owned_elements`.
        identity: Keys of the element.
    """
    return owner.below(names.get(identity, "k:"))


def _merge_keys(owners: Sequence[_Owner]) -> tuple[str, ...]:
    """Return the keys by which the API server tells a list's elements apart; empty if atomic."""
    for owner in owners:
        for name in owner.fields if isinstance(owner.fields, Mapping) else ():
            if name.startswith("k:"):
                return tuple(json.loads(name[2:]))
    return ()


def _has_release(owners: Iterable[_Owner]) -> bool:
    return any(owner.is_release and owner.fields is not None for owner in owners)


def _is_same(rendered: Any, live: Any) -> bool:
    """Return whether values are equal but for defaults that the API server added."""
    if isinstance(rendered, Mapping) and isinstance(live, Mapping):
        return all(_is_same(value, live.get(key)) for key, value in rendered.items())
    if isinstance(rendered, list) and isinstance(live, list):
        return len(rendered) == len(live) and all(map(_is_same, rendered, live))
    return bool(rendered == live) or (_is_zero(rendered) and live is None)


def _is_zero(value: Any) -> bool:
    """Return whether a value is zero, or contains only zeros: the API server leaves them out."""
    if isinstance(value, Mapping):
        return all(map(_is_zero, value.values()))
    if isinstance(value, list):
        return all(map(_is_zero, value))
    return not value


def _join_field(field: str, key: str) -> str:
    return f"{field}[{key}]" if "." in key or "/" in key else f"{field}.{key}"
