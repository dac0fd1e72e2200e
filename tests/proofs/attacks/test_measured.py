"""Each function that parses a text, or lists what others wrote, is measured or has a reason.

The functions are found in the source: those that call a parser (`PARSERS`, `METHODS`), and those
that list objects of a server (`LISTS`). A function is measured if a reader of `test_readers.py`
runs it.
"""

from __future__ import annotations

import ast
import functools
import gc
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType, MappingProxyType

import pytest

from tests.proofs.attacks.readers import LEAST_SECONDS, READERS, Reader

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("components", "embedded/gpu_cluster_lab/toolchain/plugins", "package", "policies")
PARSERS = frozenset(
    {
        *("json.loads", "json.load", "yaml.load", "yaml.safe_load", "yaml.load_all", "yaml.parse"),
        *("yaml.safe_load_all", "yaml.compose", "yaml.scan", "base64.b64decode", "b64decode"),
        *("gzip.decompress", "gzip.open", "zlib.decompressobj", "zlib.decompress", "tarfile.open"),
        *("zipfile.ZipFile", "tomllib.loads", "tomllib.load", "csv.reader", "csv.DictReader"),
        *("configparser.ConfigParser", "ElementTree.fromstring", "ElementTree.parse"),
    }
)
"""Functions that parse a text."""
METHODS = frozenset(
    {
        *("json", "model_validate", "model_validate_json", "FromString", "ParseFromString"),
        *("validate_json", "validate_python"),
    }
)
"""Methods that parse a text."""
LISTS = frozenset({"list", "listed", "pages"})
"""Methods of a server's client that list objects."""
CLIENTS = frozenset({"client", "api", "forge", "reader", "self"})
LISTING = frozenset({"list_nodes", "list_pods", "pods_by_node", "holders_by_node"})
"""Functions of this project that list objects of a server."""

