"""Sample files for tests of the checker, with the message that it must print for each."""

from __future__ import annotations

import json
from dataclasses import dataclass

MEBI = 1024 * 1024
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n"
BROKEN = "apiVersion: v1\nkind: Pod\nspec: {containers: [\n"


@dataclass(frozen=True)
class File:
    """A file and the single problem that the checker must report for it.

    Attributes:
        content: Bytes of the file.
        line: Line number of the problem; None if the file has no problem.
        says: Part of the problem's message, or empty if the file has no problem.
    """

    content: bytes
    line: int | None = None
    says: str = ""


def _bad(content: str | bytes, line: int | None, says: str) -> File:
    return File(content.encode() if isinstance(content, str) else content, line, says)


def _fine(content: str | bytes) -> File:
    return File(content.encode() if isinstance(content, str) else content)


def _wrong(field: str, value: str, line: int, wanted: str) -> File:
    """Return a file with a pod whose spec has a field of a wrong type."""
    return _bad(f"{POD}  {field}: {value}\n", line, f"wanted: {wanted}")


def _container(field: str, value: str, wanted: str) -> File:
    return _bad(f"{POD}  containers:\n    - name: c\n      {field}: {value}\n", 7, wanted)


def _object(content: str, line: int, says: str) -> File:
    return _bad(f"apiVersion: v1\n{content}", line, says)


_BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join(['*' + old] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
_LIST = {"apiVersion": "v1", "kind": "List", "items": []}

FILES: dict[str, File] = {
    # Files that are not YAML
    "sentence": _bad("Dear operator, please deploy this.\n", 1, "found"),
    "markdown": _bad("# Title\n\nSome *text*: with `code` and: colons\n", 3, "found"),
    "shell-script": _bad("#!/bin/sh\nset -e\nkubectl apply -f x\n", 2, "found"),
    "html-page": _bad("<!doctype html>\n<title>x: y: z</title>\n", 2, "mapping values"),
    "csv": _bad("a,b,c\n1,2,3\n", 1, "found"),
    "toml": _bad('[package]\nname = "x"\n', 2, "found"),
    "python": _bad("import os\nprint({'a': [1, 2})\n", 2, "found"),
    "number": _bad("42\n", 1, "found 42"),
    "truth": _bad("true\n", 1, "found true"),
    "text-in-quotes": _bad('"kind: Pod"\n', 1, "wanted: a Kubernetes object"),
    "list-of-objects": _bad("- apiVersion: v1\n  kind: Pod\n", 1, "found a list"),
    "null": _bad("---\nnull\n", 2, "found null"),
    "binary-elf": _bad(b"\x7fELF\x02\x01\x01\x00\x00", 1, "control characters"),
    "binary-gzip": _bad(b"\x1f\x8b\x08\x00\x00\x00\x00\x00", 1, "not UTF-8"),
    "binary-png": _bad(b"\x89PNG\r\n\x1a\n\x00\x00", 1, "not UTF-8"),
    "binary-zip": _bad(b"PK\x03\x04\x14\x00\x00\x00", 1, "control characters"),
    # YAML with mistakes
    "flow-not-closed": _bad(BROKEN, 3, "wanted: YAML or JSON"),
    "mapping-not-closed": _bad("{apiVersion: v1, kind: Pod\n", 1, "wanted: YAML or JSON"),
    "bracket-too-many": _bad("a: [1, 2]]\n", 1, "found"),
    "brackets-crossed": _bad("a: [1, {b: 2]}\n", 1, "found"),
    "quote-not-closed": _bad('apiVersion: "v1\nkind: Pod\n', 2, "end of stream"),
    "single-quote-not-closed": _bad("kind: 'Pod\n", 1, "end of stream"),
    "escape-unknown": _bad('kind: "\\q"\n', 1, "escape"),
    "tab-indent": _bad("kind: Pod\nspec:\n\tcontainers: []\n", 3, "cannot start any token"),
    "tab-after-dash": _bad("a:\n  - b: c\n\t- d\n", 3, "a tab character"),
    "indent-too-little": _bad("a:\n    b: 1\n  c: 2\n", 3, "found"),
    "indent-of-item": _bad("a:\n  - b: 1\n   c: 2\n", 3, "found"),
    "colon-in-text": _bad("note: found: nothing\n", 1, "mapping values"),
    "at-sign": _bad("image: @latest\n", 1, "cannot start any token"),
    "backtick": _bad("image: `x`\n", 1, "cannot start any token"),
    "percent": _bad("a: %x\n", 1, "cannot start any token"),
    "colon-missing": _bad("apiVersion: v1\nkind Pod\nmetadata: {}\n", 3, "found"),
    "key-twice": _bad("kind: Pod\nkind: Job\n", 2, 'the key "kind" twice'),
    "key-twice-deep": _bad(f"{POD}  a: 1\n  b: {{c: 1, c: 2}}\n", 6, 'the key "c" twice'),
    "key-twice-in-json": _bad('{"kind": "Pod",\n "kind": "Job"}\n', 2, 'the key "kind" twice'),
    "key-twice-as-number": _bad("1: a\n'1': b\n", 2, 'the key "1" twice'),
    "key-a-list": _bad("? [a, b]\n: c\n", 1, "a key that isn't text"),
    "key-a-mapping": _bad("{{a: b}: c}\n", 1, "a key that isn't text"),
    "key-null": _bad("~: x\n", 1, "a key that isn't text"),
    "merge-of-text": _bad("a:\n  <<: text\n", 2, "a merge"),
    "alias-unknown": _bad("a: *nothing\n", 1, "the alias *nothing"),
    "alias-before-anchor": _bad("a: *b\nc: &b 1\n", 1, "the alias *b"),
    "alias-of-other-document": _bad("a: &b 1\n---\nkind: *b\n", 3, "the alias *b"),
    "tag-unknown-handle": _bad("a: !e!x 1\n", 1, "tag"),
    "directive-twice": _bad("%YAML 1.1\n%YAML 1.1\n---\na: 1\n", 2, "directive"),
    "directive-of-future": _bad("%YAML 9.9\n---\na: 1\n", 1, "incompatible YAML document"),
    "block-scalar-indicator": _bad("a: |x\n  text\n", 1, "found"),
    "anchor-without-name": _bad("a: & 1\n", 1, "found"),
    "merge-conflict": _bad("kind: Pod\n<<<<<<< HEAD\nname: a\n=======\n", 3, "found"),
    # Templates that must be rendered first
    "helm-template": _bad(
        'kind: Pod\nmetadata:\n  {{- include "labels" . | nindent 4 }}\n', 3, "helm template"
    ),
    "helm-value": _bad("kind: Pod\nspec: {{ .Values.spec }}\n", 2, "helm template"),
    "helm-name": _bad("kind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n", 3, "helm template"),
    "binary-that-is-none": _bad("kind: !!binary UG9%\n", 1, "a !!binary that isn't base64"),
    "items-a-mapping": _object("kind: Pod\nitems: {a: 1}\n", 3, "found a mapping at items"),
    "helm-range": _bad("{{- range .Values.pods }}\nkind: Pod\n{{- end }}\n", 1, "helm template"),
    "jinja": _bad("{% for p in pods %}\nkind: Pod\n{% endfor %}\n", 1, "found"),
    # Deeply nested or very large content
    "alias-bomb": _bad(_BOMB, 6, "values that come from aliases"),
    "alias-bomb-in-mapping": _bad(
        "a: &a {x: 1}\nb: &b {"
        + ", ".join(f"k{i}: *a" for i in range(400))
        + "}\nc: ["
        + ", ".join(["*b"] * 400)
        + "]\n",
        3,
        "values that come from aliases",
    ),
    "alias-in-itself": _bad("a: &a [*a]\n", 1, "the alias *a"),
    "alias-in-itself-deep": _bad("a: &a\n  b:\n    c: *a\n", 3, "the alias *a"),
    "alias-as-own-merge": _bad("a: &a\n  <<: *a\n", 2, "the alias *a"),
    "deep-lists": _bad("a: " + "[" * 500 + "]" * 500, 1, "levels deep"),
    "deep-lists-open": _bad("[" * 100_000, 1, "levels deep"),
    "deep-mappings": _bad("{a: " * 100_000, 1, "levels deep"),
    "deep-blocks": _bad("- " * 100_000 + "x\n", 1, "levels deep"),
    "deep-json": _bad('{"a":' * 100_000 + "1" + "}" * 100_000, 1, "levels deep"),
    "deep-json-lists": _bad('{"a":' + "[" * 5000 + "]" * 5000 + "}", 1, "levels deep"),
    "ten-megabytes-of-text": _bad(b"kind: Pod\ndata: " + b"x" * 10 * MEBI, 1, "at most"),
    "ten-megabytes-of-items": _fine(b"items:\n" + b"- a\n" * (10 * MEBI // 4)),
    "ten-megabytes-in-an-item": _bad(
        b"kind: List\nitems:\n- kind: Pod\n- data: " + b"x" * 10 * MEBI, 4, "at most"
    ),
    "ten-megabytes-of-brackets": _bad(b"[" * 10 * MEBI, 1, "at most"),
    "a-long-line-that-is-wrong": _bad("a: " + "b: " * 10_000 + "\n", 1, "mapping values"),
    "a-long-key": _bad('"' + "k" * 5000 + '": 1\n', 1, "found"),
    # Invalid bytes and characters
    "nul": _bad(b"kind: Pod\nmetadata: {name: a\x00b}\n", 2, "control characters"),
    "nul-alone": _bad(b"\x00", 1, "control characters"),
    "bell": _bad(b"kind: Pod\nname: \x07\n", 2, "control characters"),
    "escape-sequence": _bad(b"kind: \x1b[31mPod\n", 1, "control characters"),
    "delete": _bad(b"kind: a\x7fb\n", 1, "control characters"),
    "latin-1": _bad("kind: Pod\nname: caf\u00e9\n".encode("latin-1"), 2, "not UTF-8"),
    "utf-8-cut": _bad("kind: Pod\nname: \u20ac".encode()[:-1], 2, "not UTF-8"),
    "utf-8-overlong": _bad(b"name: \xc0\xaf\n", 1, "not UTF-8"),
    "utf-8-surrogate": _bad(b"name: \xed\xa0\x80\n", 1, "not UTF-8"),
    "utf-16-le": _bad("kind: Pod\n".encode("utf-16"), 1, "found UTF-16"),
    "utf-16-be": _bad(b"\xfe\xff" + "kind: Pod\n".encode("utf-16-be"), 1, "found UTF-16"),
    "utf-32": _bad("kind: Pod\n".encode("utf-32"), 1, "found UTF-16"),
    "json-half-a-pair": _bad('{"kind": "Pod", "a": "\\ud83d", }', 1, "found"),
    "json-comma-at-the-end": _bad('{"kind": "Pod"},\n', 1, "found"),
    # Fields of a wrong type
    "kind-a-number": _object("kind: 5\n", 2, "found 5 at kind; wanted: text"),
    "kind-a-list": _object("kind: [Pod]\n", 2, "found a list at kind"),
    "kind-left-out": _object("metadata: {name: a}\n", 1, "found null at kind"),
    "version-a-number": _bad("apiVersion: 1\nkind: Pod\n", 1, "found 1 at apiVersion"),
    "metadata-text": _object("kind: Pod\nmetadata: name\n", 3, 'found "name" at metadata'),
    "name-a-number": _object("kind: Pod\nmetadata:\n  name: 5\n", 4, "found 5 at metadata.name"),
    "annotations-a-list": _object(
        "kind: Pod\nmetadata:\n  annotations: [a]\n", 4, "at metadata.annotations"
    ),
    "spec-text": _object("kind: Pod\nspec: oops\n", 3, 'found "oops" at spec; wanted: a mapping'),
    "spec-a-list": _object("kind: Pod\nspec: []\n", 3, "found a list at spec"),
    "containers-a-mapping": _wrong("containers", "{name: c}", 5, "a list"),
    "containers-text": _wrong("containers", "cuda", 5, "a list"),
    "containers-of-text": _wrong("containers", "[cuda]", 5, "a mapping"),
    "init-containers-a-number": _wrong("initContainers", "1", 5, "a list"),
    "ephemeral-containers-truth": _wrong("ephemeralContainers", "true", 5, "a list"),
    "node-selector-a-list": _wrong("nodeSelector", "[gpu]", 5, "a mapping"),
    "node-name-a-number": _wrong("nodeName", "7", 5, "text"),
    "tolerations-a-mapping": _wrong("tolerations", "{key: gpu}", 5, "a list"),
    "toleration-value-truth": _wrong("tolerations", "[{key: a, value: true}]", 5, "text"),
    "toleration-key-a-number": _wrong("tolerations", "[{key: 1}]", 5, "text"),
    "overhead-a-list": _wrong("overhead", "[1]", 5, "a mapping"),
    "volumes-text": _wrong("volumes", "data", 5, "a list"),
    "affinity-text": _wrong("affinity", "near", 5, "a mapping"),
    "runtime-class-truth": _wrong("runtimeClassName", "on", 5, "text"),
    "resources-a-list": _container("resources", "[1]", "wanted: a mapping"),
    "limits-a-number": _container("resources", "{limits: 1}", "wanted: a mapping"),
    "requests-text": _container("resources", "{requests: gpu}", "wanted: a mapping"),
    "env-a-mapping": _container("env", "{A: b}", "wanted: a list"),
    "env-value-a-number": _container("env", "[{name: A, value: 1}]", "wanted: text"),
    "env-name-truth": _container("env", "[{name: yes}]", "wanted: text"),
    "image-a-number": _container("image", "1.5", "wanted: text"),
    "privileged-text": _container(
        "securityContext", '{privileged: "true"}', "wanted: true or false"
    ),
    "deployment-template-text": _bad(
        "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template: none\n", 4, "wanted: a mapping"
    ),
    "cron-job-template-a-list": _bad(
        "apiVersion: batch/v1\nkind: CronJob\nspec:\n  jobTemplate: []\n", 4, "wanted: a mapping"
    ),
    "limit-range-a-mapping": _object("kind: LimitRange\nspec: {limits: {}}\n", 3, "a list"),
    "quota-hard-a-list": _object("kind: ResourceQuota\nspec: {hard: []}\n", 3, "a mapping"),
    "node-taints-text": _object("kind: Node\nspec: {taints: gpu}\n", 3, "a list"),
    "item-of-a-list": _object(
        "kind: List\nitems:\n  - apiVersion: v1\n    kind: Pod\n    spec: 5\n", 6, "at spec"
    ),
    # Files without problems, or without Kubernetes objects
    "empty": _fine(""),
    "blank": _fine("\n \n\t\n"),
    "comments": _fine("# nothing\n---\n# here\n...\n"),
    "separators": _fine("---\n---\n---\n"),
    "byte-order-mark": _fine(b"\xef\xbb\xbf" + (POD + "  containers: []\n").encode()),
    "carriage-returns": _fine((POD + "  containers: []\n").replace("\n", "\r\n")),
    "unknown-kind": _fine("apiVersion: example.com/v1\nkind: Widget\nspec: [1, {a: null}]\n"),
    "pod-of-another-group": _fine("apiVersion: example.com/v1\nkind: Pod\nspec: text\n"),
    "values-file": _fine("image: {tag: v1}\nreplicas: 3\n"),
    "null-fields": _fine("apiVersion: v1\nkind: Pod\nmetadata:\nspec:\n"),
    "null-list-fields": _fine(POD + "  containers:\n  tolerations: ~\n"),
    "list-without-items": _fine(json.dumps(_LIST)),
    "list-of-text": _bad(json.dumps({**_LIST, "items": ["a"]}), 1, "found null at kind"),
    "json-with-a-pair": _fine('{"apiVersion": "v1", "kind": "ConfigMap", "a": "\\ud83d\\ude00"}'),
    "json-with-tabs": _fine('{\n\t"apiVersion": "v1",\n\t"kind": "ConfigMap"\n}\n'),
    "directive": _fine("%YAML 1.1\n---\napiVersion: v1\nkind: ConfigMap\n"),
    "tags": _fine("apiVersion: v1\nkind: ConfigMap\ndata: {a: !!binary aGk=, b: !own x}\n"),
    "byte-order-mark-inside": _fine(
        (POD + "  containers: []\n---\n").encode() + b"\xef\xbb\xbf" + POD.encode()
    ),
    "json-after-json": _fine(json.dumps(_LIST) + json.dumps(_LIST) + "\n" + json.dumps(_LIST)),
    "merge": _fine(f"x: &x {{a: 1}}\n{POD}  <<: *x\n"),
    "three-megabytes-of-text": _fine(
        "apiVersion: v1\nkind: ConfigMap\ndata: {a: " + "x" * 3 * MEBI + "}\n"
    ),
}
