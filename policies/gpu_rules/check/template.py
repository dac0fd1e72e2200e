"""Recognise manifests, and templates and patches, which can be checked only after rendering."""

from __future__ import annotations

import re
from typing import Final

from ..rules.unknown import mapping, text

TEMPLATE: Final = "template"
PATCH: Final = "patch"

_VERSION: Final = r"(?:[a-z0-9.-]+/)?[a-z][a-z0-9-]*"
_KIND: Final = r"[A-Z][A-Za-z0-9]*"
"""An API version is a group and a version, which is a DNS label, and a kind an identifier in upper
camel case: kubernetes v1.34.4 staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/
validation/validation.go and community/contributors/devel/sig-architecture/api-conventions.md.
"""
_FORMS: Final = tuple(
    re.compile(
        rf"""^(?:- |  )?{key}[ \t]*:[ \t]*["']?{form}["']?[ \t\r]*(?:#|$)|"""
        rf"""(?:^|[{{,])[ \t]*"{key}"[ \t]*:[ \t]*"{form}\"""",
        re.MULTILINE,
    )
    for key, form in (("apiVersion", _VERSION), ("kind", _KIND))
)
_MIME: Final = ("MIME-Version:", "Content-Type:")
_MARK: Final = re.compile(r"\{\{|\{%|\$\{|:[ \t]+%(?:\[[0-9]+\])?[sdvq]\b")
_GPU: Final = re.compile(
    r"nvidia\.com(?:/|~1)(?:gpu|mig-)|amd\.com(?:/|~1)gpu|gpu\.intel\.com(?:/|~1)|"
    r"tencent\.com(?:/|~1)vcuda|deviceClassName|[Rr]equestGPU"
)
_OPERATIONS: Final = frozenset({"add", "replace", "remove", "move", "copy", "test"})


def is_manifest(written: str) -> bool:
    """Return whether a text looks like a manifest, even if it is not valid YAML.

    It does if it has an apiVersion and a kind of their form, and isn't a MIME message, as user data
    of cloud machines is, which may contain manifests.
    """
    return not written.startswith(_MIME) and all(form.search(written) for form in _FORMS)


def is_object(value: object) -> bool:
    """Return whether a value is a Kubernetes object: its apiVersion and kind have their form."""
    version, kind = text(mapping(value).get("apiVersion")), text(mapping(value).get("kind"))
    return bool(re.fullmatch(_VERSION, version) and re.fullmatch(_KIND, kind))


def is_template(written: str) -> bool:
    """Return whether a text has template placeholders: `{{ … }}`, `{% … %}`, `${…}` or `%s`."""
    return _MARK.search(written) is not None


def line_with_gpus(written: str) -> int | None:
    """Return the number of the first line that names a GPU resource, counted from 1, or None."""
    found = _GPU.search(written)
    return written.count("\n", 0, found.start()) + 1 if found else None


def is_json_patch(value: object) -> bool:
    """Return whether a value is a JSON patch (RFC 6902): a list of operations."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            text(mapping(item).get("op")) in _OPERATIONS and "path" in mapping(item)
            for item in value
        )
    )