_OWN = "a text or object that this program wrote, or that belongs to the user who runs it"
_STATE = "the state of the stack, which the user's own backend keeps"
_VALUES = "a value of the stack file, which the reader `stack` measures"
_SHIPPED = "a file that is shipped with the project, or that `make facts` writes"
_KEPT = "one standard parser, linear in its text, of an object of Helm's record, which has a limit"
_FEW = "objects by name or by a selector of this project; each one is inspected by itself"
_ONCE = "each listed object is inspected once; `API answer` and `nodes` measure list and inspection"
_POOLS = "each node is inspected once for each pool; a stack has at most 200 pools"
_DECODED = "one standard decoder, linear in the text, of a text with a limit"
_BULLETIN = "a bulletin of NVIDIA that `make facts` reads, of at most `csaf.BYTES` characters"
_INDEX = "one standard parser, linear in its text, of what pip found in the user's package index"
REASONS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "components/gpu_cluster/base/explain.py",
                "components/gpu_cluster/commands/embedded_cluster.py:EmbeddedCluster.start",
                "components/gpu_cluster/commands/packs.py:place_pack",
                "components/gpu_cluster/commands/placeholders.py:blinded_access",
                "components/gpu_cluster/commands/support_bundle.py:archive",
                "components/gpu_cluster/hosts/kubeadm/kubeconfig.py:_read_kubeconfig",
                "components/gpu_cluster/kubernetes/kubeconfig_contexts.py:_read_content",
                "components/gpu_cluster/operation.py:parsed",
                "embedded/gpu_cluster_lab/toolchain/plugins/language_host/child.py:_run_program",
                "embedded/gpu_cluster_lab/toolchain/plugins/language_host/children.py:run_program",
                "embedded/gpu_cluster_lab/toolchain/plugins/language_host/dependencies.py:installed",
                "embedded/gpu_cluster_lab/toolchain/plugins/language_host/server.py:LanguageHost.GeneratePackage",
                "policies/gpu_rules/command.py:_export_text",
            ),
            _OWN,
        ),
        **dict.fromkeys(
            (
                "components/gpu_cluster/commands/backend.py",
                "components/gpu_cluster/commands/difference.py:_flatten",
                "components/gpu_cluster/commands/display.py:_is_json",
                "components/gpu_cluster/commands/lock.py",
                "components/gpu_cluster/commands/placeholders.py:_opaque_text",
                "components/gpu_cluster/commands/placeholders.py:_plaintext_of",
                "components/gpu_cluster/commands/placeholders.py:_walk_scalars",
                "components/gpu_cluster/commands/preview_state.py:run",
                "components/gpu_cluster/commands/report/__main__.py:figures_of",
                "components/gpu_cluster/commands/state.py:export_state",
                "components/gpu_cluster/commands/support_bundle.py:state_text",
            ),
            _STATE,
        ),
        **dict.fromkeys(
            (
                "components/gpu_cluster/base/yaml_file.py:node_of",
                "components/gpu_cluster/commands/adoption/draft.py:_with_devices",
                "components/gpu_cluster/commands/preview_state.py:opened_by",
                "components/gpu_cluster/commands/preview_state.py:without_secrets",
                "components/gpu_cluster/commands/stack.py:Stack.unsalted",
                "components/gpu_cluster/commands/stack_edit.py:Edit.text",
                "components/gpu_cluster/guardrails/stacks.py:context_of_document",
                "components/gpu_cluster/secrets.py:require_secrets_in_values",
                "policies/gpu_rules/settings.py",
            ),
            _VALUES,
        ),
        **dict.fromkeys(
            (
                "policies/gpu_rules/facts/engine_floors.py:read",
                "policies/gpu_rules/kinds.py",
                "policies/gpu_rules/reference.py:described",
            ),
            _SHIPPED,
        ),
        **dict.fromkeys(
            (
                "components/gpu_cluster/release/definitions.py:dropped",
                "components/gpu_cluster/release/objects.py:observe_objects",
                "components/gpu_cluster/release/presence.py",
            ),
            _KEPT,
        ),
        **dict.fromkeys(
            (
                "components/gpu_cluster/commands/evidence/envelope.py:_decode_base64",
                "embedded/gpu_cluster_lab/toolchain/plugins/command_provider/inputs.py:_is_public_key",
            ),
            _DECODED,
        ),
        **dict.fromkeys(
            (
                "components/gpu_cluster/commands/refused_workloads.py:guardrail_effects",
                "components/gpu_cluster/commands/support_bundle.py:observed",
                "components/gpu_cluster/commands/why_node.py:explain_node",
                "components/gpu_cluster/nodes/control_planes.py:observe_static_pods",
                "components/gpu_cluster/nodes/drain.py:drain.<locals>.remaining",
                "components/gpu_cluster/nodes/gpu_holders.py",
            ),
            _ONCE,
        ),
        **dict.fromkeys(
            (
                "components/gpu_cluster/driver_daemonset/driver_daemonset.py:_list_pods",
                "components/gpu_cluster/release/clear.py",
                "components/gpu_cluster/release/crds.py",
                "components/gpu_cluster/rollout/inspect.py:views.<locals>.inspected",
                "components/gpu_cluster/rollout/mig_layouts.py",
                "components/gpu_cluster/rollout/operands.py:off.<locals>.listed",
                "components/gpu_cluster/validation/validation.py",
            ),
            _FEW,
        ),
        **dict.fromkeys(
            (
                "components/gpu_cluster/commands/adoption/leave.py:leave_nodes",
                "components/gpu_cluster/commands/leave.py:require_ready",
                "components/gpu_cluster/inspection/observed_cluster.py",
                "components/gpu_cluster/nodes/node_scheduling.py",
                "components/gpu_cluster/nodes/startup_taint.py:nodes_to_close",
                "components/gpu_cluster/validation/tests.py:_run_test",
            ),
            _POOLS,
        ),
        "components/gpu_cluster/commands/init.py:_resolved": _INDEX,
        "policies/gpu_rules/facts/csaf.py:bulletin": _BULLETIN,
    }
)
"""Functions without a measure, as `path:function` or all of a module as `path`, and the reason."""


@pytest.fixture(scope="module", autouse=True)
def _empty_caches() -> None:
    """Empty the caches of functions, so that no earlier test hides what a reader runs."""
    for each in gc.get_objects():
        if isinstance(each, functools._lru_cache_wrapper) and each.__module__.startswith("gpu_"):
            each.cache_clear()


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield the functions of a module with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node
            yield from functions(node, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        else:
            yield from functions(node, prefix)


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function's body, without those of functions inside it."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
            waiting += ast.iter_child_nodes(node)


def is_reading(node: ast.AST) -> bool:
    """Return whether a node calls a parser, or lists objects of a server."""
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func)
    if called in PARSERS or called.rpartition(".")[2] in LISTING:
        return True
    if not isinstance(node.func, ast.Attribute):
        return False
    client = ast.unparse(node.func.value).rpartition(".")[2].lstrip("_")
    return node.func.attr in METHODS or (node.func.attr in LISTS and client in CLIENTS)


def is_of_a_shipped_file(function: ast.AST) -> bool:
    """Return whether a function keeps its result and takes nothing: it reads a shipped file."""
    return (
        isinstance(function, ast.FunctionDef)
        and "cache" in map(ast.unparse, function.decorator_list)
        and not ast.unparse(function.args)
    )


def reading(text: str) -> set[str]:
    """Return the functions of a module that read a text or a list which others may write."""
    return {
        name
        for name, function in functions(ast.parse(text))
        if any(map(is_reading, own_nodes(function))) and not is_of_a_shipped_file(function)
    }


def find_reading() -> set[str]:
    """Return the functions that read a text or a list, as `path:function`."""
    return {
        f"{file.relative_to(ROOT)}:{name}"
        for folder in FOLDERS
        for file in sorted((ROOT / folder).rglob("*.py"))
        for name in reading(file.read_text())
    }


@cache
def run_reader(name: str) -> frozenset[str]:
    """Return the functions that a reader runs with small inputs, as `path:function`."""
    called: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    reader = READERS[name]
    for shape in reader.shapes.values():
        value = shape(3)
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            with suppress(*reader.refusals):
                reader.read(value)
        finally:
            sys.setprofile(before)
    root = f"{ROOT}{os.sep}"
    real = ((os.path.realpath(file), name) for file, name in called)
    return frozenset(
        f"{file.removeprefix(root)}:{function}" for file, function in real if file.startswith(root)
    )


def unmeasured(found: set[str], measured: set[str], reasons: Mapping[str, str]) -> set[str]:
    """Return the functions that neither a reader runs nor a reason explains."""
    return {
        each
        for each in found - measured
        if each not in reasons and each.partition(":")[0] not in reasons
    }


@pytest.mark.promise(
    "Each function that parses texts or lists of others is measured to work in linear time, or "
    "has a reason why not."
)
def test_each_function_that_reads_is_measured_or_has_a_reason() -> None:
    found, measured = find_reading(), set().union(*map(run_reader, sorted(READERS)))
    assert len(found & measured) >= 45
    assert sorted(unmeasured(found, measured, REASONS)) == []
    left = found - measured
    idle = {
        key for key in REASONS if key not in left and key not in {x.partition(":")[0] for x in left}
    }
    assert sorted(idle) == [], "reasons without a function"


@pytest.mark.parametrize(
    "name", ["who", "adopt", "why", "notes of a pull request", "pull requests", "running pods"]
)
def test_a_reader_that_is_missing_is_found(name: str) -> None:
    marks = {
        "who": "components/gpu_cluster/commands/usage.py:listed",
        "adopt": "components/gpu_cluster/commands/adoption/read.py:read_cluster",
        "why": "components/gpu_cluster/commands/why.py:found",
        "notes of a pull request": "components/gpu_cluster/commands/forges/gitlab.py:GitLab.notes",
        "pull requests": "components/gpu_cluster/commands/forges/gitlab.py:open_merge_requests",
        "running pods": "components/gpu_cluster/commands/refused_workloads.py:workloads_of",
    }
    assert marks[name] in run_reader(name)
    assert not any(marks[name] in run_reader(other) for other in sorted(READERS) if other != name)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def a():\n json.loads(x)", {"a"}),
        ("class A:\n async def a(self):\n  await self.client.list('pods')", {"A.a"}),
        ("def a():\n def b():\n  return answer.json()", {"a.<locals>.b"}),
        ("if x:\n def a():\n  yaml.safe_load(x)", {"a"}),
        ("def a():\n x.list()", set()),
        ("@cache\ndef a():\n yaml.load(b)", set()),
        ("@cache\ndef a(b):\n yaml.load(b)", {"a"}),
    ],
)
def test_a_function_that_reads_is_found(text: str, found: set[str]) -> None:
    assert reading(text) == found
    reasons = dict.fromkeys(("other.py", "a.py:z"), "x")
    assert unmeasured({f"a.py:{name}" for name in found}, set(), reasons) == {
        f"a.py:{name}" for name in found
    }


def test_the_first_call_that_is_compared_is_not_short() -> None:
    class Timed(Reader):
        def seconds(self, value: int) -> float:
            return value / 1e5

    reader = Timed(str, {})
    number = reader._smallest(lambda size: size)
    assert number is not None
    assert number / 1e5 >= LEAST_SECONDS >= 0.04
    assert reader._smallest(lambda size: size // 100) is None
